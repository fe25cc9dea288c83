package driver_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// rules returns small and large rules of every algorithm, with fractions and soft limits.
func rules(t testing.TB) (all []*driver.Compiled) {
	for i, d := range []driver.Definition{
		{Algorithm: driver.TokenBucket, Events: 10, Per: time.Second},
		{Algorithm: driver.TokenBucket, Events: 7, Per: 11 * time.Microsecond, Burst: 3},
		{Algorithm: driver.TokenBucket, Events: 1_000_003, Per: time.Microsecond, Burst: 5},
		{Algorithm: driver.TokenBucket, Events: 1, Per: time.Duration(driver.Horizon) * time.Microsecond},
		{Algorithm: driver.LeakyBucket, Events: 3, Per: time.Second, Burst: 20, Soft: 50},
		{Algorithm: driver.FixedWindow, Events: 10, Per: time.Second},
		{Algorithm: driver.FixedWindow, Events: 5, Per: 7 * time.Microsecond, Soft: 100},
		{Algorithm: driver.SlidingLog, Events: 10, Per: time.Second},
		{Algorithm: driver.SlidingLog, Events: 5, Per: 7 * time.Microsecond, Soft: 100},
		{Algorithm: driver.SlidingWindow, Events: 100, Per: time.Minute, SubWindows: 60},
		{Algorithm: driver.SlidingWindow, Events: 5, Per: 1001 * time.Microsecond, SubWindows: 7},
		{Algorithm: driver.SlidingWindow, Events: 2, Per: time.Duration(driver.Horizon) * time.Microsecond, SubWindows: 1},
		{Algorithm: driver.InFlight, Events: 3, Hold: time.Second},
		{Algorithm: driver.InFlight, Events: 500, Hold: 24 * time.Hour, Soft: 100},
		{Algorithm: driver.InFlight, Events: 4, Hold: time.Second, ByCost: true},
		{Algorithm: driver.InFlight, Events: 500_000, Hold: 24 * time.Hour, Soft: 100, ByCost: true},
		{Algorithm: driver.InFlight, Events: 20, Hold: time.Minute, Headroom: 50, ByCost: true},
		{Algorithm: driver.TokenBucket, Events: 7, Per: 11 * time.Microsecond, Burst: 10, Headroom: 30},
		{Algorithm: driver.LeakyBucket, Events: 3, Per: time.Second, Burst: 20, Soft: 50, Headroom: 50},
		{Algorithm: driver.SlidingLog, Events: 10, Per: time.Second, Headroom: 20},
		{Algorithm: driver.Quota, Events: 10, Calendar: driver.Day, Soft: 50},
		{Algorithm: driver.Quota, Events: 1000, Calendar: driver.Month},
		{Algorithm: driver.Pause},
	} {
		d.Name = fmt.Sprint("rule ", i)
		all = append(all, during(compile(t, d)))
	}
	for _, a := range testkit.Names() {
		all = append(all, during(compile(t, valid(a))))
	}
	return all
}

// span returns a time in which a rule forgets an event, or an hour for a pause.
func span(c *driver.Compiled) int64 {
	k := c.Constants
	if c.Algorithm == driver.Pause {
		return time.Hour.Microseconds()
	}
	return max(k.Period, k.Full.Micros, 1)
}

// takesOne reports whether an event takes one place of c.
func takesOne(c *driver.Compiled) bool { return c.Algorithm == driver.InFlight && !c.ByCost }

// hasOp reports whether charges of c may have op.
func hasOp(c *driver.Compiled, op driver.Op) bool {
	switch op {
	case driver.Debit, driver.Credit:
		return c.Algorithm != driver.InFlight
	case driver.Renew:
		return c.Algorithm == driver.InFlight
	}
	return true
}

// A sequence is a random sequence of charges of all ops, with clocks that step back.
type sequence struct {
	rng      *rand.Rand
	rule     *driver.Compiled
	now      int64
	receipts []driver.Receipt
}

func newSequence(seed uint64, c *driver.Compiled) *sequence {
	return &sequence{rng: rand.New(rand.NewPCG(seed, 7)), rule: c, now: start}
}

// next moves the clock and returns a charge. remember keeps its receipt.
func (s *sequence) next() driver.Charge {
	switch s.rng.IntN(6) {
	case 0:
		s.now -= s.rng.Int64N(span(s.rule)) / 2
	case 1:
		s.now++
	case 2:
		s.now += s.rng.Int64N(2 * span(s.rule))
	case 3, 4:
		s.now += s.rng.Int64N(span(s.rule)/5 + 1)
	}
	s.now = min(max(s.now, 1), 1<<53-1)
	capacity := int(min(s.rule.Constants.Capacity, math.MaxInt32-1))
	c := driver.Charge{Cost: 1 + s.rng.IntN(2), Op: driver.Op(s.rng.IntN(int(driver.Undo) + 1))}
	switch {
	case s.rng.IntN(3) > 0:
		c.Op = driver.Spend
	case c.Op == driver.Reset && s.rng.IntN(4) > 0:
		c.Op = driver.Debit
	}
	if s.rng.IntN(5) == 0 {
		c.Cost = 1 + s.rng.IntN(capacity+1)
	}
	if takesOne(s.rule) {
		c.Cost = 1
	}
	if s.rule.Algorithm == driver.InFlight && !hasOp(s.rule, c.Op) {
		c.Op = driver.Renew
	}
	if s.rule.Algorithm == driver.Pause && c.Op == driver.Debit {
		c.Pause = time.Duration(s.rng.Int64N(2*span(s.rule))) * time.Microsecond
	}
	if c.Receipt = (driver.Receipt{}); c.Op >= driver.Undo && len(s.receipts) > 0 {
		c.Receipt = s.receipts[s.rng.IntN(len(s.receipts))]
	}
	return c
}

