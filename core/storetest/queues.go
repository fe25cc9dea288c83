package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/waiters"
	"github.com/weir-go/weir/internal/testkit"
)

// A waiting is the first caller of a queue that waits for places.
type waiting struct {
	places
	queue int64
	came  time.Time
}

// waits returns a caller who came some time ago.
func (p places) waits(queue int64, ago time.Duration) waiting {
	return waiting{p, queue, p.Now().Add(-ago)}
}

// spend returns the Spend of w, whose next caller came so much later and needs next places.
func (w waiting) spend(behind time.Duration, next int) driver.Charge {
	c := w.charge(driver.Spend, driver.Receipt{})
	c.Waiter = &driver.Waiter{Queue: w.queue, Age: w.Now().Sub(w.came), Behind: behind, Next: next}
	return c
}

// asks returns the Spend of w, which has a Receipt if it is admitted, and else is to be repeated.
func (w waiting) asks(behind time.Duration, next int) driver.Charge {
	w.Helper()
	c := w.call(w.spend(behind, next))[0]
	if v := c.Verdict; v.Allowed != (v.RetryAfter == 0) || v.Allowed != (c.Receipt.At > 0) || !v.Allowed && c.Receipt.At != 0 {
		w.fail("queue %d: got %+v with the Receipt %+v", w.queue, v, c.Receipt)
	}
	return c
}

// queued fails unless w, which has no next caller, is denied and can ask again within the longest time.
func (w waiting) queued() {
	w.Helper()
	longest := max(queueHold, w.rule.Hold)
	if v := w.asks(0, 0).Verdict; v.Allowed || v.RetryAfter > longest || v.ResetAfter <= 0 || v.ResetAfter > longest || v.Remaining >= w.cost {
		w.fail("queue %d: got %+v, want a denial", w.queue, v)
	}
}

// gets fails unless w is admitted.
func (w waiting) gets(behind time.Duration, next int) driver.Receipt {
	w.Helper()
	c := w.asks(behind, next)
	if !c.Verdict.Allowed {
		w.fail("queue %d: got %+v, want an admission", w.queue, c.Verdict)
	}
	return c.Receipt
}

// leaves removes the queue of w.
func (w waiting) leaves() {
	w.Helper()
	c := w.spend(-1, 0)
	c.Op = driver.Undo
	w.call(c)
}

func orderOfQueues(s *subject) {
	s.eachPlaces("order", 1, unchanged, func(p places) {
		held := p.full(1)[0]
		second, third, first := p.waits(7, time.Second), p.waits(9, time.Second), p.waits(1<<53-2, 3*time.Second)
		for _, w := range []waiting{third, second, first, second} {
			w.queued()
		}
		p.do(driver.Undo, held)
		for i, w := range []waiting{first, second, third} {
			for _, o := range []waiting{first, second, third}[i+1:] {
				o.queued()
			}
			s.Advance(time.Second)
			m := w.gets(0, 0)
			for _, o := range []waiting{first, second, third}[i+1:] {
				o.queued()
			}
			p.do(driver.Undo, m)
		}
		p.left(p.rule.Events)
	})
}

func yieldToQueues(s *subject) {
	s.eachPlaces("yield", 3, unchanged, func(p places) {
		held := p.full(3)
		w := p.waits(5, 0)
		w.queued()
		p.do(driver.Undo, held[0])
		p.deny(hold) // the places that were freed are for w
		if p.rule.ByCost {
			p.takeAtMost(0, 0)
		}
		p.free(held[1], p.cost) // and these are for others
		m := p.call(p.charge(driver.Spend, driver.Receipt{}))[0]
		if !m.Verdict.Allowed || m.Verdict.Remaining != 0 {
			s.fail("places that no queue needs: got %+v", m.Verdict)
		}
		p.deny(hold)
		w.gets(0, 0)
		p.deny(hold)
		p.free(m.Receipt, p.cost)
	})
}

func nextOfQueue(s *subject) {
	s.eachPlaces("next", 1, unchanged, func(p places) {
		held := p.full(1)[0]
		w := p.waits(1, 4*time.Second)
		next, earlier, later := waiting{p, 1, w.came.Add(2 * time.Second)}, p.waits(2, 3*time.Second), p.waits(3, time.Second)
		w.queued()
		p.do(driver.Undo, held)
		held = w.gets(2*time.Second, p.cost)
		later.queued()
		p.do(driver.Undo, held)
		p.deny(queueHold) // without a Spend of the next caller, its place in the line is kept
		later.queued()
		held = earlier.gets(0, 0)
		p.do(driver.Undo, held)
		later.queued()
		p.do(driver.Undo, next.gets(0, 0))
		p.do(driver.Undo, later.gets(0, 0))
		p.left(p.rule.Events)
	})
}

