package storetest

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// placesByCost returns the key "k" of a rule of n places by cost.
func (s *subject) placesByCost(name string, n int) places {
	return s.places(name, 1).of(func(d *driver.Definition) { d.Events, d.ByCost = n, true })
}

// costs returns p with charges of cost n.
func (p places) costs(n int) places {
	p.cost = n
	return p
}

// takeAtMost takes at most the cost of p, of which the Store must take want and leave left places.
func (p places) takeAtMost(want, left int) driver.Receipt {
	p.Helper()
	c := p.charge(driver.Spend, driver.Receipt{})
	c.AtMost = true
	c = p.call(c)[0]
	if v := c.Verdict; c.Cost != max(1, want) || v.Allowed != (want > 0) || v.Remaining != left ||
		(c.Receipt != driver.Receipt{}) != (want > 0) {
		p.fail("a Spend of at most %d: got the cost %d, the Receipt %v and %+v, want %d of them and %d places left",
			p.cost, c.Cost, c.Receipt, v, want, left)
	}
	return c.Receipt
}

func placesByCost(s *subject) {
	p := s.placesByCost("n", 10)
	p.costs(4).take(6)
	s.Advance(time.Second)
	p.costs(3).take(3)
	s.Advance(time.Second)
	p.costs(4).denyWith(3, hold-2*time.Second)
	p.costs(3).take(0) // a smaller event fits
	for cost := 1; cost <= 10; cost++ {
		retry := hold
		switch {
		case cost <= 4:
			retry -= 2 * time.Second
		case cost <= 7:
			retry -= time.Second
		}
		p.costs(cost).deny(retry)
	}
	for _, ends := range []struct {
		after       time.Duration
		left, later int
	}{{hold - 2*time.Second, 0, 4}, {time.Second, 4, 7}, {time.Second, 7, 10}} {
		s.Advance(ends.after - time.Microsecond)
		p.costs(ends.later).denyWith(ends.left, time.Microsecond)
		s.Advance(time.Microsecond)
		p.costs(ends.later).left(ends.later)
	}
	for i, want := range []int{1, 1_000_000} {
		wide := s.placesByCost(fmt.Sprint("wide", i), want)
		wide.costs(want).take(0)
		wide.deny(hold)
		wide.costs(want).deny(hold)
	}
}

func placesThatNeverFit(s *subject) {
	for name, soft := range map[string]float64{"hard": 0, "soft": 50} {
		p := s.placesByCost(name, 10).of(func(d *driver.Definition) { d.Soft = soft })
		most := 10 + int(soft)/10
		for _, taken := range []int{0, 3} {
			if taken > 0 {
				p.costs(taken).take(10 - taken)
			}
			for _, cost := range []int{most + 1, 1 << 20, 1<<20 + 1, math.MaxInt32, math.MaxInt} {
				p.costs(cost).denyWith(10-taken, driver.Never)
			}
		}
		c := p.costs(most - 3)
		if v := c.do(driver.Spend, driver.Receipt{}); !v.Allowed || v.Soft != (soft > 0) || v.Remaining != 0 {
			s.fail("the rest of the places, with %v%% extra: got %+v", soft, v)
		}
		p.deny(hold)
	}
}

