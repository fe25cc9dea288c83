package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
)

// A Peek that the Store denies is not made allowed by what is held here if a Spend
// depends on it: nothing was taken.
func TestPeekBesideSpend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := core.FixedWindow("a", core.Per(1600, 24*time.Hour))
		b := core.FixedWindow("b", core.Per(10, 24*time.Hour))
		mem := memstore.New()
		s := New(mem)
		defer s.Close()
		warm(t, s, a)
		for take(t, mem, a, driver.Spend, 1).Allowed { // others take the rest
		}
		n := 0
		for range 100 {
			ch := []driver.Charge{{Key: "k", Rule: a.Compiled(), Op: driver.Peek, Cost: 1}, {Key: "k", Rule: b.Compiled(), Cost: 1}}
			if err := s.Take(bg, ch); err != nil {
				t.Fatal(err)
			}
			if ch[0].Verdict.Allowed && ch[1].Verdict.Allowed {
				n++
			}
		}
		if n > 10 {
			t.Errorf("%d decisions were allowed of a rule of 10", n)
		}
	})
}

// Two decisions that fail take back their tokens while others spend: what comes back
// last may lie below what has been spent since.
func TestUnspendBelowSpent(t *testing.T) {
	rule := core.TokenBucket("r", core.PerSecond(1000))
	y := &yard{rng: rand.New(rand.NewPCG(1, 1))}
	y.u = newUnits(rule.Compiled(), time.Second)
	c := &entry{u: y.u}
	y.take(100)
	y.admit(100)
	c.add(y.block(y.take(60), 0, 60), 0)
	x, z := grant{block: c.spend(0, 20)}, grant{block: c.spend(0, 20)}
	y.now = 99e6
	if c.restore(y.now, &x); c.held(y.now) < 20 {
		t.Errorf("expected the tokens whose slots have not begun, got %d", c.held(y.now))
	}
	y.now = 118e6
	if c.held(y.now) < 20 {
		t.Fatal("expected 20 tokens")
	}
	c.spend(y.now, 20)
	y.admit(20)
	c.restore(y.now, &z)
	y.entries = []*entry{c}
	y.storm()
	if over := y.over(); over > 0 {
		t.Errorf("%d over", over)
	}
}

// RetryAfter does not count on what is held, which may be spent or expire.
func TestRetryAfterWithoutHeld(t *testing.T) {
	for _, used := range []int{0, 500} {
		synctest.Test(t, func(t *testing.T) {
			r := core.TokenBucket("r", core.PerSecond(1000))
			mem := memstore.New()
			s := New(mem)
			defer s.Close()
			if used > 0 {
				take(t, mem, r, driver.Spend, used)
			}
			warm(t, s, r)
			for take(t, mem, r, driver.Spend, 1).Allowed {
			}
			held := int(s.Stats().Held)
			if held == 0 {
				t.Fatal("none held")
			}
			st := take(t, s, r, driver.Spend, held+200)
			if st.Allowed {
				t.Fatal("allowed")
			}
			for i := range 10 {
				time.Sleep(st.RetryAfter)
				if st = take(t, s, r, driver.Spend, held+200); st.Allowed {
					if i > 0 {
						t.Errorf("used %d: admitted after %d waits", used, i+1)
					}
					return
				}
			}
		})
	}
}

// The Store's clock counts whole microseconds, so its window may end almost one earlier
// than it says.
func TestWindowEdge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := core.FixedWindow("w", core.PerSecond(1600))
		mem := memstore.New()
		s := New(mem)
		defer s.Close()
		time.Sleep(700*time.Millisecond + 900*time.Nanosecond)
		warm(t, s, r)
		// Half a microsecond into the next window, by a finer clock than the Store's.
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)) + 500*time.Nanosecond)
		n := 0
		for take(t, mem, r, driver.Spend, 1).Allowed {
			n++
		}
		m := 0
		for m < 2000 && take(t, s, r, driver.Spend, 1).Allowed {
			m++
		}
		if n+m > 1600 {
			t.Errorf("%d admitted in one window of 1600", n+m)
		}
	})
}

// However many rules there are, what is known of them is bounded.
func TestManyRules(t *testing.T) {
	s := New(memstore.New(), MaxKeys(1))
	defer s.Close()
	for i := range 1000 {
		r := core.TokenBucket(fmt.Sprint("tenant", i), core.PerSecond(1000))
		take(t, s, r, driver.Spend, 1)
	}
	if n := len(s.shards[0].units); n > 2 {
		t.Errorf("%d units for %d keys", n, s.Stats().Keys)
	}
}

// After a Refund that is passed on, what is told here is still right.
func TestRemainingAfterRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := core.FixedWindow("w", core.Per(1600, 24*time.Hour))
		s := New(memstore.New())
		defer s.Close()
		take(t, s, r, driver.Spend, 1000)
		warm(t, s, r)
		a := take(t, s, r, driver.Spend, 1)
		take(t, s, r, driver.Credit, 1)
		if s.Stats().Held == 0 {
			t.Fatal("nothing held")
		}
		b := take(t, s, r, driver.Spend, 1)
		if b.Remaining > a.Remaining+1 || b.Window < time.Hour {
			t.Errorf("%d remain, then %d; window %v, reset %v", a.Remaining, b.Remaining, b.Window, b.ResetAfter)
		}
	})
}

