package lease_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// All of a limit is admitted: near its end every event is a call of its own.
func TestStore_Take_AdmitsAllOfALimit(t *testing.T) {
	rules := append(bucketAndWindow(core.PerDay(3000)), core.TokenBucket("small", core.PerDay(100)))
	bubbleEach(t, rules, func(x *fixture, rule core.Rule) {
		if n := x.drain(x.limiter(x.lease(), rule)); n != rule.Capacity() {
			x.Errorf("expected %d events, got %d", rule.Capacity(), n)
		}
	})
}

// A key that was denied is asked about once in the MaxAge of a denycache beneath.
func TestStore_Take_DeniedKey(t *testing.T) {
	bubble(t, func(x *fixture) {
		rule := core.TokenBucket("b", core.PerDay(200)) // a token in 432 s
		l := x.limiter(x.overDenycache(), rule)
		x.drain(l)
		calls := x.calls(func() {
			for range 1000 {
				if x.ask(l, 1).Allowed {
					x.Fatal("expected a denial, got an admission")
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		x.expect(9, 11, calls, "calls in 10 s")
		if _, err := x.limiter(x.memory, rule).Reset(x.Context(), "k"); err != nil { // by another process
			x.Fatal(err)
		}
		time.Sleep(denycache.DefaultMaxAge)
		x.admit(l, 1)
	})
}

// A bucket that refills fast is asked a few times in 10 ms while it is used up.
func TestStore_Take_UsedUpBucket(t *testing.T) {
	bubble(t, func(x *fixture) {
		l := x.limiter(x.lease(), core.TokenBucket("b", core.PerSecond(5000)))
		admitted := atomic.Int64{}
		calls := x.calls(func() {
			testkit.Concurrently(64, func(int) {
				for start := time.Now(); time.Since(start) < 2*time.Second; time.Sleep(time.Millisecond) {
					if x.ask(l, 1).Allowed {
						admitted.Add(1)
					}
				}
			})
		})
		x.expect(14_900, 15_000, int(admitted.Load()), "events of 15 000 in 2 s")
		x.expect(100, 700, calls, "calls in 2 s")
	})
}

// A Credit of this process ends the rest of a used up bucket at once, and a Reset of another one after
// 10 ms, also if the bucket was in debt for longer.
func TestStore_Take_RestEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(x *fixture, own, other *core.Limiter) error
		after  time.Duration
	}{
		"credit": {func(x *fixture, own, _ *core.Limiter) error { return own.Credit(x.Context(), "k", 9000) }, 0},
		"reset by another process": {func(x *fixture, _, other *core.Limiter) error {
			_, err := other.Reset(x.Context(), "k")
			return err
		}, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(x *fixture) {
				rule := core.TokenBucket("b", core.PerSecond(5000))
				own, other := x.limiter(x.lease(), rule), x.limiter(x.memory, rule)
				testkit.Must(x, other.Debit(x.Context(), "k", 9000))
				for range 2 {
					if d := x.ask(own, 1); d.Allowed || d.RetryAfter < 700*time.Millisecond {
						x.Fatalf("expected a denial until the debt is paid, got %+v", d)
					}
				}
				testkit.Must(x, tt.change(x, own, other))
				x.expect(0, 0, x.calls(func() { time.Sleep(tt.after) }), "calls")
				x.admit(own, 1)
			})
		})
	}
}

// A used up bucket rests for 10 ms, however many tokens refill in that time.
func TestStore_Take_Rest(t *testing.T) {
	bubbleEach(t, []core.Rule{
		core.TokenBucket("2", core.PerSecond(200)), core.TokenBucket("50", core.PerSecond(5000)), core.TokenBucket("200", core.PerSecond(20_000)),
	}, func(x *fixture, rule core.Rule) {
		x.behind.Set(storetest.Delay(time.Microsecond, time.Microsecond))
		l := x.limiter(x.lease(), rule)
		x.drain(l)
		if d := x.ask(l, 1); d.Allowed || d.RetryAfter < 9*time.Millisecond || d.RetryAfter > 10*time.Millisecond {
			x.Fatalf("expected a denial with a RetryAfter of 9 to 10 ms, got %+v", d)
		}
	})
}