func largeWaiter(s *subject) {
	p := s.placesByCost("large", 10)
	first, second := p.costs(3).take(7), p.costs(3).take(4)
	large, small := p.costs(9).waits(1, time.Second), p.costs(2).waits(2, 0)
	for _, m := range []driver.Receipt{first, second} {
		large.queued()
		small.queued()
		p.costs(1).deny(hold)
		p.do(driver.Undo, m)
	}
	small.queued()
	large.gets(0, 0)
	small.queued()
	small.leaves()
	p.costs(1).left(1)
	// A cost that never fits does not wait, and no longer blocks others.
	if v := p.costs(11).waits(3, time.Hour).asks(0, 0).Verdict; v.RetryAfter != driver.Never {
		s.fail("a cost above the limit: got %+v", v)
	}
	p.costs(1).left(1)
}

func queuesAndOtherRules(s *subject, a algorithm) {
	s.eachPlaces(a.Name, 1, unchanged, func(p places) {
		rate := places{s, testkit.Compiled(a.Rule(fmt.Sprint(a.Name, p.cost), core.PerHour(1))), "k", 1}
		rate.do(driver.Debit, driver.Receipt{})
		w := p.waits(1, 0)
		both := func() driver.Charge {
			return p.call(w.spend(time.Nanosecond, 1), rate.charge(driver.Spend, driver.Receipt{}))[0]
		}
		if c := both(); !c.Verdict.Allowed || c.Receipt != (driver.Receipt{}) {
			s.fail("a denial by %v: got %+v", rate.rule, c)
		}
		p.left(p.rule.Events)
		held := p.full(1)[0]
		both() // the queue may be kept, which package core then removes
		w.leaves()
		p.free(held, p.rule.Events)
	})
}

func removedQueues(s *subject) {
	s.eachPlaces("removed", 1, unchanged, func(p places) {
		w, other := p.waits(1<<22+1, time.Second), p.waits(2, 0)
		for _, reset := range []bool{false, true} {
			held := p.full(1)[0]
			w.queued()
			p.do(driver.Undo, held)
			other.leaves()
			p.renew(driver.Receipt{At: -w.queue}, false, 0)
			other.queued()
			other.leaves()
			p.deny(queueHold)
			if reset {
				if v := p.do(driver.Reset, driver.Receipt{}); !v.Found || v.Remaining != p.rule.Events || v.ResetAfter != 0 {
					s.fail("a Reset of a queue: got %+v", v)
				}
			}
			for range 2 {
				w.leaves()
				p.left(p.rule.Events)
			}
		}
	})
}

func expiredQueues(s *subject) {
	for i, length := range []time.Duration{time.Second, hold} {
		s.eachPlaces(fmt.Sprint("expire", i), 1, func(d *driver.Definition) { d.Hold = length }, func(p places) {
			m := p.call(p.charge(driver.Spend, driver.Receipt{}))[0].Receipt
			w := p.waits(1, time.Hour)
			w.queued()
			s.Advance(queueHold / 2)
			p.do(driver.Undo, m) // it may have lapsed
			s.Advance(queueHold/2 - time.Microsecond)
			p.deny(time.Microsecond)
			w.gets(0, p.cost)
			p.do(driver.Reset, driver.Receipt{})
			m = p.call(p.charge(driver.Spend, driver.Receipt{}))[0].Receipt
			w.queued()
			s.Advance(queueHold / 4)
			w.queued() // once more
			p.do(driver.Undo, m)
			s.Advance(queueHold - time.Microsecond)
			p.deny(time.Microsecond)
			s.Advance(time.Microsecond)
			p.left(p.rule.Events)
		})
	}
}

func manyQueues(s *subject) {
	const most, n = 64, 100
	s.eachPlaces("many", n, unchanged, func(p places) {
		held := p.full(n)
		var all []waiting
		for i := range most + 6 {
			all = append(all, p.waits(int64(1+i), time.Duration(i)*time.Millisecond)) // the last came first
		}
		for _, w := range all {
			w.queued()
		}
		for _, m := range held {
			p.do(driver.Undo, m)
		}
		p.left((n - most) * p.cost)
		all[0].gets(0, 0) // not in the State
		p.left((n - most - 1) * p.cost)
		all[len(all)-1].gets(0, 0)
		p.left((n - most - 1) * p.cost)
	})
}

func queuesAndClock(s *subject) {
	s.eachPlaces("clock", 1, unchanged, func(p places) {
		held := p.full(1)[0]
		w := p.waits(1, 0)
		w.queued()
		p.do(driver.Undo, held)
		s.Advance(-time.Microsecond)
		held = p.full(1)[0]
		p.waits(2, 0).queued()
		p.do(driver.Undo, held)
		p.waits(2, 0).gets(0, 0)
	})
}

func agesOfWaiters(s *subject) {
	s.eachPlaces("age", 1, unchanged, func(p places) {
		held := p.full(1)[0]
		ask := func(queue int64, age time.Duration, next int) driver.Charge {
			c := p.charge(driver.Spend, driver.Receipt{})
			c.Waiter = &driver.Waiter{Queue: queue, Age: age, Next: next, Behind: driver.Never}
			return p.call(c)[0]
		}
		ask(2, driver.Never, 0)
		ask(1, driver.Never-time.Hour, 0) // both came at the time 0
		p.do(driver.Undo, held)
		if c := ask(2, driver.Never, 0); c.Verdict.Allowed {
			s.fail("of two callers who came together, the one with the larger number: got %+v", c.Verdict)
		}
		c := ask(1, driver.Never, p.cost) // the next one counts as a caller who comes now
		p.do(driver.Undo, c.Receipt)
		if c = ask(2, driver.Never, 0); !c.Verdict.Allowed {
			s.fail("a caller who came earlier than the next of another queue: got %+v", c.Verdict)
		}
		p.do(driver.Undo, c.Receipt)
		p.deny(queueHold)
	})
}

