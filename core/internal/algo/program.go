package algo

import "fmt"

// A Kind names an algorithm.
type Kind uint8

// The algorithms. The zero Kind is none.
const (
	_ Kind = iota
	KindTokenBucket
	KindSlidingLog
	KindLeakyBucket
	KindFixedWindow
	KindSlidingWindow
)

// Unknown is the panic of a switch that has no case for k: no algorithm runs as another one.
func (k Kind) Unknown() string { return fmt.Sprintf("algo: no algorithm has the number %d", k) }

// A Program is a rule compiled for execution: one algorithm and its constants.
type Program struct {
	Kind   Kind
	Extra  int64  // how much of the capacity is beyond the limit itself: soft throttling
	Bucket Bucket // KindTokenBucket, KindLeakyBucket
	Window Window // KindFixedWindow
	Log    Log    // KindSlidingLog, KindSlidingWindow
}

// A Shape is what a Program is compiled from. All but Extra and SubWindows, which
// only a sliding window has, are positive.
type Shape struct {
	Events, Period  int64 // so many in so many microseconds
	Capacity, Extra int64
	SubWindows      int64
}

// Compile works out the constants of the algorithm that p.Kind names.
func (p *Program) Compile(s Shape) (err error) {
	if max(s.Events, s.Capacity) >= maxCount {
		return ErrTooMany
	}
	p.Extra = s.Extra
	switch p.Kind {
	case KindTokenBucket, KindLeakyBucket:
		p.Bucket, err = NewBucket(s.Events, s.Period, s.Capacity+s.Extra)
		p.Bucket.Extra, p.Bucket.Queue = s.Extra, p.Kind == KindLeakyBucket
	case KindFixedWindow:
		p.Window, err = NewWindow(s.Events+s.Extra, s.Period)
	case KindSlidingLog:
		p.Log, err = NewLog(s.Events+s.Extra, s.Period)
	case KindSlidingWindow:
		p.Log, err = NewCounter(s.Events+s.Extra, s.Period, s.SubWindows)
	default:
		panic(p.Kind.Unknown())
	}
	return err
}

// AsLong makes a bucket hold what refills in the time in which o does. So a state
// that one of them wrote is never cut short by the other: who can make the limit
// change would get something for nothing every time. The rest of a token that does
// not fit stays unused.
func (p *Program) AsLong(o *Program) {
	if !p.isBucket() {
		return
	}
	p.Bucket.holdFor(o.Bucket.Full, o.Bucket.den)
	p.Extra = p.Bucket.Extra
}

func (p *Program) isBucket() bool { return p.Kind == KindTokenBucket || p.Kind == KindLeakyBucket }

// Untouched is the verdict about cost for a key of which nothing is used. The event is ready
// to wait for so long. With a now of 0, a fixed window has just begun.
func (p *Program) Untouched(cost, wait, now int64) Verdict {
	switch p.Kind {
	case KindTokenBucket, KindLeakyBucket:
		return p.Bucket.Verdict(Span{}, cost, wait, false)
	case KindFixedWindow:
		return p.Window.Verdict(0, p.Window.Left(now), cost, false)
	case KindSlidingLog, KindSlidingWindow:
		return p.Log.Verdict(Reading{}, cost, false)
	}
	panic(p.Kind.Unknown())
}

// Soften turns a verdict about the capacity into one about the limit, from which
// it may differ by Extra.
func (p *Program) Soften(v *Verdict, cost int64, spent bool) {
	v.Remaining -= p.Extra
	v.Soft = v.Allowed && (v.Remaining < 0 || !spent && v.Remaining < cost)
	v.Remaining = max(0, v.Remaining)
}

// Keep is the receipt of a charge of which cost stays when the rest is undone.
func (p *Program) Keep(m Receipt, cost int64) Receipt {
	if p.isBucket() {
		return p.Bucket.Keep(m, cost)
	}
	return m
}

// Capacity is the largest cost that the rule can ever admit at once, Extra
// included.
func (p *Program) Capacity() int64 {
	switch p.Kind {
	case KindSlidingLog, KindSlidingWindow:
		return p.Log.Events
	case KindFixedWindow:
		return p.Window.Events
	case KindTokenBucket, KindLeakyBucket:
		return p.Bucket.Burst
	}
	panic(p.Kind.Unknown())
}