// A denied cost is admitted after its RetryAfter, and a cost above the capacity never.
func TestStore_Take_RetryAfter(t *testing.T) {
	bubbleEach(t, []core.Rule{
		core.TokenBucket("bucket", core.PerSecond(200)), core.TokenBucket("third", core.Per(3000, 7*time.Second)),
		core.TokenBucket("fast", core.PerSecond(20_000)), core.FixedWindow("window", core.PerSecond(200)),
	}, func(x *fixture, rule core.Rule) {
		x.behind.Set(storetest.Delay(time.Microsecond, time.Microsecond))
		l := x.limiter(x.lease(), rule)
		x.drain(l)
		for i := range 200 {
			cost := 1 + i%7
			d := x.ask(l, cost)
			for waits := 0; !d.Allowed; waits++ {
				if waits > 1 || d.RetryAfter <= 0 || d.RetryAfter > time.Second {
					x.Fatalf("expected cost %d to be admitted after a RetryAfter of 1 s or less, got a denial after %d: %+v", cost, waits, d.State(0))
				}
				time.Sleep(d.RetryAfter)
				d = x.ask(l, cost)
			}
		}
		if d := x.ask(l, rule.Capacity()+1); d.Allowed || d.RetryAfter != core.Never {
			x.Errorf("expected a denial for ever of a cost above the capacity, got %+v", d)
		}
	})
}

// A RetryAfter does not count on the tokens that are held, which may be spent or expire.
func TestStore_Take_RetryAfterWithoutHeldTokens(t *testing.T) {
	t.Parallel()
	for _, used := range []int{0, 500} {
		bubble(t, func(x *fixture) {
			x.behind.Set()
			rule, s := core.TokenBucket("r", core.PerSecond(1000)), x.lease()
			other := x.limiter(x.memory, rule)
			testkit.Must(t, other.Debit(x.Context(), "k", used+1))
			cost := x.hold(s, rule) + 200
			x.drain(other)
			d := x.ask(x.limiter(s, rule), cost)
			if d.Allowed {
				x.Fatal("expected a denial, got an admission")
			}
			time.Sleep(d.RetryAfter)
			if d := x.ask(x.limiter(s, rule), cost); !d.Allowed {
				x.Errorf("used %d: expected an admission after RetryAfter, got %+v", used, d)
			}
		})
	}
}

// A cost above the capacity takes no tokens and does not count as use, with held or free tokens.
func TestStore_Take_CostAboveCapacity(t *testing.T) {
	bubbleEach(t, daily, func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		x.ask(l, 100)
		held := x.hold(s, rule)
		testkit.Must(x, l.Credit(x.Context(), "k", 1600))
		if d := x.ask(l, 1600+held/2); d.Allowed || x.left(rule) < 1000 {
			x.Errorf("expected a denial that takes nothing, got %v, %d left", d, x.left(rule))
		}
	})
	t.Run("beside another rule", func(t *testing.T) {
		bubble(t, func(x *fixture) {
			s := x.lease()
			million, ten := core.FixedWindow("a", core.PerDay(1_600_000)), core.FixedWindow("b", core.PerDay(10))
			x.take(s, math.MaxInt, million, ten)
			x.take(s, 1, million)
			if held := s.Stats().Held; held > 10 {
				x.Errorf("expected no bundle, got one of %d", held)
			}
		})
	})
}

// A Peek takes nothing, and counts the tokens that are held.
func TestStore_Take_Peek(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		x.admit(l, 1000)
		synctest.Wait()
		held := s.Stats().Held
		for range 3 {
			x.expect(49_000, 49_002, testkit.Left(x, l, "k"), "events left")
		}
		if got := s.Stats().Held; got != held {
			x.Errorf("expected %d tokens as before, got %d", held, got)
		}
	})
}

