package denycache_test

import (
	"context"
	"crypto/sha256"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestStore_Take_deniedKey(t *testing.T) {
	eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
		l := f.limiter(rule("r", core.PerMinute(6)))
		f.elsewhere(l, "k", 6)
		first := f.miss(l, "k", 1)
		for range 1000 {
			f.advance(time.Millisecond)
			f.hit(l, "k", 1)
		}
		want := first.State(0)
		want.RetryAfter, want.ResetAfter, want.Window = want.RetryAfter-time.Second, want.ResetAfter-time.Second, want.Window-time.Second
		if got := f.hit(l, "k", 1); got.State(0) != want || got.RetryAfter != want.RetryAfter {
			f.Errorf("a second later: got %+v, want %+v", got, want)
		}
		if got, want := f.cache.Stats(), (denycache.Stats{Hits: 1001, Misses: 1, Keys: 1}); got != want {
			f.Errorf("Stats: got %+v, want %+v", got, want)
		}
	})
}

// The answer to an event after which nothing remains says when the next one is admitted, except
// for a soft rule.
func TestStore_Take_afterTheLastEvent(t *testing.T) {
	for _, c := range []struct {
		name   string
		events int // of a minute
		soft   float64
		hit    bool
		late   time.Duration
	}{
		{"whole microseconds an event", 6, 0, true, 0},
		{"a fraction of a microsecond", 7, 0, true, time.Microsecond},
		{"soft", 6, 50, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
				l := f.limiter(rule("r", core.PerMinute(c.events)).Soft(c.soft))
				for f.miss(l, "k", 1).State(0).Remaining > 0 {
					f.advance(1234 * time.Microsecond)
				}
				want := f.bare(charge(l, 1))
				got, hit := f.take(charge(l, 1))
				if hit != c.hit {
					f.Fatalf("the next event: got hit %v, want %v", hit, c.hit)
				}
				if late := got.RetryAfter - want.RetryAfter; hit && (late < 0 || late > c.late || got.Remaining != 0) {
					f.Errorf("the next event:\n\tgot  %+v\n\twant %+v", got, want)
				}
			})
		})
	}
}

// A denial covers larger costs, and its Verdict for them is that of the Store. For the sliding
// algorithms, each cost is a miss once.
func TestStore_Take_otherCosts(t *testing.T) {
	eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
		l := f.limiter(rule("r", core.PerMinute(10)))
		f.miss(l, "k", 4)
		f.advance(time.Second)
		f.miss(l, "k", 1) // 5 remain, and of a bucket those that have refilled
		f.miss(l, "k", 7)
		if d := f.miss(l, "k", 6); d.Allowed {
			f.Fatalf("6 of 5 that remain: got %+v, want a denial", d)
		}
		if isSliding(charge(l, 1).Rule) {
			f.miss(l, "k", 10)
			f.miss(l, "k", 11)
		}
		for range 4 {
			for _, cost := range []int{6, 7, 10, 11, 12, math.MaxInt} {
				c := charge(l, cost)
				want := f.bare(c)
				if got, hit := f.take(c); got != want || !hit {
					f.Errorf("cost %d: got hit %v\n\tgot  %+v\n\twant %+v", cost, hit, got, want)
				}
			}
			f.advance(777 * time.Millisecond)
		}
		f.miss(l, "k", 5)
	})
}

// The latest eight costs are cached.
func TestStore_Take_manyCosts(t *testing.T) {
	f := newFixture(t)
	l := f.limiter(core.SlidingLog("r", core.PerHour(100)))
	f.elsewhere(l, "k", 100)
	for cost := 1; cost <= 50; cost++ {
		f.miss(l, "k", cost)
	}
	for cost := 43; cost <= 50; cost++ {
		f.hit(l, "k", cost)
	}
	f.miss(l, "k", 42)
}

