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
	Extra int64 // how many of them are beyond the limit itself: soft throttling
	Unit  Span  // one token
	Full  Span  // Burst tokens, or up to one more: see Program.AsLong
	Queue bool  // a leaky bucket: what is admitted waits for what is in it

	num, den int64 // one token lasts num/den microseconds, in lowest terms
}

// A Span is Micros + Frac/den microseconds, 0 <= Frac < den, where den belongs
// to the Bucket.
type Span struct{ Micros, Frac int64 }

// A Level is the state of a Bucket: Until is the instant at which it is full.
// Since is zero, but for a bucket in debt, of which more is in use than it
// holds: then it is the time at which that was so, and tells the debt from a
// clock that stepped back. The zero Level is a full bucket.
type Level struct {
	Until Span
	Since int64
}

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

// holdFor makes b hold what refills in full, the fraction of which is in parts of den.
func (b *Bucket) holdFor(full Span, den int64) {
	hi, lo := bits.Mul64(uint64(full.Frac), uint64(b.den))
	frac, _ := bits.Div64(hi, lo, uint64(den))
	b.Full = Span{full.Micros, int64(frac)}
	limit := b.Burst - b.Extra
	b.Burst = b.tokens(b.Full)
	b.Extra = b.Burst - limit
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

// tokens is how many whole tokens refill in s, s <= Full.
func (b *Bucket) tokens(s Span) int64 {
	if b.den == 1 {
		return s.Micros / b.num
	}
	hi, lo := bits.Mul64(uint64(s.Micros), uint64(b.den))
	lo, carry := bits.Add64(lo, uint64(s.Frac), 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(b.num))
	return int64(q)
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

// Price is how long n tokens take to refill, for any n. It is at most a microsecond more
// than [Horizon], which no bucket holds: a cost that was cut to [Horizon] itself would fit
// a bucket that fills up in just that time.
func (b *Bucket) Price(n int64) Span {
	if n <= b.Burst {
		return b.Span(n)
	}
	hi, lo := bits.Mul64(uint64(min(n, maxCount)), uint64(b.num))
	if hi >= uint64(b.den) || over(hi, lo, b.den) {
		return Span{Horizon + 1, 0}
	}
	return b.span(min(n, maxCount))
}

// Used reads a state: the part of the bucket that is in use at now, which is
// more than the whole while it is in debt.
//
// A state further ahead than a full bucket can be, without a debt, has one of
// two causes: the clock stepped back, or the limit was larger when the state was
// written. It then counts as an empty bucket, which admits nothing extra and
// refills at the rate. A debt from after now counts from now. moved says that
// the state has to be written back as now+used even when nothing is taken,
// because otherwise every later reading would be the same and the key would be
// locked out until the clock caught up.
func (b *Bucket) Used(l Level, now int64) (used Span, moved bool) {
	until := l.Until
	if until.Frac >= b.den { // written under another rate
		until = Span{until.Micros + 1, 0}
	}
	if l.Since > now {
		return Span{until.Micros - l.Since, until.Frac}, true
	}
	used = Span{until.Micros - now, until.Frac}
	switch {
	case used.Micros < 0:
		return Span{}, false
	case l.Since == 0 && b.Full.Less(used):
		return b.Full, true
	}
	return used, false
}

// Fits says whether cost tokens can be taken when used is in use. In a queue they
// must not have to wait for longer than wait.
func (b *Bucket) Fits(used Span, cost, wait int64) bool {
	return cost <= b.Burst && !b.Full.Less(b.add(used, b.Span(cost))) && (!b.Queue || used.ceil() <= wait)
}

// Spend is the state after cost tokens, which must fit, were taken.
func (b *Bucket) Spend(used Span, now, cost int64) Level {
	used = b.add(used, b.Span(cost))
	return Level{Until: Span{now + used.Micros, used.Frac}}
}

// Debit is the state after n tokens were taken, whether they fit or not.
func (b *Bucket) Debit(used Span, now, n int64) Level {
	used = b.add(used, b.Price(n))
	if used.Micros >= Horizon {
		used = Span{Horizon, 0}
	}
	return b.At(used, now)
}

// Credit is the state after n tokens came back; never above capacity.
func (b *Bucket) Credit(used Span, now, n int64) Level {
	return b.At(b.less(used, b.Price(n)), now)
}

// less is what is left in use of used when back is given back.
func (b *Bucket) less(used, back Span) Span {
	if used.Less(back) {
		return Span{}
	}
	return b.sub(used, back)
}

// Undo is the state after cost tokens came back that were taken at m; false if
// none of them does.
//
// Had the charge not happened, the bucket would have become full earlier and stopped
// refilling. The refill since that moment is not given back: it was credited already. If
// the clock has stepped back since, the age of the charge says how much that is. In a
// queue those behind have been told their turns, so the place can be given back
// only while it is the last.
func (b *Bucket) Undo(used Span, now, cost int64, m Receipt) (l Level, undone bool) {
	back := b.Price(cost)
	if b.Queue {
		after := b.add(m.Used, back)
		if (Span{now + used.Micros, used.Frac}) != (Span{m.At + after.Micros, after.Frac}) {
			return Level{}, false
		}
	}
	if idle := b.sub(Span{max(now-m.At, m.Age), 0}, m.Used); idle.Micros >= 0 {
		back = b.sub(back, idle)
	}
	if back.Micros < 0 {
		return Level{}, false
	}
	return b.At(b.less(used, back), now), true
}

// Keep is the receipt of a charge of which cost tokens stay taken when the rest is
// undone.
func (b *Bucket) Keep(m Receipt, cost int64) Receipt {
	m.Used = b.add(m.Used, b.Price(cost))
	return m
}

// At is the state in which used is in use at now; the zero Level when none is.
func (b *Bucket) At(used Span, now int64) Level {
	switch {
	case used == (Span{}):
		return Level{}
	case b.Full.Less(used):
		return Level{Span{now + used.Micros, used.Frac}, now}
	}
	return Level{Until: Span{now + used.Micros, used.Frac}}
}

// Verdict says what a bucket with used in use, before any spending, means for
// cost, which is ready to wait for so long; spent tells whether the cost was then
// taken.
func (b *Bucket) Verdict(used Span, cost, wait int64, spent bool) Verdict {
	v := Verdict{Allowed: b.Fits(used, cost, wait)}
	if v.Allowed && b.Queue {
		v.Delay = used.ceil()
	}
	if v.Allowed && spent {
		used = b.add(used, b.Span(cost))
	}
	free := b.sub(b.Full, used)
	if free.Micros >= 0 {
		v.Remaining = b.tokens(free)
	}
	v.Reset = used.ceil()
	if left := v.Remaining - b.Extra; left > 0 {
		v.Window = b.Span(left).ceil()
	} else { // until one event of the limit itself is available again
		v.Window = b.sub(b.Span(b.Extra+1), free).ceil()
	}
	switch {
	case v.Allowed:
	case cost > b.Burst:
		v.Retry = Never
	default:
		v.Retry = b.sub(b.Span(cost), free).ceil()
		if b.Queue {
			v.Retry = max(v.Retry, used.ceil()-wait)
		}
		v.Window = v.Retry
	}
	return v
}
