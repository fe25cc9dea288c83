package driver

import "fmt"

// An Algorithm names how a rule counts. The zero Algorithm is none.
type Algorithm uint8

// The algorithms. CONTRIBUTING.md lists the files that a new one needs.
const (
	TokenBucket Algorithm = iota + 1
	SlidingLog
	LeakyBucket
	FixedWindow
	SlidingWindow
)

var algorithmNames = [...]string{
	"none",
	TokenBucket:   "token_bucket",
	SlidingLog:    "sliding_log",
	LeakyBucket:   "leaky_bucket",
	FixedWindow:   "fixed_window",
	SlidingWindow: "sliding_window",
}

// String is the name used in configuration: "token_bucket", "leaky_bucket", "fixed_window",
// "sliding_log" or "sliding_window".
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) {
		return algorithmNames[a]
	}
	return algorithmNames[0]
}

// IsBucket says whether a fills and drains at a rate; the others count events in a window.
func (a Algorithm) IsBucket() bool { return a == TokenBucket || a == LeakyBucket }

// Unknown is the panic of a switch that has no case for a: no algorithm runs as another one.
func (a Algorithm) Unknown() string { return fmt.Sprintf("weir: no algorithm has the number %d", a) }

// An engine is one algorithm with its constants: a *bucket, *window or *log. Spans of time are in
// microseconds. A State that it returns may share memory with the one that it was given, which is
// not used again. The methods on the way of every decision are called through the functions below,
// which know the types, so that a Reading can stay where it is: through the interface it would have
// to be copied or allocated, which takes a sixth of a decision.
type engine interface {
	// These methods change s, of which r was read at now.

	debit(s State, r Reading, now, n int64) State
	credit(s State, r Reading, now, n int64) State
	undo(s State, r Reading, now, n int64, m Receipt) State
	rewrite(s State, r Reading, now int64) State // after the clock stepped back

	expiresAt(s State) int64 // when s means the same as the zero State
	constants() Constants
}

// read sets r, which is zero, to the meaning of s at now; nothing else changes.
func (c *Compiled) read(r *Reading, s State, now, cost int64) {
	switch e := c.engine.(type) {
	case *bucket:
		e.read(r, s, now)
	case *window:
		e.read(r, s, now)
	case *log:
		e.read(r, s, now, cost)
	default:
		panic(c.Algorithm().Unknown())
	}
}

// fits says whether cost, which may be held for maxDelay, is admitted at r.
func (c *Compiled) fits(r *Reading, cost, maxDelay int64) bool {
	switch e := c.engine.(type) {
	case *bucket:
		return e.fits(r, cost, maxDelay)
	case *window:
		return e.fits(r, cost)
	case *log:
		return e.fits(r, cost)
	}
	panic(c.Algorithm().Unknown())
}

// spend takes cost, which fits, from s, of which r was read at now.
func (c *Compiled) spend(s State, r *Reading, now, cost int64) State {
	switch e := c.engine.(type) {
	case *bucket:
		return e.spend(r, now, cost)
	case *window:
		return e.spend(r, now, cost)
	case *log:
		return e.spend(s, now, cost)
	}
	panic(c.Algorithm().Unknown())
}

// verdict sets v, which is zero, to the answer at r to a cost that may be held for maxDelay; r was
// read before, and spent tells whether cost was then taken.
func (c *Compiled) verdict(v *verdict, r *Reading, cost, maxDelay int64, spent bool) {
	switch e := c.engine.(type) {
	case *bucket:
		e.verdict(v, r, cost, maxDelay, spent)
	case *window:
		e.verdict(v, r, cost, spent)
	case *log:
		e.verdict(v, r, cost, spent)
	default:
		panic(c.Algorithm().Unknown())
	}
}

// newEngine returns the engine of d, which is valid and counts extra events beyond its limit.
func newEngine(d *Definition, extra int64) engine {
	period, capacity := d.Per.Microseconds(), int64(d.capacity())+extra
	switch d.Algorithm {
	case TokenBucket, LeakyBucket:
		return newBucket(int64(d.Events), period, capacity, extra, d.Algorithm == LeakyBucket)
	case FixedWindow:
		return &window{capacity, extra, period}
	case SlidingLog:
		return &log{capacity, extra, period, 1}
	case SlidingWindow:
		n := int64(d.SubWindows)
		return &log{capacity, extra, period, (period + n - 1) / n}
	}
	panic(d.Algorithm.Unknown())
}
