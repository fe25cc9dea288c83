package driver

// A State is the data that a Store keeps for one rule of one key. The zero State is that of an
// unused key, and need not be stored. Other States can have the same meaning: see
// [Compiled.ExpiresAt]. The meaning of a State depends on the algorithm of the rule. The limit of the rule
// may change before a State is read again. A Store must keep States by key and [Compiled.ID].
//
// States of the two sliding algorithms, of quotas and of in-flight rules share memory with the States that they were
// made from. After a call of [Charge.Commit], [Charge.Apply] or Coarsen, only the returned State may be
// used. A State that was decoded from bytes shares no memory.
type State struct {
	// For a store that packs the States of buckets and fixed windows. Other stores use MarshalBinary.
	Time   int64 // bucket: the time at which it will be full; fixed window: its start; quota and pause: the end of its period (see rolling)
	Amount int64 // bucket: a fraction of a microsecond, times Denominator, to add to Time; fixed window and quota: their events
	Debt   int64 // bucket in debt and pause: the time at which it was written; quota: the start of its period; in flight: the number of its queues; else 0

	log *[]run // log, places, or the rest of a quota: see history, places and rolling
}

// Size returns the number of bytes of memory that s refers to.
func (s State) Size() int {
	if s.log == nil {
		return 0
	}
	return sliceSize + runSize*cap(*s.log)
}

// Coarsen reduces the State of a sliding algorithm to about half of its memory, by joining pairs of
// event times into the later one. Events may then count longer, never shorter. If the last Spend or
// Debit made s grow, the new State is no larger than s was before. Other States do not change, such as
// those with the places of an in-flight rule.
func (s State) Coarsen() State {
	if s.log == nil || s.Time < 0 {
		return s
	}
	h := s.history()
	h.coarsen()
	return h.state(s)
}

// A Reading describes a [State] at a given time, before a charge with a given cost. A [Verdict]
// follows from it. Spans are in microseconds. For an unused key, only Left, Length and Phase are set.
type Reading struct {
	Used Span // bucket: the part that is in use, more than the capacity if it is in debt

	Count  int64 // window or log: the events that count; in flight: the places that are taken, or all if there can be no other event
	Left   int64 // until the window, the period of a Quota or the Pause ends; at least 1, and 0 for a Pause that has ended
	Length int64 // Quota: of the period
	Rest   int64 // Quota: the events of the last period that are added to the limit

	// Log, sliding window or places; meaningless while Count is zero.
	First, Last int64 // until the first and the last event that counts leave the window; Last: until the last place lapses
	Retry       int64 // until the cost fits; zero if it fits now or can never fit

	Phase int64 // SlidingWindow: until the last microsecond of the current sub-window

	Number int64 // InFlight: until the time in the number of the next place
	Single bool  // InFlight: there can be one more event only
	Rolls  bool  // Quota: the events of the period roll over if their rule says so

	moved bool     // the clock has stepped back: the State must be stored even if nothing is charged
	woken *[]int64 // the queues that Commit or Apply has woken, for Answer; nil if the State had none
}