func freedByCost(s *subject) {
	p := s.placesByCost("n", 100)
	first, second, third := p.costs(10).take(90), p.costs(10).take(80), p.costs(30).take(50)
	for i, m := range []driver.Receipt{first, second, third} {
		for _, o := range []driver.Receipt{first, second, third}[:i] {
			if o.At == m.At {
				s.fail("two events have the number %d", m.At)
			}
		}
	}
	for range 3 { // the reply may have been lost
		p.costs(10).free(first, 60)
		p.costs(10).renew(first, false, 60)
	}
	p.costs(1).free(third, 90) // a refund of a part frees all places
	third = p.costs(30).take(60)
	other, wide := places{s, p.rule, "other", 10}, s.placesByCost("wide", 100)
	for _, m := range []driver.Receipt{{}, {At: second.At + 1<<20}, {At: second.At ^ 1}, {At: -second.At}} {
		p.free(m, 60)
		p.renew(m, false, 60)
	}
	for _, unused := range []places{other, wide} {
		unused.free(second, 100)
		unused.renew(second, false, 100)
	}
	s.Advance(10 * time.Second)
	p.renew(third, true, 60)
	fourth := p.costs(5).take(55)
	s.Advance(hold - 10*time.Second) // the second lapses
	p.left(65)
	p.costs(66).denyWith(65, 10*time.Second)
	for range 2 {
		p.free(second, 65)
		p.renew(second, false, 65)
	}
	fifth := p.costs(65).take(0)
	p.deny(10 * time.Second)
	p.renew(fourth, true, 0)
	s.Advance(10 * time.Second) // the third lapses, which is the oldest now
	p.costs(31).denyWith(30, hold-10*time.Second)
	p.free(third, 30)
	p.renew(third, false, 30)
	p.free(fifth, 95)
	sixth := p.costs(95).take(0)
	s.Advance(hold - 10*time.Second) // the fourth lapses
	p.free(sixth, 100)
	if v := p.do(driver.Peek, driver.Receipt{}); v.ResetAfter != 0 {
		s.fail("all places are free: got %+v", v)
	}
	p.costs(100).take(0)
	for _, found := range []bool{true, false} {
		if v := p.do(driver.Reset, driver.Receipt{}); v.Found != found || v.Remaining != 100 || v.ResetAfter != 0 {
			s.fail("a Reset: got %+v, want Found %t", v, found)
		}
	}
}

func mostEventsByCost(s *subject) {
	const events, n = 1000, 2000
	p := s.placesByCost("n", n)
	var taken []driver.Receipt
	for i := range events {
		s.Advance(time.Millisecond)
		left := n - i - 1
		if i == events-1 {
			left = 0
		}
		taken = append(taken, p.take(left))
	}
	p.deny(hold - 999*time.Millisecond)
	p.costs(n - events).deny(hold - 999*time.Millisecond)
	p.costs(n - events + 1).deny(hold - 999*time.Millisecond)
	p.costs(n - events + 2).deny(hold - 998*time.Millisecond)
	p.costs(n).deny(hold)
	p.costs(n).takeAtMost(0, 0)
	p.renew(taken[0], true, 0)
	p.deny(hold - 998*time.Millisecond)
	p.free(taken[1], n-events+1)
	p.costs(n - events + 1).take(0)
	p.free(taken[2], 1)
	p.costs(2).denyWith(1, hold-996*time.Millisecond)
	p.take(0)
	s.Advance(hold)
	p.left(n)
}

func placesOfTwoKinds(s *subject) {
	one, many := s.places("n", 5), s.placesByCost("n", 5)
	plain, weighty := one.take(4), many.costs(3).take(1)
	for _, p := range []places{one, many} {
		p.left(1)
		p.renew(plain, true, 1)
		p.renew(weighty, true, 1)
		p.free(weighty, 4) // whatever the cost of the Undo
		p.renew(weighty, false, 4)
		weighty = many.costs(3).take(1)
	}
	many.free(plain, 2)
	one.free(weighty, 5)
	one.take(4)
	many.costs(4).take(0)
	if v := one.do(driver.Reset, driver.Receipt{}); !v.Found {
		s.fail("a Reset: got %+v", v)
	}
	many.left(5)
}

