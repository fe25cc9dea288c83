package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/internal/testkit"
)

// A switched is a store whose rules can be turned off. It counts its calls.
type switched struct {
	driver.Store
	off   atomic.Pointer[[]string]
	calls atomic.Int64
	taken func() // is called after a decision, unless it is nil
}

func (s *switched) turn(off ...string) { s.off.Store(&off) }

func (s *switched) Describe() driver.Description {
	d := driver.Describe(s.Store)
	d.Off = func(rule string) bool {
		off := s.off.Load()
		return off != nil && slices.Contains(*off, rule)
	}
	return d
}

func (s *switched) Take(ctx context.Context, charges []driver.Charge) error {
	s.calls.Add(1)
	err := s.Store.Take(ctx, charges)
	if s.taken != nil {
		s.taken()
	}
	return err
}

// While the limit of a rule is off, events are admitted without a call, and nothing is stored.
func TestLimiter_Off(t *testing.T) {
	rules := map[string]core.Rule{
		"quota":               core.Quota("api", core.Limit{Events: 2, Calendar: driver.Month}),
		"in_flight":           core.InFlight("api", 2),
		"in_flight, by cost":  core.InFlight("api", 2).ByCost(),
		"elastic":             core.SlidingLog("api", core.PerDay(2)).Elastic(func() float64 { return 0 }, 2),
		"with a soft part":    core.SlidingWindow("api", core.PerDay(2)).Soft(0),
		"with a plan":         core.SlidingWindow("api", core.PerDay(2)).Plan("pro", core.PerDay(3)),
		"one of several":      core.SlidingWindow("api", core.PerDay(2)),
		"beside an unlimited": core.SlidingWindow("api", core.PerDay(2)),
	}
	for _, a := range testkit.Algorithms {
		rules[a.Name] = a.Rule("api", core.PerDay(2))
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, s := t.Context(), &switched{Store: memstore.New()}
				all := []core.Rule{rule}
				switch name {
				case "one of several":
					all = append(all, core.SlidingLog("other", core.PerDay(2)))
				case "beside an unlimited":
					all = append(all, core.SlidingLog("other", core.Unlimited))
				}
				l := testkit.Limiter(t, s, all...)
				before := testkit.Reserve(t, l, "k", 2)
				more := testkit.Reserve(t, l, "k", 1) // the second place, or a denial
				if d := testkit.Peek(t, l, "k"); d.Allowed {
					t.Fatalf("before: got %v", d)
				}
				s.turn("api", "other")
				calls := s.calls.Load()
				for name, f := range map[string]func(l *core.Limiter) (core.Decision, error){
					"Allow":  func(l *core.Limiter) (core.Decision, error) { return l.Allow(ctx, "k") },
					"AllowN": func(l *core.Limiter) (core.Decision, error) { return l.AllowN(ctx, "k", 1000) },
					"Peek":   func(l *core.Limiter) (core.Decision, error) { return l.Peek(ctx, "k") },
					"Debit":  func(l *core.Limiter) (core.Decision, error) { return testkit.Peek(t, l, "k"), l.Debit(ctx, "k", 7) },
					"AllowTogether": func(l *core.Limiter) (core.Decision, error) {
						return core.AllowTogether(ctx, core.Ask{Limiter: l, Key: "k"}, core.Ask{Limiter: l, Key: "k", Cost: 3}, core.Ask{Limiter: l, Key: "o"})
					},
					"Reserve": func(l *core.Limiter) (core.Decision, error) {
						r := testkit.Reserve(t, l, "k", 5)
						return r.Decision(), errors.Join(r.Settle(ctx, 9), r.Refund(ctx))
					},
					"ReserveAtMost": func(l *core.Limiter) (core.Decision, error) {
						r, err := l.ReserveAtMost(ctx, "k", 50)
						if err == nil && r.Cost() != 50 {
							err = fmt.Errorf("got %d of 50", r.Cost())
						}
						return r.Decision(), err
					},
					"WaitN": func(l *core.Limiter) (core.Decision, error) { return testkit.Peek(t, l, "k"), l.WaitN(ctx, "k", 1000) },
					"AcquireN": func(l *core.Limiter) (core.Decision, error) {
						r, err := l.AcquireN(ctx, "k", 1000)
						return r.Decision(), err
					},
				} {
					if _, waits := map[string]bool{"WaitN": true, "Debit": true}[name]; waits && rule.Kind().Holds {
						continue // it needs a holder
					}
					for _, l := range []*core.Limiter{l, l.Plan("pro")} {
						d, err := f(l)
						if err != nil || !d.Allowed || d.Delay != 0 {
							t.Errorf("%s: got %v, %v", name, d, err)
						}
						for i, s := range d.States() {
							if s.Rule.Limit() != core.Unlimited || s.Rule.Name() != all[i%len(all)].Name() {
								t.Errorf("%s: got the state of %v", name, s.Rule)
							}
						}
					}
				}
				if n := s.calls.Load() - calls; n > 0 {
					t.Errorf("got %d calls", n)
				}
				if found, err := l.Reset(ctx, "other"); found || err != nil {
					t.Errorf("Reset of an unused key: got %t, %v", found, err)
				}
				s.turn()
				if d := testkit.Peek(t, l, "k"); d.Allowed {
					t.Errorf("on again: got %v", d)
				}
				s.turn("api", "other")
				for _, r := range []*core.Reservation{before, more} { // of before: they end as ever
					testkit.Must(t, r.Refund(ctx))
				}
				s.turn()
				if d := testkit.Peek(t, l, "k"); !d.Allowed {
					t.Errorf("after the end of the reservation: got %v", d)
				}
				before = testkit.Reserve(t, l, "k", 2)
				s.turn("api", "other")
				if found, err := l.Reset(ctx, "k"); !found || err != nil {
					t.Errorf("Reset: got %t, %v", found, err)
				}
				s.turn()
				if d := testkit.Peek(t, l, "k"); !d.Allowed {
					t.Errorf("after a Reset: got %v", d)
				}
				testkit.Must(t, before.Release(ctx))
			})
		})
	}
}

