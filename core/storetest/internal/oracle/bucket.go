package oracle

import "math/big"

// bucket models a token bucket as a number of tokens and the time of the last update. The bucket
// refills continuously at the rate up to the capacity, and an event takes one token.
//
// A leaky bucket is modelled as a queue that holds as many events as the capacity and drains at the
// rate. The events in the queue are the tokens that are missing in the bucket. An admitted event
// departs when all events before it have drained, so departures are never closer than the rate.
//
// RULE: at a time before the last update, the tokens are fewer by the refill between the two times,
// but at least zero. A step back therefore admits nothing extra, and at most empties the bucket.
// (Stores keep the time at which the bucket is full, not the time of the last update.)
//
// RULE: fewer than zero tokens are a debt. A debt that is ahead of the clock counts as of now, so
// that a step back does not extend a debt.
//
// RULE: when the limit changes, the time at which the bucket is full stays, so a half-full bucket
// stays half full. If a whole bucket refills in less time than that under the new limit, the bucket
// is empty.
type bucket struct {
	rule   *Rule
	time   int64    // of the last update
	tokens *big.Rat // at that time
	future bool     // at has read a state that is ahead of the clock
}

func (r *Rule) isBucket() bool { return r.Algorithm == "token_bucket" || r.delays() }
func (r *Rule) delays() bool   { return r.Algorithm == "leaky_bucket" }

// rate returns how many tokens refill in a microsecond.
func (r *Rule) rate() *big.Rat { return big.NewRat(r.Events, r.Per) }

// parts returns the number of equal parts of a microsecond in which refill times are exact: the
// time in which any whole number of tokens refills is a multiple of such a part.
func (r *Rule) parts() *big.Int { return big.NewRat(r.Per, r.Events).Denom() }

// holds returns the tokens of a full bucket, a whole number except for elastic rules.
func (r *Rule) holds() *big.Rat {
	if r.Base == nil {
		return whole(r.limit() + r.Extra)
	}
	full := mul(r.Base.refill(r.Base.holds()), new(big.Rat).SetInt(r.parts()))
	return mul(r.rate(), new(big.Rat).SetFrac(new(big.Int).Div(full.Num(), full.Denom()), r.parts()))
}

// refill returns the time that tokens take to refill.
func (r *Rule) refill(tokens *big.Rat) *big.Rat { return new(big.Rat).Quo(tokens, r.rate()) }

// units returns the tokens of a cost, bounded by MaxCount and Horizon.
func (r *Rule) units(cost int64) *big.Rat {
	tokens := whole(min(cost, MaxCount))
	if r.refill(tokens).Cmp(whole(Horizon+1)) >= 0 {
		return mul(r.rate(), whole(Horizon+1))
	}
	return tokens
}

// reread returns how r reads a span that was written under other. RULE: stores keep a span as whole
// microseconds and a number of parts, and each rate reads the number as one of its own parts. A
// number of a microsecond or more counts as surplus microseconds: 1 in a state and 0 in a receipt,
// so that less capacity is free in both cases.
func (r *Rule) reread(span *big.Rat, other *Rule, surplus int64) *big.Rat {
	if r == other {
		return span
	}
	micros := whole(floor(span))
	parts := mul(sub(span, micros), new(big.Rat).SetInt(other.parts()))
	fraction := parts.Quo(parts, new(big.Rat).SetInt(r.parts()))
	if fraction.Cmp(whole(1)) >= 0 {
		fraction = whole(surplus)
	}
	return add(micros, fraction)
}

func (b bucket) at(r *Rule, now int64) state {
	indebted, ahead := b.tokens.Sign() < 0, false
	elapsed := now - b.time
	if indebted && elapsed < 0 {
		elapsed, ahead = 0, true
	}
	full := r.reread(b.used(), b.rule, 1) // the refill time at the last update
	tokens := sub(r.holds(), mul(r.rate(), sub(full, whole(elapsed))))
	switch {
	case tokens.Cmp(r.holds()) > 0:
		tokens = r.holds()
	case tokens.Sign() < 0 && !indebted:
		tokens, ahead = new(big.Rat), true
	}
	return bucket{r, now, tokens, ahead}
}

