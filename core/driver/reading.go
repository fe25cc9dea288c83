package driver

// A Reading is the meaning of a [State] for one cost at one instant, before any spending. A
// [Verdict] follows from it alone. Spans are in microseconds. The zero Reading is that of a key of
// which nothing is used, but for Left.
type Reading struct {
	Used Span // of a bucket: the part that is in use, more than the whole while it is in debt

	Count int64 // of a window or log: the events that count
	Left  int64 // of a FixedWindow: until the window ends, at least 1

	// Of a log or sliding window; meaningless while Count is zero.
	First, Last int64 // until the first and the last event that counts leave the window
	Retry       int64 // until enough events have left for the cost; zero if it fits or never does

	Phase int64 // of a SlidingWindow: until the last microsecond of the sub-window of now

	moved bool // the clock has stepped back: the State has to be written even if nothing is taken
}

// InUse says whether anything is used.
func (r *Reading) InUse() bool { return r.Count > 0 || r.Used != Span{} }

// Receipt is the receipt of a Spend or Debit at now, before which r was read.
func (r *Reading) Receipt(now int64) Receipt { return Receipt{At: now, Used: r.Used} }
