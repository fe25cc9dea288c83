package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/lease"
)

// All who want a new key at the same time have one call between them.
func TestWaitersShareACall(t *testing.T) {
	for _, rule := range hourly {
		bubble(t, func(r *rig) {
			l := r.limiter(r.lease(), rule)
			var wg sync.WaitGroup
			calls := r.called(func() {
				for i := range 64 {
					wg.Go(func() {
						if d := r.ask(l, 1+i%3); !d.Allowed {
							t.Errorf("denied: %+v", d.State(0))
						}
					})
				}
				wg.Wait()
			})
			if calls > 2 { // the first, and one for those who came while it was away
				t.Errorf("%d calls for 64 at once", calls)
			}
		})
	}
}

// Of many who want more than there is, as many are admitted as fit, however they
// share calls.
func TestWaitersShareWhatThereIs(t *testing.T) {
	for _, rule := range []core.Rule{core.TokenBucket("b", core.PerDay(200)), core.FixedWindow("w", core.PerDay(200))} {
		bubble(t, func(r *rig) {
			l := r.limiter(r.lease(), rule)
			var wg sync.WaitGroup
			var mu sync.Mutex
			admitted := 0
			for range 300 {
				wg.Go(func() {
					if r.ask(l, 1).Allowed {
						mu.Lock()
						admitted++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if admitted != 200 {
				t.Errorf("%v: %d of 200 were admitted", &rule, admitted)
			}
		})
	}
}

// A key that the Store has denied is not asked about again before it could succeed,
// and at least once in MaxAge.
func TestDeniedIsNotAsked(t *testing.T) {
	bubble(t, func(r *rig) {
		rule := core.TokenBucket("b", core.PerDay(200)) // a token in 432 s
		l := r.limiter(r.lease(), rule)
		r.drain(l)
		calls := r.called(func() {
			for range 1000 {
				if r.ask(l, 1).Allowed {
					t.Fatal("admitted")
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		if calls < 9 || calls > 11 {
			t.Errorf("%d calls in 10 s", calls)
		}
		// Another process resets it.
		if _, err := r.limiter(r.behind, rule).Reset(r.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease.DefaultMaxAge)
		r.admit(l, 1)
	})
}

// Waiting for RetryAfter admits, and only the calls are made that can succeed.
func TestRetryAfter(t *testing.T) {
	for _, rule := range []core.Rule{
		core.TokenBucket("b", core.PerSecond(200)), core.TokenBucket("third", core.Per(3000, 7*time.Second)),
		core.TokenBucket("fast", core.PerSecond(20_000)), core.FixedWindow("w", core.PerSecond(200)),
	} {
		bubble(t, func(r *rig) {
			r.trip = time.Microsecond
			l := r.limiter(r.lease(), rule)
			r.drain(l)
			for i := range 200 {
				cost := 1 + i%7
				d := r.ask(l, cost)
				for tries := 0; !d.Allowed; tries++ {
					if tries > 1 {
						t.Fatalf("%v: %d are denied after waiting as told: %+v", &rule, cost, d.State(0))
					}
					if d.RetryAfter <= 0 || d.RetryAfter > time.Second {
						t.Fatalf("%v: RetryAfter is %v", &rule, d.RetryAfter)
					}
					time.Sleep(d.RetryAfter)
					d = r.ask(l, cost)
				}
			}
			if d := r.ask(l, rule.Capacity()+1); d.Allowed || d.RetryAfter != core.Never {
				t.Errorf("%v: more than it holds: %+v", &rule, d)
			}
		})
	}
}

// A caller that leaves does not wait. What its call brings is held for others.
func TestLeaving(t *testing.T) {
	bubble(t, func(r *rig) {
		r.trip = 100 * time.Millisecond
		s := r.lease()
		l := r.limiter(s, hourly[0])
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Millisecond)
		defer cancel()
		begun := time.Now()
		if _, err := l.AllowN(ctx, "k", 500); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took != 10*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		time.Sleep(5 * time.Second)
		if n := s.Stats().Held; n < 400 || n > 500 { // some have expired: the bucket was full
			t.Errorf("expected the 500 tokens of the call, got %d", n)
		}
		if calls := r.called(func() { r.admit(l, 100) }); calls > 0 {
			t.Errorf("expected no call, got %d", calls)
		}
	})
}

// An error of the Store reaches everybody who waited, and nobody after that. What is
// held is spent without the Store.
func TestStoreFails(t *testing.T) {
	down := errors.New("down")
	for _, rule := range hourly {
		bubble(t, func(r *rig) {
			s := r.lease()
			l := r.limiter(s, rule)
			r.breakDown(down)
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if _, err := l.Allow(r.Context(), "k"); !errors.Is(err, down) {
						t.Errorf("got %v", err)
					}
				})
			}
			wg.Wait()
			r.breakDown(nil)
			r.admit(l, 500)
			r.breakDown(down)
			held := int(s.Stats().Held)
			if held < 50 {
				t.Fatalf("%d are held", held)
			}
			r.admit(l, held)
			if _, err := l.Allow(r.Context(), "k"); !errors.Is(err, down) {
				t.Errorf("got %v", err)
			}
			r.breakDown(nil)
			r.admit(l, 10)
		})
	}
}

// A Store that does not heed its deadline is not waited for any longer than callers
// want to wait; one that does ends within Timeout.
func TestTimeout(t *testing.T) {
	bubble(t, func(r *rig) {
		r.trip = time.Hour
		l := r.limiter(r.lease(lease.Timeout(50*time.Millisecond)), hourly[0])
		begun := time.Now()
		if _, err := l.Allow(r.Context(), "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took != 50*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// A Peek takes nothing, and counts what is held here.
func TestPeek(t *testing.T) {
	for _, rule := range hourly {
		bubble(t, func(r *rig) {
			s := r.lease()
			l := r.limiter(s, rule)
			r.admit(l, 1000)
			held := s.Stats().Held
			for range 3 {
				d, err := l.Peek(r.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				if n := d.State(0).Remaining; n < 49_000 || n > 49_002 {
					t.Errorf("%v: %d remain, want 49000; %d are held", &rule, n, held)
				}
			}
			if got := s.Stats().Held; got != held {
				t.Errorf("%d are held, and were %d", got, held)
			}
		})
	}
}

// What is told of an event that was admitted here is what the Store would tell, if
// nobody else uses the key.
func TestStates(t *testing.T) {
	for _, rule := range hourly {
		bubble(t, func(r *rig) {
			r.trip = 0
			l := r.limiter(r.lease(), rule)
			alone := r.limiter(r.behind, rule)
			for range 2000 {
				got, want := r.ask(l, 1).State(0), core.State{}
				d, err := alone.Allow(r.Context(), "alone")
				if err != nil {
					t.Fatal(err)
				}
				want = d.State(0)
				got.Rule, want.Rule = core.Rule{}, core.Rule{}
				if got != want {
					t.Fatalf("got %+v, want %+v", got, want)
				}
			}
		})
	}
}

// In front of a denycache, what is not leased is denied without a call, too.
func TestOverDenycache(t *testing.T) {
	bubble(t, func(r *rig) {
		s := lease.New(denycache.New(r))
		defer s.Close()
		hot, user := core.FixedWindow("hot", core.PerHour(50_000)), core.SlidingLog("user", core.PerHour(5))
		both := r.limiter(s, user, hot)
		r.admit(r.limiter(s, hot), 100)
		r.admit(both, 5)
		held := s.Stats().Held
		calls := r.called(func() {
			for range 1000 {
				if d := r.ask(both, 1); d.Allowed || d.State(0).Allowed || !d.State(1).Allowed {
					t.Fatalf("%+v %+v", d.State(0), d.State(1))
				}
			}
		})
		if calls > 1 {
			t.Errorf("%d calls for 1000 denials", calls)
		}
		if got := s.Stats().Held; got != held {
			t.Errorf("%d are held, and were %d", got, held)
		}
	})
}

// A rule that the Store behind was not asked about stays unknown, whatever is leased of it.
func TestStore_Take_unknownVerdict(t *testing.T) {
	bubble(t, func(r *rig) {
		s := lease.New(denycache.New(r))
		defer s.Close()
		full, user := core.FixedWindow("full", core.PerHour(1000)), core.SlidingLog("user", core.PerHour(5))
		hot := core.FixedWindow("hot", core.PerHour(50_000))
		r.admit(r.limiter(s, hot), 100)
		r.drain(r.limiter(s, full))
		r.admit(r.limiter(s, user), 5)
		if d := r.ask(r.limiter(s, full, hot, user), 1); d.Allowed || !d.State(1).Unknown {
			t.Errorf("got %v, want a denial with hot unknown", d)
		}
	})
}

// Two limiters that made their rules alike share the tokens, and each decision is about the
// limiter's own rule.
func TestStore_Take_VerdictOfAnEqualRule(t *testing.T) {
	for _, newRule := range []func() core.Rule{
		func() core.Rule { return core.TokenBucket("b", core.PerDay(1000)) },
		func() core.Rule { return core.FixedWindow("w", core.PerDay(1000)) },
	} {
		bubble(t, func(r *rig) {
			s, first, second := r.lease(), newRule(), newRule()
			one, other := r.limiter(s, first), r.limiter(s, second)
			var admitted, denied int
			for denied < 10 {
				r.ask(one, 1)
				d := r.ask(other, 1)
				if got := d.State(0).Rule; got != second {
					t.Fatalf("%v, allowed %v: expected the rule of the limiter, got another one", got, d.Allowed)
				}
				if d.Allowed {
					admitted++
				} else {
					denied++
				}
			}
			if calls := r.count(); admitted < 450 || calls > 400 {
				t.Errorf("%v: expected 450 events and 400 calls at most, got %d and %d", second, admitted, calls)
			}
		})
	}
}
