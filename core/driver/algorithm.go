package driver

import "fmt"

// An Algorithm names how a rule counts. The zero Algorithm is none.
type Algorithm uint8

// The algorithms.
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

// String is the name used in configuration: "token_bucket", "leaky_bucket",
// "fixed_window", "sliding_log" or "sliding_window".
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

// An engine is one algorithm with its constants. Spans of time are in microseconds. A State
// that it returns may share memory with the one that it was given, which is not used again.
type engine interface {
	// read says what s means at now; nothing changes.
	read(s State, now, cost int64) Reading
	// fits says whether cost, which may be held for maxDelay, is admitted at r.
	fits(r Reading, cost, maxDelay int64) bool
	// verdict says what r, before any spending, means for cost, which may be held for
	// maxDelay; spent tells whether it was then taken.
	verdict(r Reading, cost, maxDelay int64, spent bool) verdict

	// What follows is done to s, of which r was read at now.

	spend(s State, r Reading, now, cost int64) State // which fits
	debit(s State, r Reading, now, n int64) State
	credit(s State, r Reading, now, n int64) State
	undo(s State, r Reading, now, n int64, m Receipt) State
	rewrite(s State, r Reading, now int64) State // after the clock stepped back

	receipt(r Reading, now int64) Receipt // of a charge at r
	keep(m Receipt, cost int64) Receipt   // of the part of a charge that stays when the rest is undone
	expiresAt(s State) int64              // when s means nothing any more
	constants() Constants
}

// newEngine returns the engine of d, which counts extra beyond its limit.
func newEngine(d *Definition, period, extra int64) (engine, error) {
	events, burst := int64(d.Events)+extra, int64(d.capacity())+extra
	switch d.Algorithm {
	case TokenBucket, LeakyBucket:
		return newBucket(int64(d.Events), period, burst, extra, d.Algorithm == LeakyBucket)
	case FixedWindow:
		return newWindow(events, extra, period)
	case SlidingLog:
		return newLog(events, extra, period)
	case SlidingWindow:
		return newCounter(events, extra, period, int64(d.SubWindows))
	}
	panic(d.Algorithm.Unknown())
}
