package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// places makes calls for one key of an in-flight rule.
type places struct {
	*subject
	rule *driver.Compiled
	key  string
	cost int // of charges
}

const hold = 30 * time.Second

// eachPlaces calls f for rules of n places and of 7n places by cost, of which an event takes 7.
func (s *subject) eachPlaces(name string, n int, change func(d *driver.Definition), f func(p places)) {
	f(s.places(name, n).of(change))
	f(s.placesByCost(name+" by cost", 7*n).of(change).costs(7))
}

func unchanged(*driver.Definition) {}

// places returns the key "k" of a rule of n events at the same time.
func (s *subject) places(name string, n int) places {
	return places{s, s.compile(driver.Definition{Name: name, Algorithm: driver.InFlight, Events: n, Hold: hold}), "k", 1}
}

// placesByCost returns the key "k" of a rule of n places by cost.
func (s *subject) placesByCost(name string, n int) places {
	return s.places(name, 1).of(func(d *driver.Definition) { d.Events, d.ByCost = n, true })
}

func (s *subject) compile(d driver.Definition) *driver.Compiled {
	s.Helper()
	c, err := d.Compile()
	if err != nil {
		s.fail("Compile of %+v: %v", d, err)
	}
	return c
}

// of returns the same key of a rule that differs from the rule of p as change says.
func (p places) of(change func(d *driver.Definition)) places {
	p.Helper()
	d := p.rule.Definition
	change(&d)
	p.rule = p.compile(d)
	return p
}

// costs returns p with charges of cost n.
func (p places) costs(n int) places {
	p.cost = n
	return p
}

func (p places) fail(format string, args ...any) {
	p.Helper()
	p.subject.fail(p.rule.Name+": "+format, args...)
}

func (p places) call(charges ...driver.Charge) []driver.Charge {
	p.Helper()
	if err := Do(context.Background(), p.Store, charges); err != nil {
		p.fail("op %d: %v", charges[0].Op, err)
	}
	return charges
}

func (p places) charge(op driver.Op, m driver.Receipt) driver.Charge {
	return driver.Charge{Key: p.key, Rule: p.rule, Op: op, Cost: p.cost, Receipt: m}
}

func (p places) do(op driver.Op, m driver.Receipt) driver.Verdict {
	p.Helper()
	return p.call(p.charge(op, m))[0].Verdict
}

// take takes a place, which must leave left places.
func (p places) take(left int) driver.Receipt {
	p.Helper()
	c := p.call(p.charge(driver.Spend, driver.Receipt{}))[0]
	if v := c.Verdict; !v.Allowed || v.Remaining != left || v.ResetAfter != hold || v.RetryAfter != 0 || v.Window != 0 || v.Delay != 0 {
		p.fail("a Spend: got %+v, want %d places left, and all of them in %v", v, left, hold)
	}
	if c.Receipt == (driver.Receipt{}) {
		p.fail("a Spend that was admitted wrote no Receipt")
	}
	return c.Receipt
}

// full takes all of n events, and returns their Receipts.
func (p places) full(n int) (held []driver.Receipt) {
	p.Helper()
	for i := range n {
		held = append(held, p.take((n-i-1)*p.cost))
	}
	return held
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

// deny fails unless a Spend and a Peek are denied and can be repeated after retry, and no place is left.
func (p places) deny(retry time.Duration) {
	p.Helper()
	p.denyWith(0, retry)
}

// denyWith is deny while left places are free.
func (p places) denyWith(left int, retry time.Duration) {
	p.Helper()
	window := retry
	if retry == driver.Never {
		window = 0
	}
	for _, op := range []driver.Op{driver.Spend, driver.Peek} {
		c := p.call(p.charge(op, driver.Receipt{}))[0]
		if v := c.Verdict; v.Allowed || v.Remaining != left || v.RetryAfter != retry || v.Window != window || c.Receipt != (driver.Receipt{}) {
			p.fail("op %d: got %+v with the Receipt %+v, want a denial with RetryAfter %v and %d places left", op, v, c.Receipt, retry, left)
		}
	}
}

// free frees the place of m, after which left places must be free.
func (p places) free(m driver.Receipt, left int) {
	p.Helper()
	if v := p.do(driver.Undo, m); !v.Allowed || v.Remaining != left {
		p.fail("an Undo of %+v: got %+v, want Remaining %d", m, v, left)
	}
}

// renew renews the place of m, which must be taken if found is true and left places must be free.
func (p places) renew(m driver.Receipt, found bool, left int) {
	p.Helper()
	if v := p.do(driver.Renew, m); !v.Allowed || v.Found != found || v.Remaining != left {
		p.fail("a Renew of %+v: got %+v, want Found %t and Remaining %d", m, v, found, left)
	}
}

func (p places) left(want int) {
	p.Helper()
	if v := p.do(driver.Peek, driver.Receipt{}); v.Remaining != want || v.Allowed != (want >= p.cost) {
		p.fail("a Peek: got %+v, want Remaining %d", v, want)
	}
}

// unused fails unless no place is taken.
func (p places) unused() {
	p.Helper()
	if v := p.do(driver.Peek, driver.Receipt{}); v.Remaining != p.rule.Events || v.ResetAfter != 0 {
		p.fail("all places are free: got %+v", v)
	}
}

// differ fails if two of taken have one number.
func (p places) differ(taken []driver.Receipt) {
	p.Helper()
	for i, m := range taken {
		if slices.Contains(taken[:i], m) {
			p.fail("two events have the number %d", m.At)
		}
	}
}