// byCostTogether charges a rate and places by cost, of which either denies.
func byCostTogether(s *subject, a algorithm) {
	p, rate := s.placesByCost(a.Name, 5), places{s, testkit.Compiled(a.Rule("rate "+a.Name, core.PerHour(9))), "o", 1}
	shadow := s.placesByCost("shadow "+a.Name, 2).of(func(d *driver.Definition) { d.Shadow = true })
	for i, c := range []struct {
		cost         int
		admitted     bool
		left, rateOf int
	}{{2, true, 3, 7}, {4, false, 3, 7}, {6, false, 3, 7}, {3, true, 0, 4}, {1, false, 0, 4}} {
		charges := []driver.Charge{
			p.costs(c.cost).charge(driver.Spend, driver.Receipt{}), rate.costs(c.cost).charge(driver.Spend, driver.Receipt{}),
			shadow.costs(c.cost).charge(driver.Spend, driver.Receipt{}),
		}
		if i%2 > 0 {
			charges[0], charges[1] = charges[1], charges[0]
		}
		admitted := true
		for _, charge := range p.call(charges...) {
			admitted = admitted && (charge.Verdict.Allowed || charge.Rule.Shadow)
			if wrote := charge.Receipt != (driver.Receipt{}); wrote != (c.admitted && (!charge.Rule.Shadow || i == 0)) {
				s.fail("decision %d: got the Receipt %+v of %v", i, charge.Receipt, charge.Rule)
			}
		}
		if admitted != c.admitted {
			s.fail("decision %d: got admitted %t, want %t", i, admitted, c.admitted)
		}
		p.left(c.left)
		rate.left(c.rateOf)
		shadow.left(0)
	}
	p.do(driver.Reset, driver.Receipt{})
	p.cost, rate.cost = 5, 5
	charges := p.call(p.charge(driver.Spend, driver.Receipt{}), rate.charge(driver.Spend, driver.Receipt{}))
	if !charges[0].Verdict.Allowed || charges[1].Verdict.Allowed || charges[0].Receipt != (driver.Receipt{}) {
		s.fail("a denial by %v: got %+v", rate.rule, charges)
	}
	p.left(5)
}

func atMostByCost(s *subject, a algorithm) {
	p := s.placesByCost(a.Name, 10).of(func(d *driver.Definition) { d.Soft = 50 })
	p.costs(3).take(7)
	m := p.costs(math.MaxInt).takeAtMost(12, 0) // with the extra places
	p.costs(math.MaxInt).takeAtMost(0, 0)
	p.renew(m, true, 0)
	p.costs(12).free(m, 7)
	rate := places{s, testkit.Compiled(a.Rule("rate "+a.Name, core.PerHour(5))), "k", 1}
	shadow := s.placesByCost("shadow "+a.Name, 4).of(func(d *driver.Definition) { d.Shadow = true })
	for i, want := range []struct {
		cost, left, rateLeft int
		shadow               bool
	}{{5, 2, 0, false}, {1, 2, 0, false}} {
		var charges []driver.Charge
		for _, q := range []places{p, rate, shadow} {
			c := q.costs(8).charge(driver.Spend, driver.Receipt{})
			c.Key, c.AtMost = "k", true
			charges = append(charges, c)
		}
		admitted := i == 0
		for j, c := range p.call(charges...) {
			if c.Cost != want.cost || (c.Receipt != driver.Receipt{}) != (admitted && j < 2) {
				s.fail("decision %d: got the cost %d and the Receipt %+v of %v, want %+v", i, c.Cost, c.Receipt, c.Rule, want)
			}
			if j == 2 && admitted && (c.Verdict.Allowed || c.Verdict.RetryAfter != driver.Never) {
				s.fail("a shadow rule of 4 places: got %+v for 5", c.Verdict)
			}
			charges[j] = c
		}
		p.left(want.left)
		rate.left(want.rateLeft)
		shadow.left(4)
	}
}

