package adapter

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/weir-go/weir/core/gate/internal/unexported"
)

// An Outcome tells the gate how the handler of an admitted request finished, for [gate.RefundIf] and the
// places of in-flight rules. The adapter runs the handler with Run and reports the status of the response
// through the ResponseWriter of Watch, or with Answer. [Gate.Admit] returns a nil Outcome if neither needs
// one. NeedsStatus, Watch and Run accept a nil receiver; Answer does not. Answer may be called
// concurrently.
type Outcome struct {
	served  unexported.Served
	request *http.Request // that Admit got

	mu      sync.Mutex
	status  int  // of the response, or 0 while it is not known
	pending bool // the handler has returned without a response, and the framework is to write it
}

// NeedsStatus reports whether the adapter must report the status of the response, with the
// ResponseWriter of Watch, or with Answer.
func (o *Outcome) NeedsStatus() bool { return o != nil && o.served.RefundIf != nil }

// Run calls handle, which must run the handler, applies RefundIf, and frees the places of the request
// after handle has returned or panicked. A panic of the handler counts as status 500.
//
// handle must return false if the handler may have written no response, and the framework may write
// it later, for example in an error handler. If no status was reported, the first later call of
// [Outcome.Answer] then decides about the refund; without one, nothing is refunded. If handle
// returns true and no status was reported, the status is 200.
func (o *Outcome) Run(handle func() (responded bool)) {
	if o == nil {
		handle()
		return
	}
	if o.served.End != nil {
		defer o.served.End()
	}
	responded, returned := false, false
	if o.served.RefundIf != nil {
		defer func() { o.returned(responded, !returned) }()
	}
	responded = handle()
	returned = true
}

// returned applies RefundIf after the handler, unless the status is not known yet.
//
// It checks now whether the client has hung up, because the context can end later for another
// reason, such as the timeout of another middleware. With HTTP/1, net/http notices a hang-up
// only after the body was read. The rest of the body is not read here: the read could wait for a
// client that waits for the response, and net/http would notice a hang-up only some time later.
func (o *Outcome) returned(responded, panicked bool) {
	if o.request.Context().Err() != nil {
		return
	}
	o.mu.Lock()
	status := o.status
	switch {
	case panicked:
		status = http.StatusInternalServerError
	case status == 0 && responded:
		status = http.StatusOK
	}
	o.pending = status == 0
	o.mu.Unlock()
	if status != 0 {
		o.served.RefundIf(status)
	}
}

// Answer reports the status of the response that is about to be written, or 101 (Switching Protocols)
// for a hijacked connection, which replaces every other status. Other informational statuses (RFC 9110
// section 15.2) are ignored, and so are calls after the first.
func (o *Outcome) Answer(status int) {
	hijacked := status == http.StatusSwitchingProtocols
	if status < 200 && !hijacked {
		return
	}
	o.mu.Lock()
	if o.status == 0 || hijacked {
		o.status = status
	}
	pending := o.pending
	o.pending = false
	o.mu.Unlock()
	if pending {
		o.served.RefundIf(status)
	}
}

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
