package gate

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/internal/sampler"
	"github.com/weir-go/weir/keyfunc"
)

// FailClosed makes the gate respond with 503 and Retry-After if the Store cannot decide about a
// request. Use it for routes where an unlimited request is worse than a rejected request, such as a
// login. Without FailClosed, such a request is let through without a limit, unless the error is a
// [core.ErrFailClosed], which always leads to 503. [OnError] can choose another status in either case.
//
// A Store with a backup, such as that of package resilient, decides during an outage: its option FailClosedFor names the
// rules without a backup.
func FailClosed() Option {
	return option(func(o *options) { o.failClosed = true })
}

// OnError makes the gate call f for every request that could not be identified or decided. f
// chooses the status of the response. Its parameter status is the gate's own choice, where 0 lets
// the request through. The result of f means:
//
//   - 0 lets the request through without a limit. If a key is missing, the keys before it have been
//     charged (see [And]); f is not called if their limits deny the request.
//   - 400 to 599 is the status of the response, which contains a [Problem].
//   - Any other number means the parameter status, the choice of the gate.
//
// err is one of these:
//
//   - [keyfunc.ErrNoToken], status 401: a key function requires a token or a password.
//   - Any other [keyfunc.ErrNoKey], and [ErrPath], status 400. The detail of the problem says which
//     value is missing, if err is a [keyfunc.NoKeyError]. errors.As finds an [*http.MaxBytesError] in the
//     error of a body that is too long, for 413, and errors.Is the error of a body that could not be read.
//   - An error about the body of a [CostOfBody], status 400. errors.Is finds the error of its function, and
//     errors.As an [*http.MaxBytesError].
//   - Any other error of a key function, or [core.ErrNegativeCost], status 500.
//   - A [core.ErrInvalidAsk], status 500: the function of [core.Limiter.Choose] has failed, or the
//     gate asks about two limits for one rule and key, such as two plans.
//   - The error of the Store, status 0. The status is 503 with [FailClosed] or for a
//     [core.ErrFailClosed], and 500 if the Store cannot take so many rules in one decision.
//   - The error of a request that has ended (r.Context().Err() is not nil), status 503. The Store
//     is not the cause. The result 0 means 503 here, because otherwise a client could pass the
//     limit by hanging up.
//
// err is not sent to the client. Without OnError, faults of the Store and of the application are
// logged through [log/slog.Default] at level Warn, at most one line a second for each gate. With
// OnError, only failed refunds and releases are logged. f is called concurrently. OnError panics if f is nil.
func OnError(f func(r *http.Request, err error, status int) int) Option {
	argument.NotNil("gate: OnError", "function", f)
	return option(func(o *options) { o.onError = f })
}

// challenge adds the challenge that RFC 9110 section 15.5.2 requires in a response with 401, unless
// there is one. RFC 6750 section 3 defines this challenge.
func challenge(h http.Header) {
	if h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", "Bearer")
	}
}

// A failure describes the default response to a request that could not be identified or decided.
// [OnError] can choose another status.
type failure struct {
	outcome Outcome // of the event, unless the request is let through
	status  int     // of the response; 0 lets the request through
	log     string  // the line in the log; empty if neither the application nor the Store is the cause
	ended   bool    // the request has ended, so its handler must not run
}

// ended is the failure of a request whose client has gone or whose deadline has passed.
var ended = failure{outcome: Refused, status: http.StatusServiceUnavailable, ended: true}

// keyFailure returns the failure of a request whose key function or cost returned err.
func keyFailure(r *http.Request, err error) failure {
	switch {
	case isCostError(err) && !errors.Is(err, core.ErrNegativeCost):
		return failure{outcome: Rejected, status: http.StatusBadRequest}
	case errors.Is(err, keyfunc.ErrNoToken):
		return failure{outcome: Rejected, status: http.StatusUnauthorized}
	case errors.Is(err, keyfunc.ErrNoKey):
		return failure{outcome: Rejected, status: http.StatusBadRequest}
	case r.Context().Err() != nil:
		return ended
	}
	return failure{outcome: Rejected, status: http.StatusInternalServerError, log: "weir: no key or cost for a request"}
}

