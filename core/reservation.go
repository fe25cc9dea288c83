package core

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Reservation is a decision whose price can be corrected when it is known what
// the event has really cost, or that it does not count. It remembers what was
// taken and when, so that exactly that is given back. It is safe for concurrent
// use.
//
//	r, err := tokens.Reserve(ctx, user, estimate)
//	...
//	if !r.Decision().Allowed { ... }
//	answer, err := model.Ask(question)
//	...
//	err = r.Settle(ctx, answer.Tokens)
type Reservation struct {
	store Store

	mu       sync.Mutex
	decision Decision
	asks     []driver.Charge // what was asked, each rule of each key once
	times    []int           // how often each of asks was asked
	parts    []part          // what is charged, the newest last
	lost     []int           // what is charged but not remembered as a part, by ask
}

// A part is what one call of the Store took, charge by charge; what took nothing
// has a cost of zero.
type part struct {
	costs    []int
	receipts []driver.Receipt
	rules    []*driver.Compiled // as the Store has counted them, which is what the receipts are about
	since    time.Time          // when the Store had answered
}

// age is how many microseconds ago p was charged, less a tolerance: the clock of a server
// may run slower than the one of this process, and be set back a little, every day. A
// second and a thousandth more are no step.
func (p *part) age() int64 {
	age := time.Since(p.since)
	return max(0, age-age/1000-time.Second).Microseconds()
}

// maxParts bounds what a Reservation remembers.
const maxParts = 16

// Reserve is [Limiter.AllowN] for an event that may turn out to cost more or less
// than n. Of a denied event nothing is reserved, and to settle or refund it does nothing. On an
// error the Reservation is nil; the event may have been charged, but never twice.
func (l *Limiter) Reserve(ctx context.Context, key string, n int) (*Reservation, error) {
	return ReserveTogether(ctx, Ask{Limiter: l, Key: key, Cost: n, Peek: n == 0})
}

// ReserveTogether is [AllowTogether] for an event that may turn out to cost more or less.
func ReserveTogether(ctx context.Context, asks ...Ask) (*Reservation, error) {
	r := new(Reservation)
	if err := decide(ctx, &r.decision, r, asks...); err != nil {
		return nil, err
	}
	return r, nil
}

// begin makes r, which is zero, ready for what s says about charges: places has the index of
// the charge of each ask, or is nil if every charge was asked once. The receipts are r's.
func (r *Reservation) begin(s Store, charges []driver.Charge, places []int) {
	n := len(charges)
	first := newPart(n)
	r.store, r.times, r.lost, r.parts = s, make([]int, n), make([]int, n), []part{first}
	for i := range charges {
		charges[i].Receipt = &first.receipts[i]
		if places == nil {
			r.times[i] = 1
		}
	}
	for _, at := range places {
		r.times[at]++
	}
}

// keep keeps what the Store has said about charges.
func (r *Reservation) keep(charges []driver.Charge, allowed bool) {
	first := &r.parts[0]
	first.since = time.Now()
	r.asks = slices.Clone(charges)
	for i := range r.asks {
		c := &r.asks[i]
		if allowed && c.Op == driver.Spend && c.Verdict.Allowed {
			first.costs[i] = c.Cost
		}
		first.rules[i] = cmp.Or(c.Verdict.Rule, c.Rule)
		c.Receipt = nil
	}
}

func newPart(n int) part {
	return part{costs: make([]int, n), receipts: make([]driver.Receipt, n), rules: make([]*driver.Compiled, n)}
}

// Extend charges asks for the same event, all or none. It is for keys that are found only
// after others have been charged. The States of asks follow those of r, and
// [Reservation.Settle], [Reservation.Refund] and [Reservation.LeaveQueue] apply to all of them.
//
// If asks are denied, the Decision of r becomes a denial. The earlier asks stay charged, and
// their States unchanged; Refund refunds them. Extend of a denied event does nothing. An
// error says that asks may have been charged, once; r is unchanged.
//
// All limiters must have the Store of r ([ErrInvalidAsk]).
func (r *Reservation) Extend(ctx context.Context, asks ...Ask) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.decision.Allowed {
		return nil
	}
	for i, a := range asks {
		if a.Limiter != nil && a.Limiter.store != r.store {
			return fmt.Errorf("%w: the reservation and ask %d have different stores", ErrInvalidAsk, i)
		}
	}
	more, err := ReserveTogether(ctx, asks...)
	if err != nil {
		return err
	}
	r.decision = r.decision.and(more.decision)
	if more.decision.Allowed {
		r.adopt(more)
	}
	return nil
}

// adopt makes what more took a part of r.
func (r *Reservation) adopt(more *Reservation) {
	places := make([]int, len(more.asks))
	for i, c := range more.asks {
		at := slices.IndexFunc(r.asks, func(known driver.Charge) bool { return known.Meets(&c) })
		if at < 0 {
			at = len(r.asks)
			r.asks, r.times, r.lost = append(r.asks, c), append(r.times, 0), append(r.lost, 0)
			for j := range r.parts {
				p := &r.parts[j]
				p.costs, p.receipts, p.rules = append(p.costs, 0), append(p.receipts, driver.Receipt{}), append(p.rules, nil)
			}
		}
		r.times[at] += more.times[i]
		places[i] = at
	}
	first, latest := more.parts[0], newPart(len(r.asks))
	latest.since = first.since
	for i, at := range places {
		latest.costs[at], latest.receipts[at], latest.rules[at] = first.costs[i], first.receipts[i], first.rules[i]
	}
	r.remember(latest)
}