func changedQueues(s *subject) {
	s.eachPlaces("changed", 4, func(d *driver.Definition) { d.Soft = 50 }, func(p places) {
		small := p.of(func(d *driver.Definition) { d.Events, d.Soft = d.Events/2, 0 })
		held := p.full(4)
		for range 2 { // the extra places
			held = append(held, p.call(p.charge(driver.Spend, driver.Receipt{}))[0].Receipt)
		}
		w := p.waits(1, time.Second)
		w.queued()
		for _, m := range held[:5] {
			p.do(driver.Undo, m)
		}
		small.deny(hold) // one event is in progress, and one waits
		p.left(2 * p.cost)
		waiting{small, 2, w.came.Add(-time.Second)}.gets(0, 0)
		waiting{small, 1, w.came}.queued()
		w.gets(0, 0)
		p.left(p.cost)
	})
}

func smallerQueues(s *subject) {
	s.eachPlaces("smaller", 4, unchanged, func(p places) {
		small := p.of(func(d *driver.Definition) { d.Events /= 2 })
		held := []driver.Receipt{p.take(3 * p.cost), p.take(2 * p.cost)}
		for i := range 3 {
			waiting{small, int64(1 + i), s.Now().Add(-time.Second)}.queued()
		}
		p.left(2 * p.cost) // which the callers of small do not get
		large := p.waits(4, 0)
		m := large.gets(0, 0)
		p.do(driver.Undo, m)
		p.do(driver.Undo, held[0])
		p.left(2 * p.cost) // and one place is for the first of the callers of small
		waiting{small, 1, s.Now().Add(-time.Second)}.gets(0, 0)
		p.left(2 * p.cost)
	})
}

func knownWaiters(s *subject) {
	s.eachPlaces("known", 1, unchanged, func(p places) {
		held := p.full(1)[0]
		ask := func(age time.Duration, known bool) driver.Verdict {
			c := p.charge(driver.Spend, driver.Receipt{})
			c.Waiter = &driver.Waiter{Queue: 1, Age: age, Known: known}
			return p.call(c)[0].Verdict
		}
		other := p.waits(2, time.Second)
		ask(2*time.Second, false)
		other.queued()
		ask(time.Second/2, true)
		p.do(driver.Undo, held)
		other.queued()
		if v := ask(time.Second/2, false); v.Allowed { // another caller of the queue
			s.fail("a caller who came later: got %+v", v)
		}
		p.do(driver.Undo, other.gets(0, 0))
		if v := ask(time.Second/2, true); !v.Allowed {
			s.fail("the only caller: got %+v", v)
		}
	})
}

// wokenWaiters has a caller who asks when it is woken, while calls for other rules of the key make a Store that compares and
// sets States repeat. Until the caller has been woken once, messages may not come yet, and it asks after a second, too.
func wokenWaiters(s *subject) {
	var others []driver.Charge
	for i := range 15 {
		rule := s.compile(driver.Definition{Name: fmt.Sprint("other", i), Algorithm: driver.TokenBucket, Events: 1, Per: time.Hour})
		others = append(others, driver.Charge{Key: "k", Rule: rule, Op: driver.Debit, Cost: 1})
	}
	s.eachPlaces("woken", 2, unchanged, func(p places) {
		var list waiters.List[int]
		w := list.Join(p.key, p.cost, 0, 1)
		defer list.Leave(p.key, w, true)
		waits, held := p.waits(w.Queue.ID, 0), p.full(2)
		deadline := time.After(30 * time.Second)
		for woken := 0; woken < 30; {
			waits.queued()
			var freed atomic.Bool
			var failed [5]error
			var calls sync.WaitGroup
			for i := range 4 {
				calls.Go(func() {
					for !freed.Load() && failed[i] == nil {
						failed[i] = Do(context.Background(), p.Store, slices.Clone(others))
					}
				})
			}
			calls.Go(func() {
				failed[4] = Do(context.Background(), p.Store, append(slices.Clone(others), p.charge(driver.Undo, held[0])))
				freed.Store(true)
			})
			var again <-chan time.Time
			if woken == 0 {
				again = time.After(time.Second)
			}
			select {
			case <-w.Freed():
				woken++
			case <-again:
				calls.Wait()
			case <-deadline:
				p.fail("a caller was woken %d times, and then not when a place was free", woken)
			}
			held = []driver.Receipt{held[1], waits.gets(0, 0)}
			if calls.Wait(); errors.Join(failed[:]...) != nil {
				p.fail("a call failed: %v", errors.Join(failed[:]...))
			}
			if woken > 0 && len(w.Freed()) > 0 {
				p.fail("a caller who has got its place was woken again")
			}
		}
	})
}
