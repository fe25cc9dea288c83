package adapter

import (
	"net/http"
	"sync"
)

// An Outcome is how the handler of an admitted request ends, for what a gate does
// about it: [gate.RefundIf] and [gate.CountInFlight]. [Gate.Admit] makes one where there is
// something to do. Run and Watch may be called on nil; otherwise an Outcome is safe
// for concurrent use.
type Outcome struct {
	gate    *Gate
	request *requestContext // nil unless the status decides about a refund

	mu      sync.Mutex
	status  int  // of the answer, or 0 while it is not known
	pending bool // the handler has returned, and somebody else is to answer
}

// NeedsStatus says whether the status of the answer matters. If not, there is no
// need to find it out.
func (o *Outcome) NeedsStatus() bool { return o != nil && o.request != nil }

// Run runs the handler once and then does what the gate has to do, also if the
// handler panics, which counts as 500.
//
// handle returns false if somebody else answers where the handler has not, as the
// error handler of a framework does. Then the first [Outcome.Answer] decides, and if
// there is none, nothing is given back. Otherwise no answer is 200, as in net/http.
func (o *Outcome) Run(handle func() (answered bool)) {
	if o == nil {
		handle()
		return
	}
	counter := o.gate.options.InFlight
	if counter != nil {
		counter.Begin()
	}
	answered, returned := false, false
	if o.request != nil {
		defer func() { o.returned(answered, !returned) }()
	}
	if counter != nil {
		defer counter.End()
	}
	answered = handle()
	returned = true
}

// returned settles the request, unless its status is not known yet.
//
// Whether the client has gone is asked now: what ends a context after its handler,
// such as the timeout of another middleware, is nobody hanging up. The rest of a body
// is not read to find out: that could wait for a client that waits for the answer, and
// net/http would notice the end of the connection only some time later.
func (o *Outcome) returned(answered, panicked bool) {
	if o.request.Err() != nil {
		return
	}
	o.mu.Lock()
	status := o.status
	switch {
	case panicked:
		status = http.StatusInternalServerError
	case status == 0 && answered:
		status = http.StatusOK
	}
	o.pending = status == 0
	o.mu.Unlock()
	if status != 0 {
		o.refund(status)
	}
}

// Answer tells that the answer is about to be written, with this status. The first
// one counts; informational ones (RFC 9110 section 15.2) are not the answer, but for
// 101.
func (o *Outcome) Answer(status int) {
	if status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	o.mu.Lock()
	if o.status == 0 {
		o.status = status
	}
	pending := o.pending
	o.pending = false
	o.mu.Unlock()
	if pending {
		o.refund(status)
	}
}

// Hijacked tells that the handler has taken over the connection. That counts as 101,
// whatever was written before.
func (o *Outcome) Hijacked() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status = http.StatusSwitchingProtocols
}

// refund refunds the request if RefundIf says so.
func (o *Outcome) refund(status int) {
	if o.gate.options.RefundIf(status) {
		o.request.refund(status)
	}
}
