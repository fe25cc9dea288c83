package driver

// A State is the data of one rule of one key in a Store. The zero State is that of an unused key.
// Its meaning depends on the algorithm of the rule; it may be read under another limit than it was
// written under. A Store keeps it by the key of the charge and [Compiled.ID].
//
// States of the two sliding algorithms share memory with the States that they were made from: after
// a call of [Charge.Commit], [Charge.Apply] or Coarsen, only the returned State may be used. A
// State that was decoded from bytes shares nothing.
type State struct {
	time   int64  // bucket: the time at which it will be full; fixed window: its beginning
	amount int64  // bucket: the fraction of time; fixed window: the events in it
	debt   int64  // bucket in debt: the time at which the debt was written; else 0
	log    *[]run // log: see history
}

// Words returns the State of a bucket or fixed window as three numbers, for a store that packs
// them. For a bucket they are the time at which it will be full, the fraction of that in parts of
// the Denominator, and zero unless the bucket is in debt. ok is false for a log with events.
func (s State) Words() (a, b, c int64, ok bool) { return s.time, s.amount, s.debt, s.log == nil }

// StateOf returns the State with the Words a, b and c.
func StateOf(a, b, c int64) State { return State{time: a, amount: b, debt: c} }

// Size returns the bytes of memory that s takes beyond its own value.
func (s State) Size() int {
	if s.log == nil {
		return 0
	}
	return sliceSize + runSize*cap(*s.log)
}

// Count returns the number of events that s remembers, including those that no longer count. It is
// zero for the State of a bucket or a fixed window.
func (s State) Count() int64 {
	if s.log == nil {
		return 0
	}
	return s.amount
}

// Coarsen reduces the State of a sliding algorithm to about half of its memory, by joining pairs of
// event times into the later one. Events may then count longer, never shorter. If the last Spend or
// Debit made s grow, the new State is no larger than s was before. Other States do not change.
func (s State) Coarsen() State {
	if s.log == nil {
		return s
	}
	h := s.history()
	h.coarsen()
	return h.state(s)
}

// A Reading is the meaning of a [State] for one cost at one time, before any charge. A [Verdict]
// follows from it alone. Spans are in microseconds. For an unused key, only Left and Phase are set.
type Reading struct {
	Used Span // bucket: the part that is in use, more than the whole while it is in debt

	Count int64 // window or log: the events that count
	Left  int64 // FixedWindow: until the window ends, at least 1

	// Log or sliding window; meaningless while Count is zero.
	First, Last int64 // until the first and the last event that counts leave the window
	Retry       int64 // until enough events have left for the cost; zero if it fits or never does

	Phase int64 // SlidingWindow: until the last microsecond of the current sub-window

	moved bool // the clock has stepped back: the State has to be stored even if nothing is charged
}

// InUse reports whether anything is used.
func (r *Reading) InUse() bool { return r.Count > 0 || r.Used != Span{} }

// Receipt returns the receipt of a Spend or Debit at now, given the Reading before the charge.
func (r *Reading) Receipt(now int64) Receipt { return Receipt{At: now, Used: r.Used} }