func TestStore_Take_maxDelay(t *testing.T) {
	f := newFixture(t, denycache.MaxAge(age))
	l := f.limiter(core.LeakyBucket("r", core.PerSecond(10)))
	testkit.Admit(t, l, "k", 5) // the next event departs in 500 ms
	for _, c := range []struct {
		maxDelay, retry time.Duration
		hit, allowed    bool
	}{
		{maxDelay: 200 * time.Millisecond, retry: 300 * time.Millisecond},
		{maxDelay: 200 * time.Millisecond, retry: 300 * time.Millisecond, hit: true},
		{maxDelay: 50 * time.Millisecond, retry: 450 * time.Millisecond, hit: true},
		{maxDelay: 300 * time.Millisecond, retry: 200 * time.Millisecond},
		{maxDelay: 200 * time.Millisecond, retry: 300 * time.Millisecond, hit: true},
		{allowed: true},
	} {
		event := charge(l, 1)
		event.MaxDelay = c.maxDelay
		if v, hit := f.take(event); v.Allowed != c.allowed || v.RetryAfter != c.retry || hit != c.hit {
			t.Errorf("MaxDelay %v: got hit %v and %+v, want %+v", c.maxDelay, hit, v, c)
		}
	}
}

// A denial covers only a rule with the same limit.
func TestStore_Take_changedLimit(t *testing.T) {
	f := newFixture(t, denycache.MaxAge(age))
	small, large := f.limiter(core.FixedWindow("w", core.PerHour(3))), f.limiter(core.FixedWindow("w", core.PerHour(5)))
	same := f.limiter(core.FixedWindow("w", core.PerHour(3)))
	testkit.Admit(t, small, "k", 3)
	for _, c := range []struct {
		name         string
		l            *core.Limiter
		cost         int
		allowed, hit bool
	}{
		{"the same definition", same, 1, false, true},
		{"a larger limit", large, 1, true, false},
		{"the smaller limit again", small, 1, false, false},
		{"more than the larger limit has left", large, 2, false, false},
		{"a cached denial beside that of the other limit", small, 1, false, true},
		{"what the larger limit has left", large, 1, true, false},
	} {
		d, hit := f.ask(c.l, "k", c.cost)
		if d.Allowed != c.allowed || hit != c.hit {
			t.Errorf("%s: got hit %v and %v, want hit %v and allowed %v", c.name, hit, d, c.hit, c.allowed)
		}
		if rule := c.l.Rules()[0]; hit && d.State(0).Rule != rule {
			t.Errorf("%s: got a State of %v, want the rule of the limiter", c.name, d.State(0).Rule)
		}
	}
}

// dividing makes the Store decide by a quarter of every rule, as failover does.
func dividing(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
	for i := range charges {
		defer func(whole *driver.Compiled) { charges[i].Rule = whole }(charges[i].Rule)
		charges[i].Rule = charges[i].Rule.Divide(4)
	}
	return next(ctx, charges)
}

// If the Store decides by a rule that it derives from another, the Verdict of a hit has that rule.
func TestStore_Take_dividedRule(t *testing.T) {
	for name, used := range map[string][]int{"denied": {4, 2}, "the last event": {5}} {
		t.Run(name, func(t *testing.T) {
			eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
				f.behind.Set(dividing)
				l := f.limiter(rule("r", core.PerHour(20)))
				for _, n := range used {
					f.miss(l, "k", n)
				}
				f.advance(time.Second)
				c := charge(l, 6-used[0])
				want := f.bare(c)
				got, hit := f.take(c)
				if want.Rule.Constants == got.Rule.Constants {
					want.Rule = got.Rule
				}
				if got != want || !hit {
					f.Errorf("got hit %v\n\tgot  %+v\n\twant %+v", hit, got, want)
				}
			})
		})
	}
}

// A cost above the part of a rule by which the Store decides for a while, but not above the rule, is not denied for ever.
func TestStore_Take_aboveThePart(t *testing.T) {
	eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
		f.behind.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			err := dividing(ctx, charges, next)
			for i := range charges {
				charges[i].Verdict.RetryAfter = min(charges[i].Verdict.RetryAfter, time.Second)
			}
			return err
		})
		l := f.limiter(rule("r", core.PerHour(20)))
		for range 2 {
			f.miss(l, "k", 6)
		}
		f.behind.Set()
		if got, hit := f.take(charge(l, 6)); hit || !got.Allowed {
			f.Errorf("the whole rule: got hit %v, %+v", hit, got)
		}
	})
}

