package rules

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// A reads is a Redis that replies to reads of overrides after a delay.
type reads struct {
	delay time.Duration
	texts map[string]string // overrides, by their keys in Redis
}

func (reads) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (reads) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (r reads) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		time.Sleep(r.delay)
		for _, c := range cmds {
			switch c := c.(type) {
			case *redis.SliceCmd:
				var value any
				if text, ok := r.texts[c.Args()[1].(string)]; ok {
					value = text
				}
				c.SetVal([]any{value})
			case *redis.FloatSliceCmd:
				c.SetVal(make([]float64, len(c.Args())-2))
			}
		}
		return nil
	}
}

// source returns a source with the overrides of r.
func (r reads) source(opts ...RedisOption) *RedisSource {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Protocol: 2}) // no look-up of a name, and no goroutines
	rdb.AddHook(r)
	return Redis(rdb, "app", opts...)
}

// A block of the configuration that ends while the override of the key is read denies nothing.
func TestSet_Blocked_EndsDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for read, want := range map[time.Duration]time.Duration{ // RetryAfter
			4 * time.Millisecond: 6 * time.Millisecond, 10*time.Millisecond - 1: 1, 10 * time.Millisecond: 0, 11 * time.Millisecond: 0,
		} {
			until := time.Now().Add(10 * time.Millisecond)
			set, err := New(memstore.New(), &Config{Policies: map[string]Policy{"api": {
				Enforce: 100, Rules: []Rule{{Spec: core.Spec{Name: "r", Algorithm: driver.SlidingLog, Limit: core.PerHour(9)}}},
				Keys: map[string]Override{"k": {Blocked: true, Until: until}},
			}}}, Overrides(reads{delay: read}.source()))
			testkit.Must(t, err)
			l, err := set.Limiter("api")
			testkit.Must(t, err)
			if d := testkit.Allow(t, l, "k"); d.Allowed != (want == 0) || d.RetryAfter != want {
				t.Errorf("a read of %v: got %v, want RetryAfter %v", read, d, want)
			}
			time.Sleep(time.Minute)
		}
	})
}

// A decision with a cached override, in memory.
func BenchmarkSet_Overrides(b *testing.B) {
	config, err := Parse("f", []byte("policies: {api: {rules: [{name: r, algorithm: token_bucket, limit: 1000000/s, plans: {gold: 2000000/s}}]}}"))
	testkit.Must(b, err)
	source := reads{texts: map[string]string{"weir:app:{" + keyhash.New(nil).Tag("gold") + "}override:api": "{plan: gold}"}}.source()
	s, err := New(memstore.New(), config, Overrides(source))
	testkit.Must(b, err)
	l := core.Must(s.Limiter("api"))
	for name, key := range map[string]string{"without an override": "none", "with a plan": "gold", "long": strings.Repeat("k", 200)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = l.Allow(context.Background(), key)
			}
		})
	}
}
