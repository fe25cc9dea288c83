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

// longestPause is the length of the longest pause.
const longestPause = 366 * 24 * time.Hour

// A pauseKey makes calls for one key of a pause.
type pauseKey struct {
	*subject
	rule *driver.Compiled
	key  string
}

// pause returns the key "k" of a pause.
func (s *subject) pause(name string) pauseKey {
	s.Helper()
	return pauseKey{s, s.compile(driver.Definition{Name: name, Algorithm: driver.Pause}), "k"}
}

func (p pauseKey) charge(op driver.Op, cost int) driver.Charge {
	return driver.Charge{Key: p.key, Rule: p.rule, Op: op, Cost: cost}
}

// call makes a call with charges, in which those of p must have no Receipt.
func (p pauseKey) call(charges ...driver.Charge) []driver.Charge {
	p.Helper()
	if err := Do(context.Background(), p.Store, charges); err != nil {
		p.fail("op %d: %v", charges[0].Op, err)
	}
	for _, c := range charges {
		if c.Rule.Kind.Closes && c.Op != driver.Undo && c.Receipt != (driver.Receipt{}) {
			p.fail("op %d: got the Receipt %+v", c.Op, c.Receipt)
		}
	}
	return charges
}

// expect fails unless got is the Verdict of a key that is paused for rest, or not at all.
func (p pauseKey) expect(got driver.Charge, rest time.Duration) {
	p.Helper()
	want := driver.Verdict{Rule: got.Rule, Done: !got.Op.Asks(), Allowed: true, Remaining: math.MaxInt, Found: got.Verdict.Found && got.Op == driver.Reset}
	if rest > 0 {
		want.Remaining, want.ResetAfter, want.Window = 0, rest, rest
		if got.Op.Asks() {
			want.Allowed, want.RetryAfter = false, rest
		}
	}
	if got.Verdict != want {
		p.fail("op %d with cost %d:\n\tgot  %+v\n\twant %+v", got.Op, got.Cost, got.Verdict, want)
	}
}

// pausedFor fails unless events of all costs are denied for rest, or admitted if that is zero.
func (p pauseKey) pausedFor(rest time.Duration) {
	p.Helper()
	for _, cost := range []int{1, 2, 1000, math.MaxInt} {
		for _, op := range []driver.Op{driver.Spend, driver.Peek} {
			p.expect(p.call(p.charge(op, cost))[0], rest)
		}
	}
	most := p.charge(driver.Spend, 1000)
	most.AtMost = true
	got, want := p.call(most)[0], 1000
	if rest > 0 && !p.rule.Shadow {
		want = 1
	}
	if p.expect(got, rest); got.Cost != want {
		p.fail("a Spend with AtMost: got the cost %d, want %d", got.Cost, want)
	}
}

// debit pauses the key for d, which must be the rest of its pause then.
func (p pauseKey) debit(d, rest time.Duration) {
	p.Helper()
	c := p.charge(driver.Debit, 1)
	c.Pause = d
	p.expect(p.call(c)[0], rest)
	p.pausedFor(rest)
}

// reset ends the pause, which found says there is.
func (p pauseKey) reset(found bool) {
	p.Helper()
	c := p.call(p.charge(driver.Reset, 1))[0]
	if c.Verdict.Found != found {
		p.fail("a Reset: got Found %t, want %t", c.Verdict.Found, found)
	}
	p.expect(c, 0)
	p.pausedFor(0)
}

func openPause(s *subject) {
	p := s.pause("open")
	p.pausedFor(0)
	s.Advance(time.Hour)
	p.pausedFor(0)
	p.reset(false)
}

func pauses(s *subject) {
	for i, d := range []time.Duration{time.Microsecond, 999 * time.Microsecond, time.Second, 90*time.Minute + time.Microsecond, longestPause} {
		p := s.pause(fmt.Sprint("pause", i))
		p.debit(d, d)
		if d > time.Microsecond {
			half := (d / 2).Truncate(time.Microsecond)
			s.Advance(half)
			p.pausedFor(d - half)
			s.Advance(d - half - time.Microsecond)
			p.pausedFor(time.Microsecond)
		}
		s.Advance(time.Microsecond)
		p.pausedFor(0)
		p.reset(false)
		p.debit(d, d)
		p.reset(true)
		p.reset(false)
	}
	p := s.pause("pause")
	other, wide := p, s.pause("pauses")
	other.key = "other"
	p.debit(time.Hour, time.Hour)
	other.pausedFor(0)
	wide.pausedFor(0)
	other.debit(time.Minute, time.Minute)
	other.reset(true)
	p.pausedFor(time.Hour)
}