func changedByCost(s *subject) {
	large := s.placesByCost("n", 50)
	small := large.of(func(d *driver.Definition) { d.Events = 20 })
	part := places{s, large.rule.Divide(2), "k", 1}
	var taken []driver.Receipt
	for i := range 4 {
		taken = append(taken, large.costs(10).take(40-10*i))
		s.Advance(time.Second)
	}
	// 40 places are taken.
	small.deny(hold - 4*time.Second + 2*time.Second)
	small.costs(10).deny(hold - 4*time.Second + 2*time.Second)
	small.costs(11).deny(hold - time.Second)
	small.costs(21).denyWith(0, driver.Never)
	part.deny(hold - 4*time.Second + time.Second)
	part.costs(6).deny(hold - 2*time.Second)
	small.costs(20).takeAtMost(0, 0)
	small.renew(taken[0], true, 0)
	small.deny(hold - time.Second)
	small.free(taken[3], 0)
	small.free(taken[1], 0)
	large.left(30)
	part.left(5)
	small.free(taken[0], 10)
	if large.rule.Divide(2).Events != 25 || !large.rule.Divide(2).ByCost {
		s.fail("a half of 50 places: got %+v", large.rule.Divide(2).Definition)
	}
	longer := large.of(func(d *driver.Definition) { d.Hold = hold + time.Second })
	longer.left(50) // places of another Hold are apart
}

func byCostAndClock(s *subject) {
	p := s.placesByCost("clock", 9)
	s.Advance(time.Hour)
	first := p.costs(2).take(7)
	s.Advance(10 * time.Second)
	second := p.costs(3).take(4)
	s.Advance(-10 * time.Minute)
	third := p.costs(4).take(0)
	p.costs(9).deny(hold) // an event that was renewed later counts as renewed now
	s.Advance(hold - time.Microsecond)
	p.deny(time.Microsecond)
	p.renew(second, true, 0)
	s.Advance(time.Microsecond)
	p.renew(first, false, 6)
	p.renew(third, false, 6)
	s.Advance(-time.Second)
	p.renew(second, true, 6)
	// A Peek of a full key, and a Take of at most a cost, write the correction, too.
	for _, op := range []string{"peek", "at most"} {
		p.costs(6).take(0)
		s.Advance(-time.Hour)
		retry := func() time.Duration {
			c := p.costs(9).charge(driver.Peek, driver.Receipt{})
			if op == "at most" {
				c.Op, c.AtMost = driver.Spend, true
			}
			return p.call(c)[0].Verdict.RetryAfter
		}
		if got := retry(); got != hold {
			s.fail("%s: got RetryAfter %v after the step, want %v", op, got, hold)
		}
		s.Advance(hold - time.Microsecond)
		if got := retry(); got != time.Microsecond {
			s.fail("%s: got RetryAfter %v just before the end, want a microsecond", op, got)
		}
		s.Advance(time.Microsecond)
		p.left(9)
		p.costs(3).take(6)
	}
	// Events of one cost that began at the same time, before and after a step back, have different numbers.
	fourth := p.costs(2).take(4)
	s.Advance(time.Second)
	s.Advance(-time.Second)
	fifth := p.costs(2).take(2)
	p.free(fourth, 4)
	p.renew(fifth, true, 4)
}

// concurrentByCost sums the costs of the events that are in progress.
func concurrentByCost(s *subject) {
	const limit, goroutines, calls = 13, 64, 12
	p := s.placesByCost("concurrent", limit)
	var running, most, denied atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			for j := range calls {
				c := p.costs(1+(i+j)%6).charge(driver.Spend, driver.Receipt{})
				c.AtMost = i%8 == 0
				charges := []driver.Charge{c}
				err := p.Store.Take(context.Background(), charges)
				if c = charges[0]; err == nil && !c.Verdict.Allowed {
					denied.Add(1)
					continue
				}
				n := running.Add(int64(c.Cost))
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				for _, op := range []driver.Op{driver.Renew, driver.Undo} {
					if err == nil {
						if op == driver.Undo {
							running.Add(-int64(c.Cost))
						}
						err = p.Store.Adjust(context.Background(), []driver.Charge{p.charge(op, c.Receipt)})
					}
				}
				if err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		s.fail("a call failed: %v", *err)
	}
	if most.Load() > limit || denied.Load() == goroutines*calls {
		s.fail("got %d places at the same time and %d denials, want at most %d places", most.Load(), denied.Load(), limit)
	}
	p.left(limit)
}
