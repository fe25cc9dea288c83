package gate

import (
	"context"
	"net/http"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// Caller returns a key function for a look-up that finds the key and the plan of the caller together, such as the row
// of an API key in a database:
//
//	caller := gate.Caller(func(ctx context.Context, r *http.Request) (key, plan string, err error) {
//		account, err := accounts.Find(ctx, r.Header.Get("X-API-Key"))
//		return keyfunc.UserKey(account.ID), account.Plan, err
//	})
//	limit := nethttplimit.Limit(store, api, caller)
//
// The key and err are those of a key function, and the plan is that of [Plan]: "" means the limits without a plan. A
// gate calls find at most once for a request, also if several of its limiters have the result as their key function; two gates
// on a route call it twice. It is called for most requests that are then denied, too. find must be safe for concurrent use. If the
// gate or the limiter has an option Plan, that determines the plan.
//
// The result is the key function of New, Limit or [And], or an argument of [keyfunc.FirstOf] there. A function of your own
// around it must return its error as it is. With [keyfunc.Join] and [keyfunc.Fold], whose keys
// would be others than that of the plan, the response is 500: find can call other key functions itself. Caller panics if
// find is nil.
func Caller(find func(ctx context.Context, r *http.Request) (key, plan string, err error)) keyfunc.Func {
	argument.NotNil("gate: Caller", "function", find)
	return func(ctx context.Context, r *http.Request) (string, error) {
		return "", &lookup{find: &find, ctx: ctx, r: r}
	}
}

// A lookup is the error with which the function of a Caller asks the gate, or FirstOf, to look up its key. The gate then
// knows the plan, too, which is that of this key and of no other one.
type lookup struct {
	find *func(context.Context, *http.Request) (key, plan string, err error)
	ctx  context.Context
	r    *http.Request

	found     bool
	key, plan string
	err       error
}

func (l *lookup) Error() string {
	return "weir: the result of gate.Caller is only for New, Limit and And, and for keyfunc.FirstOf in these"
}

// FindKey looks up the key, once.
func (l *lookup) FindKey() (string, error) {
	if !l.found {
		l.key, l.plan, l.err = (*l.find)(l.ctx, l.r)
		l.found = true
	}
	return l.key, l.err
}

// lookups are those of the key functions of a request.
type lookups []*lookup

// find sets the key and the plan of next by l, or by an earlier look-up for the same request.
func (known *lookups) find(l *lookup, next *core.Ask) error {
	if !l.found {
		earlier := slices.IndexFunc(*known, func(o *lookup) bool { return o.find == l.find && o.r == l.r })
		if earlier >= 0 {
			l = (*known)[earlier]
		} else {
			*known = append(*known, l)
		}
	}
	key, err := l.FindKey()
	next.Key, next.Plan = key, l.plan
	return err
}
