package denycache_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestStore_Declare(t *testing.T) {
	for _, c := range []struct {
		name   string
		behind core.Store
		want   error
	}{
		{"a Declarer", memstore.New(), core.ErrRuleConflict},
		{"no Declarer", struct{ driver.Store }{memstore.New()}, nil},
	} {
		s := denycache.New(c.behind)
		testkit.Limiter(t, s, core.TokenBucket("r", core.PerHour(1)))
		if _, err := core.New(s, core.TokenBucket("r", core.PerHour(2))); !errors.Is(err, c.want) {
			t.Errorf("%s: a second limit of the name: got the error %v, want %v", c.name, err, c.want)
		}
	}
}

// A cached denial says nothing about the Store behind, so a probe of a denied key reaches it.
func TestStore_Probe_deniedKey(t *testing.T) {
	readOnly := errors.New("read only")
	f := newFixture(t)
	f.behind.OnProbe = func(context.Context, []driver.Charge) error { return readOnly }
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	f.miss(l, "k", 1)
	f.hit(l, "k", 1)
	before := f.cache.Stats()
	c := charge(l, 1)
	c.Op = driver.Peek
	if err := driver.Probe(t.Context(), f.cache, []driver.Charge{c}); err != readOnly {
		t.Errorf("got the error %v, want that of the Store behind, %v", err, readOnly)
	}
	if got := f.cache.Stats(); got != before {
		t.Errorf("Stats after a probe: got %+v, want %+v", got, before)
	}
}

// Adjust removes the denials of its keys, and no others, even if it returns an error.
func TestStore_Adjust(t *testing.T) {
	lost := errors.New("lost")
	for _, c := range []struct {
		name    string
		adjust  func(ctx context.Context, l *core.Limiter, r *core.Reservation) error
		allowed bool
		err     error
	}{
		{"reset", func(ctx context.Context, l *core.Limiter, _ *core.Reservation) error {
			_, err := l.Reset(ctx, "k")
			return err
		}, true, nil},
		{"credit", func(ctx context.Context, l *core.Limiter, _ *core.Reservation) error { return l.Credit(ctx, "k", 1) }, true, nil},
		{"undo", func(ctx context.Context, _ *core.Limiter, r *core.Reservation) error { return r.Refund(ctx) }, true, nil},
		{"debit", func(ctx context.Context, l *core.Limiter, _ *core.Reservation) error { return l.Debit(ctx, "k", 1) }, false, nil},
		{"error", func(ctx context.Context, l *core.Limiter, _ *core.Reservation) error { return l.Credit(ctx, "k", 1) }, true, lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachAlgorithm(t, func(f *fixture, rule func(string, core.Limit) core.Rule) {
				l := f.limiter(rule("r", core.PerHour(3)))
				r := testkit.Reserve(f, l, "k", 3)
				f.miss(l, "other", 3)
				before := f.hit(l, "k", 1)
				if c.err != nil {
					f.behind.Set(storetest.Lose(c.err))
				}
				if err := c.adjust(f.Context(), l, r); !errors.Is(err, c.err) {
					f.Fatalf("got the error %v, want %v", err, c.err)
				}
				f.behind.Set()
				if d := f.miss(l, "k", 1); d.Allowed != c.allowed || d.RetryAfter < before.RetryAfter && !c.allowed {
					f.Errorf("got %v, want allowed %v", d, c.allowed)
				}
				f.hit(l, "other", 1)
			})
		})
	}
}

// An answer that is under way during a Reset is not cached: neither a denial, nor that nothing
// remains.
func TestStore_Adjust_duringTake(t *testing.T) {
	for name, used := range map[string]int{"denied": 1, "the last event": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := new(storetest.Fake)
				l := testkit.Limiter(t, denycache.New(behind), core.TokenBucket("r", core.PerHour(1)))
				if used > 0 {
					testkit.Admit(t, testkit.Limiter(t, behind, l.Rules()...), "k", used)
				}
				behind.Set(storetest.Delay(0, 100*time.Millisecond))
				var wg sync.WaitGroup
				wg.Go(func() {
					if got, want := testkit.Allow(t, l, "k").Allowed, used == 0; got != want {
						t.Errorf("before the Reset: got allowed %v, want %v", got, want)
					}
				})
				synctest.Wait()
				behind.Set()
				_, err := l.Reset(t.Context(), "k")
				testkit.Must(t, err)
				wg.Wait()
				testkit.Admit(t, l, "k", 1)
			})
		})
	}
}

