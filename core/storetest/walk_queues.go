package storetest

import (
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
)

// queueHold is the time after which a State forgets a queue that has not asked again. See driver.Waiter.
const queueHold = 2 * time.Second

// queueIDs are the queues of callers who wait, of different processes.
var queueIDs = []int64{1, 2, 3, 1<<22 - 1, 1 << 22, 7<<22 + 5, 1<<53 - 2}

// waiterOf returns a Waiter of the oracle, or nil, as that of a store.
func waiterOf(o *oracle.Waiter) *driver.Waiter {
	if o == nil {
		return nil
	}
	behind := time.Duration(o.Behind) * time.Microsecond
	return &driver.Waiter{Queue: o.Queue, Age: time.Duration(o.Age) * time.Microsecond, Behind: behind, Next: int(o.Next), Known: o.Known}
}

// nearQueueHold returns a time around that after which a State forgets a queue.
func (w *walk) nearQueueHold() int64 {
	us := queueHold.Microseconds()
	return pick(w, us-1, us, us+1, w.rng.Int64N(us), w.rng.Int64N(us), w.rng.Int64N(us))
}

// queue makes the Spends of in-flight rules in c those of a caller who waits, sometimes. c then has charges of one key.
func (w *walk) queue(c *call) {
	first := &c.charges[0]
	if !c.asks() || first.AtMost || w.one(3) || slices.ContainsFunc(c.charges, func(o oracle.Charge) bool { return o.Key != first.Key }) {
		return
	}
	waiter := &oracle.Waiter{Queue: pick(w, queueIDs...), Known: w.rng.IntN(2) > 0}
	came, known := w.arrived[waiter.Queue]
	if !known || w.one(8) {
		came = w.real - pick(w, 0, 0, w.rng.Int64N(3_000_000), w.rng.Int64N(60_000_000), w.now+w.rng.Int64N(5), 292*365*86_400_000_000)
	}
	waiter.Age, w.arrived[waiter.Queue] = min(w.real-came, time.Duration(driver.Never).Microseconds()), came
	if w.one(2) {
		waiter.Behind, waiter.Next = pick(w, 0, waiter.Age, w.rng.Int64N(waiter.Age+1)), pick(w, 1, 1, 1+w.rng.Int64N(12))
	}
	for i := range c.charges {
		if o := &c.charges[i]; o.Op == oracle.Spend && isInFlightRule(o.Rule) && !o.Rule.Shadow {
			o.Waiter = waiter
		}
	}
}

// leave returns an Undo that removes a queue, or a Renew of a number that no place has.
func (w *walk) leave(c oracle.Charge) (oracle.Charge, *driver.Receipt) {
	queue := pick(w, queueIDs...)
	if c.Receipt = (&oracle.Receipt{At: -queue}); c.Op == oracle.Undo {
		c.Waiter = &oracle.Waiter{Queue: queue}
		delete(w.arrived, queue)
	}
	return c, &driver.Receipt{At: -queue}
}

// rememberLine counts the situations of a charge in whose State callers wait. line and after are from before and after
// the call.
func (w *walk) rememberLine(c *oracle.Charge, line, after oracle.Line) {
	if !isInFlightRule(c.Rule) {
		return
	}
	v, asks, waits := c.Verdict, c.Op <= oracle.Peek, c.Op == oracle.Spend && c.Waiter != nil
	spent := waits && c.Receipt.At > 0
	if waits && spent {
		if delete(w.arrived, c.Waiter.Queue); c.Waiter.Next > 0 {
			w.arrived[c.Waiter.Queue] = w.real - c.Waiter.Age + c.Waiter.Behind
		}
	}
	for name, is := range map[string]bool{
		"waiter queued":                 waits && !v.Allowed && after.Callers > 0,
		"waiter queued by cost":         waits && !v.Allowed && after.Callers > 0 && c.Cost > 1,
		"waiter admitted in its turn":   spent && line.Callers > 0,
		"waiter behind others":          waits && !v.Allowed && c.Cost <= line.Free,
		"waiter that never fits":        waits && v.RetryAfter == oracle.Never,
		"waiter denied by another rule": waits && v.Allowed && !spent && after.Callers < line.Callers,
		"next waiter":                   spent && c.Waiter.Next > 0,
		"no next waiter":                spent && c.Waiter.Next == 0 && after.Callers < line.Callers,
		"yields to waiters":             asks && c.Waiter == nil && !v.Allowed && c.Cost <= line.Free,
		"at most, with waiters":         c.AtMost && v.Allowed && line.Callers > 0,
		"waiter removed":                c.Op == oracle.Undo && c.Waiter != nil && after.Callers < line.Callers,
		"waiter expired":                line.Stale > 0,
		"reset of waiters":              c.Op == oracle.Reset && line.Callers > 0,
	} {
		if is {
			w.occurred[name]++
		}
	}
}
