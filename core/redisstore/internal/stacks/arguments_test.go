package stacks_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/diagnose"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

// The functions of the module panic if an argument is invalid, also a nil in an interface, and name the argument.
func TestInvalid(t *testing.T) {
	var (
		noClient  *redis.Client
		noCluster *redis.ClusterClient
		client    = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	)
	defer client.Close()
	const letters = `: it has letters, digits, '-', '_' and '.', at least one`
	for _, c := range []struct {
		want string
		call func()
	}{
		{"redisstore: New: the client is nil", func() { redisstore.New(nil, "test") }},
		{"redisstore: New: the client is nil", func() { redisstore.New(noClient, "test") }},
		{"redisstore: New: the client is nil", func() { redisstore.New(noCluster, "test") }},
		{"redisstore: New: option 0 is nil", func() { redisstore.New(client, "test", nil) }},
		{`redisstore: New: the name of the application is ""` + letters, func() { redisstore.New(client, "") }},
		{`redisstore: New: the name of the application is "shöp"` + letters, func() { redisstore.New(client, "shöp") }},
		{`redisstore: New: the name of the application is "a:b"` + letters, func() { redisstore.New(client, "a:b") }},
		{
			`redisstore: New: "weir:" and the name of the application, "abcdefghijklmnopqrstuvwxyz1", are longer than 31 bytes`,
			func() { redisstore.New(client, "abcdefghijklmnopqrstuvwxyz1") },
		},
		{"redisstore: Prefix: longer than 32 bytes", func() { redisstore.Prefix(strings.Repeat("p", 33)) }},
		{"redisstore: Prefix: contains a brace", func() { redisstore.Prefix("a{b") }},
		{"redisstore: Prefix: contains a brace", func() { redisstore.Prefix("a}b") }},
		{"redisstore: KeySecret: shorter than 16 bytes", func() { redisstore.KeySecret(make([]byte, 15)) }},
		{"redisstore: Timeout: not positive", func() { redisstore.Timeout(0) }},
		{"redisstore: New: the client is nil", func() { diagnose.Diagnose(t.Context(), noClient, "test") }},
		{"redisstore: New: option 0 is nil", func() { diagnose.Diagnose(t.Context(), client, "test", nil) }},
		{`redisstore: New: the name of the application is "{}"` + letters, func() { diagnose.Diagnose(t.Context(), client, "{}") }},
		{"resilient: New: the client is nil", func() { resilient.New(noClient, "test") }},
		{"resilient: New: the client is nil", func() { resilient.New(noCluster, "test") }},
		{"resilient: New: option 0 is nil", func() { resilient.New(client, "test", nil) }},
		{"resilient: New: option 1 is nil", func() { resilient.New(client, "test", resilient.Instances(1), nil) }},
		{"resilient: Prefix: contains a brace", func() { resilient.Prefix("{weir}") }},
		{"resilient: Prefix: longer than 32 bytes", func() { resilient.Prefix(strings.Repeat("a", 33)) }},
		{"resilient: KeySecret: shorter than 16 bytes", func() { resilient.KeySecret(make([]byte, 15)) }},
		{"resilient: Timeout: not positive", func() { resilient.Timeout(0) }},
		{"resilient: Processes: function is nil", func() { resilient.Processes(nil) }},
		{"resilient: Instances: n is less than 1", func() { resilient.Instances(0) }},
		{"resilient: MaxMemory: n is less than 1", func() { resilient.MaxMemory(0) }},
	} {
		testkit.Panics(t, c.want, c.call)
	}
}