func longerPauses(s *subject) {
	p := s.pause("longer")
	p.debit(time.Minute, time.Minute)
	p.debit(time.Minute, time.Minute)
	s.Advance(10 * time.Second)
	p.debit(50*time.Second-time.Microsecond, 50*time.Second)
	p.debit(time.Microsecond, 50*time.Second)
	p.debit(50*time.Second+time.Microsecond, 50*time.Second+time.Microsecond)
	p.debit(time.Hour, time.Hour)
	p.debit(time.Minute, time.Hour)
	p.debit(longestPause, longestPause)
	s.Advance(time.Hour)
	p.debit(time.Hour, longestPause-time.Hour)
	p.debit(longestPause, longestPause)
	s.Advance(longestPause)
	p.pausedFor(0)
	p.debit(time.Second, time.Second)
}

func onlyResetEndsPause(s *subject) {
	p := s.pause("ends")
	for _, rest := range []time.Duration{0, time.Minute, 30 * time.Second} {
		if rest == time.Minute {
			p.debit(rest, rest)
		} else if rest > 0 {
			s.Advance(30 * time.Second)
		}
		p.debit(0, rest)
		for _, cost := range []int{1, 1000, math.MaxInt} {
			undo, now := p.charge(driver.Undo, cost), s.Now().UnixMicro()
			p.expect(p.call(p.charge(driver.Credit, cost))[0], rest)
			p.expect(p.call(p.charge(driver.Debit, cost))[0], rest)
			for _, m := range []driver.Receipt{{}, {At: now}, {At: now - 1}, {At: now - time.Hour.Microseconds()}} {
				undo.Receipt = m
				p.expect(p.call(undo)[0], rest)
			}
		}
		p.pausedFor(rest)
	}
	p.reset(true)
	// Several keys and rules in one call.
	q, other := s.pause("ends, too"), p
	other.key = "other"
	all := []pauseKey{p, q, other}
	call := func(op driver.Op, lengths ...time.Duration) (found []bool) {
		var charges []driver.Charge
		for i, d := range lengths {
			c := all[i].charge(op, 1)
			c.Pause = d
			charges = append(charges, c)
		}
		for _, c := range p.call(charges...) {
			found = append(found, c.Verdict.Found)
		}
		return found
	}
	call(driver.Debit, time.Minute, time.Hour, 0)
	for i, rest := range []time.Duration{time.Minute, time.Hour, 0} {
		all[i].pausedFor(rest)
	}
	if found := call(driver.Reset, 0, 0, 0); !found[0] || !found[1] || found[2] {
		s.fail("a Reset of three states: got Found %v, want that of the first two", found)
	}
	for _, p := range all {
		p.pausedFor(0)
	}
}

// pausesTogether decides about a pause together with a rule of another algorithm, and a place.
func pausesTogether(s *subject, a algorithm) {
	for _, key := range []string{"k", "other"} {
		p, place := s.pause("pause of "+a.Name+key), s.places("place of "+a.Name+key, 2)
		rate := places{s, testkit.Compiled(a.Rule(a.Name+key, core.PerHour(3))), key, 1}
		take := func(order ...int) bool {
			all := []driver.Charge{p.charge(driver.Spend, 1), rate.charge(driver.Spend, driver.Receipt{}), place.charge(driver.Spend, driver.Receipt{})}
			charges, admitted := make([]driver.Charge, 0, len(all)), true
			for _, i := range order {
				charges = append(charges, all[i])
			}
			for _, c := range p.call(charges...) {
				admitted = admitted && c.Verdict.Allowed
			}
			for _, c := range charges {
				if wrote := c.Receipt != (driver.Receipt{}); wrote != (admitted && c.Rule != p.rule) {
					s.fail("admitted %t: got the Receipt %+v of %v", admitted, c.Receipt, c.Rule)
				}
			}
			return admitted
		}
		orders := [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}}
		if !take(1, 0, 2) {
			s.fail("an event was denied without a pause")
		}
		p.debit(time.Minute, time.Minute)
		for _, order := range orders {
			if take(order...) {
				s.fail("an event was admitted in a pause")
			}
			rate.left(2)
			place.left(1)
		}
		// Events from before the pause can end, and another rule can be charged.
		rate.do(driver.Debit, driver.Receipt{})
		place.do(driver.Reset, driver.Receipt{})
		p.pausedFor(time.Minute)
		rate.left(1)
		s.Advance(time.Second)
		p.reset(true)
		rate.do(driver.Debit, driver.Receipt{})
		for _, order := range orders {
			if take(order...) {
				s.fail("an event was admitted that does not fit %v", rate.rule)
			}
			p.pausedFor(0)
		}
		place.left(2)
		p.debit(time.Second, time.Second)
		take(orders[0]...)
		p.pausedFor(time.Second)
	}
}