func (s *sequence) remember(c driver.Charge) {
	if c.Op < driver.Undo && c.Receipt != (driver.Receipt{}) {
		s.receipts = append(s.receipts[max(0, len(s.receipts)-3):], c.Receipt)
	}
}

// A State that was coarsened counts the same events, for longer but never for shorter.
func TestState_Coarsen(t *testing.T) {
	c, coarsened := rule(t, driver.SlidingLog, 50, 1000), 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 8))
		exact, coarse, now := key{rule: c}, key{rule: c}, start
		for range 50 {
			now += rng.Int64N(10)
			exact.spend(1, now)
			before := coarse.state.Size()
			if coarse.spend(1, now); rng.IntN(10) > 0 {
				continue
			}
			count := coarse.state.Amount
			if coarse.state = coarse.state.Coarsen(); coarse.state.Amount != count {
				t.Fatalf("got %d events, expected %d", coarse.state.Amount, count)
			}
			if count > 2 && coarse.state.Size() > before {
				t.Fatalf("got %d bytes, expected at most %d", coarse.state.Size(), before)
			}
			coarsened++
		}
		for range 100 {
			now += rng.Int64N(30)
			e, k := read(c, exact.state, now, 1), read(c, coarse.state, now, 1)
			if k.Count < e.Count || k.First < e.First || k.Last < e.Last || k.Retry < e.Retry {
				t.Fatalf("got %+v, expected at least %+v", k, e)
			}
		}
		if r := read(c, coarse.state, now+1000, 1); inUse(c, r) {
			t.Fatalf("got %+v a period later, expected nothing in use", r)
		}
	}
	if coarsened < 300 {
		t.Errorf("got %d States that were coarsened, expected at least 300", coarsened)
	}
}

// If the last append made the array of a history larger, Coarsen makes it as small as before.
func TestState_Coarsen_AfterGrowth(t *testing.T) {
	c := rule(t, driver.SlidingLog, 2000, 1_000_000)
	k := key{rule: c}
	for n := range 2000 {
		before := k.state.Size()
		if k.spend(1, start+int64(n)); n < 2 || k.state.Size() == before {
			continue
		}
		if got := k.state.Coarsen(); got.Size() > before || got.Amount != int64(n)+1 {
			t.Errorf("got %d bytes and %d events, expected at most %d and %d", got.Size(), got.Amount, before, n+1)
		}
		k = key{rule: c} // the argument of Coarsen must not be used again
		for i := range n + 1 {
			k.spend(1, start+int64(i))
		}
	}
}

// A log whose events have left frees the memory that it no longer needs.
func TestState_Size_AfterEventsLeft(t *testing.T) {
	k := key{rule: rule(t, driver.SlidingLog, 1000, 1_000_000)}
	for i := range int64(1000) {
		k.spend(1, start+i)
	}
	large := k.state.Size()
	for i := range int64(1500) {
		k.spend(1, start+2_000_000+i*500_000)
	}
	if got := k.state.Size(); got > large/20 {
		t.Errorf("got %d bytes for 2 events, expected at most %d", got, large/20)
	}
}

func TestState_Coarsen_Others(t *testing.T) {
	for _, c := range rules(t) {
		if k := (key{rule: c}); !c.Kind.Refills && c.Algorithm != driver.FixedWindow && c.Algorithm != driver.Quota {
			continue
		} else if k.spend(1, start); k.state.Coarsen() != k.state || k.state.Size() != 0 {
			t.Errorf("%v: got %+v of %d bytes expected %+v without memory", c, k.state.Coarsen(), k.state.Size(), k.state)
		}
	}
}

// The exported fields are the whole State of a rule, unless it keeps the times of its events or places.
func TestState_Fields(t *testing.T) {
	for i, c := range rules(t) {
		whole, logs := 0, 0
		k, s := key{rule: c}, newSequence(uint64(i), c)
		for range 300 {
			charge := s.next()
			k.do(charge, s.now)
			s.remember(charge)
			switch s := k.state; {
			case s != (driver.State{Time: s.Time, Amount: s.Amount, Debt: s.Debt}):
				logs++
			case s != (driver.State{}):
				whole++
			}
		}
		keeps := !c.Kind.Refills && !c.Kind.Windows && !c.Kind.Closes
		if keeps != (whole == 0) || keeps != (logs > 0) {
			t.Errorf("%v: got %d States of three numbers and %d others", c, whole, logs)
		}
	}
}
