package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
)

// A request is a call as scripts get it. It consists of copies, so a caller may leave before the
// reply. Concurrent requests share scripts, see batch.
type request struct {
	verb    verb
	most    int64  // the largest cost, of atMost
	clock   string // the clock argument
	keys    []string
	slot    string // only requests with an equal slot share a script
	charges []chargeArguments
	set     librarySet    // of all charges
	values  int           // the number of integers that a script reports
	work    time.Duration // of all charges, see algorithm
	urgent  bool          // contains a renewal or an undo
	undoes  bool          // contains an undo, which has its effect although the caller has left
	places  *freer        // frees the places that r takes if its caller does not learn them; nil without places

	// The backlog sets these.
	ctx    context.Context // of the caller
	at     time.Time       // when the caller leaves
	since  time.Time       // when the request began to wait; zero if it did not wait
	waited time.Duration   // from then until it was sent, in whole microseconds
	left   atomic.Bool     // the caller does not wait any more, or the outcome was there first
	done   chan struct{}   // receives a value after the outcome is set, unless the caller runs the script

	number    int64         // of the places that r takes; 0 until r is sent
	roundTrip atomic.Uint64 // the number of the latest round trip; 0 if r was alone in it

	// The outcome.
	time  any   // of the server
	reply []any // the part of the reply that belongs to the request
	err   error
}

// chargeArguments are the arguments of a charge for a script.
type chargeArguments struct {
	library   library
	op        any
	algorithm []any // shared by charges with the same rule and cost
	receipt   []any // of an undo or a renewal, or of a caller who waits
	age       int64 // there; 0 if it is not known
	maxDelay  int64 // of an event of a leaky bucket (us); driver.Never if there is no MaxDelay
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan struct{}, 1)} }}

// free ends the use of r. Its caller must have received the outcome: if it has left, a round trip may
// still use r.
func (r *request) free() {
	clear(r.keys)
	clear(r.charges)
	*r = request{done: r.done, keys: r.keys[:0], charges: r.charges[:0]}
	requests.Put(r)
}

// newRequest returns the request for c.
func (e *executor) newRequest(c *call) *request {
	r := requests.Get().(*request)
	r.verb, r.keys, r.values = adjust, append(r.keys, c.keys...), 1 // the outcome
	switch first := &c.charges[0]; {
	case first.AtMost:
		r.verb, r.most = atMost, min(int64(first.Cost), maxInteger)
	case first.Op.Asks():
		r.verb = take
	}
	if e.clock != nil {
		r.clock = e.clock()
	}
	for i := range c.charges {
		charge := &c.charges[i]
		a := algorithmOf(&charge.Rule.Definition)
		args := chargeArguments{library: a.library, op: opArgument(charge), algorithm: e.arguments.of(charge), maxDelay: driver.Never}
		if charge.Rule.Kind.Delays && charge.Op.Asks() && charge.MaxDelay > 0 {
			args.maxDelay = charge.MaxDelay.Microseconds()
		}
		if waits(charge) {
			args.receipt, args.age = waiterArguments(charge), charge.Waiter.Age.Microseconds()
		}
		if charge.Op == driver.Undo || charge.Op == driver.Renew {
			args.receipt = receiptArguments(charge)
			if len(args.receipt) > receiptAge {
				args.age = charge.Receipt.Age
			}
		}
		r.charges = append(r.charges, args)
		r.set |= 1 << a.library
		r.undoes = r.undoes || charge.Op == driver.Undo && !c.repeated
		r.urgent = r.urgent || charge.Op == driver.Undo || charge.Op == driver.Renew
		if charge.Op == driver.Spend && charge.Rule.Kind.Holds {
			if r.places == nil {
				r.places = newFreer(e)
			}
			r.places.add(charge, c.keys[i])
		}
		r.values += a.reported(&charge.Rule.Constants)
		if charge.Op.Asks() && charge.Cost <= lightCost {
			r.work += a.light
		} else {
			r.work += a.heavy
		}
	}
	return r
}

// ended reports whether the caller needs no outcome, so that r need not be sent.
func (r *request) ended(now time.Time) bool {
	return !r.undoes && (r.left.Load() || !now.Before(r.at) || r.ctx.Err() != nil)
}

// leave notes that the caller leaves. It returns false if the outcome was there first, or will be at once.
func (r *request) leave() bool {
	if r.left.Swap(true) {
		return false
	}
	if r.places != nil {
		r.places.start(replyDelay)
	}
	return true
}

// finish notes that the outcome is set. If the caller does not learn the places that r has taken, or may have taken,
// they are freed, and its queue is removed.
func (r *request) finish() {
	left := r.left.Swap(true)
	if r.places == nil {
		return
	}
	var reply redis.Error
	switch {
	case r.err == nil && left && r.denied():
		r.places.denied()
	case r.err == nil && left:
		r.places.start(0)
	case r.err == nil && !r.denied():
	case r.err == nil || r.number == 0 || errors.As(r.err, &reply) || didNotRun(r.err) || redirected(r.err) ||
		errors.Is(r.err, context.Canceled): // while it waited for a connection: go-redis looks at the context only then
		r.places.stop()
	default:
		r.places.start(0)
	}
}

// denied reports whether the reply is that of a decision which was denied.
func (r *request) denied() bool {
	return len(r.reply) > 0 && r.reply[0] == int64(0)
}

// noteWait adds the MaxDelay of charges to the arguments, less the time since r began to wait, and adds that time
// to the ages of receipts. A request that is redirected calls it again.
func (r *request) noteWait() {
	if !r.since.IsZero() && r.clock == "" { // the time of a test passes only as the test says
		r.waited = time.Since(r.since).Truncate(time.Microsecond)
	}
	for i := range r.charges {
		c := &r.charges[i]
		if c.maxDelay != driver.Never {
			c.algorithm = slices.Clone(c.algorithm)
			c.algorithm[bucketDelay] = integer(max(0, c.maxDelay-r.waited.Microseconds()))
		}
		if c.age > 0 {
			c.receipt[receiptAge] = integer(min(min(c.age, maxInteger)+r.waited.Microseconds(), maxInteger))
		}
	}
}

// like reports whether r and o, which have the same verb, have the same arguments.
func (r *request) like(o *request) bool {
	return r.most == o.most && slices.EqualFunc(r.charges, o.charges, func(a, b chargeArguments) bool {
		return a.library == b.library && a.op == b.op && slices.Equal(a.algorithm, b.algorithm) && slices.Equal(a.receipt, b.receipt)
	})
}

func (r *request) sharesKey(o *request) bool {
	return slices.ContainsFunc(r.keys, func(key string) bool { return slices.Contains(o.keys, key) })
}
