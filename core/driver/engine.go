package driver

import "fmt"

// An engine applies one algorithm with its constants: a *bucket, *window, *log, *places, *quota or
// pause, each of them in a file of its own, engine_x.go. Spans are in microseconds. A returned State may share memory
// with s, which must not be used again.
//
// The methods that every decision calls are not in the interface, because an interface call would
// copy or allocate the Reading, which takes a sixth of the time of a decision. The functions below
// call these methods in a type switch.
type engine interface {
	// These methods change s. r is the Reading of s at now.

	debit(s State, r Reading, now, n int64) State
	credit(s State, r Reading, now, n int64) State
	undo(s State, r Reading, now, n int64, m Receipt) State
	rewrite(s State, r Reading, now int64) State // corrects s after the clock stepped back

	expiresAt(s State) int64 // the time from which s means the same as the zero State
	constants() Constants
}

// read sets r, which must be zero, to the Reading of s at now.
func (c *Compiled) read(r *Reading, s State, now, cost int64) {
	switch e := c.engine.(type) {
	case *bucket:
		r.Used, r.moved = e.used(s, now)
	case *window:
		e.read(r, s, now)
	case *log:
		e.read(r, s, now, cost)
	case *places:
		e.read(r, s, now, cost, nil)
	case *quota:
		e.read(r, s, now)
	case pause:
		e.read(r, s, now)
	default:
		panic(c.Algorithm.unknown())
	}
}

// fits reports whether an event of cost that may be delayed for maxDelay is admitted, given r.
func (c *Compiled) fits(r *Reading, cost, maxDelay int64) bool {
	if b, ok := c.engine.(*bucket); ok {
		_, ok := b.fits(r.Used, cost, maxDelay)
		return ok
	}
	return cost <= c.free(r)
}

// spend charges cost, which must fit, and returns the new State. r is the Reading of s at now. c is no pause, from which
// events take nothing.
func (c *Compiled) spend(s State, r *Reading, now, cost int64) State {
	switch e := c.engine.(type) {
	case *bucket:
		return e.spend(r.Used, now, cost)
	case *window:
		return e.spend(r, now, cost)
	case *log:
		return e.spend(s, now, cost)
	case *places:
		return e.spend(s, r, now, cost)
	case *quota:
		return e.spend(s, r, now, cost)
	}
	panic(c.Algorithm.unknown())
}

// verdict sets v to the verdict on an event of cost that may be delayed for maxDelay. r is the
// Reading before the charge. spent reports whether the cost was charged afterwards.
func (c *Compiled) verdict(v *Verdict, r *Reading, cost, maxDelay int64, spent bool) {
	*v = Verdict{Rule: c}
	if b, ok := c.engine.(*bucket); ok {
		after, fits := b.fits(r.Used, cost, maxDelay)
		if !fits || !spent {
			after = r.Used
		}
		b.verdict(v, r.Used, after, cost, maxDelay, fits, fits && spent)
		return
	}
	v.Allowed = cost <= c.free(r)
	spent = spent && v.Allowed
	switch e := c.engine.(type) {
	case *window:
		e.verdict(v, r, cost, spent)
	case *log:
		e.verdict(v, r, cost, spent)
	case *places:
		e.verdict(v, r, cost, spent)
	case *quota:
		e.verdict(v, r, cost, spent)
		if r.Rest > 0 {
			v.Rule = c.with(r.Rest)
		}
	case pause:
		e.verdict(v, r)
	default:
		panic(c.Algorithm.unknown())
	}
}

// newEngine returns the engine of a valid d. extra is the number of events that a soft limit adds.
func newEngine(d *Definition, extra int64) engine {
	period, capacity := d.Per.Microseconds(), int64(d.capacity())+extra
	if k := d.Kind(); k.Refills {
		return newBucket(int64(d.Events), period, capacity, extra, k.Delays)
	}
	if left := d.left(int64(d.capacity())); left > 0 {
		capacity, extra = left, 0
	}
	switch d.Algorithm {
	case FixedWindow:
		w := window{capacity, extra, period}
		if d.FromFirst {
			return &quota{window: w}
		}
		return &w
	case SlidingLog:
		return &log{capacity, extra, period, 1}
	case SlidingWindow:
		n := int64(d.SubWindows)
		return &log{capacity, extra, period, (period + n - 1) / n}
	case InFlight:
		return &places{capacity, extra, d.Hold.Microseconds(), false}
	case Quota:
		q := &quota{window: window{capacity, extra, d.Calendar.longest()}}
		if d.Rollover > 0 {
			q.rollover = &rollover{int64(d.Events), int64(d.Rollover), extra, d}
		}
		return q
	case Pause:
		return pause{}
	}
	panic(d.Algorithm.unknown())
}

// room returns the largest cost that is admitted without a bound of the delay, given r, or 0 if there
// is none.
func (c *Compiled) room(r *Reading) int64 {
	if b, ok := c.engine.(*bucket); ok {
		return b.tokens(b.without(b.most, r.Used))
	}
	return c.free(r)
}

// free is room for an algorithm that counts events.
func (c *Compiled) free(r *Reading) int64 {
	if r.Left > 0 && c.Kind.Closes {
		return 0
	}
	most := c.Constants.Capacity
	if c.Constants.Rollover > 0 {
		most = c.engine.(*quota).rollover.capacity(r.Rest)
	}
	return max(0, most-r.Count)
}

// unknown returns the text of the panic in a switch that has no case for the algorithm.
func (a Algorithm) unknown() string { return fmt.Sprintf("weir: no algorithm has the number %d", a) }
