package denycache_test

import (
	"crypto/sha256"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
)

// A flood of denied keys stays within MaxKeys, and does not push out the one that is
// asked for most.
func TestFlood(t *testing.T) {
	const maxKeys, flood = 1000, 20_000
	b := newBench(t, denycache.MaxKeys(maxKeys))
	l := limiter(t, b.cache, core.TokenBucket("r", core.PerHour(1)))
	for range 20 {
		ask(t, l, "hot", 1)
	}
	missed, most := 0, 0
	for i := range flood {
		key := strconv.Itoa(i)
		ask(t, l, key, 1)
		ask(t, l, key, 1)
		if i%10 == 0 {
			asked := b.behind.Calls()
			ask(t, l, "hot", 1)
			missed += b.behind.Calls() - asked
		}
		most = max(most, b.cache.Stats().Keys)
	}
	if most > maxKeys+maxKeys/10 {
		t.Errorf("%d keys were remembered, MaxKeys is %d", most, maxKeys)
	}
	if missed > flood/10/100 {
		t.Errorf("a hot key was asked for %d of %d times", missed, flood/10)
	}
}

// Costs are as many as clients make them.
func TestManyCosts(t *testing.T) {
	b := newBench(t)
	l := limiter(t, b.cache, core.SlidingLog("r", core.PerHour(10_000)))
	b.elsewhere(l, "k", 10_000)
	for cost := 1; cost <= 1000; cost++ {
		b.there(l, "k", cost) // when there is room for one more, only the Store knows
	}
	for cost := 1; cost <= 1000; cost++ {
		b.here(l, "k", cost)
	}
	if d := b.there(l, "fresh", math.MaxInt/2+1); d.RetryAfter != core.Never {
		t.Errorf("more than it ever admits: %+v", d)
	}
	for cost := math.MaxInt / 4; cost > 10_000; cost /= 2 {
		if d := b.here(l, "fresh", cost); d.RetryAfter != core.Never || d.State(0).Remaining != 10_000 {
			t.Errorf("%d, more than it ever admits: %+v", cost, d)
		}
	}
	if n := b.cache.MostAnswers(); n != 4 {
		t.Errorf("%d costs are remembered", n)
	}
}

// Keys are as long as clients make them; what is kept of them is not.
func TestLongKeys(t *testing.T) {
	b := newBench(t)
	l := limiter(t, b.cache, core.TokenBucket("r", core.PerHour(1)))
	long := strings.Repeat("x", 1<<20)
	before := heap()
	for i := range 100 {
		key := long + strconv.Itoa(i)
		ask(t, l, key, 1)
		ask(t, l, key, 1)
		b.here(l, key, 1)
		b.behind.Forget(key) // it keeps what it is given
	}
	if grown := int64(heap()) - int64(before); grown > 10<<20 {
		t.Errorf("100 keys of 1 MB take %d bytes", grown)
	}
	runtime.KeepAlive(b.cache)
	if s := b.cache.Stats(); s.Keys != 100 {
		t.Errorf("%d keys are remembered", s.Keys)
	}
}

// A key is not a part of a string that is kept with it.
func TestKeysAreCopied(t *testing.T) {
	b := newBench(t)
	l := limiter(t, b.cache, core.TokenBucket("r", core.PerHour(1)))
	before := heap()
	for i := range 100 {
		key := (strings.Repeat("x", 1<<20) + strconv.Itoa(i))[1<<20:]
		ask(t, l, key, 1)
		ask(t, l, key, 1)
		b.behind.Forget(key) // it keeps what it is given
	}
	if grown := int64(heap()) - int64(before); grown > 10<<20 {
		t.Errorf("100 short parts of long strings take %d bytes", grown)
	}
	runtime.KeepAlive(b.cache)
}

// A digest of a key and a key that is those bytes are two.
func TestDigestIsNoKey(t *testing.T) {
	b := newBench(t)
	l := limiter(t, b.cache, core.TokenBucket("r", core.PerHour(1)))
	long := strings.Repeat("a", 1000)
	for _, key := range []string{long, long[1:], long[:128], long[:129], digest(long)} {
		if !b.there(l, key, 1).Allowed {
			t.Fatalf("a key of %d bytes is not its own", len(key))
		}
		b.here(l, key, 1)
	}
}

func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return string(sum[:])
}

// The documentation of MaxKeys says how much a key takes.
func TestMaxKeys_BytesPerKey(t *testing.T) {
	const keys = 20_000
	for _, c := range []struct {
		name  string
		costs int
		most  int64
	}{{"one cost", 1, 270}, {"four costs", 4, 650}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			l := limiter(t, b.cache, core.SlidingLog("r", core.PerHour(10)))
			before := heap()
			for i := range keys {
				key := strconv.Itoa(i)
				b.elsewhere(l, key, 10)
				for cost := 1; cost <= c.costs; cost++ {
					b.there(l, key, cost)
				}
				b.behind.Forget(key)
			}
			perKey := (int64(heap()) - int64(before)) / keys
			if n := b.cache.MostAnswers(); n != c.costs {
				t.Errorf("%d costs are remembered, want %d", n, c.costs)
			}
			if perKey > c.most {
				t.Errorf("a key takes %d bytes, want at most %d", perKey, c.most)
			}
			t.Logf("%d bytes a key", perKey)
			runtime.KeepAlive(b.cache)
		})
	}
}
