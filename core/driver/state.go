package driver

// A State is the memory of one rule of one key in a Store. The zero State is that of a key of which
// nothing is used. Its meaning belongs to the algorithm of the rule; it may be read under another
// limit than it was written under. A Store keeps it by the key of the charge and [Compiled.ID].
//
// States of the two sliding algorithms share memory with what they were made from: after a State
// was given to [Charge.Commit], [Charge.Apply] or Coarsen, only the one that was returned is used.
// A State that was decoded from bytes shares nothing.
type State struct {
	time   int64  // of a bucket: when it will be full; of a fixed window: its beginning
	amount int64  // of a bucket: the fraction of time; of a fixed window: the events in it
	debt   int64  // of a bucket in debt: the time at which more was in use than it holds; else 0
	log    *[]run // of a log: see history
}

// Words returns the State of a bucket or fixed window as three numbers, for a store that packs
// them. For a bucket they are the time at which it will be full, the fraction of that in parts of
// the Denominator, and zero unless the bucket is in debt. ok is false for a State that does not fit
// three numbers.
func (s State) Words() (a, b, c int64, ok bool) { return s.time, s.amount, s.debt, s.log == nil }

// StateOf returns the State of which a, b and c are the Words.
func StateOf(a, b, c int64) State { return State{time: a, amount: b, debt: c} }

// Size returns the bytes that s takes beyond its own value.
func (s State) Size() int {
	if s.log == nil {
		return 0
	}
	return sliceSize + runSize*cap(*s.log)
}

// Count returns the events that s remembers one by one, including those that do not count any more.
// It is zero for the State of a bucket or a fixed window.
func (s State) Count() int64 {
	if s.log == nil {
		return 0
	}
	return s.amount
}

// Coarsen returns the State of a sliding algorithm with about half of the memory, and less exact:
// two times of events become the later of the two. The events count longer for it, never shorter.
// If s was larger than before only by the last Spend or Debit, the new State is no larger than
// before. Other States are returned as they are.
func (s State) Coarsen() State {
	if s.log == nil {
		return s
	}
	h := s.history()
	h.coarsen()
	return h.state(s)
}
