package stacks_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

// The constructors panic if an argument is nil, also in an interface, and name the argument.
func TestConstructors_NilArguments(t *testing.T) {
	var (
		noClient  *redis.Client
		noCluster *redis.ClusterClient
		client    = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	)
	defer client.Close()
	for _, c := range []struct {
		want string
		call func()
	}{
		{"redisstore: New: the client is nil", func() { redisstore.New(nil, "test") }},
		{"redisstore: New: the client is nil", func() { redisstore.New(noClient, "test") }},
		{"redisstore: New: the client is nil", func() { redisstore.New(noCluster, "test") }},
		{"redisstore: New: option 0 is nil", func() { redisstore.New(client, "test", nil) }},
		{"resilient: New: the client is nil", func() { resilient.New(noClient, "test") }},
		{"resilient: New: option 0 is nil", func() { resilient.New(client, "test", nil) }},
	} {
		testkit.Panics(t, c.want, c.call)
	}
}