// Verdicts of events that are admitted in this process are those of the Store behind, if no
// other process uses the key.
func TestStore_Take_Verdicts(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		x.behind.Set()
		l, direct := x.limiter(x.lease(), rule), x.limiter(x.memory, rule)
		for range 2000 {
			got, want := x.ask(l, 1).State(0), testkit.Allow(x, direct, "direct").State(0)
			if got != want {
				x.Fatalf("expected %+v, got %+v", want, got)
			}
		}
	})
}

// Two limiters that made their rules alike share the tokens, and each decision is about the
// limiter's own rule.
func TestStore_Take_VerdictOfAnEqualRule(t *testing.T) {
	for i := range 2 {
		bubble(t, func(x *fixture) {
			newRule := func() core.Rule { return bucketAndWindow(core.PerDay(1000))[i] }
			s, own := x.lease(), newRule()
			other, l := x.limiter(s, newRule()), x.limiter(s, own)
			admitted := 0
			for denied := 0; denied < 10; {
				x.ask(other, 1)
				d := x.ask(l, 1)
				if got := d.State(0).Rule; got != own {
					x.Fatalf("%v, allowed %v: expected the rule of the limiter, got another one", own, d.Allowed)
				}
				if d.Allowed {
					admitted++
				} else {
					denied++
				}
			}
			x.expect(450, 550, admitted, "events")
			x.expect(0, 400, x.behind.Calls(), "calls")
		})
	}
}

// A token of a bucket is spent long after its lease, without a call and while the Store behind
// fails, until it expires; a token of a window until the window ends.
func TestStore_Take_TokensExpire(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		last, later := 29*time.Minute, 35*time.Minute // when all of a bundle can be spent, and none
		if rule.Algorithm() == driver.FixedWindow {
			last, later = 59*time.Minute, time.Hour
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		begun := time.Now()
		s, unused := x.lease(), x.lease()
		testkit.Must(x, x.limiter(x.memory, rule).Debit(x.Context(), "k", 25_000))
		x.admit(x.limiter(s, rule), 1000)
		x.admit(x.limiter(unused, rule), 1000)
		held := int(s.Stats().Held)
		time.Sleep(time.Until(begun.Add(last)))
		x.behind.Set(storetest.Fail(errors.New("the store is away")))
		x.expect(0, 1, x.calls(func() { x.admit(x.limiter(s, rule), held) }), "calls (that of the next bundle)")
		time.Sleep(time.Until(begun.Add(later)))
		if got := unused.Stats().Held; got != 0 {
			x.Errorf("expected no token after %v, got %d", later, got)
		}
	})
}

// The clock of the Store behind counts whole microseconds, so its window may end almost one
// earlier than it says.
func TestStore_Take_EdgeOfAWindow(t *testing.T) {
	bubble(t, func(x *fixture) {
		x.behind.Set()
		rule, s := core.FixedWindow("w", core.PerSecond(1600)), x.lease()
		time.Sleep(700*time.Millisecond + 900*time.Nanosecond)
		x.hold(s, rule)
		// Half a microsecond into the next window, by a finer clock than that of the Store.
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)) + 500*time.Nanosecond)
		if n := x.drain(x.limiter(x.memory, rule)) + x.drain(x.limiter(s, rule)); n > 1600 {
			x.Errorf("expected 1600 events in one window, got %d", n)
		}
	})
}

// All tokens that are held are of one side of a failover Store, so that an Undo of several goes
// to the side that gave them.
func TestStore_Take_TokensOfOneOrigin(t *testing.T) {
	bubble(t, func(x *fixture) {
		var side atomic.Int64
		behind := new(storetest.Fake)
		behind.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			err := next(ctx, charges)
			for i := range charges {
				charges[i].Receipt.Origin = int(side.Load())
			}
			return err
		})
		s := lease.New(behind)
		defer s.Close()
		rule := core.FixedWindow("w", core.PerDay(16_000))
		for i := range 2000 {
			side.Store(int64(1 + i%200/100))
			if !x.take(s, 1+i%7, rule) {
				x.Fatalf("expected event %d to be admitted", i)
			}
			synctest.Wait()
			if origins := s.Origins(); len(origins) > 1 {
				x.Fatalf("event %d: expected tokens of one origin, got those of %v", i, origins)
			}
		}
	})
}