// A caller that resets a key finds it free, while others ask about it.
func TestStore_Adjust_amongOthers(t *testing.T) {
	s := denycache.New(&storetest.Fake{Clock: new(storetest.Clock).Micros})
	l := testkit.Limiter(t, s, core.SlidingLog("r", core.PerHour(5)))
	rule := testkit.Compiled(l.Rules()[0])
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = s.Take(ctx, []driver.Charge{{Key: "k", Rule: rule, Op: driver.Peek, Cost: 5}})
			}
		})
	}
	for range 250 {
		testkit.Admit(t, l, "k", 5)
		_, err := l.Reset(t.Context(), "k")
		testkit.Must(t, err)
	}
	cancel()
	wg.Wait()
}

// A denial is forgotten after an Adjust that panics, too, because the Store may have applied its charges.
func TestStore_Adjust_Panic(t *testing.T) {
	behind := &storetest.Fake{Store: memstore.New()}
	l := testkit.Limiter(t, denycache.New(behind), core.FixedWindow("r", core.PerDay(1)))
	testkit.Admit(t, l, "k", 1)
	behind.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		testkit.Must(t, next(ctx, charges))
		panic("after the charges")
	})
	testkit.Panics(t, "after the charges", func() { _, _ = l.Reset(t.Context(), "k") })
	behind.Set()
	testkit.Admit(t, l, "k", 1)
}

// A pause that begins, becomes longer or ends through this Store holds at once. A change by another process is
// noticed when the cached denial has ended.
func TestStore_Adjust_Pause(t *testing.T) {
	const most = time.Minute
	f := newFixture(t, denycache.MaxAge(most))
	l := f.limiter(core.FixedWindow("r", core.PerDay(1000)), core.Pause("p"))
	denied := func(d core.Decision, rest time.Duration) {
		t.Helper()
		if s := d.State(1); d.Allowed || d.RetryAfter != rest || s.Allowed || s.Limit() != core.Blocked {
			t.Fatalf("got %+v, want a denial for %v by the pause", d, rest)
		}
	}
	f.ask(l, "k", 1)
	testkit.Must(t, l.Pause(t.Context(), "k", 10*time.Minute))
	denied(f.hit(l, "k", 1), 10*time.Minute)
	denied(f.hit(l, "k", 5), 10*time.Minute)
	testkit.Must(t, l.Pause(t.Context(), "k", time.Minute))
	denied(f.hit(l, "k", 1), 10*time.Minute)
	testkit.Must(t, l.Pause(t.Context(), "k", time.Hour))
	denied(f.hit(l, "k", 1), time.Hour)
	f.pauseElsewhere(l, 2*time.Hour)
	denied(f.hit(l, "k", 1), time.Hour)
	f.advance(most)
	denied(f.miss(l, "k", 1), 2*time.Hour-most)
	f.pauseElsewhere(l, 0)
	denied(f.hit(l, "k", 1), 2*time.Hour-most)
	f.advance(most - time.Microsecond)
	f.hit(l, "k", 1)
	f.advance(time.Microsecond)
	if d := f.miss(l, "k", 1); !d.Allowed {
		t.Fatalf("got %+v after the end of the pause", d)
	}
	testkit.Must(t, l.Pause(t.Context(), "k", time.Hour))
	denied(f.hit(l, "k", 1), time.Hour)
	testkit.Must(t, l.Pause(t.Context(), "k", 0))
	if d := f.miss(l, "k", 1); !d.Allowed || d.State(0).Remaining != 1000-3 {
		t.Errorf("got %+v after the end of the pause, want the third event", d)
	}
	testkit.Must(t, l.Pause(t.Context(), "k", time.Hour))
	denied(f.hit(l, "k", 1), time.Hour)
	if found, err := l.Reset(t.Context(), "k"); !found || err != nil {
		t.Errorf("got %t, %v of a Reset, want true", found, err)
	}
	testkit.Admit(t, l, "k", 1)
}

// A flood of denied keys stays within MaxKeys, and does not evict a frequently used key.
func TestMaxKeys_flood(t *testing.T) {
	const maxKeys, flood = 1000, 10_000
	f := newFixture(t, denycache.MaxKeys(maxKeys))
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	for range 20 {
		f.ask(l, "hot", 1)
	}
	misses, most := 0, 0
	for i := range flood {
		key := strconv.Itoa(i)
		f.ask(l, key, 1)
		f.ask(l, key, 1)
		if i%10 == 0 {
			if _, hit := f.ask(l, "hot", 1); !hit {
				misses++
			}
		}
		most = max(most, f.cache.Stats().Keys)
	}
	if most > maxKeys+maxKeys/10 {
		t.Errorf("got %d keys, want %d", most, maxKeys)
	}
	if misses > flood/10/100 {
		t.Errorf("got %d misses of %d for the hot key, want 1 in 100", misses, flood/10)
	}
}
