package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

func placePerEvent(s *subject) {
	for i, step := range []time.Duration{0, time.Microsecond, time.Second} {
		s.eachPlaces(fmt.Sprint("step", i), 4, unchanged, func(p places) {
			p.left(4 * p.cost)
			var taken []driver.Receipt
			for i := range 4 {
				taken = append(taken, p.take((3-i)*p.cost))
				s.Advance(step)
			}
			p.deny(hold - 4*step)
			p.differ(taken)
			// A place is free again at once, whichever event ends first.
			for _, i := range []int{2, 0, 3} {
				p.free(taken[i], p.cost)
				taken[i] = p.take(0)
			}
			p.deny(hold - 3*step) // the place of the second event
			for i, m := range taken {
				p.free(m, (i+1)*p.cost)
			}
			p.unused()
		})
	}
	s.eachPlaces("soft", 2, func(d *driver.Definition) { d.Soft = 50 }, func(p places) {
		p.full(2)
		if v := p.do(driver.Spend, driver.Receipt{}); !v.Allowed || !v.Soft || v.Remaining != 0 {
			p.fail("the extra place of a soft limit: got %+v", v)
		}
		p.deny(hold)
	})
}

func lapsedPlaces(s *subject) {
	s.eachPlaces("lapse", 2, unchanged, func(p places) {
		n := p.cost
		first := p.take(n)
		s.Advance(10 * time.Second)
		second := p.take(0)
		p.deny(hold - 10*time.Second)
		s.Advance(hold - 10*time.Second - time.Microsecond)
		p.deny(time.Microsecond)
		s.Advance(time.Microsecond)
		p.left(n)
		// The first place has lapsed, and nothing brings it back.
		for range 2 {
			p.renew(first, false, n)
			p.free(first, n)
		}
		third := p.take(0)
		p.renew(first, false, 0)
		p.free(first, 0)
		// The second place is renewed a microsecond before it lapses, and then lapses last.
		s.Advance(10*time.Second - time.Microsecond)
		for range 2 {
			p.renew(second, true, 0)
		}
		p.deny(hold - 10*time.Second + time.Microsecond)
		s.Advance(hold - 10*time.Second + time.Microsecond)
		p.renew(third, false, n)
		s.Advance(10*time.Second - 2*time.Microsecond)
		p.renew(second, true, n)
		s.Advance(hold)
		p.renew(second, false, 2*n)
		p.left(2 * n)
	})
}

func freedPlaces(s *subject) {
	for _, c := range []struct {
		p     places
		costs [6]int // of the events
	}{
		{s.places("free", 3), [6]int{1, 1, 1, 1, 1, 1}},
		{s.placesByCost("free by cost", 100), [6]int{10, 10, 30, 5, 65, 95}},
	} {
		p, all := c.p, c.p.rule.Events
		left := all
		take := func(i int) driver.Receipt {
			s.Helper()
			left -= c.costs[i]
			return p.costs(c.costs[i]).take(left)
		}
		first, second, third := take(0), take(1), take(2)
		p.differ([]driver.Receipt{first, second, third})
		left += c.costs[0]
		for range 3 { // the reply to an Undo or Renew may have been lost
			p.costs(c.costs[0]).free(first, left)
			p.costs(c.costs[0]).renew(first, false, left)
		}
		left += c.costs[2]
		p.free(third, left)    // whatever the cost of the Undo
		s.Advance(time.Second) // in the same microsecond, a place may get the number of one that was freed
		third = take(2)
		// The Receipts of no event, some of them of a cost that no event has.
		for _, m := range []driver.Receipt{first, {}, {At: second.At + 1_000_000}, {At: second.At + 1<<20}, {At: second.At ^ 2}, {At: -second.At}} {
			p.free(m, left)
			p.renew(m, false, left)
		}
		another := p.of(func(d *driver.Definition) { d.Name = "another " + d.Name })
		for _, unused := range []places{{s, p.rule, "other", 1}, another} {
			unused.free(second, all)
			unused.renew(second, false, all)
		}
		s.Advance(10 * time.Second)
		p.renew(third, true, left)
		fourth := take(3)
		s.Advance(hold - 11*time.Second)
		left += c.costs[1] // the second lapses
		p.left(left)
		if p.rule.ByCost {
			p.costs(left+1).denyWith(left, 11*time.Second)
		}
		for range 2 {
			p.free(second, left)
			p.renew(second, false, left)
		}
		fifth := take(4)
		p.deny(11 * time.Second)
		p.renew(fourth, true, 0)
		s.Advance(11 * time.Second)
		left += c.costs[2] // the third lapses, which is the oldest now
		if p.rule.ByCost {
			p.costs(left+1).denyWith(left, hold-11*time.Second)
		}
		p.free(third, left)
		p.renew(third, false, left)
		left += c.costs[4]
		p.free(fifth, left)
		sixth := take(5)
		s.Advance(hold - 11*time.Second) // the fourth lapses
		p.free(sixth, all)
		p.unused()
		left = all
		last := take(5)
		for _, found := range []bool{true, false} {
			if v := p.do(driver.Reset, driver.Receipt{}); v.Found != found || v.Remaining != all || v.ResetAfter != 0 {
				p.fail("a Reset: got %+v, want Found %t", v, found)
			}
		}
		left = all
		p.renew(last, false, left)
		s.Advance(time.Second)
		take(5)
		p.free(last, left)
		p.left(left)
	}
}

