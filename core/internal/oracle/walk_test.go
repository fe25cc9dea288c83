package oracle

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A walk is a random sequence of calls. It draws the next call from the answers to those before.
type walk struct {
	rng    *rand.Rand
	steady bool  // the clock does not step back, so more charges can be undone
	fine   bool  // periods are so short that fractions of a microsecond matter
	now    int64 // of the clock of the store
	real   int64 // of a clock that never steps
	wait   int64 // the last RetryAfter
	left   int64 // the last Remaining

	rules   [][]*Rule // of every name: the limits that it has, one after the other
	inForce []int     // of every name: which of them it has now
	held    []held
	met     map[string]int // how often each situation was met
}

// A held charge can be undone.
type held struct {
	charge  Charge
	receipt Receipt
	at      int64 // by the clock that never steps
	cost    int64 // what has not been undone
}

// newWalk returns a walk of rules that e accepts.
func newWalk(seed uint64, e *engine, met map[string]int) *walk {
	w := &walk{rng: rand.New(rand.NewPCG(seed, 11)), steady: seed%3 == 0, fine: seed%4 == 1, met: met}
	w.now = 1_700_000_000_000_000 + w.rng.Int64N(1e15)
	for len(w.rules) < 3 {
		if rules := w.limits(fmt.Sprint("rule", len(w.rules)), e); len(rules) > 0 {
			w.rules, w.inForce = append(w.rules, rules), append(w.inForce, 0)
		}
	}
	return w
}

func pick[T any](w *walk, from ...T) T { return from[w.rng.IntN(len(from))] }

// one reports true once in n times.
func (w *walk) one(n int) bool { return w.rng.IntN(n) == 0 }

func isBucket(r *Rule) bool { return strings.HasSuffix(r.Algorithm, "_bucket") }

// percent is so much of n, without the fraction.
func percent(n int64, soft float64) int64 {
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(soft, 'f', -1, 64))
	if !ok {
		panic("no percentage")
	}
	exact.Mul(exact, big.NewRat(n, 100))
	return new(big.Int).Quo(exact.Num(), exact.Denom()).Int64()
}

// limits are up to four limits of a name, and elastic enlargements of them: other rates, periods,
// bursts, sub-windows and soft limits of one algorithm.
func (w *walk) limits(name string, e *engine) (all []*Rule) {
	first := Rule{
		Name:      name,
		Algorithm: pick(w, "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window"),
		Events:    most(pick[int64](w, 1, 2, 3, 7, 10, 13, 25, 60, 100, 997, 1_000_003, 1<<47+1, MaxCount-1)),
		Per: pick(w, 1, 3, 1000, 7000, 1_000_000, 11_000_000, 60_000_000, 3_600_000_000, 86_400_000_000,
			365*86_400_000_000, Horizon),
		Shadow: w.one(5),
	}
	for i := range 1 + w.rng.IntN(4) {
		r := first
		switch {
		case w.fine:
			r.Events, r.Per = 1+w.rng.Int64N(12), 1+w.rng.Int64N(100)
		case i > 0:
			r.Events = most(min(max(1, r.Events*pick[int64](w, 1, 2, 3)/pick[int64](w, 1, 1, 2, 3)), MaxCount-1))
			r.Per = min(max(1, r.Per/pick[int64](w, 1, 1, 2, 3, 100)*pick[int64](w, 1, 1, 2)), Horizon)
		}
		if isBucket(&r) && w.one(2) {
			r.Burst = pick(w, 1, 2, 5, 20, 1000, r.Events)
		}
		if r.Algorithm == "sliding_window" {
			r.SubWindows = pick[int64](w, 1, 2, 3, 7, 10, 60, 120)
		}
		soft := pick(w, 0, 0, 0, 0, 7.5, 10, 33.3, 50, 300)
		r.Extra = percent(cmp.Or(r.Burst, r.Events), soft)
		if !e.compile(&r, soft) {
			continue // a burst of 1000 at one a year reaches over too long a time
		}
		if all = append(all, &r); w.one(4) {
			enlarged := e.enlarge(&r, pick(w, 1.5, 2, 3.7, 10))
			w.met["elastic"] += len(enlarged)
			all = append(all, enlarged...)
		}
	}
	return all
}

