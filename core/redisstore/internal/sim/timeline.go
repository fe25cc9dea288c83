package sim

import "time"

// A timeline has the changes of the end of the pause of a key, in order.
type timeline []change

// From a time on, the pause ends at end, or there is none if end is zero.
type change struct{ at, end time.Time }

// end returns the end of the pause that was set last.
func (t timeline) end() (end time.Time) {
	if len(t) > 0 {
		end = t[len(t)-1].end
	}
	return end
}

// kept is how long changes are kept.
const kept = time.Minute

// set adds a change that happens now.
func (t *timeline) set(end time.Time) {
	now := time.Now()
	for len(*t) > 1 && now.Sub((*t)[1].at) > kept {
		*t = (*t)[1:]
	}
	*t = append(*t, change{now, end})
}

// between calls f for the parts of a span, with the end of the pause that was set for each. A part that begins with a
// change at the beginning of the span has that change either way.
func (t timeline) between(from, to time.Time, f func(part span, end time.Time)) {
	next := to
	for i := len(t) - 1; i >= 0; i-- {
		if at := later(t[i].at, from); !at.After(next) {
			f(span{at, next}, t[i].end)
			next = at
		}
		if t[i].at.Before(from) {
			return
		}
	}
	f(span{from, next}, time.Time{})
}

// always reports whether there was a pause during the whole span. The clock of a server counts whole microseconds.
func (t timeline) always(from, to time.Time) bool {
	all := true
	t.between(from, to, func(part span, end time.Time) { all = all && part.to.Before(end.Add(-time.Microsecond)) })
	return all
}

// latest returns the latest end of a pause that there was in the span, or zero.
func (t timeline) latest(from, to time.Time) (latest time.Time) {
	t.between(from, to, func(part span, end time.Time) {
		if part.from.Before(end) {
			latest = later(latest, end)
		}
	})
	return latest
}

// earliest returns the earliest end of a pause that there was in the span, or zero.
func (t timeline) earliest(from, to time.Time) (earliest time.Time) {
	t.between(from, to, func(part span, end time.Time) {
		if part.from.Before(end) && (earliest.IsZero() || end.Before(earliest)) {
			earliest = end
		}
	})
	return earliest
}

// over returns the latest time up to now at which there was a pause, or zero. A pause that was ended early counts
// for longer by notice.
func (t timeline) over(notice time.Duration) (over time.Time) {
	next := time.Now()
	for i := len(t) - 1; i >= 0; i-- {
		c := t[i]
		switch ended := i < len(t)-1 && !t[i+1].end.After(next); {
		case !c.at.Before(c.end):
		case ended && c.end.After(next):
			over = later(over, next.Add(notice))
		default:
			over = later(over, earlier(c.end, next))
		}
		next = c.at
	}
	return over
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
