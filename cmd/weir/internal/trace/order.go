package trace

import (
	"container/heap"
	"math"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

const (
	second = 1_000_000 // in microseconds

	// horizon is the time for which an event waits for older ones. Servers write a request into their
	// log when it has ended, some of them with the time of its beginning.
	horizon = 60 * second

	// maxWaiting is the largest number of events that wait, which bounds the memory. If there are more, the
	// oldest one waits no longer.
	maxWaiting = 1 << 19
)

// An order sorts events by their times, within horizon and maxWaiting. Events of one time keep their order. The
// zero value is an empty order.
type order struct {
	sorted []ordered // its events begin at head
	head   int
	early  early // events that are older than the last one of sorted was
	newest int64 // time of the newest event
	count  uint64

	begun bool // left is set
	left  int64
	event simulate.Event // the event that pop has returned
}

// An ordered is an event of an order.
type ordered struct {
	event  simulate.Event
	number uint64 // of the event in the order of the trace
}

func (e *ordered) before(o *ordered) bool {
	return e.event.At < o.event.At || e.event.At == o.event.At && e.number < o.number
}

// push adds an event.
func (o *order) push(e *simulate.Event) {
	o.newest = max(o.newest, e.At)
	o.count++
	if n := len(o.sorted); o.head < n && e.At < o.sorted[n-1].event.At {
		heap.Push(&o.early, &ordered{*e, o.count})
		return
	}
	o.sorted = append(o.sorted, ordered{*e, o.count})
}

// pop removes the oldest event, which is valid until the next call. It returns nil if there is none,
// or, unless ended is true or too many wait, if an older one can follow. late reports whether the event was older than
// the one before; then it has the time of that one.
func (o *order) pop(ended bool) (e *simulate.Event, late bool) {
	latest := o.newest - horizon
	if ended || len(o.sorted)-o.head+len(o.early) > maxWaiting {
		latest = math.MaxInt64
	}
	switch {
	case len(o.early) > 0 && (o.head == len(o.sorted) || o.early[0].before(&o.sorted[o.head])):
		if o.early[0].event.At > latest {
			return nil, false
		}
		o.event = heap.Pop(&o.early).(*ordered).event
	case o.head < len(o.sorted):
		if o.sorted[o.head].event.At > latest {
			return nil, false
		}
		o.event = o.sorted[o.head].event
		o.head++
		o.compact()
	default:
		return nil, false
	}
	if late = o.begun && o.event.At < o.left; late {
		o.event.At = o.left
	}
	o.begun, o.left = true, o.event.At
	return &o.event, late
}

// compact frees the beginning of sorted if that is as long as the rest.
func (o *order) compact() {
	if o.head < len(o.sorted) && (o.head < 1024 || o.head < len(o.sorted)/2) {
		return
	}
	n := copy(o.sorted, o.sorted[o.head:])
	clear(o.sorted[n:])
	o.sorted, o.head = o.sorted[:n], 0
}

// An early is a heap of events, for package heap.
type early []*ordered

func (h early) Len() int           { return len(h) }
func (h early) Less(i, j int) bool { return h[i].before(h[j]) }
func (h early) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *early) Push(x any)        { *h = append(*h, x.(*ordered)) }

func (h *early) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
