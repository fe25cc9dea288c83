package lease_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
)

var hourly = []core.Rule{
	core.TokenBucket("bucket", core.PerHour(50_000)),
	core.FixedWindow("window", core.PerHour(50_000)),
}

// Few calls are needed for many events. Tokens that are held and not spent are lost with
// the process, or when their key gives way to others; those of a bucket until it has
// refilled by as much.
func TestStore_HeldTokensAreLost(t *testing.T) {
	for _, rule := range hourly {
		for name, end := range map[string]func(r *rig, s *lease.Store){
			"close": func(r *rig, s *lease.Store) {
				if calls := r.called(func() {
					if err := s.Close(); err != nil {
						r.Error(err)
					}
				}); calls != 0 {
					r.Errorf("expected no call by Close, got %d", calls)
				}
			},
			"evicted": func(r *rig, s *lease.Store) {
				l := r.limiter(s, core.TokenBucket("other", core.PerHour(1000)))
				for i := range 2 {
					if _, err := l.Allow(r.Context(), fmt.Sprint(i)); err != nil {
						r.Fatal(err)
					}
				}
			},
		} {
			t.Run(rule.Name()+" "+name, func(t *testing.T) {
				bubble(t, func(r *rig) {
					s := r.lease(lease.MaxKeys(2))
					const n = 1000
					if calls := r.called(func() { r.admit(r.limiter(s, rule), n) }); calls > 30 {
						t.Errorf("%d calls for %d events", calls, n)
					}
					held := int(s.Stats().Held)
					if held < 100 || held > n/2 {
						t.Errorf("expected half of what was used at most, got %d tokens", held)
					}
					end(r, s)
					if got := s.Stats().Held; got != 0 {
						t.Errorf("expected no token, got %d", got)
					}
					if got, want := r.remaining(rule), 50_000-n-held; got < want || got > want+8 {
						t.Errorf("expected %d in the store, got %d", want, got)
					}
					time.Sleep(time.Duration(n+held+1) * time.Hour / 50_000)
					if got := r.remaining(rule); rule.Algorithm() == driver.TokenBucket && got != 50_000 {
						t.Errorf("expected a full bucket, got %d", got)
					}
				})
			})
		}
	}
}

// A block of a bucket is spent long after its lease, without a call and without the store,
// until its slots begin; a block of a window until the window ends.
func TestStore_BlockLasts(t *testing.T) {
	for _, tt := range []struct {
		rule core.Rule
		used int
		last time.Duration // in which all of the block can be spent
		over time.Duration // when none of it can
	}{
		{core.TokenBucket("bucket", core.PerHour(50_000)), 25_000, 29 * time.Minute, 32 * time.Minute},
		{core.FixedWindow("window", core.PerHour(50_000)), 25_000, 59 * time.Minute, time.Hour},
	} {
		for name, idle := range map[string]time.Duration{"last": tt.last, "over": tt.over} {
			t.Run(tt.rule.Name()+" "+name, func(t *testing.T) {
				bubble(t, func(r *rig) {
					time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
					begun := time.Now()
					s := r.lease()
					l := r.limiter(s, tt.rule)
					if !r.ask(r.limiter(r.behind, tt.rule), tt.used).Allowed {
						t.Fatal("expected the first events to be admitted")
					}
					r.admit(l, 1000)
					held := int(s.Stats().Held)
					time.Sleep(time.Until(begun.Add(idle)))
					if idle == tt.over {
						if got := s.Stats().Held; got != 0 {
							t.Errorf("expected no token, got %d", got)
						}
						return
					}
					r.breakDown(errors.New("the store is away"))
					if calls := r.called(func() { r.admit(l, held) }); calls > 1 {
						t.Errorf("expected no call but for the next block, got %d", calls)
					}
				})
			})
		}
	}
}

