package casstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// Without room for new rows, keys without a row share the limit of an overflow row, and all others go on.
func TestStore_Overflow(t *testing.T) {
	for _, algorithm := range testkit.Algorithms {
		t.Run(algorithm.Name, func(t *testing.T) {
			d := &bounded{database: &database{mapDatabase: newDatabase(new(storetest.Clock))}}
			l := testkit.Limiter(t, casstore.New(d), algorithm.Rule("r", core.PerHour(5)))
			testkit.Admit(t, l, "old", 2)
			d.full.Store(true)
			admitted := 0
			for i := range 400 {
				key := fmt.Sprint(i)
				for range 6 {
					if decision := testkit.Allow(t, l, key); decision.Allowed {
						admitted++
					}
				}
				if d := testkit.Ask(t, l, key, 1); d.Allowed {
					t.Fatalf("%s is admitted beyond its limit: %v", key, d)
				}
			}
			if d.count() != 1+16 || admitted != 16*5 {
				t.Errorf("got %d rows and %d events, want 17 and 80", d.count(), admitted)
			}
			if left := testkit.Left(t, l, "old"); left != 3 {
				t.Errorf("%d are left to a key with a row, want 3", left)
			}
			// It is not known how much of an overflow row a key has used.
			testkit.Must(t, l.Credit(t.Context(), "1", 5))
			if found, err := l.Reset(t.Context(), "1"); err != nil || found || testkit.Allow(t, l, "1").Allowed {
				t.Errorf("a Reset frees an overflow row: %v, %v", found, err)
			}
			d.full.Store(false)
			testkit.Admit(t, l, "new", 5)
		})
	}
}

// Two keys of a decision that share an overflow row have its limit together.
func TestStore_Overflow_twoKeys(t *testing.T) {
	d := &bounded{database: &database{mapDatabase: newDatabase(new(storetest.Clock))}}
	d.full.Store(true)
	a, b := core.FixedWindow("a", core.PerHour(5)), core.FixedWindow("other", core.PerHour(1000))
	l := testkit.Limiter(t, casstore.New(d), a, b)
	pairs, denied := 0, 0
	for i := range 300 {
		asks := []core.Ask{{Limiter: l, Key: "k", Cost: 3}, {Limiter: l, Key: fmt.Sprint(i), Cost: 2}}
		for range 2 {
			decision, err := core.AllowTogether(t.Context(), asks...)
			testkit.Must(t, err)
			if decision.Allowed {
				pairs++
			} else if denied++; decision.RetryAfter <= 0 || decision.RetryAfter > time.Hour {
				t.Fatalf("got %v", decision)
			}
		}
	}
	if left := testkit.Left(t, l, "k"); pairs != 1 || left > 2 || d.count() > 4 {
		t.Errorf("%d decisions were admitted, %d are left, and there are %d rows", pairs, left, d.count())
	}
}

// Without room, places and pauses of the application have rows, and no ban begins.
func TestStore_Overflow_others(t *testing.T) {
	d := &bounded{database: &database{mapDatabase: newDatabase(new(storetest.Clock))}}
	d.full.Store(true)
	l := testkit.Limiter(t, casstore.New(d), core.InFlight("places", 2), core.Pause("pause"))
	for i := range 40 {
		if r := testkit.Reserve(t, l, fmt.Sprint(i), 1); !r.Decision().Allowed {
			t.Fatalf("got %v for the place of a new key", r.Decision())
		}
	}
	testkit.Must(t, l.Pause(t.Context(), "paused", time.Minute))
	if testkit.Peek(t, l, "paused").Allowed || !testkit.Peek(t, l, "another").Allowed {
		t.Error("a pause is not that of one key")
	}
	banning := testkit.Limiter(t, casstore.New(d), core.FixedWindow("login", core.PerHour(1)).BlockFor(time.Hour))
	before := d.count()
	for i := range 100 {
		if d := testkit.Ask(t, banning, fmt.Sprint(i), 1); d.State(0).Ban > 0 {
			t.Fatalf("%d is banned: %v", i, d)
		}
	}
	if n := d.count() - before; n > 16 {
		t.Errorf("denials have made %d rows, want 16 at most", n)
	}
}

// Nothing rolls over from an overflow row.
func TestStore_Overflow_rollover(t *testing.T) {
	var clock storetest.Clock
	d := &bounded{database: &database{mapDatabase: newDatabase(&clock)}}
	d.full.Store(true)
	quota := testkit.Limiter(t, casstore.New(d), core.Quota("calls", core.Daily(5)).Rollover(5))
	testkit.Admit(t, quota, "k", 1)
	clock.Advance(24 * time.Hour)
	if s := testkit.Allow(t, quota, "k").State(0); s.Limit() != core.Daily(5) {
		t.Errorf("got the limit %v, want 5 a day", s.Limit())
	}
}
