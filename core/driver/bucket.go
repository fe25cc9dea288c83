package driver

import "math/bits"

// A bucket is a token bucket in its virtual-scheduling form (the generic cell rate algorithm, ITU-T
// I.371 annex A). A token is worth Period/Events microseconds of refilling, so the whole State is
// one instant: the time at which the bucket will be full again. The used part is the distance to
// it.
//
// The two forms admit exactly the same events. This one needs no "last update" beside the level,
// loses nothing to rounding, and turns "full" into "in the past", so that a bucket that has
// refilled is the same as no bucket.
//
// A bucket in debt, of which more is in use than it holds, has the time at which that was so in its
// State. This tells the debt from a clock that stepped back.
type bucket struct {
	burst int64 // capacity in tokens
	extra int64 // how many of them are beyond the limit itself: soft throttling
	unit  Span  // one token
	full  Span  // burst tokens, or up to one more: see Definition.CompileLike
	queue bool  // a leaky bucket: an admitted event is delayed until those in it have drained

	// One token lasts num/den microseconds, in lowest terms. den is at most events, so a fraction
	// has 48 bits, which memstore packs with 16 others.
	num, den int64
}

// newBucket compiles events per period (in microseconds) and burst, all positive.
func newBucket(events, period, burst, extra int64, queue bool) *bucket {
	g := gcd(events, period)
	b := &bucket{burst: burst, extra: extra, queue: queue, num: period / g, den: events / g}
	b.unit, b.full = b.exact(1), b.exact(burst)
	return b
}

func (b *bucket) constants() Constants {
	return Constants{Capacity: b.burst, Extra: b.extra, Unit: b.unit, Full: b.full, Denominator: b.den}
}

// exceeds reports whether a*b/n, rounded down, is above most.
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

// holdFor makes b hold the tokens that refill in the time in which o fills up, and reports whether
// they can be counted.
func (b *bucket) holdFor(o *bucket) bool {
	if exceeds(o.full.Micros+1, b.den, b.num, maxCount-1) {
		return false
	}
	hi, lo := bits.Mul64(uint64(o.full.Frac), uint64(b.den))
	frac, _ := bits.Div64(hi, lo, uint64(o.den))
	b.full = Span{o.full.Micros, int64(frac)}
	limit := b.burst - b.extra
	b.burst = b.tokens(b.full)
	b.extra = max(0, b.burst-limit)
	return true
}

// span is how long n tokens take to refill, 0 <= n <= burst.
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

// tokens is how many whole tokens refill in s, s <= Full.
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

func (b *bucket) sub(x, y Span) Span {
	s := Span{x.Micros - y.Micros, x.Frac - y.Frac}
	if s.Frac < 0 {
		s.Micros, s.Frac = s.Micros-1, s.Frac+b.den
	}
	return s
}

// less says whether s is shorter, or earlier, than t.
func (s Span) less(t Span) bool {
	return s.Micros < t.Micros || s.Micros == t.Micros && s.Frac < t.Frac
}

// ceil rounds up to whole microseconds.
func (s Span) ceil() int64 {
	if s.Frac > 0 {
		return s.Micros + 1
	}
	return s.Micros
}

// price is how long n tokens take to refill, for any n. It is at most a microsecond more than
// [Horizon], which no bucket holds: a cost that was cut to [Horizon] itself would fit a bucket that
// fills up in just that time.
func (b *bucket) price(n int64) Span {
	if n <= b.burst {
		return b.span(n)
	}
	n = min(n, maxCount)
	if exceeds(n, b.num, b.den, Horizon) {
		return Span{Horizon + 1, 0}
	}
	return b.exact(n)
}

// read says how much of the bucket is in use at now, which is more than the whole while it is in
// debt.
//
// A State further ahead than a full bucket can be, without a debt, has one of two causes: the clock
// stepped back, or the limit was larger when the State was written. It then counts as an empty
// bucket, which admits nothing extra and refills at the rate. A debt from after now counts from
// now.
func (b *bucket) read(r *Reading, s State, now int64) {
	until := Span{s.time, s.amount}
	if until.Frac >= b.den { // written under another rate
		until = Span{until.Micros + 1, 0}
	}
	switch used := (Span{until.Micros - now, until.Frac}); {
	case s.debt > now:
		r.Used, r.moved = Span{until.Micros - s.debt, until.Frac}, true
	case used.Micros < 0:
	case s.debt == 0 && b.full.less(used):
		r.Used, r.moved = b.full, true
	default:
		r.Used = used
	}
}

