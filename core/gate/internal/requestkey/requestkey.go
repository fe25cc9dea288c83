// Package requestkey finds the request in the context of a framework.
package requestkey

import (
	"context"
	"net/http"
	"sync"
)

// keys holds the registered keys, which are few.
var keys sync.Map

// Register makes From look for an *http.Request under key.
func Register(key any) { keys.Store(key, nil) }

// From returns the request that ctx stores under a registered key, or nil.
func From(ctx context.Context) (r *http.Request) {
	keys.Range(func(key, _ any) bool {
		r, _ = ctx.Value(key).(*http.Request)
		return r == nil
	})
	return r
}