// next moves the clock, may change a limit, and draws a call: to Take if asks, otherwise to Adjust.
func (w *walk) next() (charges []Charge, asks bool) {
	w.advance()
	if name := w.rng.IntN(len(w.rules)); w.one(20) && len(w.rules[name]) > 1 {
		w.inForce[name] = w.rng.IntN(len(w.rules[name]))
		w.met["limit changed"]++
	}
	draw := w.asking
	if asks = !w.one(4); !asks {
		draw = w.adjusting
	}
	for range 1 + w.rng.IntN(4)*w.rng.IntN(2) {
		c := draw()
		meets := func(o Charge) bool { return o.Key == c.Key && o.Rule.Name == c.Rule.Name }
		if !slices.ContainsFunc(charges, meets) {
			charges = append(charges, c)
		}
	}
	return charges, asks
}

// most is the largest number that fits an int: 32 bits are tested, too.
func most(n int64) int64 { return min(n, math.MaxInt) }

// advance moves the clock, mostly by a part of a period; also to the edges of the last answer, back,
// to times that were before, and far ahead.
func (w *walk) advance() {
	name := w.rng.IntN(len(w.rules))
	per := w.rules[name][w.inForce[name]].Per
	var d int64
	switch w.rng.IntN(16) {
	case 0, 1, 2, 3:
	case 4:
		d = 1
	case 5:
		d = w.wait
	case 6:
		d = max(0, w.wait-1)
	case 7:
		d = per - pick[int64](w, 0, 1)
	case 8:
		d = per - w.now%per - pick[int64](w, 0, 1) // the edge of a window
	case 9:
		d = -1 - w.rng.Int64N(per)/pick[int64](w, 1, 1, 10, 1000)
	case 10:
		if w.one(4) {
			d = -1 - w.rng.Int64N(min(3*per, Horizon))
		}
	case 11:
		if len(w.held) > 0 && w.one(2) {
			d = w.held[w.rng.IntN(len(w.held))].receipt.At - w.now // the time of a charge again
		}
	case 12:
		if w.one(4) {
			d = w.rng.Int64N(min(100*per, Horizon))
			w.met["leap"]++
		}
	default:
		d = w.rng.Int64N(per) / pick[int64](w, 1, 10, 1000)
	}
	const first, last = 1_600_000_000_000_000, 5_838_000_000_000_000 // all times stay below 2^53
	switch {
	case w.now+d < first || w.now+d > last:
		return
	case d >= 0:
		w.real += d
	case w.steady:
		return
	default:
		w.real += pick(w, 0, 0, 1, per/3) // the time that passed while the clock was set back
		w.met["step back"]++
	}
	w.now += d
}

// charge is a Spend of one of the states, under the limit in force.
func (w *walk) charge() Charge {
	name := w.rng.IntN(len(w.rules))
	r := w.rules[name][w.inForce[name]]
	return Charge{Key: pick(w, "a", "b"), Rule: r, Cost: most(w.cost(r.Capacity()))}
}

func (w *walk) cost(capacity int64) int64 {
	switch w.rng.IntN(10) {
	case 0:
		return capacity
	case 1:
		return capacity + 1
	case 2:
		return max(1, w.left)
	case 3:
		return w.left + 1
	case 4, 5:
		return 1 + w.rng.Int64N(capacity)
	case 6:
		if w.one(3) {
			return pick[int64](w, 1<<w.rng.IntN(63), MaxCount-1, MaxCount, MaxCount+1, math.MaxInt64)
		}
	}
	return 1
}