// fits says whether cost tokens can be taken at r. In a queue they must not have to wait for longer
// than maxDelay.
func (b *bucket) fits(r *Reading, cost, maxDelay int64) bool {
	return cost <= b.burst && !b.full.less(b.add(r.Used, b.span(cost))) && (!b.queue || r.Used.ceil() <= maxDelay)
}

func (b *bucket) spend(r *Reading, now, cost int64) State {
	used := b.add(r.Used, b.span(cost))
	return State{time: now + used.Micros, amount: used.Frac}
}

func (b *bucket) debit(_ State, r Reading, now, n int64) State {
	used := b.add(r.Used, b.price(n))
	if used.Micros >= Horizon {
		used = Span{Horizon, 0}
	}
	return b.at(used, now)
}

// credit gives n tokens back, never above the capacity.
func (b *bucket) credit(_ State, r Reading, now, n int64) State {
	return b.at(b.without(r.Used, b.price(n)), now)
}

// without returns used less back, but at least nothing.
func (b *bucket) without(used, back Span) Span {
	if used.less(back) {
		return Span{}
	}
	return b.sub(used, back)
}

// undo gives n tokens back that were taken at m.
//
// Had the charge not happened, the bucket would have become full earlier and stopped refilling. The
// refill since that moment is not given back: it was credited already. If the clock has stepped
// back since, the age of the charge says how much that is. In a queue those behind have been told
// their turns, so the place can be given back only while it is the last.
func (b *bucket) undo(s State, r Reading, now, n int64, m Receipt) State {
	if m.At == 0 {
		return s
	}
	m, back := b.fit(m), b.price(n)
	if b.queue {
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

// fit is m for the denominator of b, if it was written under another rate: with less in use, of
// which less is given back.
func (b *bucket) fit(m Receipt) Receipt {
	if m.Used.Frac >= b.den {
		m.Used.Frac = 0
	}
	return m
}

func (b *bucket) rewrite(_ State, r Reading, now int64) State { return b.at(r.Used, now) }

// keep adds cost, which stays, to the use before the part that is undone.
func (b *bucket) keep(m Receipt, cost int64) Receipt {
	m = b.fit(m)
	m.Used = b.add(m.Used, b.price(cost))
	return m
}

// at is the State in which used is in use at now; the zero State when none is.
func (b *bucket) at(used Span, now int64) State {
	if used == (Span{}) {
		return State{}
	}
	s := State{time: now + used.Micros, amount: used.Frac}
	if b.full.less(used) {
		s.debt = now
	}
	return s
}

func (b *bucket) expiresAt(s State) int64 { return Span{s.time, s.amount}.ceil() }

func (b *bucket) verdict(v *verdict, r *Reading, cost, maxDelay int64, spent bool) {
	used := r.Used
	v.allowed = b.fits(r, cost, maxDelay)
	if v.allowed && b.queue {
		v.delay = used.ceil()
	}
	if v.allowed && spent {
		used = b.add(used, b.span(cost))
	}
	free := b.sub(b.full, used)
	if free.Micros >= 0 {
		v.remaining = b.tokens(free)
	}
	v.reset = used.ceil()
	if left := v.remaining - b.extra; left > 0 {
		v.window = b.span(left).ceil()
	} else { // until one event of the limit itself is available again
		v.window = b.sub(b.span(b.extra+1), free).ceil()
	}
	switch {
	case v.allowed:
	case cost > b.burst:
		v.retry = Never
	default:
		v.retry = b.sub(b.span(cost), free).ceil()
		if b.queue {
			v.retry = max(v.retry, used.ceil()-maxDelay)
		}
		v.window = v.retry
	}
}
