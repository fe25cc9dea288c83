package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// In an outage no call fails, none waits longer than the deadline, few wait, and none is
// charged to the primary.
func TestStore_Take_Outage(t *testing.T) {
	for _, c := range []struct {
		name string
		hook storetest.Hook // nil ignores its context
	}{{"refuses", refuse}, {"hangs", hang}, {"ignores its context", nil}, {"loses answers", lose}, {"panics", crash}} {
		t.Run(c.name, func(t *testing.T) {
			eachPair(t, func(t *testing.T, p *pair) {
				hook := c.hook
				if hook == nil {
					if p.direct {
						return // such a store has no Deadline
					}
					until := make(chan struct{})
					defer close(until)
					hook = ignoring(until)
				}
				p.allow("k")
				p.set(hook)
				var waits []time.Duration
				for range 50 {
					if took := p.allow("k"); took > 0 {
						waits = append(waits, took)
					}
					time.Sleep(10 * time.Millisecond)
				}
				if len(waits) > 5 || len(waits) > 0 && slices.Max(waits) > deadline {
					t.Errorf("waits for the primary: got %v, expected at most 5 of at most %v", waits, deadline)
				}
				p.is(failover.Backup)
				spends, begun := p.primary.Charges(driver.Spend), time.Now()
				for range 1000 {
					p.allow("other")
				}
				if took := time.Since(begun); took != 0 {
					t.Errorf("1000 decisions without the primary: got %v, expected no wait", took)
				}
				time.Sleep(10 * time.Second)
				p.is(failover.Backup)
				if n := p.primary.Charges(driver.Spend) - spends; n != 0 {
					t.Errorf("charges of the primary while it is away: got %d, expected 0", n)
				}
				got := p.Stats()
				if got.Outages != 1 || got.Backup != 1050 || got.Failures < 1 || got.Failures > 10 || !errors.Is(got.Cause, core.ErrUnavailable) {
					t.Errorf("got %+v, expected one outage after 1 to 10 failures, and 1050 decisions of the backup", got)
				}
				if c.hook != nil && got.Hanging != 0 {
					t.Errorf("calls that hang: got %d, expected 0", got.Hanging)
				}
			})
		})
	}
}

// A failure causes probes, so few callers wait before the breaker opens.
func TestStore_Take_Failures(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(p *pair)
		want failover.State
	}{
		{"one call, and probes fail", func(p *pair) {
			p.set(hang)
			p.allow("k")
			time.Sleep(time.Second)
			if n := p.primary.Charges(driver.Spend); n != 1 {
				p.t.Errorf("decisions of the primary: got %d, expected 1", n)
			}
		}, failover.Backup},
		{"one call after a probe that succeeded", func(p *pair) {
			p.set(refuse)
			p.allow("k")
			p.set()
			time.Sleep(20 * time.Millisecond)
			p.set(refuse)
			p.allow("k")
			time.Sleep(time.Second)
		}, failover.Backup},
		{"one call in a second", func(p *pair) {
			for range 20 {
				p.set(refuse)
				p.allow("k")
				p.set()
				p.allow("k")
				time.Sleep(time.Second)
			}
			if got := p.Stats(); got.Outages != 0 || got.Probes < 20 || got.Probes > 100 {
				p.t.Errorf("got %+v, expected no outage and 20 to 100 probes", got)
			}
		}, failover.Primary},
		{"an error without a category", func(p *pair) {
			p.set(storetest.Fail(errGone))
			p.until(failover.Backup)
			if got := p.Stats().Cause; !errors.Is(got, errGone) {
				p.t.Errorf("the cause: got %v, expected %v", got, errGone)
			}
		}, failover.Backup},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachPair(t, func(t *testing.T, p *pair) {
				c.run(p)
				p.is(c.want)
			})
		})
	}
}

// An error about the call is no evidence against the primary: a client could cause it.
func TestStore_Take_ErrorAboutTheCall(t *testing.T) {
	for _, want := range []error{driver.ErrInvalidCharge, driver.ErrInvalidRule, &core.RuleError{Category: driver.ErrRuleConflict}} {
		t.Run(want.Error(), func(t *testing.T) {
			eachPair(t, func(t *testing.T, p *pair) {
				p.set(storetest.Fail(want))
				for range 20 {
					if _, err := p.wide.Allow(t.Context(), "k"); !errors.Is(err, want) {
						t.Fatalf("Allow: got %v, expected %v", err, want)
					}
					if err := p.wide.Debit(t.Context(), "k", 1); !errors.Is(err, want) {
						t.Fatalf("Debit: got %v, expected %v", err, want)
					}
				}
				time.Sleep(time.Second)
				if p.is(failover.Primary); p.Stats() != (failover.Stats{}) {
					t.Errorf("got %+v, expected no failure", p.Stats())
				}
			})
		})
	}
}

