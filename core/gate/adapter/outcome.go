package adapter

import (
	"net/http"
	"sync"
)

// An Outcome watches how the handler of an admitted request ends, for [gate.RefundIf] and
// [gate.CountInFlight]. [Gate.Admit] returns nil if neither option needs it. NeedsStatus, Run and
// Watch may be called on nil. The other methods are safe for concurrent use.
type Outcome struct {
	gate    *Gate
	request *requestContext // nil unless the status decides about a refund

	mu      sync.Mutex
	status  int  // of the answer, or 0 while it is not known
	pending bool // the handler has returned without an answer, and the framework is to write one
}

// NeedsStatus reports whether the adapter must report the status of the answer: by the
// ResponseWriter of Watch, or by Answer and Hijacked.
func (o *Outcome) NeedsStatus() bool { return o != nil && o.request != nil }

// Run calls handle, which runs the handler, and applies RefundIf and CountInFlight. A panic of the
// handler counts as status 500.
//
// handle returns false if the handler has not answered and the framework writes the answer later,
// for example in an error handler. The first [Outcome.Answer] then decides about the refund;
// without one, nothing is refunded. If handle returns true and no status was reported, the status
// is 200, as in net/http.
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

// returned applies RefundIf after the handler, unless the status is not known yet.
//
// It checks now whether the client has hung up, because a later end of the context can have another
// cause, such as the timeout of another middleware. It does not read the rest of the body to find
// out: the read could wait for a client that waits for the answer, and net/http would notice the
// end of the connection only some time later.
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

// Answer reports the status of the answer that is about to be written. The first call counts.
// Informational statuses (RFC 9110 section 15.2) are ignored, except 101.
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

// Hijacked reports that the handler has hijacked the connection. The status is then 101, whatever
// was written before.
func (o *Outcome) Hijacked() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status = http.StatusSwitchingProtocols
}

// refund refunds the request if the function of RefundIf returns true.
func (o *Outcome) refund(status int) {
	if o.gate.options.RefundIf(status) {
		o.request.refund(status)
	}
}
