package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// places makes calls for one key of an in-flight rule.
type places struct {
	*subject
	rule *driver.Compiled
	key  string
	cost int // of charges
}

const hold = 30 * time.Second

// places returns the key "k" of a rule of n events at the same time.
func (s *subject) places(name string, n int) places {
	return places{s, s.compile(driver.Definition{Name: name, Algorithm: driver.InFlight, Events: n, Hold: hold}), "k", 1}
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
	if v := p.do(driver.Peek, driver.Receipt{}); v.Remaining != want || v.Allowed != (want > 0) {
		p.fail("a Peek: got %+v, want Remaining %d", v, want)
	}
}

func placePerEvent(s *subject) {
	for i, step := range []time.Duration{0, time.Microsecond, time.Second} {
		p := s.places(fmt.Sprint("step", i), 4)
		p.left(4)
		var taken []driver.Receipt
		for i := range 4 {
			taken = append(taken, p.take(3-i))
			s.Advance(step)
		}
		p.deny(hold - 4*step)
		for i, m := range taken {
			for _, o := range taken[:i] {
				if o.At == m.At {
					s.fail("two places have the number %d", m.At)
				}
			}
		}
		// A place is free again at once, whichever event ends first.
		for _, i := range []int{2, 0, 3} {
			p.free(taken[i], 1)
			taken[i] = p.take(0)
		}
		p.deny(hold - 3*step) // the place of the second event
		for i, m := range taken {
			p.free(m, i+1)
		}
		if v := p.do(driver.Peek, driver.Receipt{}); v.ResetAfter != 0 {
			s.fail("all places are free: got %+v", v)
		}
	}
	soft := s.places("soft", 2).of(func(d *driver.Definition) { d.Soft = 50 })
	soft.take(1)
	soft.take(0)
	if v := soft.do(driver.Spend, driver.Receipt{}); !v.Allowed || !v.Soft || v.Remaining != 0 {
		s.fail("the extra place of a soft limit: got %+v", v)
	}
	soft.deny(hold)
}

