package denycache_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/internal/testkit"
)

// With the race detector sync.Pool drops values and objects are larger, hence the build tag.

func TestStore_Take_allocations(t *testing.T) {
	testkit.WithoutRace(t)
	rule, ctx := core.TokenBucket("r", core.PerHour(1)), t.Context()
	for name, behind := range map[string]core.Store{"hit": new(no), "miss": new(yes)} {
		l := testkit.Limiter(t, denycache.New(behind), rule)
		if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "k") }); n > 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}

// The documentation of MaxKeys says how much a key takes.
func TestMaxKeys_bytesPerKey(t *testing.T) {
	testkit.WithoutRace(t)
	const keys = 20_000
	for costs, most := range map[int]int64{1: 240, 8: 1050} {
		s := denycache.New(new(no))
		l := testkit.Limiter(t, s, core.SlidingLog("r", core.PerHour(10)))
		before := testkit.Heap()
		for i := range keys {
			for cost := range costs {
				testkit.Ask(t, l, strconv.Itoa(i), 1+cost)
			}
		}
		if got := (testkit.Heap() - before) / keys; got > most {
			t.Errorf("%d costs: got %d bytes a key, want %d at most", costs, got, most)
		} else {
			t.Logf("%d costs: %d bytes a key", costs, got)
		}
		if n := s.Stats().Misses; n != uint64(keys*costs) {
			t.Errorf("%d costs: got %d misses, want one for each, %d", costs, n, keys*costs)
		}
		runtime.KeepAlive(s)
	}
}
