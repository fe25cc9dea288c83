package redisstore_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// TestSlidingLog_steps compares short histories of an hourly limit with those of the reference
// store. After the last step, charges of several costs are peeked, and the key has to expire.
func TestSlidingLog_steps(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	large := int64(1)<<48 - 1 // events of a log
	most := int(large)
	type step struct {
		minutes time.Duration // since the step before
		op      driver.Op
		cost    int // for an undo, the index of the charge
	}
	rdb := redistest.Shared(t).Client()
	for _, c := range []struct {
		name  string
		limit int
		steps []step
	}{
		{"an offset of more than 4 bytes", 10, []step{{0, driver.Spend, 1}, {50, driver.Spend, 1}, {50, driver.Spend, 1}}},
		{"an offset of more than 4 bytes after an undo", 10, []step{
			{0, driver.Spend, 1}, {50, driver.Spend, 1}, {5, driver.Spend, 1}, {45, driver.Spend, 1}, {0, driver.Undo, 2},
		}},
		{"a credit after the clock stepped back", 10, []step{{0, driver.Spend, 2}, {-10, driver.Credit, 1}, {5, driver.Peek, 1}}},
		{"a credit to a member that is partly in the window", 10, []step{
			{0, driver.Spend, 1}, {40, driver.Spend, 1}, {10, driver.Spend, 1}, {11, driver.Credit, 1}, {-6, driver.Peek, 1},
		}},
		{"a credit after a member has left the window", 20, []step{
			{0, driver.Spend, 9}, {50, driver.Spend, 9}, {11, driver.Credit, 1}, {-6, driver.Peek, 1},
		}},
		{"a credit after all events have left the window", 10, []step{{0, driver.Spend, 1}, {61, driver.Credit, 1}, {-6, driver.Peek, 1}}},
		{"an undo after all events have left the window", 10, []step{{0, driver.Spend, 1}, {61, driver.Undo, 0}, {-6, driver.Peek, 1}}},
		{"an undo after a reset", 10, []step{{0, driver.Spend, 1}, {0, driver.Reset, 1}, {0, driver.Undo, 0}, {0, driver.Spend, 10}}},
		{"an undo of a credited event", 10, []step{{0, driver.Spend, 1}, {5, driver.Spend, 1}, {0, driver.Credit, 1}, {0, driver.Undo, 1}}},
		{"an undo of the first of three bulks", 30, []step{{0, driver.Spend, 9}, {0, driver.Spend, 9}, {0, driver.Spend, 9}, {0, driver.Undo, 0}}},
		{"an undo of the only charge", 10, []step{{0, driver.Spend, 1}, {0, driver.Undo, 0}, {0, driver.Spend, 10}}},
		{"a debit after the clock stepped back by more than the period", 10, []step{
			{0, driver.Spend, 3}, {61, driver.Spend, 3}, {-70, driver.Debit, 9}, {10, driver.Peek, 1},
		}},
		{"a debit of more than the largest number", most, []step{{0, driver.Debit, most + 9}, {0, driver.Credit, 5}}},
		// A log whose numbers would exceed the largest one is written again, with numbers from 0 on.
		{"the largest numbers", most, []step{
			{0, driver.Debit, most - 5}, {40, driver.Debit, 3}, {40, driver.Debit, 9}, {40, driver.Debit, most - 20},
			{0, driver.Debit, 100}, {0, driver.Debit, 1}, {0, driver.Credit, 20}, {0, driver.Debit, 3},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, rdb, core.SlidingLog("log", core.PerHour(c.limit)))
			for _, s := range c.steps {
				p.Advance(s.minutes * time.Minute)
				if s.op == driver.Undo {
					p.undo(s.cost)
				} else {
					p.do(driver.Charge{Op: s.op, Cost: s.cost})
				}
			}
			for i := range min(c.limit, 30) {
				p.do(driver.Charge{Op: driver.Peek, Cost: c.limit - i})
			}
			if ttl := rdb.PTTL(t.Context(), p.key).Val(); ttl == -1 {
				t.Error("the key has no TTL")
			}
		})
	}
}

// Members that have left the window do not count, although a spend removes at most 200 of them.
func TestSlidingLog_expired(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const most = 200
	rdb := redistest.Shared(t).Client()
	for _, c := range []struct {
		name string
		gap  time.Duration // after 3000 charges in 50 minutes
	}{
		{"some have left", 50 * time.Minute}, {"all have left", 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, rdb, core.SlidingLog("log", core.PerHour(10_000)))
			for i := range 3000 {
				p.spend(1 + 3*(i%2))
				p.Advance(time.Second)
			}
			p.Advance(c.gap)
			before := rdb.ZCard(t.Context(), p.key).Val()
			for range 20 {
				p.spend(1)
				after := rdb.ZCard(t.Context(), p.key).Val()
				if before-after > most {
					t.Fatalf("a spend removed %d members, want at most %d", before-after, most)
				}
				before = after
				p.do(driver.Charge{Op: driver.Peek, Cost: 10_000}) // denied, with a RetryAfter
				p.Advance(time.Second)
			}
			if shape := p.checkLog(); shape.entries > 600+20+12 { // the first member may hold older ones
				t.Errorf("%d entries are left, want those of the last hour", shape.entries)
			}
		})
	}
}
