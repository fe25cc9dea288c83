package lease_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/lease"
)

var hourly = []core.Rule{
	core.TokenBucket("bucket", core.PerHour(50_000)),
	core.FixedWindow("window", core.PerHour(50_000)),
}

// Few calls are needed for many events, and what was leased and not spent comes back
// when its time is over, and on Close. A bucket keeps back what it refills while the
// tokens are held: here one in 72 ms.
func TestReturns(t *testing.T) {
	for _, rule := range hourly {
		for name, end := range map[string]func(r *rig, s *lease.Store){
			"idle": func(*rig, *lease.Store) { time.Sleep(lease.DefaultLifetime + 3*trip) },
			"close": func(r *rig, s *lease.Store) {
				if err := s.Close(); err != nil {
					r.Error(err)
				}
			},
			"evicted": func(r *rig, s *lease.Store) {
				l := r.limiter(s, core.TokenBucket("other", core.PerHour(1000)))
				for i := range 2 {
					if _, err := l.Allow(r.Context(), fmt.Sprint(i)); err != nil {
						r.Fatal(err)
					}
				}
				time.Sleep(3 * trip)
			},
		} {
			t.Run(rule.Name()+" "+name, func(t *testing.T) {
				bubble(t, func(r *rig) {
					s := r.lease(lease.MaxKeys(2))
					l := r.limiter(s, rule)
					const n = 1000
					calls := r.called(func() { r.admit(l, n) })
					if calls > 30 {
						t.Errorf("%d calls for %d events", calls, n)
					}
					held := int(s.Stats().Held)
					if held < 100 || r.remaining(rule) > 50_000-n-held+1 {
						t.Fatalf("%d are held, and %d remain in the Store", held, r.remaining(rule))
					}
					end(r, s)
					if st := s.Stats(); st.Held != 0 || st.Returned < uint64(held)-10 || st.Lost != 0 {
						t.Errorf("%+v", st)
					}
					if got := r.remaining(rule); got < 50_000-n-8 || got > 50_000-n+8 {
						t.Errorf("%d remain, want about %d", got, 50_000-n)
					}
				})
			})
		}
	}
}

// A process that ends without a word costs what it had leased, and that is a sixteenth
// of what was left, and half of what it had used of late, at most.
func TestCrash(t *testing.T) {
	for _, rule := range hourly {
		bubble(t, func(r *rig) {
			s := r.lease()
			const n = 1000
			r.admit(r.limiter(s, rule), n)
			r.breakDown(errors.New("it is gone"))
			if err := s.Close(); err == nil || !strings.Contains(err.Error(), "it is gone") {
				t.Errorf("Close returned %v", err)
			}
			if lost := 50_000 - n - r.remaining(rule); lost < 100 || lost > n/2 {
				t.Errorf("%v: %d were lost", &rule, lost)
			}
			if st := s.Stats(); st.Lost == 0 || st.Held != 0 {
				t.Errorf("%+v", st)
			}
		})
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
			if err := l.Reset(r.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			if held := s.Stats().Held; held != 0 {
				t.Errorf("%d are held", held)
			}
			time.Sleep(time.Second)
			if n := r.remaining(rule); n != 50_000 {
				t.Errorf("%d remain", n)
			}
		})
	}
}

// What a caller gives back, and what it settles, is heeded at once.
func TestTell(t *testing.T) {
	for _, rule := range []core.Rule{core.TokenBucket("b", core.PerDay(1000)), core.FixedWindow("w", core.PerDay(1000))} {
		bubble(t, func(r *rig) {
			l := r.limiter(r.lease(), rule)
			r.drain(l)
			if err := l.Refund(r.Context(), "k", 3); err != nil {
				t.Fatal(err)
			}
			if n := r.drain(l); n != 3 {
				t.Errorf("%v: %d were admitted after a refund of 3", &rule, n)
			}
			if err := l.Reset(r.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			r.admit(l, 200)
			if err := l.Settle(r.Context(), "k", 1_000_000); err != nil {
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
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got := r.remaining(rule); got < 49_500-8 || got > 49_500+8 {
				t.Errorf("%v: %d remain", &rule, got)
			}
		})
	}
}
