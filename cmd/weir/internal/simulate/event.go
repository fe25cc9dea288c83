package simulate

import "iter"

// An Event is one request of a trace, or of a [Generator].
type Event struct {
	At      int64  // Unix time in microseconds
	Key     string // not empty
	Cost    int    // zero means 1
	Plan    string
	Request string // its method and path, such as "POST /login"; empty if the trace has none
	Limited bool   // the trace has the status 429 for it
}

// Traffic yields events in the order of their times. An event is valid until the next one.
type Traffic = iter.Seq[*Event]
