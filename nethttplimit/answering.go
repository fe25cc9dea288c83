package nethttplimit

import (
	"bufio"
	"net"
	"net/http"
)

// An answering is the ResponseWriter of a function that rejects a request. Its status is status unless another
// one is written. Methods that w lacks return [http.ErrNotSupported].
type answering struct {
	http.ResponseWriter
	status  int
	written bool
}

// begin begins the response if that has not happened.
func (a *answering) begin() {
	if !a.written {
		a.written = true
		a.ResponseWriter.WriteHeader(a.status)
	}
}

func (a *answering) WriteHeader(status int) {
	a.written = a.written || status >= 200
	a.ResponseWriter.WriteHeader(status)
}

func (a *answering) Write(b []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(b)
}

func (a *answering) Flush() { _ = a.FlushError() }

func (a *answering) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

func (a *answering) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	a.written = a.written || err == nil
	return conn, rw, err
}

// Unwrap is for [http.ResponseController].
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }
