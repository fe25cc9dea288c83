package driver

// A Reading is the meaning of a [State] for one cost at one time, before any charge. A [Verdict]
// follows from it alone. Spans are in microseconds. For an unused key, all fields except Left are
// zero.
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
