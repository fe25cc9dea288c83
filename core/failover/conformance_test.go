package failover_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/storetest"
)

func TestConformance(t *testing.T) {
	for name, primary := range map[string]func(t *testing.T, f *storetest.Fake) driver.Store{
		"timeout": func(_ *testing.T, f *storetest.Fake) driver.Store { return f },
		// The Store below is called directly, and has left its primary for the Fake.
		"direct, over a backup": func(t *testing.T, f *storetest.Fake) driver.Store {
			s := failover.New(absent(), f)
			t.Cleanup(func() { s.Close() })
			for s.State() != failover.Backup {
				charge := driver.Charge{Key: "leave", Rule: testkit.Compiled(wide), Op: driver.Peek, Cost: 1}
				if err := s.Take(t.Context(), []driver.Charge{charge}); err != nil {
					t.Fatal(err)
				}
			}
			over := &storetest.Fake{Store: s}
			over.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
				hideBans(ctx, t, s, charges)
				return hideOrigins(ctx, charges, next)
			})
			return over.WithDeadline(time.Nanosecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) *storetest.Harness {
				testkit.WithoutRace(t, testkit.SlowCases...)
				clock := new(storetest.Clock)
				s := failover.New(primary(t, &storetest.Fake{Clock: clock.Micros}), failover.FailClosed, failover.Deadline(time.Minute))
				t.Cleanup(func() { s.Close() })
				h := clock.Harness(s)
				h.NoRollover = name != "timeout" // a backup has none
				return h
			})
		})
	}
}

// hideBans makes bans, which only a primary has, ordinary pauses: a Debit that would leave the end sets none.
func hideBans(ctx context.Context, t *testing.T, s driver.Store, charges []driver.Charge) {
	for i := range charges {
		c := &charges[i]
		if c.Ban && c.Op == driver.Debit {
			p := []driver.Charge{{Key: c.Key, Rule: c.Rule, Op: driver.Peek, Cost: 1}}
			if testkit.Must(t, s.Take(ctx, p)); !p[0].Verdict.Allowed {
				c.Pause = 0
			}
		}
		c.Ban = false
	}
}

// hideOrigins hides that the backup has all charges from the suite, which compares receipts
// with those of a store that is not made of others.
func hideOrigins(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
	set := func(origin int) {
		for i := range charges {
			if c := &charges[i]; c.Op != driver.Peek {
				c.Receipt.Origin = origin
			}
		}
	}
	set(1)
	defer set(0)
	return next(ctx, charges)
}

func TestStore_Over(t *testing.T) {
	backups := uint64(0)
	storetest.RunOver(t, func(t *testing.T, primary, backup *storetest.Fake) (driver.Store, bool) {
		s := failover.New(primary, backup)
		t.Cleanup(func() { backups += s.Stats().Backup })
		return s, false
	})
	if backups < 1300 {
		t.Errorf("the backup has made %d decisions, want 1300", backups)
	}
}