// Tokens that a round trip lets expire were admitted all the same if a caller waited for them.
func TestStore_Take_BucketThatRefillsWithinARoundTrip(t *testing.T) {
	bubble(t, func(x *fixture) {
		l := x.limiter(x.lease(), core.TokenBucket("b", core.PerSecond(1_000_000)))
		testkit.Concurrently(200, func(i int) {
			for range 20 {
				begun := time.Now()
				testkit.Admit(x, l, "k", 1+i)
				if took := time.Since(begun); took > 8*trip {
					x.Errorf("expected a decision within %v, got %v", 8*trip, took)
				}
				time.Sleep(time.Duration(i) * time.Millisecond)
			}
		})
	})
}

// A Peek that the Store behind denies is not allowed because of tokens that are held if a Spend
// depends on it: the Store behind took nothing.
func TestStore_Take_PeekBesideSpend(t *testing.T) {
	bubble(t, func(x *fixture) {
		x.behind.Set()
		s, a, b := x.lease(), core.FixedWindow("a", core.PerDay(1600)), core.FixedWindow("b", core.PerDay(10))
		x.hold(s, a)
		x.drain(x.limiter(x.memory, a)) // by another process
		for range 20 {
			charges := []driver.Charge{{Key: "k", Rule: testkit.Compiled(a), Op: driver.Peek, Cost: 1}, {Key: "k", Rule: testkit.Compiled(b), Cost: 1}}
			testkit.Must(x, s.Take(x.Context(), charges))
			if charges[0].Verdict.Allowed && charges[1].Verdict.Allowed {
				x.Fatal("expected a denial, got an admission")
			}
		}
	})
}

// A verdict that the Store behind marks Unknown stays Unknown, also if tokens of the rule are held.
func TestStore_Take_UnknownVerdict(t *testing.T) {
	bubble(t, func(x *fixture) {
		s := x.lease()
		hot, user := core.FixedWindow("hot", core.PerHour(50_000)), core.SlidingLog("user", core.PerHour(5))
		x.hold(s, hot)
		x.behind.Set(func(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
			charges[0].Verdict = driver.Verdict{Rule: charges[0].Rule, Allowed: true, Unknown: true}
			charges[1].Verdict = driver.Verdict{Rule: charges[1].Rule, RetryAfter: time.Hour}
			return nil
		})
		if d := testkit.Peek(x, x.limiter(s, hot, user), "k"); d.Allowed || !d.State(0).Unknown {
			t.Errorf("expected a denial with hot unknown, got %v", d)
		}
	})
}

// If the Store behind fails in the middle of a decision, the tokens are returned.
func TestStore_Take_FailsAfterTokensWereTaken(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, hot core.Rule) {
		s, down := x.lease(), errors.New("down")
		x.admit(x.limiter(s, hot), 500)
		held := s.Stats().Held
		both := x.limiter(s, hot, core.SlidingLog("log", core.PerHour(10)))
		x.behind.Set(storetest.Fail(down))
		for range 10 {
			if _, err := both.Allow(x.Context(), "k"); !errors.Is(err, down) {
				x.Fatalf("expected the error %q, got %v", down, err)
			}
		}
		if got := s.Stats().Held; got != held {
			x.Errorf("expected %d tokens as before, got %d", held, got)
		}
	})
}

