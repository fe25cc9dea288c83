package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

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

func placesOfTwoKinds(s *subject) {
	one, many := s.places("n", 5), s.placesByCost("n", 5)
	plain, costly := one.take(4), many.costs(3).take(1)
	for _, p := range []places{one, many} {
		p.left(1)
		p.renew(plain, true, 1)
		p.renew(costly, true, 1)
		p.free(costly, 4) // whatever the cost of the Undo
		p.renew(costly, false, 4)
		costly = many.costs(3).take(1)
	}
	many.free(plain, 2)
	one.free(costly, 5)
	one.take(4)
	many.costs(4).take(0)
	if v := one.do(driver.Reset, driver.Receipt{}); !v.Found {
		s.fail("a Reset: got %+v", v)
	}
	many.left(5)
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