// to returns b with tokens, or with the capacity if that is less.
func (b bucket) to(tokens *big.Rat) state {
	if tokens.Cmp(b.rule.holds()) > 0 {
		tokens = b.rule.holds()
	}
	return bucket{b.rule, b.time, tokens, false}
}

// usable returns the tokens that the rule may take. A rule with headroom leaves the others in the bucket.
func (b bucket) usable() *big.Rat {
	if b.rule.Leaves == nil {
		return b.tokens
	}
	return sub(b.tokens, sub(b.rule.holds(), whole(b.rule.Limit(0))))
}

// used returns the time in which b refills completely.
func (b bucket) used() *big.Rat { return b.rule.refill(sub(b.rule.holds(), b.tokens)) }

func (b bucket) ahead() bool      { return b.future }
func (b bucket) left() int64      { return max(0, floor(b.usable())) }
func (b bucket) reset() int64     { return ceil(b.used()) }
func (b bucket) receipt() Receipt { return Receipt{At: b.time, Used: b.used(), Rule: b.rule} }

func (b bucket) window() int64 {
	soft := b.rule.soft()
	if remaining := b.left() - soft; remaining > 0 {
		return ceil(b.rule.refill(whole(remaining)))
	}
	return ceil(b.rule.refill(sub(whole(soft+1), b.usable())))
}

func (b bucket) fits(cost, maxDelay int64) bool {
	return b.usable().Cmp(whole(cost)) >= 0 && b.delay() <= maxDelay
}

func (b bucket) retry(cost, maxDelay int64) int64 {
	return max(ceil(b.rule.refill(sub(whole(cost), b.usable()))), b.delay()-maxDelay)
}

func (b bucket) spend(cost int64) state { return b.to(sub(b.tokens, whole(cost))) }

func (b bucket) debit(cost int64) (state, bool) {
	after := bucket{b.rule, b.time, sub(b.tokens, b.rule.units(cost)), false}
	if after.used().Cmp(whole(Horizon)) > 0 {
		after.tokens = sub(b.rule.holds(), mul(b.rule.rate(), whole(Horizon)))
	}
	return after, true
}

func (b bucket) credit(cost int64) (state, bool) {
	return b.to(add(b.tokens, b.rule.units(cost))), true
}

// undo frees the cost of the charge of m. RULE: without the charge, the bucket would have been full
// earlier. Tokens that have refilled since that time are free already, and are not freed again. If
// the clock has stepped back since the charge, Age is the time since the charge.
func (b bucket) undo(cost int64, m Receipt) (state, bool) {
	if m.At == 0 {
		return b, false
	}
	m.Used = b.rule.reread(m.Used, m.Rule, 0)
	back := b.rule.units(cost)
	if counted := mul(b.rule.rate(), sub(whole(Horizon), m.Used)); counted.Cmp(back) < 0 {
		back = counted // RULE: a debit beyond the horizon was not counted
	}
	if b.rule.delays() && !b.isLast(back, m) {
		return b, false
	}
	if full := sub(whole(max(b.time-m.At, m.Age)), m.Used); full.Sign() > 0 {
		back = sub(back, mul(b.rule.rate(), full))
	}
	if back.Sign() < 0 {
		return b, false
	}
	return b.to(add(b.tokens, back)), true
}

// delay returns the time in which the queue drains, rounded up to a microsecond; 0 without a queue.
func (b bucket) delay() int64 {
	if !b.rule.delays() {
		return 0
	}
	return ceil(b.used())
}

// isLast reports whether the cost of the charge of m is last in the queue. RULE: an Undo frees only
// the last cost, because the departures of events in the queue are fixed.
func (b bucket) isLast(cost *big.Rat, m Receipt) bool {
	end := add(whole(b.time), b.used())
	return end.Cmp(add(add(whole(m.At), m.Used), b.rule.refill(cost))) == 0
}

func whole(n int64) *big.Rat     { return new(big.Rat).SetInt64(n) }
func add(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }
func sub(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func mul(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func ceil(a *big.Rat) int64      { return -floor(new(big.Rat).Neg(a)) }

func floor(a *big.Rat) int64 {
	n := new(big.Int).Div(a.Num(), a.Denom())
	if !n.IsInt64() {
		panic("oracle: a number is out of range")
	}
	return n.Int64()
}