// The backup decides instead of a primary that is overloaded, which is no outage.
func TestStore_Take_Overloaded(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.set(storetest.Fail(fmt.Errorf("%w: %w", driver.ErrUnavailable, driver.ErrOverloaded)))
		for range 500 {
			p.allow("k")
		}
		time.Sleep(time.Second)
		p.is(failover.Primary)
		if got := p.Stats(); got.Outages != 0 || got.Probes != 0 || got.Backup != 500 || got.Failures != 500 {
			t.Errorf("got %+v, expected 500 decisions of the backup, and neither an outage nor a probe", got)
		}
	})
}

// A probe that a busy primary refuses is no failure.
func TestStore_Take_OverloadedProbe(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			if charges[0].Op == driver.Peek {
				return fmt.Errorf("%w: %w", driver.ErrUnavailable, driver.ErrOverloaded)
			}
			return hang(ctx, charges, next)
		})
		for range 10 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			_, _ = p.wide.Allow(ctx, "k") // which causes a probe
			cancel()
			time.Sleep(time.Second)
		}
		p.is(failover.Primary)
		if got := p.Stats(); got.Outages != 0 || got.Probes != 10 {
			t.Errorf("got %+v, expected 10 probes and no outage", got)
		}
	})
}

// If the answer of the primary is lost, both stores charge the event: the primary once for each
// lost answer, the backup once for each event that it admitted.
func TestStore_Take_LostAnswers(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.set(lose)
		for range 30 {
			testkit.Admit(t, p.year, "k", 1)
		}
		lost := int(p.Stats().Failures)
		if p.used("k", lost, 30); lost == 0 {
			t.Error("the primary lost no answer")
		}
	})
}

func TestStore_Take_BothFail(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.set(refuse)
		p.backup.Set(refuse)
		for range 100 {
			if d, err := p.wide.Allow(t.Context(), "k"); !errors.Is(err, core.ErrUnavailable) || d.Allowed {
				t.Fatalf("got %+v and %v, expected core.ErrUnavailable", d, err)
			}
			time.Sleep(time.Millisecond)
		}
		p.set()
		time.Sleep(2 * time.Second)
		p.allow("k")
	})
}

// Decisions keep the Deadline, also if the primary has a longer deadline of its own.
func TestStore_Take_OwnDeadline(t *testing.T) {
	const most = 20 * time.Millisecond
	for _, own := range []time.Duration{most / 2, 50 * most} {
		t.Run(own.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				primary := new(storetest.Fake)
				primary.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
					ctx, cancel := context.WithTimeout(ctx, own)
					defer cancel()
					return hang(ctx, charges, next)
				})
				s := failover.New(primary.WithDeadline(own), memstore.New(), failover.Deadline(most))
				defer s.Close()
				begun := time.Now()
				testkit.Admit(t, testkit.Limiter(t, s, wide), "k", 1)
				if took := time.Since(begun); took != min(own, most) {
					t.Errorf("a decision: got %v, expected %v", took, min(own, most))
				}
			})
		})
	}
}

// Clients that leave do not open the breaker, however many they are.
func TestStore_Take_CallersLeave(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.set(storetest.Delay(10*time.Millisecond, 0))
		testkit.Concurrently(50, func(int) {
			for i := range 50 {
				patience := rand.N(10 * time.Millisecond)
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				if i%2 == 0 {
					ctx, cancel = context.WithCancel(context.Background())
					time.AfterFunc(patience, cancel)
				}
				if _, err := p.wide.Allow(ctx, "k"); err == nil || err != ctx.Err() {
					t.Errorf("a caller that left: got %v, expected %v", err, ctx.Err())
				}
				cancel()
			}
		})
		p.is(failover.Primary)
		if got := p.Stats(); got.Failures != 0 || got.Backup != 0 || got.Probes == 0 || got.Probes > 6 {
			t.Errorf("in a quarter of a second: got %+v, expected 1 to 6 probes and no failure", got)
		}
	})
}

