package overrides

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
)

var cachedKeys = map[string]string{"without an override": "none", "with a plan": "gold", "long": strings.Repeat("k", 200)}

// A lookup of a cached key allocates nothing.
func TestCache_Get_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	source, c := newFake(Options{})
	source.set("gold", "gold")
	for name, key := range cachedKeys {
		if n := testing.AllocsPerRun(1000, func() { _, _ = c.Get(context.Background(), "api", key) }); n > 0 {
			t.Errorf("%s: got %v allocations, want none", name, n)
		}
	}
}

func BenchmarkCache_Get(b *testing.B) {
	source, c := newFake(Options{MaxKeys: 100_000})
	source.set("gold", "gold")
	ctx := context.Background()
	for name, key := range cachedKeys {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.Get(ctx, "api", key)
			}
		})
	}
	keys := make([]string, 50_000)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
		_, _ = c.Get(ctx, "api", keys[i])
	}
	b.Run("50000 keys in turn", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			_, _ = c.Get(ctx, "api", keys[i%len(keys)])
		}
	})
	b.Run("50000 keys, parallel", func(b *testing.B) {
		b.RunParallel(func(p *testing.PB) {
			for i := 0; p.Next(); i++ {
				_, _ = c.Get(ctx, "api", keys[i%len(keys)])
			}
		})
	})
}