func atMostOfPause(s *subject, a algorithm) {
	l := s.limiter(a.Rule(a.Name, core.PerHour(10)), core.Pause("pause of "+a.Name))
	s.reserveAtMost(l, "k", 4, 4)
	if err := l.Pause(context.Background(), "k", time.Minute); err != nil {
		s.fail("Pause: %v", err)
	}
	if d := s.reserveAtMost(l, "k", 100, 0).Decision(); d.RetryAfter != time.Minute {
		s.fail("got RetryAfter %v, want that of the pause, %v", d.RetryAfter, time.Minute)
	}
	p := s.pause("pause of " + a.Name)
	charges := []driver.Charge{p.charge(driver.Spend, 100), p.charge(driver.Spend, 100)}
	charges[0].Rule = testkit.Compiled(l.Rules()[0])
	for i := range charges {
		charges[i].AtMost = true
	}
	for _, c := range p.call(charges...) {
		if c.Cost != 1 || c.Receipt != (driver.Receipt{}) {
			s.fail("a Spend with AtMost in a pause: got the cost %d and the Receipt %+v of %v, want 1 and none", c.Cost, c.Receipt, c.Rule)
		}
	}
	p.reset(true)
	s.reserveAtMost(l, "k", 100, 6)
}

func shadowPause(s *subject) {
	l := s.limiter(core.FixedWindow("rate", core.PerHour(10)), core.Pause("shadow").Shadow())
	if err := l.Pause(context.Background(), "k", time.Minute); err != nil {
		s.fail("Pause: %v", err)
	}
	for left := 9; left >= 7; left-- {
		d := s.admit(l, "k", 1)
		rate, pause := d.State(0), d.State(1)
		if rate.Remaining != left || pause.Allowed || pause.RetryAfter != time.Minute || pause.Limit() != core.Blocked {
			s.fail("got %+v and %+v, want %d events left and a pause that denies", rate, pause, left)
		}
	}
	s.reserveAtMost(l, "k", 5, 5)
	p := s.pause("shadow")
	p.pausedFor(time.Minute)
	s.Advance(time.Minute)
	if d := s.admit(l, "k", 1); d.State(1).Limit() != core.Unlimited || !d.State(1).Allowed {
		s.fail("got %+v after the pause", d.State(1))
	}
}

func pauseAndClock(s *subject) {
	p, peeked, debited, shadow := s.pause("clock"), s.pause("peeked"), s.pause("debited"), s.pause("shadow")
	shadow.rule = s.compile(driver.Definition{Name: "shadow", Algorithm: driver.Pause, Shadow: true})
	s.Advance(time.Hour)
	all := []pauseKey{p, peeked, debited, shadow}
	for _, p := range all {
		p.debit(time.Minute, time.Minute)
	}
	s.Advance(20 * time.Second)
	// The clock is after the write, so the end is known.
	s.Advance(-20 * time.Second)
	for _, p := range all {
		p.pausedFor(time.Minute)
	}
	s.Advance(-10 * time.Minute)
	// The first denied call, of any kind, or a debit makes the pause one of now.
	most := p.charge(driver.Spend, 5)
	most.AtMost = true
	p.expect(p.call(most)[0], time.Minute)
	peeked.expect(peeked.call(peeked.charge(driver.Peek, 1))[0], time.Minute)
	debited.expect(debited.call(debited.charge(driver.Debit, 1))[0], time.Minute)
	shadow.expect(shadow.call(shadow.charge(driver.Spend, 1))[0], time.Minute)
	for _, rest := range []time.Duration{time.Minute, 30 * time.Second} {
		for _, p := range all {
			p.expect(p.call(p.charge(driver.Credit, 1))[0], rest)
		}
		s.Advance(rest / 2)
	}
	s.Advance(15*time.Second - time.Microsecond)
	for _, p := range all {
		p.pausedFor(time.Microsecond)
	}
	s.Advance(time.Microsecond)
	for _, p := range all {
		p.pausedFor(0)
	}
	// A longer debit after a step counts from now, and so does the longest pause.
	p.debit(time.Hour, time.Hour)
	s.Advance(-time.Hour)
	p.debit(2*time.Hour, 2*time.Hour)
	p.debit(longestPause, longestPause)
	s.Advance(-24 * time.Hour)
	p.pausedFor(longestPause)
	s.Advance(longestPause)
	p.pausedFor(0)
	// A clock that leaps ends a pause.
	p.debit(longestPause, longestPause)
	s.Advance(longestPause + time.Hour)
	p.pausedFor(0)
	p.reset(false)
}

// concurrentPauses pauses a key from concurrent goroutines, while others ask.
func concurrentPauses(s *subject) {
	p := s.pause("concurrent")
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for i := range 16 {
		wg.Go(func() {
			for j := range 25 {
				c := p.charge(driver.Debit, 1)
				c.Pause = time.Duration(1+(i*25+j*7)%400) * time.Second
				err := p.Store.Adjust(context.Background(), []driver.Charge{c})
				ask := []driver.Charge{p.charge(driver.Spend, 1)}
				if err == nil {
					err = p.Store.Take(context.Background(), ask)
				}
				if v := ask[0].Verdict; err == nil && (v.Allowed || v.RetryAfter < c.Pause) {
					err = fmt.Errorf("after a pause of %v: got %+v", c.Pause, v)
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
	p.pausedFor(400 * time.Second)
}