// The breaker opens although every caller leaves a hanging primary before the deadline.
func TestStore_Take_CallersLeaveHangingPrimary(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.allow("k")
		p.set(hang)
		begun := time.Now()
		for p.State() == failover.Primary {
			ctx, cancel := context.WithTimeout(t.Context(), deadline/5)
			if _, err := p.wide.Allow(ctx, "k"); err != nil && err != context.DeadlineExceeded {
				t.Fatalf("got %v, expected %v", err, context.DeadlineExceeded)
			}
			cancel()
			if took := time.Since(begun); took > time.Second {
				t.Fatalf("the state after %v: got %v, expected %v", took, p.State(), failover.Backup)
			}
		}
		if n := p.Stats().Failures; n != 0 {
			t.Errorf("failures: got %d, expected 0 for callers that left", n)
		}
	})
}

// A caller that left after the whole deadline is evidence against the primary.
func TestStore_Take_CallersLeaveAtDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t, true)
		p.primary.Set(func(context.Context, []driver.Charge, storetest.Call) error {
			time.Sleep(deadline + time.Millisecond)
			return errDown
		})
		testkit.Concurrently(10, func(int) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			if _, err := p.wide.Allow(ctx, "k"); err != context.DeadlineExceeded {
				t.Errorf("got %v, expected %v", err, context.DeadlineExceeded)
			}
		})
		if p.State() != failover.Backup {
			t.Errorf("the state: got %v, expected %v", p.State(), failover.Backup)
		}
		p.Close()
		time.Sleep(2 * deadline) // of probes that ignore their context
	})
}

func TestStore_EndedContext(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			calls := p.primary.Calls() + p.backup.Calls()
			_, err := p.year.Allow(ctx, "k")
			_, err2 := p.year.Reset(ctx, "k")
			for _, err := range []error{err, err2, p.year.Credit(ctx, "k", 1)} {
				if err != context.Canceled {
					t.Errorf("got %v, expected %v", err, context.Canceled)
				}
			}
			if n := p.primary.Calls() + p.backup.Calls() - calls; n != 0 {
				t.Errorf("calls of the stores: got %d, expected 0", n)
			}
			p.leave()
			synctest.Wait()
		}
	})
}

// A store that never returns from a call costs a bounded number of goroutines, and
// decisions are in time.
func TestStore_Take_PrimaryNeverReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const callers, most = 64, 128 // hanging calls
		p := newPair(t, false)
		until := make(chan struct{})
		p.set(ignoring(until))
		testkit.Concurrently(callers, func(int) {
			for range 500 {
				begun := time.Now()
				if _, err := p.wide.Allow(context.Background(), "k"); err != nil || time.Since(begun) > deadline {
					t.Errorf("a decision: got %v after %v, expected one within %v", err, time.Since(begun), deadline)
				}
			}
		})
		time.Sleep(10 * time.Minute) // of probes
		synctest.Wait()
		if n := p.primary.Active(); n > most+callers || n != p.Stats().Hanging {
			t.Errorf("calls that have not returned: got %d, expected at most %d and %d", n, most+callers, p.Stats().Hanging)
		}
		p.set()
		close(until)
		time.Sleep(2 * time.Second)
		p.is(failover.Primary)
		if n := p.primary.Active(); n != 0 || p.Stats().Hanging != 0 {
			t.Errorf("calls that have not returned: got %d and %d, expected 0", n, p.Stats().Hanging)
		}
	})
}

// The answer of a hanging primary that arrives late changes neither the verdict and the
// receipt of its caller nor the State.
func TestStore_Take_LateAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t, false)
		p.set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			time.Sleep(10 * deadline)
			return next(context.WithoutCancel(ctx), charges)
		})
		testkit.Must(t, p.backup.Store.Take(t.Context(), []driver.Charge{{Key: "k", Rule: testkit.Compiled(year), Cost: 50}}))
		charges := []driver.Charge{{Key: "k", Rule: testkit.Compiled(year), Cost: 1}}
		for range 5 {
			testkit.Must(t, p.Take(t.Context(), charges))
		}
		synctest.Wait()
		verdict, receipt := charges[0].Verdict, charges[0].Receipt
		if verdict.Remaining != 45 || receipt.Origin != 1 || p.State() != failover.Backup {
			t.Errorf("got %+v, %+v and %v, expected 45 left and a receipt of the backup", verdict, receipt, p.State())
		}
		time.Sleep(8 * deadline)
		probes := p.primary.Active()
		time.Sleep(3 * deadline) // the late answers arrive, and no answer of a probe
		synctest.Wait()
		if charges[0].Verdict != verdict || charges[0].Receipt != receipt || p.State() != failover.Backup {
			t.Errorf("after the late answers: got %+v, %+v and %v, expected no change; %d probes", charges[0].Verdict, charges[0].Receipt, p.State(), probes)
		}
		p.set()
		time.Sleep(20 * deadline)
	})
}