// A cost that can never be admitted counts for nothing.
func TestHugeCostIsNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := core.FixedWindow("a", core.Per(1_600_000, 24*time.Hour))
		b := core.FixedWindow("b", core.Per(10, 24*time.Hour))
		for _, times := range []int{1, 2} {
			s := New(memstore.New())
			for range times {
				ch := []driver.Charge{{Key: "k", Rule: a.Compiled(), Cost: math.MaxInt}, {Key: "k", Rule: b.Compiled(), Cost: 1}}
				if err := s.Take(bg, ch); err != nil {
					t.Fatal(err)
				}
				time.Sleep(1100 * time.Millisecond) // MaxAge: the denial is forgotten
			}
			var c *entry
			for i := range s.shards {
				for _, x := range s.shards[i].entries {
					if x.u.full == 1_600_000 {
						c = x
					}
				}
			}
			spent := c.spent
			take(t, s, a, driver.Spend, 1)
			if spent > 1_600_000 || spent < 0 || s.Stats().Held > 10 {
				t.Errorf("times %d: spent %d, held %d", times, spent, s.Stats().Held)
			}
			s.Close()
		}
	})
}

// A cost above the capacity takes nothing, whatever is held and free.
func TestOverCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []core.Rule{core.FixedWindow("w", core.Per(1600, 24*time.Hour)), core.TokenBucket("r", core.Per(1600, 24*time.Hour))} {
			mem := memstore.New()
			s := New(mem)
			take(t, s, r, driver.Spend, 100)
			warm(t, s, r)
			held := int(s.Stats().Held)
			take(t, s, r, driver.Credit, 1600)
			st := take(t, s, r, driver.Spend, 1600+held/2)
			p := take(t, mem, r, driver.Peek, 1)
			if st.Allowed || p.Remaining < 1000 {
				t.Errorf("%v: allowed %v, %d left", &r, st.Allowed, p.Remaining)
			}
			s.Close()
		}
	})
}

// What the Store has not given is not counted as leased.
func TestLeasedIsWhatWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := core.FixedWindow("w", core.Per(1600, 24*time.Hour))
		mem := memstore.New()
		fail := false
		l := &link{Store: mem}
		l.before = func([]driver.Charge) error {
			if fail {
				return errors.New("down")
			}
			return nil
		}
		s := New(l)
		warm(t, s, r)
		for s.Stats().Held > 0 {
			take(t, s, r, driver.Spend, 1)
			synctest.Wait()
			if s.Stats().Held < 20 {
				fail = true
			}
			if fail {
				break
			}
		}
		before := s.Stats().Leased
		for range 500 {
			ch := []driver.Charge{{Key: "k", Rule: r.Compiled(), Cost: 1}}
			_ = s.Take(bg, ch)
		}
		if after := s.Stats().Leased; after > before {
			t.Errorf("leased %d, then %d from a store that is down", before, after)
		}
		s.Close()
	})
}

// sides are two stores that a failover store switches between.
type sides struct {
	driver.Store
	backup driver.Store
	failed bool
}

func (s *sides) Take(ctx context.Context, charges []driver.Charge) error {
	side, origin := s.Store, 1
	if s.failed {
		side, origin = s.backup, 2
	}
	err := side.Take(ctx, charges)
	for i := range charges {
		if m := charges[i].Receipt; m != nil {
			m.Origin = origin
		}
	}
	return err
}

// All tokens that are held are of one side of a failover store, so that an Undo of several
// goes to the side that gave them.
func TestStore_SidesOfFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := core.FixedWindow("w", core.Per(16000, 24*time.Hour))
		behind := &sides{Store: memstore.New(), backup: memstore.New()}
		s := New(behind)
		defer s.Close()
		for i := range 2000 {
			behind.failed = i%200 >= 100
			var m driver.Receipt
			ch := []driver.Charge{{Key: "k", Rule: r.Compiled(), Cost: 1 + i%7, Receipt: &m}}
			if err := s.Take(bg, ch); err != nil || !ch[0].Verdict.Allowed {
				t.Fatal(err, ch[0].Verdict)
			}
			synctest.Wait()
			seen := make(map[int]bool)
			for i := range s.shards {
				for _, c := range s.shards[i].entries {
					for _, b := range c.blocks {
						if b.tokens(c.u) > 0 {
							seen[b.origin] = true
						}
					}
				}
			}
			if len(seen) > 1 {
				t.Fatalf("event %d: expected tokens of one side, got those of %v", i, seen)
			}
		}
	})
}

// A decision that took tokens of one side and is denied after the switch puts nothing back.
func TestCell_RestoreOtherSide(t *testing.T) {
	rule := core.FixedWindow("w", core.Per(16000, 24*time.Hour))
	c := &entry{u: newUnits(rule.Compiled(), time.Second)}
	c.setOrigin(1)
	c.add(block{expires: forever, end: 20, origin: 1}, 0)
	first := grant{block: c.spend(0, 5), entry: c}
	c.setOrigin(2)
	c.add(block{expires: forever, end: 20, origin: 2}, 0)
	second := grant{block: c.spend(0, 5), entry: c}
	c.restore(0, &first)
	if held := c.held(0); held != 15 {
		t.Errorf("expected the 15 tokens of the second side, got %d", held)
	}
	c.restore(0, &second)
	if held := c.held(0); held != 20 {
		t.Errorf("expected all 20 tokens of the second side, got %d", held)
	}
}