func (w *walk) asking() Charge {
	c := w.charge()
	if w.one(6) {
		c.Op = Peek
	} else if w.one(2) {
		c.Receipt = new(Receipt)
	}
	if w.one(4) {
		per := time.Duration(c.Rule.Per/3) * time.Microsecond
		c.MaxDelay = pick(w, 1, time.Microsecond, per, time.Duration(w.wait)*time.Microsecond)
	}
	return c
}

func (w *walk) adjusting() Charge {
	c := w.charge()
	c.Op = pick(w, Credit, Debit, Debit, Reset, Undo, Undo, Undo, Undo)
	switch {
	case c.Op == Debit && !w.one(3):
		c.Receipt = new(Receipt)
	case c.Op == Undo && (len(w.held) == 0 || w.one(20)):
		c.Receipt = new(Receipt)
	case c.Op == Undo:
		c = w.undo()
	}
	return c
}

// undo undoes a charge or part of it, also of a changed limit, and sometimes what was undone before.
// The age of the charge is known or not, or comes from a slow clock.
func (w *walk) undo() Charge {
	at := len(w.held) - 1 // the newest, mostly: older ones seldom count still
	if w.one(3) {
		at = w.rng.IntN(len(w.held))
	}
	h := &w.held[at]
	c, m := h.charge, h.receipt
	c.Op, c.Cost, c.MaxDelay, c.Verdict = Undo, h.cost, 0, Verdict{}
	if c.Cost > 1 && w.one(3) {
		c.Cost = 1 + w.rng.Int64N(c.Cost)
		w.met["undo of a part"]++
	}
	rest := h.cost - c.Cost
	if rest > 0 {
		m = m.Keep(c.Rule, rest)
	}
	m.Age = pick(w, 0, w.real-h.at, w.real-h.at, (w.real-h.at)/2)
	c.Receipt = &m
	limits := w.rules[slices.IndexFunc(w.rules, func(limits []*Rule) bool { return slices.Contains(limits, c.Rule) })]
	if r := limits[w.rng.IntN(len(limits))]; r != c.Rule && w.one(3) {
		c.Rule = r
		w.met["undo under another limit"]++
	}
	if w.now-m.At < m.Age {
		w.met["undo after a step back"]++
	}
	if h.cost = rest; w.one(8) {
		h.cost += c.Cost
		w.met["undo twice"]++
	}
	if h.cost == 0 {
		w.held = slices.Delete(w.held, at, at+1)
	}
	return c
}

// remember notes the answers for the calls to come.
func (w *walk) remember(charges []Charge) {
	for _, c := range charges {
		v, asks := c.Verdict, c.Op <= Peek
		w.left = v.Remaining
		if v.RetryAfter > 0 && v.RetryAfter != Never {
			w.wait = v.RetryAfter
		}
		if c.Op != Undo && c.Receipt != nil && c.Receipt.At != 0 {
			w.held = append(w.held[max(0, len(w.held)-11):], held{c, *c.Receipt, w.real, c.Cost})
		}
		for name, is := range map[string]bool{
			"allowed":            asks && v.Allowed,
			"denied":             !v.Allowed,
			"never":              v.RetryAfter == Never,
			"soft":               v.Soft,
			"delayed":            v.Delay > 0,
			"shadow denied":      c.Rule.Shadow && !v.Allowed,
			"peek denied":        c.Op == Peek && !v.Allowed,
			"together":           len(charges) > 1,
			"together denied":    len(charges) > 1 && !v.Allowed,
			"credit":             c.Op == Credit,
			"undo":               c.Op == Undo,
			"undo of nothing":    c.Op == Undo && c.Receipt.At == 0,
			"debt":               c.Op == Debit && v.Remaining == 0,
			"saturated":          c.Op == Debit && c.Cost >= most(MaxCount),
			"reset of something": v.Found,
			"reset of nothing":   c.Op == Reset && !v.Found,
		} {
			if is {
				w.met[name]++
			}
		}
	}
}
