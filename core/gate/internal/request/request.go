// Package request finds the record that package adapter keeps in the context of a request, for the
// functions of package gate.
package request

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core"
)

// A Record reports the decision of one gate about a request, and settles its cost.
type Record interface {
	// Outer returns the record of the next outer gate, or nil.
	Outer() Record
	// Decision returns the decision of the gate. It contains no States if the gate has let the
	// request through undecided.
	Decision() core.Decision
	// Settle sets the total cost for l, or for all limiters of the gate if l is nil. The gate must
	// have admitted the request. If it has not charged l or another view of the same limiter, the error
	// is an ErrInvalidAsk.
	Settle(l *core.Limiter, cost int) error
}

// Key is the key of the Record of the innermost gate in the context of a request.
type Key struct{}

// From returns the record of the innermost gate, or nil. ctx is the context of a request, or one
// that stores the request under a registered key.
func From(ctx context.Context) Record {
	if r, ok := ctx.Value(Key{}).(Record); ok {
		return r
	}
	for _, key := range *requestKeys.list.Load() {
		if r, ok := ctx.Value(key).(*http.Request); ok && r != nil {
			record, _ := r.Context().Value(Key{}).(Record)
			return record
		}
	}
	return nil
}

// requestKeys holds the registered keys, which are few.
var requestKeys struct {
	mu   sync.Mutex
	list atomic.Pointer[[]any]
}

func init() { requestKeys.list.Store(new([]any)) }

// RegisterKey makes From look for an *http.Request under key as well.
func RegisterKey(key any) {
	requestKeys.mu.Lock()
	defer requestKeys.mu.Unlock()
	list := *requestKeys.list.Load()
	if !slices.Contains(list, key) {
		list = append(slices.Clone(list), key)
		requestKeys.list.Store(&list)
	}
}
