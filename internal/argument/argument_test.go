package argument_test

import (
	"testing"

	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
)

// Every constructor panics if an argument is nil, also in an interface, and names the argument.
func TestConstructors_NilArguments(t *testing.T) {
	store := memstore.New()
	var (
		none       *memstore.Store
		memoryNone memstore.Option
	)
	for _, c := range []struct {
		want string
		call func()
	}{
		{"memstore: New: option 1 is nil", func() { memstore.New(memstore.MaxMemory(1), memoryNone) }},
		{"denycache: New: next is nil", func() { denycache.New(nil) }},
		{"denycache: New: next is nil", func() { denycache.New(none) }},
		{"denycache: New: option 0 is nil", func() { denycache.New(store, nil) }},
		{"lease: New: next is nil", func() { lease.New(nil) }},
		{"lease: New: next is nil", func() { lease.New(none) }},
		{"lease: New: option 0 is nil", func() { lease.New(store, nil) }},
		{"failover: New: primary is nil", func() { failover.New(nil, store) }},
		{"failover: New: primary is nil", func() { failover.New(none, store) }},
		{"failover: New: backup is nil", func() { failover.New(store, nil) }},
		{"failover: New: backup is nil", func() { failover.New(store, none) }},
		{"failover: New: option 0 is nil", func() { failover.New(store, store, nil) }},
	} {
		func() {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("got the panic %v, want %s", got, c.want)
				}
			}()
			c.call()
		}()
	}
}
