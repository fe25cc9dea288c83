package failover_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

const deadline = failover.DefaultDeadline

// primaries are the ways in which a primary is called.
var primaries = []struct {
	name string
	make func(*flaky) core.Store
}{
	{"guarded", func(f *flaky) core.Store { return f }},
	{"direct", func(f *flaky) core.Store { return &punctual{f, deadline} }},
}

// eachPrimary runs f in a bubble for each of them. At its end, nothing may be left
// running.
func eachPrimary(t *testing.T, f func(t *testing.T, primary *flaky, under core.Store)) {
	for _, p := range primaries {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary := newFlaky(well)
				f(t, primary, p.make(primary))
			})
		})
	}
}

func TestWellPrimaryDecides(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		backup := newFlaky(well)
		s := failover.New(under, backup)
		defer s.Close()
		l := limiter(t, s, core.TokenBucket("minute", core.PerMinute(10)))
		for range 10 {
			if d := allow(t, l, "k"); !d.Allowed {
				t.Fatal(d)
			}
		}
		if d := allow(t, l, "k"); d.Allowed {
			t.Error("a denial of the primary was not the decision")
		}
		if backup.calls.Load() != 0 || s.Stats() != (failover.Stats{}) {
			t.Errorf("the backup was asked %d times, %+v", backup.calls.Load(), s.Stats())
		}
	})
}

// No call fails, none waits for longer than the deadline, and soon none waits.
func TestOutage(t *testing.T) {
	for _, m := range []mood{refuse, hang, deaf, lose, panics} {
		t.Run(fmt.Sprint("mood ", int(m)), func(t *testing.T) {
			eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
				if _, direct := under.(driver.Deadliner); direct && m == deaf {
					return // it is none
				}
				s := failover.New(under, memstore.New())
				defer s.Close()
				defer primary.set(well)
				l := limiter(t, s, perHour)
				allow(t, l, "k")
				primary.set(m)
				waited := 0
				for range 50 {
					begun := time.Now()
					if d := allow(t, l, "k"); !d.Allowed {
						t.Fatal(d)
					}
					switch took := time.Since(begun); {
					case took > deadline:
						t.Fatalf("a decision took %v", took)
					case took > 0:
						waited++
					}
					time.Sleep(10 * time.Millisecond)
				}
				if waited > 5 {
					t.Errorf("%d of 50 decisions waited for the primary", waited)
				}
				if s.State() != failover.Backup {
					t.Errorf("the state is %v after half a second", s.State())
				}
				spends := primary.spends.Load()
				begun := time.Now()
				for range 1000 {
					allow(t, l, "other")
				}
				if took := time.Since(begun); took != 0 {
					t.Errorf("1000 decisions without the primary took %v", took)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if n := primary.spends.Load() - spends; n != 0 {
					t.Errorf("a primary that is away was charged %d times", n)
				}
				stats := s.Stats()
				if stats.Outages != 1 || stats.Backup != 1050 || stats.Failures < 1 || !errors.Is(stats.Cause, core.ErrUnavailable) {
					t.Errorf("%+v", stats)
				}
				if m != deaf && stats.Hanging != 0 {
					t.Errorf("%d calls hang", stats.Hanging)
				}
			})
		})
	}
}

// A few calls find out that the primary is dead, because the rest is found out in
// the background.
func TestOneFailureIsFollowedUp(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New())
		defer s.Close()
		l := limiter(t, s, perHour)
		allow(t, l, "k")
		primary.set(hang)
		allow(t, l, "k")
		time.Sleep(time.Second)
		if s.State() != failover.Backup {
			t.Errorf("the state is %v", s.State())
		}
		if n := primary.spends.Load(); n != 2 {
			t.Errorf("%d calls went to the primary, want 2", n)
		}
	})
}

// That the primary has just been looked after is no reason not to look again.
func TestFailureAfterALook(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New())
		defer s.Close()
		l := limiter(t, s, perHour)
		primary.set(refuse)
		allow(t, l, "k")
		primary.set(well)
		time.Sleep(20 * time.Millisecond)
		primary.set(refuse)
		allow(t, l, "k")
		time.Sleep(time.Second)
		if s.State() != failover.Backup {
			t.Errorf("the state is %v", s.State())
		}
	})
}

func TestOneFailureIsNotAnOutage(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New())
		defer s.Close()
		l := limiter(t, s, perHour)
		for range 20 {
			primary.set(refuse)
			allow(t, l, "k")
			primary.set(well)
			allow(t, l, "k")
			time.Sleep(time.Second)
			synctest.Wait()
			if s.State() != failover.Primary {
				t.Fatal("one failed call, and the primary was left")
			}
		}
		if n := s.Stats().Probes; n < 20 || n > 100 {
			t.Errorf("20 failures caused %d probes", n)
		}
	})
}

// An error that says nothing of the kind is a failure too: many stores return the
// errors of their network as they are.
func TestUnknownErrorsAreFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := failover.New(absent{}, memstore.New())
		defer s.Close()
		if until(t, s, failover.Backup) == 0 || !errors.Is(s.Stats().Cause, errAbsent) {
			t.Errorf("%+v", s.Stats())
		}
	})
}

// A store that never returns from a call costs a bounded number of goroutines, and
// decisions that are in time.
func TestDeafPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newFlaky(deaf)
		s := failover.New(primary, memstore.New())
		defer s.Close()
		l := limiter(t, s, perHour)
		var wg sync.WaitGroup
		const callers = 64
		for range callers {
			wg.Go(func() {
				for range 1000 {
					begun := time.Now()
					if _, err := l.Allow(context.Background(), "k"); err != nil {
						t.Error(err)
					}
					if took := time.Since(begun); took > deadline {
						t.Errorf("a decision took %v", took)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(10 * time.Minute) // of probes
		synctest.Wait()
		if n := primary.within(); n > 128+callers || n != s.Stats().Hanging {
			t.Errorf("%d calls have not returned, %+v", n, s.Stats())
		}
		primary.set(well)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := primary.within(); n != 0 || s.Stats().Hanging != 0 || s.State() != failover.Primary {
			t.Errorf("%d calls have not returned, %v, %+v", n, s.State(), s.Stats())
		}
	})
}

// Many callers, clients that leave, and a primary with every mood.
func TestConcurrency(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New(), failover.Instances(2), failover.FailOpenFor("open"),
			failover.OnChange(func(_, _ failover.State, _ error) { time.Sleep(time.Millisecond) }))
		l := limiter(t, s, perHour, core.SlidingLog("open", core.PerHour(100)))
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
						t.Error(err)
					}
					s.Stats()
					cancel()
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		moods := []mood{well, slow, refuse, hang, lose, panics}
		if _, direct := under.(driver.Deadliner); !direct {
			moods = append(moods, deaf)
		}
		for i := range 20 {
			primary.set(moods[i%len(moods)])
			time.Sleep(100 * time.Millisecond)
		}
		primary.set(well)
		wg.Wait()
		time.Sleep(2 * time.Second)
		if s.State() != failover.Primary {
			t.Errorf("the state is %v", s.State())
		}
		var closing sync.WaitGroup
		for range 2 {
			closing.Go(func() { s.Close() })
		}
		closing.Wait()
	})
}