// Blocks and pauses stay in force, and so do other rules.
func TestLimiter_Off_blocked(t *testing.T) {
	s := &switched{Store: memstore.New()}
	s.turn("blocked", "stop", "plans")
	for name, l := range map[string]*core.Limiter{
		"a block":        testkit.Limiter(t, s, core.SlidingLog("blocked", core.Blocked)),
		"a blocked plan": testkit.Limiter(t, s, core.SlidingLog("plans", core.PerDay(1)).Plan("bad", core.Blocked)).Plan("bad"),
		"a pause":        testkit.Limiter(t, s, core.Pause("stop"), core.SlidingLog("other", core.PerDay(9))),
		"another rule":   testkit.Limiter(t, s, core.SlidingLog("day", core.PerDay(1))),
	} {
		switch name {
		case "a pause":
			testkit.Must(t, l.Pause(t.Context(), "k", time.Hour))
		case "another rule":
			testkit.Admit(t, l, "k", 1)
		}
		if d := testkit.Allow(t, l, "k"); d.Allowed {
			t.Errorf("%s: got %v", name, d)
		}
	}
}

// Callers that wait are admitted within a second after the limit is off.
func TestLimiter_Off_waiting(t *testing.T) {
	for name, rule := range map[string]core.Rule{
		"a log": core.SlidingLog("api", core.PerDay(1)), "a queue": core.LeakyBucket("api", core.PerDay(1).WithBurst(2)), "places": core.InFlight("api", 1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &switched{Store: memstore.New()}
				l := testkit.Limiter(t, s, rule)
				held := testkit.Reserve(t, l, "k", 1)
				done := make(chan error, 3)
				for range 3 {
					go func() {
						r, err := l.Acquire(t.Context(), "k")
						if err == nil {
							err = r.Refund(t.Context())
						}
						done <- err
					}()
				}
				time.Sleep(time.Minute)
				select {
				case err := <-done:
					t.Fatalf("a caller did not wait: %v", err)
				default:
				}
				s.turn("api")
				begin := time.Now()
				for range 3 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(begin); took > 3*time.Second {
					t.Errorf("got the last one after %v", took)
				}
				testkit.Must(t, held.Release(t.Context()))
			})
		})
	}
}

// A caller does not begin to wait for a limit that is turned off right after the decision.
func TestLimiter_Off_afterTheDecision(t *testing.T) {
	for name, rule := range map[string]core.Rule{
		"a denial": core.SlidingLog("api", core.PerDay(1)), "a delay": core.LeakyBucket("api", core.PerDay(1).WithBurst(2)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &switched{Store: memstore.New()}
				l := testkit.Limiter(t, s, rule)
				testkit.Admit(t, l, "k", 1)
				s.taken = func() { s.turn("api") }
				begin := time.Now()
				if err := l.Wait(t.Context(), "k"); err != nil || time.Since(begin) > 2*time.Second {
					t.Errorf("got %v after %v", err, time.Since(begin))
				}
			})
		})
	}
}

// A caller that waits for one of several rules is admitted when the last one that denies is off, whatever was off before and
// whichever rules the limiter has had.
func TestLimiter_Off_waitingForSeveral(t *testing.T) {
	other := core.SlidingLog("b", core.PerDay(1))
	for name, c := range map[string]struct {
		rules  []core.Rule
		before []string
		then   func(l *core.Limiter) error
	}{
		"another is off":      {[]core.Rule{core.SlidingLog("a", core.PerDay(1)), other}, []string{"a"}, nil},
		"another was off":     {[]core.Rule{core.SlidingLog("a", core.PerDay(1)), other}, nil, nil},
		"a delay":             {[]core.Rule{core.SlidingLog("a", core.PerDay(9)), core.LeakyBucket("b", core.PerDay(1).WithBurst(5))}, []string{"a"}, nil},
		"the rule is new":     {[]core.Rule{core.SlidingLog("a", core.PerDay(1))}, nil, func(l *core.Limiter) error { return l.Replace(other) }},
		"the rule is off yet": {[]core.Rule{core.SlidingLog("a", core.PerDay(1)), other}, []string{"a", "c"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &switched{Store: memstore.New()}
				l := testkit.Limiter(t, s, c.rules...)
				testkit.Must(t, l.Wait(t.Context(), "k"))
				s.turn(c.before...)
				done := make(chan error, 1)
				go func() { done <- l.Wait(t.Context(), "k") }()
				time.Sleep(time.Minute)
				if c.then != nil {
					testkit.Must(t, c.then(l))
					testkit.Admit(t, l, "k", 1)
					time.Sleep(time.Minute)
				}
				begin := time.Now()
				s.turn("a", "b")
				if err := <-done; err != nil || time.Since(begin) > 2*time.Second {
					t.Errorf("got %v after %v", err, time.Since(begin))
				}
			})
		})
	}
}

// A store over others follows the switch of the one behind it.
func TestLimiter_Off_behind(t *testing.T) {
	behind := &switched{Store: memstore.New()}
	backup := failover.New(behind, memstore.New())
	defer backup.Close()
	for name, s := range map[string]core.Store{
		"observe": observe.New(behind), "denycache": denycache.New(behind), "failover": backup, "lease": lease.New(behind),
	} {
		if d := driver.Describe(s); d.Off == nil {
			t.Errorf("%s: it does not tell", name)
		}
	}
}
