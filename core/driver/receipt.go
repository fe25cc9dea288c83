package driver

// A Receipt identifies a charge for an Undo, by its time and, for a bucket, by the span that was in
// use before. A Spend or Debit that takes something writes it. The zero Receipt undoes nothing.
type Receipt struct {
	At     int64 // by the clock of the Store, in microseconds
	Used   Span
	Origin int // for a store that is made of others: the number of the one that has the charge

	// Age is the time since the charge in microseconds, by the monotonic clock of the caller of
	// Undo, or 0 if the caller does not know it. It tells a store whose clock has stepped back
	// after the charge that more time has passed than now - At. A charge sets it to 0.
	Age int64
}

// stepped reports whether the clock has stepped back between the charge and now.
func (m Receipt) stepped(now int64) bool { return now-m.At < m.Age }