// mostEvents takes the places of 1000 events, of cost 1.
func mostEvents(s *subject) {
	for _, p := range []places{s.places("n", 1000), s.placesByCost("n by cost", 2000)} {
		n := p.rule.Events
		beyond := n - 1000 // the places that no event can take
		var taken []driver.Receipt
		for i := range 1000 {
			s.Advance(time.Millisecond)
			left := n - i - 1
			if i == 999 {
				left = 0
			}
			taken = append(taken, p.take(left))
		}
		p.deny(hold - 999*time.Millisecond)
		if p.rule.ByCost {
			p.costs(beyond).deny(hold - 999*time.Millisecond)
			p.costs(beyond + 1).deny(hold - 999*time.Millisecond)
			p.costs(beyond + 2).deny(hold - 998*time.Millisecond)
			p.costs(n).deny(hold)
			p.costs(n).takeAtMost(0, 0)
		}
		p.renew(taken[0], true, 0)
		p.deny(hold - 998*time.Millisecond)
		p.free(taken[1], beyond+1)
		p.costs(beyond + 1).take(0)
		p.free(taken[2], 1)
		if p.rule.ByCost {
			p.costs(2).denyWith(1, hold-996*time.Millisecond)
		}
		p.take(0)
		s.Advance(hold)
		p.left(n)
	}
}

// placesTogether charges places and another rule, of which either denies.
func placesTogether(s *subject, a algorithm) {
	type step struct {
		cost           int
		admitted       bool
		left, rateLeft int
	}
	for _, c := range []struct {
		p, shadow places
		rate      int
		steps     []step
	}{
		{s.places(a.Name, 2), s.places("shadow "+a.Name, 1), 3,
			[]step{{1, true, 1, 2}, {1, true, 0, 1}, {1, false, 0, 1}, {1, false, 0, 1}}},
		{s.placesByCost(a.Name+" by cost", 5), s.placesByCost("shadow by cost "+a.Name, 2), 9,
			[]step{{2, true, 3, 7}, {4, false, 3, 7}, {6, false, 3, 7}, {3, true, 0, 4}, {1, false, 0, 4}}},
	} {
		p, shadow := c.p, c.shadow.of(func(d *driver.Definition) { d.Shadow = true })
		rate := places{s, testkit.Compiled(a.Rule("rate of "+p.rule.Name, core.PerHour(c.rate))), "o", 1}
		for i, step := range c.steps {
			var charges []driver.Charge
			for _, q := range []places{p, rate, shadow} {
				charges = append(charges, q.costs(step.cost).charge(driver.Spend, driver.Receipt{}))
			}
			if i%2 > 0 {
				charges[0], charges[1] = charges[1], charges[0]
			}
			admitted := true
			for _, c := range p.call(charges...) {
				admitted = admitted && (c.Verdict.Allowed || c.Rule.Shadow)
				if wrote := c.Receipt != (driver.Receipt{}); wrote != (step.admitted && (!c.Rule.Shadow || i == 0)) {
					p.fail("decision %d: got the Receipt %+v of %v", i, c.Receipt, c.Rule)
				}
			}
			if admitted != step.admitted {
				p.fail("decision %d: got admitted %t, want %t", i, admitted, step.admitted)
			}
			p.left(step.left) // the denials took nothing
			rate.left(step.rateLeft)
			shadow.left(0)
		}
		p.do(driver.Reset, driver.Receipt{})
		rate.costs(c.steps[len(c.steps)-1].rateLeft).do(driver.Debit, driver.Receipt{})
		charges := p.call(p.charge(driver.Spend, driver.Receipt{}), rate.charge(driver.Spend, driver.Receipt{}))
		if !charges[0].Verdict.Allowed || charges[1].Verdict.Allowed || charges[0].Receipt != (driver.Receipt{}) {
			p.fail("a denial by %v: got %+v", rate.rule, charges)
		}
		p.left(p.rule.Events)
		shadow.left(0)
	}
}

