package denycache

import (
	"time"

	"github.com/weir-go/weir/core/driver"
)

// deny fills in the Verdict of c, which d denies. It returns false if only the Store
// knows when the cost fits.
func (e *entry) deny(c *driver.Charge, d *answer, now int64) bool {
	rule, cost := d.rule(c), c.Asked()
	r := d.reading(rule, now)
	if isLog(rule) && cost != d.cost && cost <= rule.Capacity() {
		later := e.beyond(cost, now)
		if later == nil || len(e.answers) < maxAnswers {
			return false
		}
		r.Retry = max(r.Retry, later.reading(rule, now).Retry)
	}
	d.fill(c, &r)
	return !c.Verdict.Allowed
}

// beyond is the denial of the least cost above cost that can be admitted at all.
func (e *entry) beyond(cost, now int64) *answer {
	for i := range e.answers {
		if a := &e.answers[i]; a.cost > cost && now < a.until && a.verdict.RetryAfter != driver.Never {
			return a
		}
	}
	return nil
}

// estimate fills in the Verdict of c, which is not known to be denied: from the last answer
// to the same cost, or else to any cost, or as of a key of which nothing is used.
func (e *entry) estimate(c *driver.Charge, now int64) {
	if e == nil || !e.about(c.Rule) {
		r := untouched(c.Rule)
		c.Answer(&r, false)
		return
	}
	last := &e.answers[0]
	for i := range e.answers {
		if a := &e.answers[i]; a.cost == c.Asked() || last.cost != c.Asked() && a.heard > last.heard {
			last = a
		}
	}
	r := last.reading(last.rule(c), now)
	last.fill(c, &r)
}

// untouched is the Reading of a key of which nothing is used. The end of a fixed window is not
// known here: the Reading has it as if the window had just begun.
func untouched(rule *driver.Compiled) driver.Reading { return rule.Read(driver.State{}, 0, 1) }

func isLog(r *driver.Compiled) bool {
	return r.Algorithm() == driver.SlidingLog || r.Algorithm() == driver.SlidingWindow
}

// fill fills in the Verdict of c from r, a reading of a. Time that a bucket is in use is
// rounded up to a microsecond, so r may have a token less; but what remained when a was heard
// is never less later.
func (a *answer) fill(c *driver.Charge, r *driver.Reading) {
	whole := c.Rule
	c.Rule = a.rule(c)
	c.Answer(r, false)
	c.Rule = whole
	if whole.Algorithm().IsBucket() {
		c.Verdict.Remaining = max(c.Verdict.Remaining, a.verdict.Remaining)
	}
}

// reading is what a says of the state of its key under rule at now, if nothing else has
// happened since. The Store decided before its answer was heard, so times are late by the way
// back at most.
//
// Of a log or sliding window, only the first event and the last one are known, and when the
// cost of a fits. Events that have left since a was heard are not known, except that they make
// room for that cost.
func (a *answer) reading(rule *driver.Compiled, now int64) driver.Reading {
	v, since := &a.verdict, max(0, now-a.heard)/int64(time.Microsecond)
	used := v.ResetAfter.Microseconds() - since
	if used <= 0 {
		return untouched(rule)
	}
	if rule.Algorithm().IsBucket() {
		return driver.Reading{Used: driver.Span{Micros: used}}
	}
	first := v.Window.Microseconds() - since
	if first <= 0 {
		first = used
	}
	r := driver.Reading{Count: a.count, Left: first, First: first, Last: used, Retry: first}
	if !v.Allowed && v.RetryAfter != driver.Never {
		if r.Retry = v.RetryAfter.Microseconds() - since; r.Retry <= 0 {
			r.Count, r.Retry = min(r.Count, rule.Capacity()-a.cost), first
		}
	}
	return r
}