func lapsedPlaces(s *subject) {
	p := s.places("lapse", 2)
	first := p.take(1)
	s.Advance(10 * time.Second)
	second := p.take(0)
	p.deny(hold - 10*time.Second)
	s.Advance(hold - 10*time.Second - time.Microsecond)
	p.deny(time.Microsecond)
	s.Advance(time.Microsecond)
	p.left(1)
	// The first place has lapsed, and nothing brings it back.
	for range 2 {
		p.renew(first, false, 1)
		p.free(first, 1)
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
	p.renew(third, false, 1)
	s.Advance(10*time.Second - 2*time.Microsecond)
	p.renew(second, true, 1)
	s.Advance(hold)
	p.renew(second, false, 2)
	p.left(2)
}

func freedPlaces(s *subject) {
	p := s.places("free", 3)
	first, second := p.take(2), p.take(1)
	for range 3 { // the reply to an Undo or Renew may have been lost
		p.free(first, 2)
		p.renew(first, false, 2)
	}
	s.Advance(time.Second) // in the same microsecond, a place may get the number of one that was freed
	third := p.take(1)
	other := places{s, p.rule, "other", 1}
	wide := s.places("wide", 3)
	for _, m := range []driver.Receipt{first, {}, {At: second.At + 1_000_000}, {At: -second.At}} {
		p.free(m, 1)
		p.renew(m, false, 1)
	}
	for _, unused := range []places{other, wide} {
		unused.free(second, 3)
		unused.renew(second, false, 3)
	}
	p.renew(second, true, 1)
	p.renew(third, true, 1)
	for _, found := range []bool{true, false} {
		if v := p.do(driver.Reset, driver.Receipt{}); v.Found != found || v.Remaining != 3 || v.ResetAfter != 0 {
			s.fail("a Reset: got %+v, want Found %t", v, found)
		}
	}
	p.renew(second, false, 3)
	s.Advance(time.Second)
	p.take(2)
	p.free(third, 2)
	p.left(2)
}

// placesTogether decides about places together with a rule of another algorithm.
func placesTogether(s *subject, a algorithm) {
	p, other := s.places(a.Name, 2), places{s, testkit.Compiled(a.Rule("other "+a.Name, core.PerHour(3))), "o", 1}
	shadow := s.places("shadow "+a.Name, 1).of(func(d *driver.Definition) { d.Shadow = true })
	for i, want := range []bool{true, true, false, false} {
		charges := []driver.Charge{p.charge(driver.Spend, driver.Receipt{}), other.charge(driver.Spend, driver.Receipt{}), shadow.charge(driver.Spend, driver.Receipt{})}
		if i%2 > 0 {
			charges[0], charges[1] = charges[1], charges[0]
		}
		admitted := true
		for _, c := range p.call(charges...) {
			admitted = admitted && (c.Verdict.Allowed || c.Rule.Shadow)
			wrote := c.Receipt != (driver.Receipt{})
			if wrote != (want && (!c.Rule.Shadow || i == 0)) {
				s.fail("decision %d: got the Receipt %+v of %v", i, c.Receipt, c.Rule)
			}
		}
		if admitted != want {
			s.fail("decision %d: got admitted %t, want %t", i, admitted, want)
		}
	}
	other.left(1) // the denials took nothing
	p.do(driver.Reset, driver.Receipt{})
	other.do(driver.Debit, driver.Receipt{})
	charges := p.call(p.charge(driver.Spend, driver.Receipt{}), other.charge(driver.Spend, driver.Receipt{}))
	if charges[1].Verdict.Allowed || charges[0].Receipt != (driver.Receipt{}) {
		s.fail("a denial by %v: got %+v", other.rule, charges)
	}
	p.left(2)
	shadow.left(0)
}

func changedPlaces(s *subject) {
	large := s.places("n", 5)
	small := large.of(func(d *driver.Definition) { d.Events = 2 })
	part := places{s, large.rule.Divide(2), "k", 1}
	var taken []driver.Receipt
	for i := range 4 {
		taken = append(taken, large.take(4-i))
		s.Advance(time.Second)
	}
	// Three places have to end before a limit of two admits.
	for _, p := range []places{small, part} {
		p.deny(hold - 4*time.Second + 2*time.Second)
	}
	small.renew(taken[0], true, 0)
	small.deny(hold - 4*time.Second + 3*time.Second)
	small.free(taken[3], 0)
	small.free(taken[1], 0)
	large.left(3)
	small.free(taken[0], 1)
	if large.rule.Divide(2).Events != 2 {
		s.fail("a half of 5 places: got %d", large.rule.Divide(2).Events)
	}
	longer := large.of(func(d *driver.Definition) { d.Hold = hold + time.Second })
	longer.left(5) // places of another Hold are apart
}

func placesAndClock(s *subject) {
	p := s.places("clock", 3)
	s.Advance(time.Hour)
	first := p.take(2)
	s.Advance(10 * time.Second)
	second := p.take(1)
	s.Advance(-10 * time.Minute)
	third := p.take(0)
	p.deny(hold) // a place that was renewed later counts as renewed now
	s.Advance(hold - time.Microsecond)
	p.deny(time.Microsecond)
	p.renew(second, true, 0)
	s.Advance(time.Microsecond)
	p.renew(first, false, 2)
	p.renew(third, false, 2)
	s.Advance(-time.Second)
	p.renew(second, true, 2)
	// A Peek of a full key writes the correction, too.
	p.take(1)
	p.take(0)
	s.Advance(-time.Hour)
	for waited := time.Duration(0); ; {
		v := p.do(driver.Peek, driver.Receipt{})
		if v.Allowed {
			break
		}
		if waited += v.RetryAfter; v.RetryAfter <= 0 || waited > hold {
			s.fail("a Peek is denied after waiting for %v: %+v", waited, v)
		}
		s.Advance(v.RetryAfter)
	}
	p.left(3)
	// Places that were taken at the same time, before and after a step back, have different numbers.
	fourth := p.take(2)
	s.Advance(time.Second)
	s.Advance(-time.Second)
	fifth := p.take(1)
	p.free(fourth, 2)
	p.renew(fifth, true, 2)
}

// concurrentPlaces counts the events that are in progress.
func concurrentPlaces(s *subject) {
	const limit = 5
	p := s.places("concurrent", limit)
	var running, most, denied atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 25 {
				charges := []driver.Charge{p.charge(driver.Spend, driver.Receipt{})}
				err := p.Store.Take(context.Background(), charges)
				if err == nil && !charges[0].Verdict.Allowed {
					denied.Add(1)
					continue
				}
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				for _, op := range []driver.Op{driver.Renew, driver.Undo} {
					if err == nil {
						if op == driver.Undo {
							running.Add(-1)
						}
						err = p.Store.Adjust(context.Background(), []driver.Charge{p.charge(op, charges[0].Receipt)})
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
	if most.Load() > limit || denied.Load() == 16*25 {
		s.fail("got %d events at the same time and %d denials, want at most %d events", most.Load(), denied.Load(), limit)
	}
	p.left(limit)
}
