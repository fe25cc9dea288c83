package lease_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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
		if err := r.limiter(r.behind, rule).Reset(r.Context(), "k"); err != nil {
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

// Whoever leaves does not wait, and takes nothing.
func TestLeaving(t *testing.T) {
	bubble(t, func(r *rig) {
		r.trip = 100 * time.Millisecond
		rule := hourly[0]
		l := r.limiter(r.lease(), rule)
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
		if n := r.remaining(rule); n != 50_000 {
			t.Errorf("%d remain", n)
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
				got.Rule, want.Rule = nil, nil
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

// Somebody who wants more than there is, or than there can be, neither holds up the
// others nor makes this process take what it does not need.
func TestGreed(t *testing.T) {
	for _, rule := range []core.Rule{core.TokenBucket("b", core.PerDay(1000)), core.FixedWindow("w", core.PerDay(1000))} {
		bubble(t, func(r *rig) {
			s := r.lease()
			l := r.limiter(s, rule)
			if !r.ask(r.limiter(r.behind, rule), 700).Allowed {
				t.Fatal("the 700 were denied")
			}
			r.ask(l, 1)
			var wg sync.WaitGroup
			for i, n := range []int{1, 400, 1, math.MaxInt, math.MaxInt, 1, 299, 1} {
				wg.Go(func() {
					begun := time.Now()
					d := r.ask(l, n)
					if want := n == 1; d.Allowed != want && n != 299 {
						t.Errorf("%v: %d: allowed %v", &rule, n, d.Allowed)
					}
					if never := d.RetryAfter == core.Never; never != (n > 1000) {
						t.Errorf("%v: %d: RetryAfter is %v", &rule, n, d.RetryAfter)
					}
					if took := time.Since(begun); took > 10*trip {
						t.Errorf("%v: asker %d, of %d, waited for %v", &rule, i, n, took)
					}
				})
				synctest.Wait() // they come one after the other
			}
			wg.Wait()
			if held := s.Stats().Held; held > 300/16 {
				t.Errorf("%v: %d are held", &rule, held)
			}
		})
	}
}

// Tokens of a bucket that refills within a round trip have melted when they arrive.
func TestFastBucket(t *testing.T) {
	bubble(t, func(r *rig) {
		rule := core.TokenBucket("b", core.PerSecond(1_000_000))
		l := r.limiter(r.lease(), rule)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				for range 20 {
					begun := time.Now()
					if d := r.ask(l, 1+i); !d.Allowed {
						t.Errorf("%d of a million were denied: %+v", 1+i, d.State(0))
					}
					if took := time.Since(begun); took > 8*trip {
						t.Errorf("it took %v", took)
					}
					time.Sleep(time.Duration(i) * time.Millisecond)
				}
			})
		}
		wg.Wait()
	})
}

// A panic of the Store is an error for those who wait, and not the end of the process.
func TestStorePanics(t *testing.T) {
	s := lease.New(new(panicking))
	defer s.Close()
	l := core.Must(core.New(s, hourly[0]))
	if _, err := l.Allow(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "oh no") {
		t.Errorf("got %v", err)
	}
}

type panicking struct{ _ int }

func (*panicking) Take(context.Context, []core.Charge) error { panic("oh no") }
