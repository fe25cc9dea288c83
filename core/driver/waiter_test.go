package driver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/waiters"
)

// queuesOf returns the State of a rule of n places with the given numbers of taken places and of queues.
func queuesOf(t *testing.T, rule *driver.Compiled, taken, queues int, now int64) (s driver.State) {
	t.Helper()
	for range taken {
		c := driver.Charge{Key: "k", Rule: rule, Cost: 1}
		if s = charge(&c, s, now); !c.Verdict.Allowed {
			t.Fatal("no place is free")
		}
	}
	for i := range queues {
		w := &driver.Waiter{Queue: int64(i) + 1, Age: time.Duration(queues-i) * time.Microsecond}
		c := driver.Charge{Key: "k", Rule: rule, Cost: 1, Waiter: w}
		if s = charge(&c, s, now); c.Verdict.Allowed || c.Receipt != (driver.Receipt{}) {
			t.Fatalf("queue %d: got %+v with the Receipt %+v", i, c.Verdict, c.Receipt)
		}
	}
	return s
}

func TestState_Queues(t *testing.T) {
	for _, byCost := range []bool{false, true} {
		rule := compile(t, driver.Definition{Algorithm: driver.InFlight, Name: "places", Events: 3, Hold: time.Minute, ByCost: byCost})
		now := int64(1_700_000_000_000_000)
		for _, queues := range []int{0, 1, 5, 64, 70} {
			s := queuesOf(t, rule, 3, queues, now)
			d := decoded(t, s)
			for _, at := range []int64{now, now + 2_000_000, now + 60_000_000} {
				peek := driver.Charge{Key: "k", Rule: rule, Op: driver.Peek, Cost: 1}
				if a, b := peek.Read(s, at), peek.Read(d, at); a != b {
					t.Errorf("%d queues after %d us: got %+v, want %+v", queues, at-now, b, a)
				}
			}
			if rule.ExpiresAt(s) != rule.ExpiresAt(d) || rule.ExpiresAt(s) != now+60_000_000 {
				t.Errorf("%d queues: the state expires at %d and %d", queues, rule.ExpiresAt(s), rule.ExpiresAt(d))
			}
		}
	}
}

// Bytes that no State has are refused, and other States are no places.
func TestState_Queues_Invalid(t *testing.T) {
	rule := compile(t, driver.Definition{Algorithm: driver.InFlight, Name: "places", Events: 3, Hold: time.Minute})
	valid := marshal(t, queuesOf(t, rule, 3, 2, 1_700_000_000_000_000))
	var s driver.State
	if err := s.UnmarshalBinary(valid); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"no queue":         {4, 0},
		"65 queues":        {4, 65},
		"cut":              valid[:8],
		"the number 0":     {4, 1, 1, 0, 1, 1},
		"the cost 0":       {4, 1, 1, 1, 1, 0},
		"one number twice": {4, 2, 1, 1, 1, 1, 1, 1, 1, 1},
		"another order":    {4, 2, 1, 2, 1, 1, 0, 1, 1, 1},
	} {
		if err := s.UnmarshalBinary(b); err == nil {
			t.Errorf("%s: %x was decoded", name, b)
		}
	}
	for _, other := range []driver.State{{Time: 1, Amount: 2, Debt: 3}, {Time: -1, Debt: 9}} {
		c := driver.Charge{Key: "k", Rule: rule, Cost: 1, Waiter: &driver.Waiter{Queue: 1}}
		if s := charge(&c, other, 1_700_000_000_000_000); !c.Verdict.Allowed || c.Verdict.Remaining != 2 {
			t.Errorf("%+v: got %+v and %+v", other, c.Verdict, s)
		}
	}
}

// Callers of one key with different limits get places as their own limits say.
func TestWaiter_OtherLimits(t *testing.T) {
	small := compile(t, driver.Definition{Algorithm: driver.InFlight, Name: "places", Events: 2, Hold: time.Minute})
	large := compile(t, driver.Definition{Algorithm: driver.InFlight, Name: "places", Events: 4, Hold: time.Minute})
	now := int64(1_700_000_000_000_000)
	var s driver.State
	var receipts []driver.Receipt
	for range 4 {
		c := driver.Charge{Key: "k", Rule: large, Cost: 1}
		s = charge(&c, s, now)
		receipts = append(receipts, c.Receipt)
	}
	ask := func(rule *driver.Compiled, queue int64) bool {
		c := driver.Charge{Key: "k", Rule: rule, Cost: 1, Waiter: &driver.Waiter{Queue: queue, Age: time.Second, Known: true}}
		s = charge(&c, s, now)
		return c.Verdict.Allowed
	}
	free := func(rule *driver.Compiled) {
		c := driver.Charge{Key: "k", Rule: rule, Op: driver.Undo, Cost: 1, Receipt: receipts[0]}
		receipts = slices.Delete(receipts, 0, 1)
		s = charge(&c, s, now)
	}
	admitted := []bool{ask(large, 2)}
	free(small)
	admitted = append(admitted, ask(large, 2), ask(small, 1))
	free(large)
	admitted = append(admitted, ask(small, 1))
	free(large)
	free(large)
	admitted = append(admitted, ask(small, 1))
	if !slices.Equal(admitted, []bool{false, true, false, false, true}) {
		t.Errorf("admitted: %v", admitted)
	}
}

// A caller is woken by the first one of several places that are freed, and again only after its next Spend.
func TestWaiter_Woken(t *testing.T) {
	for _, byCost := range []bool{false, true} {
		rule := compile(t, driver.Definition{Algorithm: driver.InFlight, Name: "places", Events: 4, Hold: time.Minute, ByCost: byCost})
		now := int64(1_700_000_000_000_000)
		var s driver.State
		decide := func(w *driver.Waiter) driver.Charge {
			c := driver.Charge{Key: "k", Rule: rule, Cost: 1, Waiter: w}
			s = charge(&c, s, now)
			return c
		}
		var receipts []driver.Receipt
		for range 4 {
			receipts = append(receipts, decide(nil).Receipt)
		}
		var list waiters.List[int]
		w := list.Join("k", 1, 0, 1)
		waiter := &driver.Waiter{Queue: w.Queue.ID, Behind: 0, Next: 1}
		woken := func() int { return len(w.Freed()) }
		free := func() {
			c := driver.Charge{Key: "k", Rule: rule, Op: driver.Undo, Cost: 1, Receipt: receipts[0]}
			receipts = receipts[1:]
			r := c.Read(s, now)
			before := woken()
			if s = c.Apply(s, &r, now); woken() != before {
				t.Error("a caller is woken before the state is stored")
			}
			for range 2 {
				c.Answer(&r, false)
			}
		}
		if decide(waiter); woken() != 0 {
			t.Error("a caller who was denied is woken")
		}
		for i := range 3 {
			if free(); woken() != 1-min(i, 1) {
				t.Errorf("by cost %t: after %d places were freed, the caller was woken %d times", byCost, i+1, woken())
			}
			if i == 0 {
				<-w.Freed()
			}
		}
		if c := decide(waiter); !c.Verdict.Allowed || woken() != 1 { // a place is free for the next caller
			t.Errorf("by cost %t: got %+v, and the next caller was woken %d times", byCost, c.Verdict, woken())
		}
		list.Leave("k", w, true)
	}
}