// Many callers, some of which leave, call a primary that fails in every way.
func TestStore_Concurrency(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		open := core.SlidingLog("open", core.PerHour(100))
		l := testkit.Limiter(t, p, core.TokenBucket("hour", core.PerHour(1000)), open)
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for j := range 100 {
					ctx, cancel := context.WithCancel(context.Background())
					if i%4 == 0 {
						time.AfterFunc(time.Duration(j)*time.Millisecond, cancel)
					}
					key := fmt.Sprint("k", i%8)
					r, err := l.Reserve(ctx, key, 1)
					if err == nil && r.Decision().Allowed {
						err = r.Refund(ctx)
					}
					if j%10 == 0 && err == nil {
						_, err = l.Reset(ctx, key)
					}
					if err != nil && ctx.Err() == nil && !errors.Is(err, core.ErrUnavailable) {
						t.Errorf("got %v, expected no error or core.ErrUnavailable", err)
					}
					p.Stats()
					cancel()
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		until := make(chan struct{})
		hooks := []storetest.Hook{storetest.Delay(10*time.Millisecond, 0), refuse, hang, lose, crash}
		if !p.direct {
			hooks = append(hooks, ignoring(until))
		}
		for i := range 20 {
			if p.set(); i%(len(hooks)+1) > 0 {
				p.set(hooks[i%(len(hooks)+1)-1])
			}
			time.Sleep(100 * time.Millisecond)
		}
		p.set()
		close(until)
		wg.Wait()
		time.Sleep(2 * time.Second)
		p.is(failover.Primary)
		for range 2 {
			wg.Go(func() { p.Close() })
		}
		wg.Wait()
	}, failover.Instances(2), failover.FailOpenFor("open"),
		failover.OnChange(func(_, _ failover.State, _ error) { time.Sleep(time.Millisecond) }))
}

// A receipt that the primary has written before it failed is cleared for FailOpen.
func TestStore_Take_ReceiptOfFailOpen(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.set(lose)
		receipt := driver.Receipt{At: 1, Origin: 8}
		charges := []driver.Charge{{Key: "k", Rule: testkit.Compiled(year), Cost: 1, Receipt: receipt}}
		testkit.Must(t, p.Take(t.Context(), charges))
		receipt = charges[0].Receipt
		if want := (driver.Receipt{Origin: 1}); receipt != want {
			t.Errorf("got %+v, expected %+v", receipt, want)
		}
	}, failover.FailOpenFor("year"))
}

// A decision of a healthy primary and one of the backup allocate nothing.
func TestStore_Take_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	one := core.TokenBucket("one", core.PerSecond(1_000_000))
	two := core.FixedWindow("two", core.PerSecond(1_000_000))
	healthy := failover.New(&deadliner{memstore.New()}, memstore.New())
	away := failover.New(absent(), memstore.New(), failover.Instances(3), failover.FailOpenFor("two"))
	defer away.Close()
	for l := testkit.Limiter(t, away, one); away.State() != failover.Backup; {
		testkit.Allow(t, l, "k")
	}
	first := driver.Charge{Key: "k", Rule: testkit.Compiled(one), Cost: 1}
	for _, c := range []struct {
		name    string
		store   *failover.Store
		charges []driver.Charge
	}{
		{"primary", healthy, []driver.Charge{first}},
		{"primary, two rules", healthy, []driver.Charge{first, {Key: "k", Rule: testkit.Compiled(two), Cost: 1}}},
		{"backup", away, []driver.Charge{first}},
	} {
		take := func() { testkit.Must(t, c.store.Take(context.Background(), c.charges)) }
		if n := testing.AllocsPerRun(1000, take); n != 0 {
			t.Errorf("%s: got %v allocations, expected 0", c.name, n)
		}
	}
}
