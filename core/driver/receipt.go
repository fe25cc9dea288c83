package driver

// A Receipt identifies a charge for an Undo: it has the time of the charge and, for a bucket, the
// span that was in use before. A Store writes it when a Spend or a Debit takes something. The zero
// Receipt undoes nothing.
type Receipt struct {
	At     int64 // by the clock of the Store, in microseconds
	Used   Span
	Origin int // for a store that is made of others: which of them has the charge

	// Age is how many microseconds ago the charge was made, by a clock that never steps: that of
	// the caller that undoes it. It tells a store whose clock has stepped back since that more time
	// has passed than At says. It is 0 where the caller does not know, and when a charge is made.
	Age int64
}

// stepped says whether the clock stepped back between the charge and now.
func (m Receipt) stepped(now int64) bool { return now-m.At < m.Age }
