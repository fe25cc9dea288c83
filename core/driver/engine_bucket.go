package driver

import "math/bits"

// bucket implements the token bucket by virtual scheduling (the generic cell rate algorithm, ITU-T
// I.371 annex A). One token refills in Period/Events microseconds. The State stores one time, at
// which the bucket will be full again. The part in use is measured as the time from now until then.
//
// The usual form, with a level and the time of its last update, admits exactly the same events. The
// form used here needs only one number and loses nothing to rounding. A bucket that has refilled
// needs no State, because its time has passed.
//
// Rules of one length share a State, but its fraction of a microsecond is a number of parts of the
// rate that wrote it, 1/den each. Another rate reads as many of its own parts, or a microsecond if
// it has fewer. A caller that alternates between rates therefore gains less than a microsecond of
// refill with each change to a larger den: below half a microsecond an event, or 0.05 percent of
// 1000 events a second.
//
// A bucket is in debt if more than its capacity is in use. Its State then also stores the time at
// which the debt was written, to distinguish a debt from the effect of a clock that stepped back.
type bucket struct {
	burst  int64 // capacity in tokens
	extra  int64 // the part of burst that a soft limit adds
	unit   Span  // the time in which one token refills
	full   Span  // the time in which the bucket refills; of a rule like another one, up to one unit longer than burst tokens
	most   Span  // the part of full that may be in use; less than full if a plan leaves headroom
	delays bool  // a leaky bucket: an admitted event is delayed until all earlier events have drained

	// One token refills in num/den microseconds, in lowest terms. den is at most Events, so a
	// fraction has 48 bits; memstore packs it with 16 other bits.
	num, den int64
}

// newBucket returns a bucket of burst tokens that refills events tokens in period microseconds.
func newBucket(events, period, burst, extra int64, delays bool) *bucket {
	g := gcd(events, period)
	b := &bucket{burst: burst, extra: extra, delays: delays, num: period / g, den: events / g}
	b.unit, b.full = b.exact(1), b.exact(burst)
	b.most = b.full
	return b
}

// leave makes b one of n tokens in the State of the whole bucket, unless n is 0.
func (b *bucket) leave(n int64) {
	if n > 0 {
		b.burst, b.extra, b.most = n, 0, b.exact(n)
	}
}

func (b *bucket) constants() Constants {
	return Constants{
		Capacity: b.burst, Extra: b.extra, Unit: b.unit, Full: b.full, Headroom: b.sub(b.full, b.most), Denominator: b.den,
	}
}

