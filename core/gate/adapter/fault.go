package adapter

import (
	"context"
	"errors"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// A fault is a request that could not be identified or decided, and what to do
// about it unless the application knows better.
type fault struct {
	status int    // of the answer; 0 lets the request through
	log    string // the line in the log; empty if it is nobody's fault here
	ended  bool   // nobody waits for the answer, so the handler must not run
}

var gone = fault{status: http.StatusServiceUnavailable, ended: true}

// unidentified is the fault of a request without a key.
func unidentified(r *http.Request, err error) fault {
	switch {
	case errors.Is(err, keyfunc.ErrNoToken):
		return fault{status: http.StatusUnauthorized}
	case errors.Is(err, keyfunc.ErrNoKey):
		return fault{status: http.StatusBadRequest}
	case r.Context().Err() != nil:
		return gone
	}
	return fault{status: http.StatusInternalServerError, log: "weir: no key or cost for a request"}
}

// storeFault is the fault of a request for which the Store returned an error. closed is the
// option FailClosed.
func storeFault(r *http.Request, err error, closed bool) fault {
	canceled := errors.Is(err, context.Canceled) && !errors.Is(err, core.ErrUnavailable)
	if canceled || r.Context().Err() != nil {
		return gone
	}
	if errors.Is(err, driver.ErrInvalidCharge) {
		// No outage: this decision can never be made, and must not be an open door.
		return fault{status: http.StatusInternalServerError, log: "weir: the store refuses such decisions"}
	}
	f := fault{log: "weir: the store could not decide"}
	if closed || errors.Is(err, core.ErrFailClosed) {
		f.status = http.StatusServiceUnavailable
	}
	return f
}

// refuse makes the answer with a status that is not 429 by a limiter.
func refuse(h http.Header, r *http.Request, err error, status int) *gate.Refusal {
	h.Set("Cache-Control", "no-store")
	p := newProblem(r, status)
	switch status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
		p.Type = gate.TypeReducedCapacity
		p.Title = "Request cannot be satisfied due to temporary server capacity constraints"
		p.Detail = "Retry in 1 s."
	case http.StatusUnauthorized:
		// RFC 9110 section 15.5.2 requires a challenge. RFC 6750 section 3 has this one.
		if h.Get("WWW-Authenticate") == "" {
			h.Set("WWW-Authenticate", "Bearer")
		}
		p.Detail = "Sign-in is required."
	case http.StatusBadRequest:
		if errors.Is(err, keyfunc.ErrNoKey) {
			p.Detail = "The request does not say who sent it."
		}
	}
	return &gate.Refusal{Problem: p, Err: err}
}
