package gate

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core"
)

// A record is the context of a request that a gate has decided. It is one
// allocation for the context, the decision and the room for the field values.
//
// One without a decision stands for a gate that has let the request through
// undecided.
type record struct {
	context.Context
	outer    *record // of the gate around this one
	gate     *Gate
	versions versions // of the fields that tell about the decision
	decision core.Decision

	// What [Settle] goes by: a reservation, or the asks and what was charged to each
	// beyond 1.
	reservation *core.Reservation
	key         string     // of the first ask, which is the gate's first
	more        []core.Ask // from the second on
	extra       atomic.Int64

	values [2]string
}

func newRecord(ctx context.Context, g *Gate) *record {
	r := &record{Context: ctx, outer: recordOf(ctx), gate: g, versions: g.versions}
	if g.inherits && r.outer != nil {
		r.versions |= r.outer.versions
	}
	return r
}

// undecided is r, or a copy that keeps what is between it and the gates around this
// one. Without that, [Settle] in the handler would charge one of those.
func (g *Gate) undecided(r *http.Request) *http.Request {
	outer := recordOf(r.Context())
	if outer == nil {
		return r
	}
	return r.WithContext(&record{Context: r.Context(), outer: outer, gate: g, versions: outer.versions})
}

type recordKey struct{}

func (r *record) Value(key any) any {
	if _, ok := key.(recordKey); ok {
		return r
	}
	return r.Context.Value(key)
}

func recordOf(ctx context.Context) *record {
	r, _ := ctx.Value(recordKey{}).(*record)
	return r
}

// FromContext returns the decision about the request whose context ctx is:
// r.Context(), or a context made from it, or a *gin.Context. With several gates
// on the request it is that of the innermost that has decided.
//
// It returns false if no gate has: the request was skipped, or let through because
// the Store failed.
func FromContext(ctx context.Context) (core.Decision, bool) {
	for r := find(ctx); r != nil; r = r.outer {
		if r.decision.Len() > 0 {
			return r.decision, true
		}
	}
	return core.Decision{}, false
}

// DecisionsFrom returns the decisions of all gates about the request whose context ctx is, the
// outermost first, with ctx as for [FromContext]. A gate that has not decided is left out.
func DecisionsFrom(ctx context.Context) []core.Decision {
	var list []core.Decision
	for r := find(ctx); r != nil; r = r.outer {
		if r.decision.Len() > 0 {
			list = append(list, r.decision)
		}
	}
	slices.Reverse(list)
	return list
}

// find returns the record of the innermost gate, or nil.
func find(ctx context.Context) *record {
	if r := recordOf(ctx); r != nil {
		return r
	}
	return recordOfRequest(ctx)
}

// requestKeys holds what adapters registered. It is a handful at most.
var requestKeys struct {
	mu   sync.Mutex
	list atomic.Pointer[[]any]
}

// RegisterRequestKey is for adapters of frameworks whose own context does not
// ask the context of the request: it makes [FromContext] look for the
// *http.Request under key as well.
func RegisterRequestKey(key any) {
	requestKeys.mu.Lock()
	defer requestKeys.mu.Unlock()
	var list []any
	if p := requestKeys.list.Load(); p != nil {
		list = *p
	}
	if slices.Contains(list, key) {
		return
	}
	list = append(slices.Clone(list), key)
	requestKeys.list.Store(&list)
}

func recordOfRequest(ctx context.Context) *record {
	keys := requestKeys.list.Load()
	if keys == nil {
		return nil
	}
	for _, key := range *keys {
		if r, ok := ctx.Value(key).(*http.Request); ok && r != nil {
			return recordOf(r.Context())
		}
	}
	return nil
}