// A denial lasts for MaxAge, even if RetryAfter is longer.
func TestMaxAge(t *testing.T) {
	f := newFixture(t, denycache.MaxAge(100*time.Millisecond))
	l := f.limiter(core.TokenBucket("r", core.PerHour(5)))
	f.miss(l, "k", 5)
	_, err := testkit.Limiter(t, f.behind, l.Rules()...).Reset(t.Context(), "k")
	testkit.Must(t, err)
	f.advance(100*time.Millisecond - 1)
	f.hit(l, "k", 1)
	f.advance(1)
	if d := f.miss(l, "k", 1); !d.Allowed {
		t.Errorf("after a Reset by another process: got %v, want it admitted", d)
	}
}

// A Verdict that the Store behind does not know is neither cached nor ends a cached denial. Its
// Rule may be nil.
func TestStore_Take_unknownVerdict(t *testing.T) {
	f := newFixture(t, denycache.MaxAge(age))
	l := f.limiter(core.TokenBucket("r", core.PerMinute(6)))
	c := charge(l, 1)
	unknown := func(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
		charges[0].Verdict = driver.Verdict{Allowed: true, Unknown: true}
		return nil
	}
	f.behind.Set(unknown)
	for range 3 {
		if v, hit := f.take(c); hit || !v.Unknown {
			t.Errorf("got the verdict %+v and hit %v, want an unknown one of the Store", v, hit)
		}
	}
	f.behind.Set()
	f.elsewhere(l, c.Key, 6)
	f.miss(l, c.Key, 1)
	f.hit(l, c.Key, 1)
}

// A denial of a cost above the capacity is cached until the Remaining of a window changes. The Remaining of a
// bucket is computed.
func TestStore_Take_neverUntilRemainingChanges(t *testing.T) {
	eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
		r := rule("r", core.PerMinute(6))
		l := f.limiter(r)
		f.elsewhere(l, "k", 2)
		first := f.miss(l, "k", 7)
		if first.RetryAfter != core.Never {
			f.Fatalf("RetryAfter is %v, want Never", first.RetryAfter)
		}
		f.hit(l, "k", 7)
		f.advance(max(first.State(0).Window, first.State(0).ResetAfter))
		ask := f.miss
		if r.Kind().Refills {
			ask = f.hit
		}
		if got := ask(l, "k", 7).State(0).Remaining; got != 6 {
			f.Errorf("later, %d remain, want 6", got)
		}
	})
}

// Denials keep no long key, and no string of which a key is a part.
func TestStore_longKeys(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, key := range map[string]func(i int) string{
		"long key":         func(i int) string { return long + strconv.Itoa(i) },
		"part of a string": func(i int) string { return (long + strconv.Itoa(i))[1<<20:] },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
			before := testkit.Heap()
			for i := range 30 {
				k := key(i)
				f.miss(l, k, 1)
				f.hit(l, k, 1)
				f.behind.Forget(k) // it keeps the string
			}
			if grown := testkit.Heap() - before; grown > 3<<20 {
				t.Errorf("30 keys take %d bytes, want 3 MB at most", grown)
			}
			if n := f.cache.Stats().Keys; n != 30 {
				t.Errorf("got %d keys, want 30", n)
			}
			runtime.KeepAlive(f.cache)
		})
	}
}

// The digest of a long key is not the key of the same bytes.
func TestStore_keysAreDistinct(t *testing.T) {
	f := newFixture(t)
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	long := strings.Repeat("a", 1000)
	digest := sha256.Sum256([]byte(long))
	for _, key := range []string{long, long[1:], long[:128], long[:129], string(digest[:])} {
		if d := f.miss(l, key, 1); !d.Allowed {
			t.Errorf("a key of %d bytes: got %v, want it admitted", len(key), d)
		}
		f.hit(l, key, 1)
	}
}
