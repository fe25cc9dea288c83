package oracle

import "math/big"

// A bucket is a token bucket: a level of tokens, and the time of its last update. It holds the
// capacity of the rule, refills continuously at the rate, and an event takes a token. A leaky
// bucket is a bucket, too: see leaky.go.
//
// RULE: before the time of the last update, after a clock that stepped back, the level is
// continued at the rate, but never below empty. So a step admits nothing extra and empties the
// bucket at most. (To keep the level would need the time of the update in the state of every
// store, which keeps the time at which the bucket is full.)
//
// RULE: a level below zero is a debt, which does count as it is: the step must not cut it to an
// empty bucket, and must not make it longer. A debt from after now counts as of now.
//
// RULE: under a changed limit, the bucket fills up at the same time as under the limit before it,
// so a bucket of which half is in use stays so whatever its size is; where that is more than the
// new limit holds, the bucket is empty.
type bucket struct {
	rule   *Rule
	time   int64    // of the last update
	tokens *big.Rat // the level at that time
	behind bool
}

func (r *Rule) isBucket() bool { return r.Algorithm == "token_bucket" || r.isQueue() }

// rate is how many tokens refill in a microsecond.
func (r *Rule) rate() *big.Rat { return big.NewRat(r.Events, r.Per) }

// parts is into how many parts the rate divides a microsecond: the time in which any number of
// tokens refills is a multiple of such a part.
func (r *Rule) parts() *big.Int { return big.NewRat(r.Per, r.Events).Denom() }

// holds is how many tokens fit into the bucket. Only of an elastic rule that is not a whole number.
func (r *Rule) holds() *big.Rat {
	if r.Base == nil {
		return whole(r.limit() + r.Extra)
	}
	full := mul(r.Base.refill(r.Base.holds()), new(big.Rat).SetInt(r.parts()))
	return mul(r.rate(), new(big.Rat).SetFrac(new(big.Int).Div(full.Num(), full.Denom()), r.parts()))
}

// refill is how long tokens take to refill.
func (r *Rule) refill(tokens *big.Rat) *big.Rat { return new(big.Rat).Quo(tokens, r.rate()) }

// units is how many tokens a cost is worth, within the bounds of MaxCount and Horizon.
func (r *Rule) units(cost int64) *big.Rat {
	tokens := whole(min(cost, MaxCount))
	if r.refill(tokens).Cmp(whole(Horizon+1)) >= 0 {
		return mul(r.rate(), whole(Horizon+1))
	}
	return tokens
}

// reread is how r reads a span that was written under other. RULE: a span is kept as whole
// microseconds and a number of the parts into which the rate divides one. Another rate takes that
// number for one of its own parts; a number that makes a microsecond of them or more counts as
// surplus microseconds: 1 in a state, and 0 in a receipt, so that less is free in both cases.
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
	indebted, behind := b.tokens.Sign() < 0, false
	elapsed := now - b.time
	if indebted && elapsed < 0 {
		elapsed, behind = 0, true
	}
	full := r.reread(b.used(), b.rule, 1) // from the last update on
	tokens := sub(r.holds(), mul(r.rate(), sub(full, whole(elapsed))))
	switch {
	case tokens.Cmp(r.holds()) > 0:
		tokens = r.holds()
	case tokens.Sign() < 0 && !indebted:
		tokens, behind = new(big.Rat), true
	}
	return bucket{r, now, tokens, behind}
}

// to is b with another level, which is at most what b holds.
func (b bucket) to(tokens *big.Rat) state {
	if tokens.Cmp(b.rule.holds()) > 0 {
		tokens = b.rule.holds()
	}
	return bucket{b.rule, b.time, tokens, false}
}

// used is how long b takes to fill up.
func (b bucket) used() *big.Rat { return b.rule.refill(sub(b.rule.holds(), b.tokens)) }

func (b bucket) late() bool       { return b.behind }
func (b bucket) left() int64      { return max(0, floor(b.tokens)) }
func (b bucket) reset() int64     { return ceil(b.used()) }
func (b bucket) receipt() Receipt { return Receipt{At: b.time, Used: b.used(), Rule: b.rule} }

func (b bucket) window() int64 {
	soft := b.rule.soft()
	if remaining := b.left() - soft; remaining > 0 {
		return ceil(b.rule.refill(whole(remaining)))
	}
	return ceil(b.rule.refill(sub(whole(soft+1), b.tokens)))
}

func (b bucket) fits(cost, patience int64) bool {
	return b.tokens.Cmp(whole(cost)) >= 0 && b.delay() <= patience
}

func (b bucket) retry(cost, patience int64) int64 {
	return max(ceil(b.rule.refill(sub(whole(cost), b.tokens))), b.delay()-patience)
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

// undo frees the cost of m. Had the charge not been made, the bucket would have been full at an
// earlier time, from which on it would not have refilled. RULE: the tokens that have refilled since
// that time are not freed, because they were credited already. The age of the charge tells how
// much time has passed where a clock that stepped back does not.
func (b bucket) undo(cost int64, m Receipt) (state, bool) {
	if m.At == 0 {
		return b, false
	}
	m.Used = b.rule.reread(m.Used, m.Rule, 0)
	if b.rule.isQueue() && !b.isLast(cost, m) {
		return b, false
	}
	back := b.rule.units(cost)
	if full := sub(whole(max(b.time-m.At, m.Age)), m.Used); full.Sign() > 0 {
		back = sub(back, mul(b.rule.rate(), full))
	}
	if back.Sign() < 0 {
		return b, false
	}
	return b.to(add(b.tokens, back)), true
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
