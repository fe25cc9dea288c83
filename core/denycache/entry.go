package denycache

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An entry holds the answers of the Store about one rule of one key. It never changes;
// another entry replaces it.
type entry struct {
	rule    *driver.Compiled
	answers []answer // in ascending order of their costs
}

// An answer is the Verdict of the Store about one cost.
type answer struct {
	cost  int64
	wait  int64 // the longest time for which the event could be held, in microseconds
	heard int64 // the time at which the answer arrived
	// until is the time from which on the answer is not used to deny: the end of the denial,
	// or of MaxAge. It is zero if the cost was not denied, or the denial had ended on arrival.
	until   int64
	verdict driver.Verdict
	made    *driver.Compiled // the rule by which the Store decided, if it is not that of the charge
	count   int64            // of a window or log: the events that counted, at least
}

// answerTo returns the answer of the Store about c. All costs above the capacity of the rule are
// one cost: clients may make up as many as they like.
func answerTo(c *driver.Charge) answer {
	a := answer{cost: c.Asked(), wait: wait(c), verdict: c.Verdict}
	if a.verdict.RetryAfter == driver.Never {
		a.cost, a.wait = c.Rule.Capacity()+1, driver.Never
	}
	if c.Verdict.Rule != c.Rule {
		a.made = c.Verdict.Rule
	}
	k := a.rule(c).Constants()
	a.count = k.Capacity - k.Extra - int64(c.Verdict.Remaining)
	if !c.Verdict.Allowed {
		a.count = max(a.count, k.Capacity-a.cost+1)
	}
	return a
}

// rule returns the rule that a is about when it is used for c.
func (a *answer) rule(c *driver.Charge) *driver.Compiled { return cmp.Or(a.made, c.Rule) }

// foresee returns the answer that the Store would give next, after it admitted c and too little
// is left for the same cost. It returns false if more is left, and for the rules of which a
// Verdict does not say the next RetryAfter to the microsecond: buckets whose tokens take a
// fraction of a microsecond, and soft rules.
func foresee(c *driver.Charge) (a answer, foreseen bool) {
	v := &c.Verdict
	if c.Op != driver.Spend || !v.Allowed || v.Remaining >= c.Cost {
		return a, false
	}
	a = answerTo(c)
	rule := a.rule(c)
	if k := rule.Constants(); k.Extra > 0 || k.Denominator > 1 {
		return a, false
	}
	a.cost, a.wait = int64(v.Remaining)+1, driver.Never
	a.verdict = rule.Verdict(a.reading(rule, a.heard), a.cost, a.wait, false)
	return a, !a.verdict.Allowed
}

// believed returns a with the times heard and until, for a call that was sent and heard then.
// The Store decided after the call was sent, and its clock counts whole microseconds.
func (a answer) believed(sent, heard, maxAge int64) answer {
	a.heard = heard
	if a.verdict.Allowed {
		return a
	}
	if until := sent + min(int64(a.verdict.RetryAfter-time.Microsecond), maxAge); until > heard {
		a.until = until
	}
	return a
}

// maxAnswers bounds the costs that are remembered apart.
const maxAnswers = 4

// about says whether e is about rule as it is defined: its limit may have changed.
func (e *entry) about(rule *driver.Compiled) bool { return e.rule.Equivalent(rule) }

// wait returns the longest time for which the event of c may be held. Only a leaky bucket
// holds events.
func wait(c *driver.Charge) int64 {
	if c.Rule.Algorithm() != driver.LeakyBucket {
		return driver.Never
	}
	return c.Patience()
}

// denial finds the answer that denies c at now, that of the nearest cost. If there
// is none, stale says that there was one until just now.
func (e *entry) denial(c *driver.Charge, now int64) (d *answer, stale bool) {
	cost, wait := c.Asked(), wait(c)
	for i := range e.answers {
		switch a := &e.answers[i]; {
		case a.until == 0 || a.cost > cost || a.wait < wait:
		case now < a.until:
			d = a
		case now-a.until < justNow:
			stale = true
		}
	}
	return d, stale
}

// justNow is the time after the end of a denial in which calls wait for the answers to other
// calls: see Store.wait.
const justNow = int64(time.Second)

// with returns an entry with the answers of e, which may be nil, and a.
func (e *entry) with(rule *driver.Compiled, a answer) *entry {
	next := &entry{rule: rule}
	if e != nil && e.about(rule) {
		next.answers = make([]answer, 0, len(e.answers)+1)
		for _, old := range e.answers {
			if !old.replacedBy(&a) {
				next.answers = append(next.answers, old)
			}
		}
	}
	at, _ := slices.BinarySearchFunc(next.answers, a.cost, func(o answer, cost int64) int { return cmp.Compare(o.cost, cost) })
	next.answers = slices.Insert(next.answers, at, a)
	if len(next.answers) > maxAnswers {
		// The least and the largest say most about the others.
		between := 2
		if between == at {
			between--
		}
		next.answers = slices.Delete(next.answers, between, between+1)
	}
	return next
}

// replacedBy says whether next is about the same cost as a, or contradicts a: if a cost fits,
// every lower cost fits too.
func (a *answer) replacedBy(next *answer) bool {
	if a.cost == next.cost && a.wait == next.wait {
		return true
	}
	return next.verdict.Allowed && a.until != 0 && a.cost <= next.cost && a.wait >= next.wait
}
