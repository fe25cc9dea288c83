//go:build !race

package denycache_test

import (
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
)

// The race detector makes sync.Pool drop what it is given, hence the build tag.

func TestNoAllocation(t *testing.T) {
	b := newBench(t)
	l, key := b.spent(10)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, key) }); n > 0 {
		t.Errorf("a denial here allocates %v times", n)
	}
	through := limiter(t, denycache.New(new(yes)), core.TokenBucket("r", core.PerHour(1)))
	if n := testing.AllocsPerRun(1000, func() { _, _ = through.Allow(ctx, key) }); n > 0 {
		t.Errorf("a decision that is passed on allocates %v times", n)
	}
}
