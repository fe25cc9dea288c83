package lease_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/lease"
)

// A busy limit beside one of each user: what is hot is leased, what is not goes to the
// Store, and a denial takes nothing from either.
func TestHotAndCold(t *testing.T) {
	for _, hot := range hourly {
		bubble(t, func(r *rig) {
			r.trip = time.Microsecond // or the bucket refills meanwhile
			s := r.lease()
			user := core.SlidingLog("user", core.PerHour(5))
			global, each := r.limiter(s, hot), r.limiter(s, user)
			admitted := 0
			calls := r.called(func() {
				for i := range 3000 {
					d, err := core.AllowTogether(r.Context(),
						core.Ask{Limiter: global, Key: "k", Cost: 1}, core.Ask{Limiter: each, Key: fmt.Sprint(i % 300), Cost: 1})
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed != (i < 1500) {
						t.Fatalf("decision %d: %+v %+v", i, d.State(0), d.State(1))
					}
					if d.Allowed {
						admitted++
					} else if !d.State(0).Allowed || d.State(1).Allowed {
						t.Fatalf("decision %d: %+v %+v", i, d.State(0), d.State(1))
					}
				}
			})
			if calls > 3000+60 {
				t.Errorf("%d calls for 3000 decisions about a user each", calls)
			}
			if n := 50_000 - r.remaining(hot) - int(s.Stats().Held); n < admitted-8 || n > admitted+8 {
				t.Errorf("%d of the limit of all were used for %d events", n, admitted)
			}
		})
	}
}

// When one rule is denied here, the others are only looked at.
func TestRefusedHere(t *testing.T) {
	bubble(t, func(r *rig) {
		s := r.lease()
		hot, log := core.TokenBucket("hot", core.PerDay(500)), core.SlidingLog("log", core.PerHour(10_000))
		r.drain(r.limiter(s, hot))
		both := r.limiter(s, log, hot)
		before := r.remaining(log)
		for range 20 {
			d := r.ask(both, 1)
			if d.Allowed || !d.State(0).Allowed || d.State(1).Allowed || d.State(0).Remaining != before {
				t.Fatalf("%+v %+v", d.State(0), d.State(1))
			}
		}
		if n := r.remaining(log); n != before {
			t.Errorf("%d of the log remain, want %d", n, before)
		}
	})
}

// Two rules of one key, both leased: hardly any calls, and both are charged.
func TestTwoRules(t *testing.T) {
	bubble(t, func(r *rig) {
		s := r.lease()
		l := r.limiter(s, hourly...)
		if calls := r.called(func() { r.admit(l, 3000) }); calls > 100 {
			t.Errorf("%d calls for 3000 decisions", calls)
		}
		for _, rule := range hourly {
			d, err := r.limiter(s, rule).Peek(r.Context(), "k") // counts what is held
			if err != nil {
				t.Fatal(err)
			}
			if n := d.State(0).Remaining; n < 47_000-8 || n > 47_000+8 {
				t.Errorf("%v: %d remain", &rule, n)
			}
		}
	})
}

// If the Store fails in the middle of a decision, what was taken here is put back.
func TestFailsInTheMiddle(t *testing.T) {
	down := errors.New("down")
	for _, hot := range hourly {
		bubble(t, func(r *rig) {
			s := r.lease()
			r.admit(r.limiter(s, hot), 500)
			held := s.Stats().Held
			both := r.limiter(s, hot, core.SlidingLog("log", core.PerHour(10)))
			r.breakDown(down)
			for range 10 {
				if _, err := both.Allow(r.Context(), "k"); !errors.Is(err, down) {
					t.Fatalf("got %v", err)
				}
			}
			if got := s.Stats().Held; got != held {
				t.Errorf("%d are held, and were %d", got, held)
			}
		})
	}
}

// All or none, by many at once, over keys that are leased and keys that are not.
func TestAllOrNone(t *testing.T) {
	bubble(t, func(r *rig) {
		var stores []*lease.Store
		var mu sync.Mutex
		admitted := 0
		var wg sync.WaitGroup
		hot, log := core.TokenBucket("hot", core.PerDay(5000)), core.SlidingLog("log", core.PerDay(1500))
		for range 3 {
			s := r.lease()
			stores = append(stores, s)
			both, one := r.limiter(s, hot, log), r.limiter(s, hot)
			for i := range 8 {
				wg.Go(func() {
					for range 200 {
						l, n := one, 1
						if i%2 == 0 {
							l, n = both, 0
						}
						if d := r.ask(l, 1); d.Allowed {
							mu.Lock()
							admitted += n
							mu.Unlock()
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
		}
		wg.Wait()
		held := 0
		for _, s := range stores {
			held += int(s.Stats().Held)
		}
		if n := r.remaining(log); n != 0 {
			t.Errorf("%d of the log remain", n)
		}
		if want := 5000 - 1500 - admitted; want < 0 {
			t.Fatalf("%d were admitted", admitted)
		} else if n := r.remaining(hot) + held; n < want-10 || n > want+10 {
			t.Errorf("%d remain, want %d: %d single events were admitted", n, want, admitted)
		}
	})
}
