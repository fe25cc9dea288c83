package nethttplimit

import (
	"bufio"
	"net"
	"net/http"
)

// A responding is the ResponseWriter of a function that rejects a request. Its status is status unless another
// one is written. Methods that w lacks return [http.ErrNotSupported].
type responding struct {
	http.ResponseWriter
	status  int
	written bool
}

// begin begins the response if that has not happened.
func (w *responding) begin() {
	if !w.written {
		w.written = true
		w.ResponseWriter.WriteHeader(w.status)
	}
}

func (w *responding) WriteHeader(status int) {
	w.written = w.written || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *responding) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

func (w *responding) Flush() { _ = w.FlushError() }

func (w *responding) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *responding) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.written = w.written || err == nil
	return conn, rw, err
}

// Unwrap is for [http.ResponseController].
func (w *responding) Unwrap() http.ResponseWriter { return w.ResponseWriter }