// exceeds reports whether a*b/n, rounded down, is more than most.
func exceeds(a, b, n, most int64) bool {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(n) {
		return true // the quotient has more than 64 bits
	}
	q, _ := bits.Div64(hi, lo, uint64(n))
	return q > uint64(most)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// fillLike sets the capacity of b so that b fills up in the time f. It returns false if the capacity
// would be above maxCount.
func (b *bucket) fillLike(f fill) bool {
	if exceeds(f.span.Micros+1, b.den, b.num, maxCount) {
		return false
	}
	hi, lo := bits.Mul64(uint64(f.span.Frac), uint64(b.den))
	frac, _ := bits.Div64(hi, lo, uint64(f.den))
	b.full = Span{f.span.Micros, int64(frac)}
	b.most = b.full
	limit := b.burst - b.extra
	b.burst = b.tokens(b.full)
	b.extra = max(0, b.burst-limit)
	return true
}

// span returns the time in which n tokens refill, 0 <= n <= burst.
func (b *bucket) span(n int64) Span {
	switch {
	case n == 1:
		return b.unit // most costs are one, and a division costs as much as a hash
	case b.den == 1:
		return Span{n * b.num, 0}
	}
	return b.exact(n)
}

func (b *bucket) exact(n int64) Span {
	hi, lo := bits.Mul64(uint64(n), uint64(b.num))
	q, r := bits.Div64(hi, lo, uint64(b.den))
	return Span{int64(q), int64(r)}
}

// tokens returns the whole tokens that refill in s, s <= full.
func (b *bucket) tokens(s Span) int64 {
	if b.den == 1 {
		return s.Micros / b.num
	}
	hi, lo := bits.Mul64(uint64(s.Micros), uint64(b.den))
	lo, carry := bits.Add64(lo, uint64(s.Frac), 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(b.num))
	return int64(q)
}

func (b *bucket) add(x, y Span) Span {
	s := Span{x.Micros + y.Micros, x.Frac + y.Frac}
	if s.Frac >= b.den {
		s.Micros, s.Frac = s.Micros+1, s.Frac-b.den
	}
	return s
}

// sub returns x minus y, whose Micros are negative if x is less than y.
func (b *bucket) sub(x, y Span) Span {
	s := Span{x.Micros - y.Micros, x.Frac - y.Frac}
	if s.Frac < 0 {
		s.Micros, s.Frac = s.Micros-1, s.Frac+b.den
	}
	return s
}

// ceil returns s rounded up to whole microseconds.
func (s Span) ceil() int64 {
	if s.Frac > 0 {
		return s.Micros + 1
	}
	return s.Micros
}

// price returns the time in which n tokens refill; n may be above burst. The result is at most
// horizon plus one microsecond, which is longer than any bucket takes to refill. (horizon is not.)
func (b *bucket) price(n int64) Span {
	if n <= b.burst {
		return b.span(n)
	}
	n = min(n, maxCount+1)
	if exceeds(n, b.num, b.den, horizon) {
		return Span{horizon + 1, 0}
	}
	return b.exact(n)
}

// used returns the part in use. If the bucket is in debt, that is more than its capacity. moved
// reports whether the State must be corrected.
//
// Normally, the time in a State without a debt is at most now plus the time in which the whole
// bucket refills. If it is later, either the clock stepped back, or the limit was larger when the
// State was written. The bucket then counts as empty, which admits nothing extra, and refills at
// the rate. A debt that was written later than now is treated as if it had been written now.
func (b *bucket) used(s State, now int64) (used Span, moved bool) {
	until := Span{s.Time, s.Amount}
	if until.Frac >= b.den { // written under another rate
		until = Span{until.Micros + 1, 0}
	}
	switch used := (Span{until.Micros - now, until.Frac}); {
	case s.Time < 0: // of another algorithm
		return Span{}, false
	case s.Debt > now:
		return Span{until.Micros - s.Debt, until.Frac}, true
	case used.Micros < 0:
		return Span{}, false
	case s.Debt == 0 && b.sub(b.full, used).Micros < 0:
		return b.full, true
	default:
		return used, false
	}
}

// decide is Charge.Decide.
func (b *bucket) decide(c *Charge, s State, now int64) (_ State, changed bool) {
	used, moved := b.used(s, now)
	cost, maxDelay := int64(c.Cost), int64(Never)
	if b.delays {
		_, maxDelay = c.asked()
	}
	after, fits := b.fits(used, cost, maxDelay)
	v := &c.Verdict
	v.Rule, v.Unknown, v.Found, v.RetryAfter, v.Delay = c.Rule, false, false, 0, 0
	if fits && c.Op == Spend {
		c.Receipt.At, c.Receipt.Used = now, used
		b.verdict(v, used, after, cost, maxDelay, true, true)
		return State{Time: now + after.Micros, Amount: after.Frac}, true
	}
	b.verdict(v, used, used, cost, maxDelay, fits, false)
	if moved && !fits {
		return b.at(used, now), true
	}
	return s, false
}

// fits reports whether cost tokens are left, and, in a leaky bucket, the delay is at most maxDelay.
// after is the part that is then in use.
func (b *bucket) fits(used Span, cost, maxDelay int64) (after Span, ok bool) {
	if cost > b.burst {
		return used, false
	}
	after = b.add(used, b.span(cost))
	return after, b.sub(b.most, after).Micros >= 0 && (!b.delays || used.ceil() <= maxDelay)
}

func (b *bucket) spend(used Span, now, cost int64) State {
	used = b.add(used, b.span(cost))
	return State{Time: now + used.Micros, Amount: used.Frac}
}

func (b *bucket) debit(_ State, r Reading, now, n int64) State {
	used := b.add(r.Used, b.price(n))
	if used.Micros >= horizon {
		used = Span{horizon, 0}
	}
	return b.at(used, now)
}

// credit frees n tokens, up to a full bucket.
func (b *bucket) credit(_ State, r Reading, now, n int64) State {
	return b.at(b.without(r.Used, b.price(n)), now)
}

// without returns x minus y, or zero if y is more.
func (b *bucket) without(x, y Span) Span {
	if rest := b.sub(x, y); rest.Micros >= 0 {
		return rest
	}
	return Span{}
}

// undo frees n tokens of the charge of m.
//
// Had the charge not happened, the bucket would have become full earlier and stopped refilling.
// Tokens that refilled only because of the charge are subtracted from the freed tokens: the bucket
// contains them already. If the clock has stepped back since the charge, m.Age replaces now - m.At.
// In a leaky bucket, later callers already know their Delay, so only the last event can be undone.
func (b *bucket) undo(s State, r Reading, now, n int64, m Receipt) State {
	if m.At == 0 {
		return s
	}
	m, back := b.convert(m), b.price(n)
	if counted := b.sub(Span{horizon, 0}, m.Used); b.sub(counted, back).Micros < 0 { // see debit
		back = counted
	}
	if b.delays {
		after := b.add(m.Used, back)
		if (Span{now + r.Used.Micros, r.Used.Frac}) != (Span{m.At + after.Micros, after.Frac}) {
			return s
		}
	}
	if idle := b.sub(Span{max(now-m.At, m.Age), 0}, m.Used); idle.Micros >= 0 {
		back = b.sub(back, idle)
	}
	if back.Micros < 0 {
		return s
	}
	return b.at(b.without(r.Used, back), now)
}

// convert returns m with a Used that is valid for the denominator of b, even if m was written under
// another rate. It rounds Used down, so that undo frees less, not more.
func (b *bucket) convert(m Receipt) Receipt {
	if m.Used.Frac >= b.den {
		m.Used.Frac = 0
	}
	return m
}

func (b *bucket) rewrite(_ State, r Reading, now int64) State { return b.at(r.Used, now) }

// keep adds cost, the part that stays charged, to m.Used, so that m describes the part to undo.
func (b *bucket) keep(m Receipt, cost int64) Receipt {
	m = b.convert(m)
	m.Used = b.add(m.Used, b.price(cost))
	return m
}

// at returns the State of b at now. used is the part in use; if it is zero, so is the State.
func (b *bucket) at(used Span, now int64) State {
	if used == (Span{}) {
		return State{}
	}
	s := State{Time: now + used.Micros, Amount: used.Frac}
	if b.sub(b.full, used).Micros < 0 {
		s.Debt = now
	}
	return s
}

func (b *bucket) expiresAt(s State) int64 { return Span{s.Time, s.Amount}.ceil() }

// verdict sets the fields of v that are not zero. used and after are the parts in use before the
// charge and after it, and fits is the result of the method fits.
func (b *bucket) verdict(v *Verdict, used, after Span, cost, maxDelay int64, fits, spent bool) {
	v.Allowed = fits
	if fits && b.delays {
		v.Delay = duration(used.ceil())
	}
	free, left := b.sub(b.most, after), -b.extra
	if free.Micros >= 0 {
		left += b.tokens(free)
	}
	v.remain(left, cost, spent)
	v.ResetAfter = duration(after.ceil())
	if left > 0 {
		v.Window = duration(b.span(left).ceil())
	} else { // the time until one event of the limit itself is available
		v.Window = duration(b.sub(b.span(b.extra+1), free).ceil())
	}
	switch {
	case fits:
	case cost > b.burst:
		v.RetryAfter = Never
	default:
		retry := b.sub(b.span(cost), free).ceil()
		if b.delays {
			retry = max(retry, used.ceil()-maxDelay)
		}
		v.RetryAfter, v.Window = duration(retry), duration(retry)
	}
}
