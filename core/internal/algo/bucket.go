package algo

import "math/bits"

// A Bucket is a token bucket in its virtual-scheduling form (the generic cell
// rate algorithm, ITU-T I.371 annex A). A token is worth Period/Events
// microseconds of refilling, so the whole state is one instant: the time at
// which the bucket will be full again. What is used is the distance to it.
//
// The two forms admit exactly the same events. This one needs no "last update"
// beside the level, loses nothing to rounding, and turns "full" into "in the
// past", so that a bucket that has refilled is the same as no bucket.
type Bucket struct {
	Burst int64 // capacity in tokens
	Unit  Span  // one token
	Full  Span  // Burst tokens
	Queue bool  // a leaky bucket: what is admitted waits for what is in it

	num, den int64 // one token lasts num/den microseconds, in lowest terms
}

// A Span is Micros + Frac/den microseconds, 0 <= Frac < den, where den belongs
// to the Bucket. As a state it is the instant at which the bucket is full.
type Span struct{ Micros, Frac int64 }

// maxDen bounds the fraction to 48 bits, which memstore packs with 16 others.
const maxDen = 1 << 48

// NewBucket compiles events per period (in microseconds), all positive.
func NewBucket(events, period, burst int64) (Bucket, error) {
	g := gcd(events, period)
	b := Bucket{Burst: burst, num: period / g, den: events / g}
	switch {
	case burst >= maxCount:
		return Bucket{}, ErrTooMany
	case b.den > maxDen:
		return Bucket{}, ErrTooFine
	}
	if hi, lo := bits.Mul64(uint64(burst), uint64(b.num)); hi >= uint64(b.den) || over(hi, lo, b.den) {
		return Bucket{}, ErrTooLong
	}
	b.Unit, b.Full = b.span(1), b.span(burst)
	return b, nil
}

func over(hi, lo uint64, den int64) bool {
	q, _ := bits.Div64(hi, lo, uint64(den))
	return q > uint64(Horizon)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Den is the denominator of the bucket's fractions.
func (b *Bucket) Den() int64 { return b.den }

// Span is how long n tokens take to refill, 0 <= n <= Burst.
func (b *Bucket) Span(n int64) Span {
	switch {
	case n == 1:
		return b.Unit // most costs are one, and a division costs as much as a hash
	case b.den == 1:
		return Span{n * b.num, 0}
	}
	return b.span(n)
}

func (b *Bucket) span(n int64) Span {
	hi, lo := bits.Mul64(uint64(n), uint64(b.num))
	q, r := bits.Div64(hi, lo, uint64(b.den))
	return Span{int64(q), int64(r)}
}

// tokens is how many whole tokens refill in s, s <= Full, and how long those
// take.
func (b *Bucket) tokens(s Span) (n int64, worth Span) {
	if b.den == 1 {
		n = s.Micros / b.num
		return n, Span{n * b.num, 0}
	}
	hi, lo := bits.Mul64(uint64(s.Micros), uint64(b.den))
	lo, carry := bits.Add64(lo, uint64(s.Frac), 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(b.num))
	return int64(q), b.span(int64(q))
}

func (b *Bucket) add(x, y Span) Span {
	s := Span{x.Micros + y.Micros, x.Frac + y.Frac}
	if s.Frac >= b.den {
		s.Micros, s.Frac = s.Micros+1, s.Frac-b.den
	}
	return s
}

func (b *Bucket) sub(x, y Span) Span {
	s := Span{x.Micros - y.Micros, x.Frac - y.Frac}
	if s.Frac < 0 {
		s.Micros, s.Frac = s.Micros-1, s.Frac+b.den
	}
	return s
}

// Less says whether s is shorter, or earlier, than t.
func (s Span) Less(t Span) bool {
	return s.Micros < t.Micros || s.Micros == t.Micros && s.Frac < t.Frac
}

// ceil rounds up to whole microseconds.
func (s Span) ceil() int64 {
	if s.Frac > 0 {
		return s.Micros + 1
	}
	return s.Micros
}

// Used reads a state: the part of the bucket that is in use at now.
//
// A state further ahead than a full bucket has one of two causes: the clock
// stepped back, or the limit was larger when the state was written. It then
// counts as an empty bucket, which admits nothing extra and refills at the
// rate; moved says that the state has to be written back as now+used even when
// nothing is taken, because otherwise every later reading would be "empty" too
// and the key would be locked out until the clock caught up.
func (b *Bucket) Used(full Span, now int64) (used Span, moved bool) {
	if full.Frac >= b.den { // written under another rate
		full = Span{full.Micros + 1, 0}
	}
	used = Span{full.Micros - now, full.Frac}
	switch {
	case used.Micros < 0:
		return Span{}, false
	case b.Full.Less(used):
		return b.Full, true
	}
	return used, false
}

// Fits says whether cost tokens can be taken when used is in use.
func (b *Bucket) Fits(used Span, cost int64) bool {
	return cost <= b.Burst && !b.Full.Less(b.add(used, b.Span(cost)))
}

// Spend is the state after cost tokens, which must fit, were taken.
func (b *Bucket) Spend(used Span, now, cost int64) Span {
	return b.At(b.add(used, b.Span(cost)), now)
}

// Refund is the state after n tokens came back; never above capacity.
func (b *Bucket) Refund(used Span, now, n int64) Span {
	back := b.Span(min(n, b.Burst))
	if used.Less(back) {
		return Span{}
	}
	return b.At(b.sub(used, back), now)
}

// At is the state in which used is in use at now; the zero Span when none is.
func (b *Bucket) At(used Span, now int64) Span {
	if used == (Span{}) {
		return Span{}
	}
	return Span{now + used.Micros, used.Frac}
}

// Verdict says what a bucket with used in use, before any spending, means for
// cost; spent tells whether the cost was then taken.
func (b *Bucket) Verdict(used Span, cost int64, spent bool) Verdict {
	v := Verdict{Allowed: b.Fits(used, cost)}
	if v.Allowed && b.Queue {
		v.Delay = used.ceil()
	}
	if v.Allowed && spent {
		used = b.add(used, b.Span(cost))
	}
	free := b.sub(b.Full, used)
	remaining, worth := b.tokens(free)
	v.Remaining = remaining
	v.Reset = used.ceil()
	v.Window = worth.ceil()
	switch {
	case v.Allowed:
	case cost > b.Burst:
		v.Retry = Never
	default:
		v.Retry = b.sub(b.Span(cost), free).ceil()
		v.Window = v.Retry
	}
	return v
}
