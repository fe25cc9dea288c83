package denycache

import (
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// tell fills in the State of c, which d denies. It returns false if only the Store
// knows when the cost fits.
func (e *entry) tell(c *core.Charge, d *answer, now int64) bool {
	p, cost := c.Rule.Program(), c.Asked()
	if isBucket(c.Rule) {
		d.refill(c, now)
		return !c.State.Allowed
	}
	st := d.aged(now)
	switch {
	case cost == d.cost:
	case cost > p.Capacity():
		st.RetryAfter = core.Never
	case p.Kind == algo.KindFixedWindow: // it all comes back together
	default:
		later := e.beyond(cost, now)
		if later == nil || len(e.answers) < maxAnswers {
			return false
		}
		st.RetryAfter = max(st.RetryAfter, later.aged(now).RetryAfter)
		st.Window = st.RetryAfter
	}
	c.State = st
	c.State.Rule = c.Rule
	return true
}

// beyond is the denial of the least cost above cost that can be admitted at all.
func (e *entry) beyond(cost, now int64) *answer {
	for i := range e.answers {
		if a := &e.answers[i]; a.cost > cost && now < a.until && a.state.RetryAfter != core.Never {
			return a
		}
	}
	return nil
}

// guess fills in the State of c, which is not known to be denied: what was known
// last, or the State of a key of which nothing is used.
func (e *entry) guess(c *core.Charge, now int64) {
	if e == nil || !e.about(c.Rule) {
		untouched(c)
		return
	}
	last := &e.answers[0]
	for i := range e.answers {
		if a := &e.answers[i]; a.cost == c.Asked() || last.cost != c.Asked() && a.heard > last.heard {
			last = a
		}
	}
	if isBucket(c.Rule) {
		last.refill(c, now)
		return
	}
	st := last.aged(now)
	switch {
	case st.ResetAfter == 0:
		untouched(c)
		return
	case last.cost != c.Asked():
		st.Allowed, st.RetryAfter, st.Soft = c.Cost <= st.Remaining, 0, false
		if c.Asked() > c.Rule.Program().Capacity() {
			st.RetryAfter = core.Never
		} else if !st.Allowed {
			st.RetryAfter = st.Window // the least that it can be
		}
	case !st.Allowed && st.RetryAfter == 0:
		st.Allowed, st.Remaining = true, c.Cost
	}
	c.State = st
	c.State.Rule = c.Rule
}

func isBucket(r core.Rule) bool {
	return r.Algorithm() == core.AlgorithmTokenBucket || r.Algorithm() == core.AlgorithmLeakyBucket
}

// since is how long ago the answer was heard, in whole microseconds. It was given
// earlier than that, so what is worked out with it is late by the way back at most.
func (a *answer) since(now int64) time.Duration {
	return time.Duration(max(0, now-a.heard)).Truncate(time.Microsecond)
}

// refill fills in the State of c from the time at which the bucket will be full,
// which is all that a bucket is. It was rounded up to a microsecond, so this may be
// a microsecond too strict; but what was left is never less than it was.
func (a *answer) refill(c *core.Charge, now int64) {
	used := max(0, a.state.ResetAfter-a.since(now))
	b := &c.Rule.Program().Bucket
	c.Answer(b.Verdict(algo.Span{Micros: used.Microseconds()}, c.Asked(), c.Patience(), false), false)
	c.State.Remaining = max(c.State.Remaining, a.state.Remaining)
}

// aged is the State of a window or log, if nothing else has happened since.
func (a *answer) aged(now int64) core.State {
	since, st := a.since(now), a.state
	st.ResetAfter = max(0, st.ResetAfter-since)
	if st.Window -= since; st.Window <= 0 {
		st.Window = st.ResetAfter
	}
	if st.RetryAfter != core.Never {
		st.RetryAfter = max(0, st.RetryAfter-since)
	}
	return st
}

// untouched fills in the State of a key of which nothing is used. When a fixed
// window ends is not known here: it is told as if it had just begun.
func untouched(c *core.Charge) {
	c.Answer(c.Rule.Program().Untouched(c.Asked(), c.Patience(), 0), false)
}
