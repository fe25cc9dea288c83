package gate

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfunc"
)

// An Option changes what a gate does. The options are the functions of this
// package and OnDenied of each adapter. Of two that set the same thing the
// later counts; every [And] adds.
type Option interface{ apply(*config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

type config struct {
	asks       []ask
	cost       func(*http.Request) int
	skip       func(*http.Request) bool
	onError    func(*http.Request, error, int) int
	versions   versions
	inherits   bool // no Headers option: add what the gates around this one send
	failClosed bool
	expose     bool
	denied     any    // what the adapter does with a denial
	deniedBy   string // the adapter whose option that was
}

// An ask is a limiter and how to find the key that it is asked for.
type ask struct {
	limiter *core.Limiter
	key     keyfunc.Func
}

// And adds a second identity to the same decision: the request is let through
// if l admits it as well, and charged to both or to neither. A request for
// which key finds no key is refused like one without the first key.
//
// All limiters of a gate must be on one Store. And panics if l or key is nil.
func And(l *core.Limiter, key keyfunc.Func) Option {
	if l == nil {
		panic("gate: And: limiter is nil")
	}
	if key == nil {
		panic("gate: And: key function is nil")
	}
	return option(func(c *config) { c.asks = append(c.asks, ask{l, key}) })
}

// Cost sets the weight of a request, which every limiter of the gate is
// charged; the default is 1. Zero takes nothing, but is denied while nothing is
// left. More than the capacity of a rule is denied without a Retry-After. A
// negative weight is a fault: the answer is 500 unless [OnError] says otherwise.
//
// f runs before the handler, so it must not read the body. Cost panics if f is
// nil.
func Cost(f func(r *http.Request) int) Option {
	if f == nil {
		panic("gate: Cost: function is nil")
	}
	return option(func(c *config) { c.cost = f })
}

// Skip lets requests through that f returns true for, as if there were no gate:
// they need no key, are charged nothing and get no fields. It is for health
// checks and CORS preflight. What f looks at is the client's to choose, so a
// header is rarely a good reason. Skip panics if f is nil.
func Skip(f func(r *http.Request) bool) Option {
	if f == nil {
		panic("gate: Skip: function is nil")
	}
	return option(func(c *config) { c.skip = f })
}

// Headers selects the fields that tell a client what it has left. The default
// is [IETFDraft], and whatever else the gates around this one send, so that what
// they tell stays true; with no versions there are none. Retry-After is sent with
// a denial in any case. Headers panics on an unknown version.
func Headers(v ...HeaderVersion) Option {
	var set versions
	for _, v := range v {
		if v != IETFDraft && v != Legacy {
			panic(fmt.Sprintf("gate: Headers: unknown version %d", v))
		}
		set |= v.bit()
	}
	return option(func(c *config) { c.versions, c.inherits = set, false })
}

// FailClosed answers 503 with Retry-After to requests that the Store could not
// decide. Without it they are let through, unlimited. It is for routes where an
// unlimited request is worse than none, such as a login.
func FailClosed() Option {
	return option(func(c *config) { c.failClosed = true })
}

// OnError calls f for every request that could not be identified or decided,
// and lets it choose the answer. status is what the gate is about to do, and the
// result is what it does instead:
//
//   - 0 lets the request through, unlimited;
//   - 400 to 599 is the status of the answer, a [Problem];
//   - anything else means status.
//
// err is one of these:
//
//   - [keyfunc.ErrNoToken], status 401: a key function wants a bearer token;
//   - any other [keyfunc.ErrNoKey], status 400;
//   - any other error of a key function, or [core.ErrNegativeCost], status 500;
//   - the error of the Store, status 0, or 503 with [FailClosed];
//   - the error of a request that has ended (r.Context().Err() is not nil),
//     status 503. The Store is not to blame. Here 0 means 503, for otherwise
//     hanging up would be a way past the limit.
//
// Nothing of err reaches the client. Without OnError, faults of the Store and
// of the application are logged through [log/slog.Default] at level Warn, at
// most one line a second for each gate; with it, nothing is logged. f is called concurrently.
// OnError panics if f is nil.
func OnError(f func(r *http.Request, err error, status int) int) Option {
	if f == nil {
		panic("gate: OnError: function is nil")
	}
	return option(func(c *config) { c.onError = f })
}

// Expose lets scripts of other origins read the fields of the gate: it adds
// their names to Access-Control-Expose-Headers (Fetch standard), after the names
// that are there already. A CORS middleware that replaces that field must come
// before the gate.
func Expose() Option {
	return option(func(c *config) { c.expose = true })
}

// Denied makes the OnDenied option of an adapter: [New] hands f to the adapter
// of that name, and panics in any other. It panics if f, a function, is nil.
func Denied[F any](adapter string, f F) Option {
	if reflect.ValueOf(f).IsNil() {
		panic(adapter + ": OnDenied: function is nil")
	}
	return option(func(c *config) { c.denied, c.deniedBy = f, adapter })
}
