package argument_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
)

// Every constructor refuses nil, also in an interface, and names it.
func TestConstructors_NilArguments(t *testing.T) {
	store := memstore.New()
	var (
		none       *memstore.Store
		noClient   *redis.Client
		noCluster  *redis.ClusterClient
		client     = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		memoryNone memstore.Option
	)
	defer client.Close()
	for want, call := range map[string]func(){
		"memstore: New: option 1 is nil":     func() { memstore.New(memstore.MaxMemory(1), memoryNone) },
		"redisstore: New: the client is nil": func() { redisstore.New(nil) },
		"redisstore: New: option 0 is nil":   func() { redisstore.New(client, nil) },
		"denycache: New: next is nil":        func() { denycache.New(nil) },
		"denycache: New: option 0 is nil":    func() { denycache.New(store, nil) },
		"lease: New: next is nil":            func() { lease.New(nil) },
		"lease: New: option 0 is nil":        func() { lease.New(store, nil) },
		"failover: New: primary is nil":      func() { failover.New(nil, store) },
		"failover: New: backup is nil":       func() { failover.New(store, nil) },
		"failover: New: option 0 is nil":     func() { failover.New(store, store, nil) },
	} {
		check(t, want, call)
	}
	for _, c := range []struct {
		want string
		call func()
	}{
		{"redisstore: New: the client is nil", func() { redisstore.New(noClient) }},
		{"redisstore: New: the client is nil", func() { redisstore.New(noCluster) }},
		{"denycache: New: next is nil", func() { denycache.New(none) }},
		{"lease: New: next is nil", func() { lease.New(none) }},
		{"failover: New: primary is nil", func() { failover.New(none, store) }},
		{"failover: New: backup is nil", func() { failover.New(store, none) }},
	} {
		check(t, c.want, c.call)
	}
}

func check(t *testing.T, want string, call func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); got != want {
			t.Errorf("the panic is %q, want %q", got, want)
		}
	}()
	call()
}