// A closed Store passes everything on. Closing it again does nothing.
func TestClosed(t *testing.T) {
	bubble(t, func(r *rig) {
		s := r.lease()
		l := r.limiter(s, hourly[0])
		r.admit(l, 100)
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if calls := r.called(func() { r.admit(l, 20) }); calls != 20 {
			t.Errorf("%d calls for 20 events", calls)
		}
		two := r.limiter(s, hourly...)
		if calls := r.called(func() { r.admit(two, 20) }); calls != 20 {
			t.Errorf("%d calls for 20 events of two rules", calls)
		}
		if held := s.Stats().Held; held != 0 {
			t.Errorf("%d are held", held)
		}
	})
}

// All of a limit is admitted: near its end every event is a call of its own.
func TestAllIsAdmitted(t *testing.T) {
	for _, rule := range []core.Rule{
		core.TokenBucket("b", core.PerDay(3000)),
		core.FixedWindow("w", core.PerDay(3000)),
		core.TokenBucket("small", core.PerDay(100)),
	} {
		bubble(t, func(r *rig) {
			s := r.lease()
			l := r.limiter(s, rule)
			if n := r.drain(l); n != rule.Capacity() {
				t.Errorf("%v: %d were admitted", &rule, n)
			}
		})
	}
}

// After a Reset nothing is left of what was leased before, and all of the limit is
// there.
func TestReset(t *testing.T) {
	for _, rule := range hourly {
		bubble(t, func(r *rig) {
			s := r.lease()
			l := r.limiter(s, rule)
			r.admit(l, 500)
			if s.Stats().Held == 0 {
				t.Fatal("nothing is held")
			}
			if found, err := l.Reset(r.Context(), "k"); !found || err != nil {
				t.Fatalf("expected a state that was in use, got %v, %v", found, err)
			}
			if held := s.Stats().Held; held != 0 {
				t.Errorf("%d are held", held)
			}
			time.Sleep(time.Second)
			if n := r.remaining(rule); n != 50_000 {
				t.Errorf("%d remain", n)
			}
			if found, err := l.Reset(r.Context(), "k"); found || err != nil {
				t.Errorf("expected no state in use after a Reset, got %v, %v", found, err)
			}
		})
	}
}

// A Credit and a Debit of this process take effect at once.
func TestStore_Adjust(t *testing.T) {
	for _, rule := range []core.Rule{core.TokenBucket("b", core.PerDay(1000)), core.FixedWindow("w", core.PerDay(1000))} {
		bubble(t, func(r *rig) {
			l := r.limiter(r.lease(), rule)
			r.drain(l)
			if err := l.Credit(r.Context(), "k", 3); err != nil {
				t.Fatal(err)
			}
			if n := r.drain(l); n != 3 {
				t.Errorf("%v: %d were admitted after a refund of 3", &rule, n)
			}
			if _, err := l.Reset(r.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			r.admit(l, 200)
			if err := l.Debit(r.Context(), "k", 1_000_000); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * trip)
			if d := r.ask(l, 1); d.Allowed {
				t.Errorf("%v: admitted after a bill that left nothing", &rule)
			}
		})
	}
}

// A reservation of what was leased is undone like any other.
func TestReservation(t *testing.T) {
	for _, rule := range hourly {
		bubble(t, func(r *rig) {
			s := r.lease()
			l := r.limiter(s, rule)
			r.admit(l, 500)
			calls := r.called(func() {
				res, err := l.Reserve(r.Context(), "k", 5)
				if err != nil || !res.Decision().Allowed {
					t.Fatal(err)
				}
				if err := res.Refund(r.Context()); err != nil {
					t.Fatal(err)
				}
			})
			if calls != 1 {
				t.Errorf("%d calls, want that of the refund", calls)
			}
			if got := r.remaining(rule) + int(s.Stats().Held); got < 49_500-8 || got > 49_500+8 {
				t.Errorf("%v: %d remain", &rule, got)
			}
		})
	}
}
