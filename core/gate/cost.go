package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/internal/requestbody"
	"github.com/weir-go/weir/keyfunc"
)

// Cost makes f determine the cost of a request, which is charged to every limiter of the gate that has no
// Cost of its own (see [And]). The default is 1. A cost of 0 charges nothing, but is denied if the limit is
// exhausted. A request takes one place of a [core.InFlight], or none if its cost is 0, and with
// [core.Rule.ByCost] as many as its cost. A negative cost is a fault of the application: the response is
// 500 unless [OnError] chooses another status.
//
// A cost above the capacity of a rule is denied for ever, without a Retry-After: [DeniedStatus] can make
// the status 413. If f is an estimate that may be too high, bound it by the capacity, or charge a small
// cost here and the rest while the handler works, with core.Limiter.ReserveAtMost for the key that
// [Key] returns.
//
// f runs before the key functions and the handler, so it must not read the body: see [CostOfBody]. ctx is the context
// that key functions get ([keyfunc.Func]). [Settle] corrects the cost afterwards; without it, the
// result of f stays charged. Cost panics if f is nil.
func Cost(f func(ctx context.Context, r *http.Request) int) Option {
	argument.NotNil("gate: Cost", "function", f)
	return option(func(o *options) { o.cost, o.costOfBody = f, nil })
}

// CostOfBody makes f determine the cost of a request from its body, such as the max_tokens of a language model,
// the points of a GraphQL query, or the items of a batch. It takes the place of [Cost]: as an option of [And],
// it applies to that limiter alone, beside a limiter of requests:
//
//	nethttplimit.New(requests, user, gate.And(tokens, user, gate.CostOfBody(64<<10, maxTokens)))
//
// The result of f is a cost as that of the function of Cost: 0 charges nothing, but is denied if the limit is
// exhausted; a cost above the capacity of a rule is denied for ever. A client chooses the cost, so f should add
// the cost of the request itself, and bound the numbers of the body before it adds them: the sum may overflow.
// [Settle] and [SettleFor] set the real cost.
//
// f must find the cost where the handler finds the work. A client could otherwise pay for a small number, and have the
// handler read a larger one in the URL, in a body of another Content-Type, or in the second of two fields with one name.
// Reject such requests with a NoKeyError, or give the handler the numbers that f has read.
//
// If only the cost of the body is denied, the keys of the other limiters of the gate are charged, at least 1 each:
// they bound how many bodies of a client are read for nothing. A gate that has only limiters with CostOfBody has
// no such bound; put a gate with the address of the client around it.
//
// An error is a response with the status 400 unless [OnError] chooses another one, and all keys are charged, at
// least 1 each, as for a missing key. A negative cost is a fault of the application, with the status 500, and is
// charged in the same way, and so is a panic of f. The other causes are an error of f, and a body that
//
//   - is longer than maxBytes. errors.As finds an [*http.MaxBytesError].
//   - has a Content-Encoding, such as gzip. f would get compressed bytes. Decompress of Echo leaves the field of
//     a body that it decompresses: delete the field behind it.
//   - cannot be read, or was read before.
//
// The problem document does not contain the text of the error, except for the Detail of a [keyfunc.NoKeyError]
// that f may return.
//
// f gets the whole body, which it must neither change nor keep, and nothing if there is none; it must not read
// r.Body. The handler reads the body as if nothing had happened. A key function that reads the body, such as
// [keyfunc.JSONField], and several CostOfBody of one gate read it once.
//
// f runs after all key functions. If the limit of any key has not one unit left, in any limiter of the gate, or if
// the Store cannot decide, the body is not read, and a client that sends Expect: 100-continue does not send it. The
// gate finds this out by asking the Store about all keys, without a charge, in one call before that of the
// decision. It makes no such call for a request without a body. The Retry-After of a denial before the body is
// read is the time until one unit is admitted: a client with a larger cost may be denied again. A key function
// that reads the body does so in its turn: put it after the keys that need none (see [And]).
//
// A client can send its body slowly. Set the timeouts of the [http.Server], and to bound the number of bodies
// that are read at the same time, put a gate with a [core.InFlight] around this one. CostOfBody panics if f is
// nil or maxBytes is not positive.
func CostOfBody(maxBytes int64, f func(ctx context.Context, r *http.Request, body []byte) (int, error)) Option {
	argument.NotNil("gate: CostOfBody", "function", f)
	if maxBytes <= 0 {
		panic("gate: CostOfBody: the number of bytes is not positive")
	}
	return option(func(o *options) { o.cost, o.costOfBody = nil, &bodyCost{maxBytes, f} })
}

// A bodyCost is a CostOfBody. The cost of its ask is 0 until the body is read.
type bodyCost struct {
	max int64
	f   func(context.Context, *http.Request, []byte) (int, error)
}

func noCost(context.Context, *http.Request) int { return 0 }

// of returns the cost of r.
func (c *bodyCost) of(ctx context.Context, r *http.Request) (int, error) {
	body, err := requestbody.Read(ctx, r, c.max)
	if err != nil {
		return 0, &costError{err}
	}
	n, err := c.f(ctx, r, body)
	switch {
	case err != nil:
		return 0, &costError{err}
	case n < 0:
		return 0, &costError{fmt.Errorf("%w: %d", core.ErrNegativeCost, n)}
	}
	return n, nil
}

// A costError is the error of a request whose body has no cost.
type costError struct{ cause error }

func (e *costError) Error() string { return "weir: no cost in the body: " + e.cause.Error() }
func (e *costError) Unwrap() error { return e.cause }

// errPanic is the cause if the function of a CostOfBody panics.
var errPanic = errors.New("the function has panicked")

// isCostError reports whether err is about the body, and not about a key.
func isCostError(err error) bool {
	var of *costError
	return errors.As(err, &of)
}

// detail returns the text for the client.
func (e *costError) detail() string {
	const text = "The cost of the request is not known"
	var (
		body   *requestbody.Error
		fromOf *keyfunc.NoKeyError
	)
	switch {
	case errors.As(e.cause, &body):
		return text + ": " + body.Detail + "."
	case errors.As(e.cause, &fromOf) && fromOf.Detail != "":
		return text + ": " + fromOf.Detail + "."
	}
	return text + "."
}

// An askOfBody is a known ask that waits for the cost of the body.
type askOfBody struct {
	at   int // the index of the ask
	cost *bodyCost
	n    int // the cost, after addCosts
}

// addCosts adds the costs of the body to the known asks. One of 0 is a Peek. A function that several asks have
// is called once.
func (w *steps) addCosts(ctx context.Context) (err error) {
	for i := range w.ofBody {
		a := &w.ofBody[i]
		if j := slices.IndexFunc(w.ofBody[:i], func(o askOfBody) bool { return o.cost == a.cost }); j >= 0 {
			a.n = w.ofBody[j].n
		} else if a.n, err = a.cost.of(ctx, w.r); err != nil {
			return err
		}
		if next := &w.known[a.at]; a.n > next.Cost {
			next.Cost, next.Peek = a.n, false
		}
	}
	return nil
}