// remember makes p the newest part, and forgets the oldest if there are too many.
func (r *Reservation) remember(p part) {
	if len(r.parts) == maxParts {
		for i, cost := range r.parts[0].costs {
			r.lost[i] = saturated(r.lost[i], cost)
		}
		r.parts = r.parts[1:]
	}
	r.parts = append(r.parts, p)
}

// Decision is what was decided, by the first asks and by those of every
// [Reservation.Extend].
func (r *Reservation) Decision() Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decision
}

// Refund gives back all that the event took, from every rule of every ask: what
// has not been forgotten or refilled in the meantime, so that no limit is ever
// exceeded by it. Doing it again does nothing. After the clock of the Store has stepped back
// by more than a second, it gives back less, or nothing. Do not refund an event
// that was taken before a [Limiter.Reset]: that may free what later events took.
//
// A place in the queue of a [LeakyBucket] is given back only while it is the last:
// those behind it know their turns.
func (r *Reservation) Refund(ctx context.Context) error { return r.Settle(ctx, 0) }

// LeaveQueue gives back the places in queues that the event took, and nothing else: for
// an event that was to be held and whose maker does not wait any more. It stays
// charged to all rules but those of a [LeakyBucket]. A place that is not the last of
// its queue passes unused, as in [Reservation.Refund]. Doing it again does nothing.
//
// An error says that the places may have been given back; it is not tried again. Only if ctx
// had ended before, nothing was done.
func (r *Reservation) LeaveQueue(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	places := make([]int, len(r.asks))
	for i := range r.asks {
		if r.asks[i].Rule.Algorithm() == driver.LeakyBucket {
			places[i] = r.charged(i)
		}
	}
	if err := ctx.Err(); err != nil && slices.Max(places) > 0 {
		return err
	}
	return r.undo(ctx, places)
}

// Settle makes the event cost what it has really cost. Of every ask, the difference
// to what it was charged until now is charged, into debt if need be
// ([Limiter.Debit]), or given back ([Reservation.Refund]): all asks of a [ReserveTogether]
// cost the same from then on. Settling the same cost again does nothing; less than zero
// is an [ErrNegativeCost]. After more than 16 raises, the oldest can no longer be lowered or
// refunded.
//
// An error says that the difference may have been charged or given back; it is not
// tried again. Only if ctx had ended before, nothing was done, and Settle can be called again.
func (r *Reservation) Settle(ctx context.Context, cost int) error {
	if cost < 0 {
		return fmt.Errorf("%w: %d", ErrNegativeCost, cost)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	more, less := newPart(len(r.asks)), make([]int, len(r.asks))
	for i := range r.asks {
		if r.asks[i].Rule.Shadow() && !r.asks[i].Verdict.Allowed {
			continue // it would have refused the event, and so knows nothing of it
		}
		target := math.MaxInt
		if cost <= target/r.times[i] {
			target = cost * r.times[i]
		}
		if charged := r.charged(i); target > charged {
			more.costs[i] = target - charged
		} else {
			less[i] = charged - target
		}
	}
	if err := ctx.Err(); err != nil && (more.charged() || slices.Max(less) > 0) {
		return err
	}
	if err := r.undo(ctx, less); err != nil {
		return err
	}
	return r.charge(ctx, more)
}

// charged is what the i-th ask is charged now.
func (r *Reservation) charged(i int) int {
	sum := r.lost[i]
	for _, p := range r.parts {
		sum = saturated(sum, p.costs[i])
	}
	return sum
}

// undo gives back, the newest part first.
func (r *Reservation) undo(ctx context.Context, costs []int) error {
	for at := len(r.parts) - 1; at >= 0; at-- {
		p := &r.parts[at]
		var charges []driver.Charge
		for i := range costs {
			back := min(costs[i], p.costs[i])
			if back == 0 {
				continue
			}
			costs[i] -= back
			p.costs[i] -= back
			receipt := p.rules[i].Keep(p.receipts[i], int64(p.costs[i]))
			receipt.Age = p.age()
			charges = append(charges, driver.Charge{Key: r.asks[i].Key, Rule: r.asks[i].Rule, Op: driver.Undo, Cost: back, Receipt: &receipt})
		}
		if !p.charged() {
			r.parts = slices.Delete(r.parts, at, at+1)
		}
		if err := r.adjust(ctx, charges); err != nil {
			return err
		}
	}
	return nil
}

// charged says whether anything of p is left.
func (p *part) charged() bool { return slices.ContainsFunc(p.costs, func(c int) bool { return c > 0 }) }

// charge takes more, whether it fits or not.
func (r *Reservation) charge(ctx context.Context, more part) error {
	var charges []driver.Charge
	for i, cost := range more.costs {
		if cost > 0 {
			charges = append(charges, driver.Charge{Key: r.asks[i].Key, Rule: r.asks[i].Rule, Op: driver.Debit, Cost: cost, Receipt: &more.receipts[i]})
		}
	}
	if charges == nil {
		return nil
	}
	err := r.adjust(ctx, charges)
	more.since = time.Now()
	for i, at := 0, 0; i < len(more.costs); i++ {
		more.rules[i] = r.asks[i].Rule
		if more.costs[i] > 0 {
			if err == nil {
				more.rules[i] = cmp.Or(charges[at].Verdict.Rule, r.asks[i].Rule)
			}
			at++
		}
	}
	r.remember(more)
	return err
}

// adjust calls the Store with charges, of which there may be none, unless ctx has ended.
func (r *Reservation) adjust(ctx context.Context, charges []driver.Charge) error {
	if len(charges) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.store.Adjust(ctx, charges)
}
