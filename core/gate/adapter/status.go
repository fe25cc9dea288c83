package adapter

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Watch returns a ResponseWriter for the handler, which reports the status of the response to o. It
// has the same optional methods as w, and [http.ResponseController] can unwrap it. If no status is
// needed, Watch returns w.
func (o *Outcome) Watch(w http.ResponseWriter) http.ResponseWriter {
	if !o.NeedsStatus() {
		return w
	}
	s := status{w, o}
	_, flushes := w.(http.Flusher)
	_, hijacks := w.(http.Hijacker)
	_, pushes := w.(http.Pusher)
	switch {
	case flushes && hijacks:
		return struct {
			status
			flusher
			flushError
			hijacker
		}{s, flusher{s}, flushError{s}, hijacker{s}}
	case flushes && pushes:
		return struct {
			status
			flusher
			flushError
			pusher
		}{s, flusher{s}, flushError{s}, pusher{s}}
	case flushes:
		return struct {
			status
			flusher
		}{s, flusher{s}}
	case hijacks:
		return struct {
			status
			hijacker
		}{s, hijacker{s}}
	case pushes:
		return struct {
			status
			pusher
		}{s, pusher{s}}
	}
	return s
}

// A status reports the status of a response. Without a WriteHeader, net/http sends the status 200 at the first
// byte or flush. The optional methods come in groups, as the writers of net/http have them. A method whose
// writer lacks it does without it.
type status struct {
	w       http.ResponseWriter
	outcome *Outcome
}

func (s status) Header() http.Header { return s.w.Header() }

func (s status) WriteHeader(code int) {
	s.outcome.Answer(code)
	s.w.WriteHeader(code)
}

func (s status) Write(b []byte) (int, error) {
	s.outcome.Answer(http.StatusOK)
	return s.w.Write(b)
}

// Unwrap is for [http.ResponseController].
func (s status) Unwrap() http.ResponseWriter { return s.w }

type flusher struct{ of status }

func (f flusher) Flush() {
	f.of.outcome.Answer(http.StatusOK)
	f.of.w.(http.Flusher).Flush()
}

func (f flusher) WriteString(s string) (int, error) {
	f.of.outcome.Answer(http.StatusOK)
	return io.WriteString(f.of.w, s)
}

type flushError struct{ of status }

func (f flushError) FlushError() error {
	f.of.outcome.Answer(http.StatusOK)
	return http.NewResponseController(f.of.w).Flush()
}

func (f flushError) CloseNotify() <-chan bool {
	if w, ok := f.of.w.(interface{ CloseNotify() <-chan bool }); ok {
		return w.CloseNotify()
	}
	return make(chan bool)
}

type hijacker struct{ of status }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.of.w.(http.Hijacker).Hijack()
	if err == nil {
		h.of.outcome.Answer(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

func (h hijacker) ReadFrom(src io.Reader) (n int64, err error) {
	n, err = io.Copy(h.of.w, src)
	if n > 0 { // an empty source sends nothing
		h.of.outcome.Answer(http.StatusOK)
	}
	return n, err
}

type pusher struct{ of status }

func (p pusher) Push(target string, opts *http.PushOptions) error {
	return p.of.w.(http.Pusher).Push(target, opts)
}