// A decision that is denied after Close, or after a Reset, returns no tokens.
func TestStore_Take_DeniedAfterCloseOrReset(t *testing.T) {
	for name, end := range map[string]func(x *fixture, s *lease.Store, l *core.Limiter){
		"close": func(x *fixture, s *lease.Store, _ *core.Limiter) { testkit.Must(x, s.Close()) },
		"reset": func(x *fixture, _ *lease.Store, l *core.Limiter) {
			_, err := l.Reset(x.Context(), "k")
			testkit.Must(x, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(x *fixture) {
				x.behind.Set()
				s, a, b := x.lease(), core.FixedWindow("a", core.PerDay(1600)), core.FixedWindow("b", core.PerDay(10))
				x.hold(s, a)
				testkit.Must(x, x.limiter(x.memory, b).Debit(x.Context(), "k", 10))
				blocked := make(chan struct{})
				x.behind.Set(storetest.Block(blocked))
				done := make(chan bool)
				go func() { done <- x.take(s, 1, a, b) }()
				synctest.Wait()
				x.behind.Set()
				end(x, s, x.limiter(s, a))
				close(blocked)
				if <-done {
					x.Error("expected a denial, got an admission")
				}
				if held := s.Stats().Held; held != 0 {
					x.Errorf("expected no token, got %d", held)
				}
			})
		})
	}
}

// Decisions of two rules take all or none, by many callers at once, of rules that are leased
// and rules that are not.
func TestStore_Take_AllOrNone(t *testing.T) {
	bubble(t, func(x *fixture) {
		var stores []*lease.Store
		var single atomic.Int64
		hot, log := core.TokenBucket("hot", core.PerDay(5000)), core.SlidingLog("log", core.PerDay(1500))
		for range 3 {
			stores = append(stores, x.lease())
		}
		testkit.Concurrently(24, func(i int) {
			both, one := x.limiter(stores[i%3], hot, log), x.limiter(stores[i%3], hot)
			for range 200 {
				if i < 12 {
					x.ask(both, 1)
				} else if x.ask(one, 1).Allowed {
					single.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
		held := 0
		for _, s := range stores {
			held += int(s.Stats().Held)
		}
		if n := x.left(log); n != 0 {
			x.Errorf("expected nothing left of the log, got %d", n)
		}
		want := 5000 - 1500 - int(single.Load())
		x.expect(want-10, want+10, x.left(hot)+held, "tokens left")
	})
}

// The Store behind decides at most a cost, without the held tokens, which stay: no unit is charged
// twice, and all are spent in the end.
func TestStore_Take_AtMost(t *testing.T) {
	bubbleEach(t, bucketAndWindow(core.PerDay(3000)), func(x *fixture, rule core.Rule) {
		s := x.lease()
		held, left := x.hold(s, rule), x.left(rule)
		l := x.limiter(s, rule)
		reserve := func(n, want int) *core.Reservation {
			x.Helper()
			r, err := l.ReserveAtMost(x.Context(), "k", n)
			testkit.Must(x, err)
			if r.Cost() != want {
				x.Errorf("at most %d: got the cost %d, want %d", n, r.Cost(), want)
			}
			return r
		}
		reserve(100, 100)
		x.expect(left-100, left-100, x.left(rule), "units left in the Store behind")
		x.expect(held, held, int(s.Stats().Held), "held tokens")
		// The reply is known: Remaining is that of the Store and of the held tokens, less one.
		x.expect(left-100+held-1, left-100+held-1, x.ask(l, 1).State(0).Remaining, "units left")
		bundle := reserve(5000, left-100)
		reserve(1, 0)
		testkit.Must(x, bundle.Settle(x.Context(), bundle.Cost()-40))
		x.expect(40+held-1, 40+held-1, x.drain(l), "events after the refund")
		reserve(1, 0)
	})
}

// With the race detector sync.Pool drops values at random.
func TestStore_Take_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	ctx := t.Context()
	s := lease.New(memstore.New())
	defer s.Close()
	for _, rule := range []core.Rule{
		core.TokenBucket("b", core.PerSecond(100_000_000)), core.FixedWindow("w", core.Per(1<<30, 24*time.Hour)),
	} {
		l := core.Must(core.New(s, rule))
		for range 20_000 { // the bundles grow
			_, _ = l.Allow(ctx, "k")
		}
		if n := testing.AllocsPerRun(2000, func() { _, _ = l.Allow(ctx, "k") }); n > 0 {
			t.Errorf("%v: expected decisions without an allocation, got %v", &rule, n)
		}
	}
}