func changedPlaces(s *subject) {
	s.eachPlaces("n", 5, unchanged, func(large places) {
		n := large.cost
		small, part := large.of(func(d *driver.Definition) { d.Events = 2 * n }), large
		part.rule = large.rule.Divide(2)
		if part.rule.Events != 5*n/2 || part.rule.ByCost != large.rule.ByCost {
			large.fail("a half of the places: got %+v", part.rule.Definition)
		}
		var taken []driver.Receipt
		for i := range 4 {
			taken = append(taken, large.take((4-i)*n))
			s.Advance(time.Second)
		}
		// Three places have to end before a limit of two admits.
		for _, p := range []places{small, part} {
			p.deny(hold - 2*time.Second)
		}
		if large.rule.ByCost { // 28 places are taken, of 14 and of 17
			for _, c := range []struct {
				p         places
				cost, end int // events that have to end
			}{{small, 1, 3}, {small, 8, 4}, {small, 14, 4}, {part, 1, 2}, {part, 3, 2}, {part, 4, 3}} {
				c.p.costs(c.cost).deny(hold - 5*time.Second + time.Duration(c.end)*time.Second)
			}
			small.costs(15).deny(driver.Never)
			small.costs(14).takeAtMost(0, 0)
		}
		small.renew(taken[0], true, 0)
		small.deny(hold - time.Second)
		small.free(taken[3], 0)
		small.free(taken[1], 0)
		large.left(3 * n)
		part.left(part.rule.Events - 2*n)
		small.free(taken[0], n)
		longer := large.of(func(d *driver.Definition) { d.Hold = hold + time.Second })
		longer.left(5 * n) // places of another Hold are apart
	})
}

func placesAndClock(s *subject) {
	for _, c := range []struct {
		p      places
		costs  [3]int // of three events, which take all places
		atMost []bool
	}{
		{s.places("clock", 3), [3]int{1, 1, 1}, []bool{false}},
		{s.placesByCost("clock by cost", 9).costs(9), [3]int{2, 3, 4}, []bool{false, true}},
	} {
		p := c.p
		a, b, c, atMost := p.costs(c.costs[0]), p.costs(c.costs[1]), p.costs(c.costs[2]), c.atMost
		rest := p.rule.Events - b.cost
		s.Advance(time.Hour)
		first := a.take(b.cost + c.cost)
		s.Advance(10 * time.Second)
		second := b.take(c.cost)
		s.Advance(-10 * time.Minute)
		third := c.take(0)
		p.deny(hold) // a place that was renewed later counts as renewed now
		s.Advance(hold - time.Microsecond)
		p.deny(time.Microsecond)
		p.renew(second, true, 0)
		s.Advance(time.Microsecond)
		p.renew(first, false, rest)
		p.renew(third, false, rest)
		s.Advance(-time.Second)
		p.renew(second, true, rest)
		// A Peek of a full key, and a Take of at most a cost, write the correction, too.
		for _, atMost := range atMost {
			for _, step := range []time.Duration{hold / 2, hold, time.Hour} {
				a.take(c.cost)
				c.take(0)
				s.Advance(-step)
				retry := func(want time.Duration) {
					s.Helper()
					ask := p.charge(driver.Peek, driver.Receipt{})
					if atMost {
						ask.Op, ask.AtMost = driver.Spend, true
					}
					if v := p.call(ask)[0].Verdict; v.Allowed || v.RetryAfter != want {
						p.fail("at most %t, a step of %v: got %+v, want RetryAfter %v", atMost, -step, v, want)
					}
				}
				retry(hold)
				s.Advance(hold - time.Microsecond)
				retry(time.Microsecond)
				s.Advance(time.Microsecond)
				p.left(p.rule.Events)
				b.take(rest)
			}
		}
		// Events of one cost that began at the same time, before and after a step back, have different numbers.
		fourth := a.take(c.cost)
		s.Advance(time.Second)
		s.Advance(-time.Second)
		fifth := a.take(c.cost - a.cost)
		p.free(fourth, c.cost)
		p.renew(fifth, true, c.cost)
	}
}

// concurrentPlaces sums the costs of the events that are in progress.
func concurrentPlaces(s *subject) {
	const goroutines, calls = 64, 12
	for _, c := range []struct {
		p        places
		mostCost int
	}{{s.places("concurrent", 5), 1}, {s.placesByCost("concurrent by cost", 13), 6}} {
		p := c.p
		var running, most, denied atomic.Int64
		var failed atomic.Pointer[error]
		testkit.Concurrently(goroutines, func(i int) {
			for j := range calls {
				charges := []driver.Charge{p.costs(1+(i+j)%c.mostCost).charge(driver.Spend, driver.Receipt{})}
				charges[0].AtMost = p.rule.ByCost && i%8 == 0
				err := p.Store.Take(context.Background(), charges)
				taken := charges[0]
				if err == nil && !taken.Verdict.Allowed {
					denied.Add(1)
					continue
				}
				n := running.Add(int64(taken.Cost))
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				for _, op := range []driver.Op{driver.Renew, driver.Undo} {
					if err == nil {
						if op == driver.Undo {
							running.Add(-int64(taken.Cost))
						}
						err = p.Store.Adjust(context.Background(), []driver.Charge{p.charge(op, taken.Receipt)})
					}
				}
				if err != nil {
					failed.Store(&err)
					return
				}
			}
		})
		if err := failed.Load(); err != nil {
			p.fail("a call failed: %v", *err)
		}
		if most.Load() > int64(p.rule.Events) || denied.Load() == goroutines*calls {
			p.fail("got %d places at the same time and %d denials, want at most %d places", most.Load(), denied.Load(), p.rule.Events)
		}
		p.left(p.rule.Events)
	}
}