// storeFailure returns the failure of a request for which the Store returned err. failClosed is the
// option FailClosed.
func storeFailure(r *http.Request, err error, failClosed bool) failure {
	canceled := errors.Is(err, context.Canceled) && !errors.Is(err, core.ErrUnavailable)
	if canceled || r.Context().Err() != nil {
		return ended
	}
	// Letting the request through would remove the limit: the Store never makes such a decision, and
	// the cause may depend on a key that the client has chosen.
	switch {
	case errors.Is(err, driver.ErrInvalidCharge):
		return failure{outcome: Rejected, status: http.StatusInternalServerError, log: "weir: the store cannot make such a decision"}
	case errors.Is(err, core.ErrInvalidAsk):
		return failure{outcome: Rejected, status: http.StatusInternalServerError, log: "weir: the limits of a request cannot be decided"}
	}
	f := failure{outcome: Refused, log: "weir: the store could not decide"}
	if failClosed || errors.Is(err, core.ErrFailClosed) {
		f.status = http.StatusServiceUnavailable
	}
	return f
}

// reject returns the Rejection of a request that failed with err, according to f or the option
// OnError, and sets its header fields, and the error and the Outcome of e. It returns nil if the
// request is to be let through.
func (g *gate) reject(e *Event, h http.Header, r *http.Request, err error, f failure) *Rejection {
	e.Err, e.Outcome = err, f.outcome
	status := f.status
	if g.onError != nil {
		s := g.onError(r, err, status)
		if s == 0 && !f.ended || s >= 400 && s <= 599 {
			status = s
		}
	} else if f.log != "" {
		g.log.warn(r.Context(), f.log, err, status)
	}
	if status == 0 {
		e.Outcome = LetThrough
		return nil
	}
	h.Set("Cache-Control", "no-store")
	p := newProblem(r, status)
	switch status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
		p.Type = typeReducedCapacity
		p.Title = "Request cannot be satisfied due to temporary server capacity constraints"
		p.Detail = "Retry in 1 s."
	case http.StatusUnauthorized:
		challenge(h)
		p.Detail = "Sign-in is required."
	case http.StatusBadRequest:
		var (
			cost    *costError
			missing *keyfunc.NoKeyError
		)
		switch {
		case errors.As(err, &cost):
			p.Detail = cost.detail()
		case g.check && errors.Is(err, keyfunc.ErrNoKey):
			p.Detail = "The value that is limited is missing."
		case errors.As(err, &missing):
			p.Detail = "The request does not say who sent it: " + missing.Detail + "."
		case errors.Is(err, keyfunc.ErrNoKey):
			p.Detail = "The request does not say who sent it."
		case errors.Is(err, ErrPath):
			p.Detail = "The path contains an encoded dot segment."
		}
	}
	return &Rejection{Problem: &p, Err: err}
}

// A failureLog logs at most one failure a second, because every request fails during an outage.
type failureLog struct{ *sampler.Sampler }

func newFailureLog() failureLog { return failureLog{sampler.New(1, time.Second)} }

// sent is the status of warn for a response that err does not change.
const sent = -1

// warn logs err and the status of the response, unless a line was logged less than a second ago.
func (l *failureLog) warn(ctx context.Context, msg string, err error, status int) {
	suppressed, ok := l.Pass()
	if !ok {
		return
	}
	response := strconv.Itoa(status)
	switch status {
	case 0:
		response = "let through without a limit"
	case sent:
		response = "not changed"
	}
	slog.Default().LogAttrs(ctx, slog.LevelWarn, msg,
		slog.String("error", err.Error()),
		slog.String("answer", response),
		slog.Int("suppressed", suppressed))
}
