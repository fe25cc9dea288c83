// Package request finds the record of a request that package adapter has decided, in the
// context of the request, for the functions of package gate.
package request

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core"
)

// A Record is what one gate did with a request.
type Record interface {
	// Outer returns the record of the gate around this one, or nil.
	Outer() Record
	// Decision returns the decision of the gate, which must not be changed. It has no States
	// if the gate has let the request through undecided.
	Decision() *core.Decision
	// Settle sets the total cost of a request that the gate has admitted.
	Settle(cost int) error
}

// Key is the key of the Record of the innermost gate in the context of a request.
type Key struct{}

// From returns the record of the innermost gate, or nil. ctx is the context of a request, or
// one that has the request under a registered key.
func From(ctx context.Context) Record {
	if r, ok := ctx.Value(Key{}).(Record); ok {
		return r
	}
	keys := requestKeys.list.Load()
	if keys == nil {
		return nil
	}
	for _, key := range *keys {
		if r, ok := ctx.Value(key).(*http.Request); ok && r != nil {
			record, _ := r.Context().Value(Key{}).(Record)
			return record
		}
	}
	return nil
}

// requestKeys holds the registered keys. An application has few of them.
var requestKeys struct {
	mu   sync.Mutex
	list atomic.Pointer[[]any]
}

// RegisterKey makes From look for an *http.Request under key as well.
func RegisterKey(key any) {
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
