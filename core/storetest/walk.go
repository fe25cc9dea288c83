package storetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/bounds"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
)

// A walk is a random sequence of calls, which depends on the verdicts of earlier calls.
type walk struct {
	catalog
	seed   uint64
	rng    *rand.Rand
	steady bool  // the clock does not step back, so more charges can be undone
	fine   bool  // periods are so short that fractions of a microsecond matter
	plans  bool  // the limits of a name are plans, and each charge has one of them
	places bool  // all rules are in flight, except for a pause
	waits  bool  // so they are, and callers wait for few places
	rests  bool  // quotas may have a rollover
	now    int64 // the time of the store's clock
	real   int64 // the time of a clock that never steps
	back   int64 // the next step back of the clock, or 0
	wait   int64 // the last RetryAfter
	left   int64 // the last Remaining

	maxStep int64 // the longest step of the clock, or 0

	resets  []call          // before the next step back
	arrived map[int64]int64 // the arrival of the first caller of each queue, by real

	oracle   oracle.Oracle
	rules    [][]*oracle.Rule // for each name, the limits between which it changes
	zones    []int64          // for each name, the offset of the calendar of quotas
	inForce  []int            // for each name, the index of its present limit, or of the last one with plans
	held     []held
	occurred map[string]int // the number of times that each situation occurred
}

// held stores a charge that can be undone.
type held struct {
	charge  oracle.Charge
	receipt oracle.Receipt
	own     driver.Receipt // the receipt of the store
	at      int64          // the time of the clock that never steps
	cost    int64          // the part of the cost that is not undone
}

// newWalk returns a walk for an unused h. The walk begins some time after h.Now.
func newWalk(seed uint64, h *Harness, occurred map[string]int) *walk {
	w := &walk{
		catalog: make(catalog), arrived: make(map[int64]int64), seed: seed, rng: rand.New(rand.NewPCG(seed, 11)),
		steady: h.Undoes || seed%3 == 0, fine: seed%4 == 1, plans: seed%5 > 2, places: seed%7 == 3 || seed%7 == 5, waits: seed%7 == 5, rests: !h.NoRollover, occurred: occurred,
	}
	w.now = h.Now().UnixMicro() + w.rng.Int64N(1e15)
	for len(w.rules) < 3 {
		if rules := w.limits(fmt.Sprint("rule", len(w.rules))); len(rules) > 0 {
			w.add(rules)
		}
	}
	if w.one(2) {
		w.add(w.pause("pause"))
	}
	return w
}

// add adds the limits of a name.
func (w *walk) add(limits []*oracle.Rule) {
	w.rules, w.inForce, w.zones = append(w.rules, limits), append(w.inForce, 0), append(w.zones, 0)
}

func pick[T any](w *walk, from ...T) T { return from[w.rng.IntN(len(from))] }

// one returns true with a probability of 1/n.
func (w *walk) one(n int) bool { return w.rng.IntN(n) == 0 }

// next moves the clock, sometimes changes a limit, and returns a random call. Before the clock steps
// back, it returns calls that reset all expired states: a Store may or may not have deleted them.
func (w *walk) next() call {
	if w.back == 0 {
		if w.advance(); w.back < 0 {
			w.reset()
		}
	}
	if n := len(w.resets); n > 0 {
		c := w.resets[n-1]
		w.resets = w.resets[:n-1]
		return c
	}
	if w.back < 0 {
		w.stepBack()
	}
	if name := w.rng.IntN(len(w.rules)); !w.plans && w.one(20) && len(w.rules[name]) > 1 {
		w.inForce[name] = w.rng.IntN(len(w.rules[name]))
		w.occurred["limit changed"]++
	}
	if w.one(30) {
		w.zones[w.rng.IntN(len(w.zones))] = w.rng.Int64N(unitLengths["month"])
	}
	draw := w.asking
	if w.one(4) {
		draw = w.adjusting
	}
	next := call{now: w.now}
	for range 1 + w.rng.IntN(4)*w.rng.IntN(2) {
		next.add(draw())
	}
	if next.asks() && !next.takesOnePlace() && w.one(6) {
		next = next.atMost()
	}
	w.queue(&next)
	for i := range next.charges {
		next.charges[i].Calendar = w.calendar(next.charges[i].Rule)
	}
	return next
}

// reset adds calls to w.resets that reset every state that has expired or was never used.
func (w *walk) reset() {
	c := call{now: w.now}
	for _, key := range []string{"a", "b"} {
		for _, r := range slices.Concat(w.rules...) {
			reset := oracle.Charge{Key: key, Rule: r, Op: oracle.Reset, Calendar: w.calendar(r)}
			if v, _ := w.oracle.Look(w.now, &reset); v.ResetAfter == 0 {
				c.add(reset, nil)
			}
			if len(c.charges) == bounds.Charges {
				w.resets = append(w.resets, c)
				c = call{now: w.now}
			}
		}
	}
	if len(c.charges) > 0 {
		w.resets = append(w.resets, c)
	}
}

// advance moves the clock, mostly by a part of a period. It also moves the clock to the edges of
// the last verdict, and far ahead. For a step back, to earlier times, it sets w.back.
func (w *walk) advance() {
	name := w.rng.IntN(len(w.rules))
	rule := w.rules[name][w.inForce[name]]
	per := rule.Per
	var d int64
	kind := w.rng.IntN(16)
	if w.waits && !w.one(10) {
		kind = -1
	}
	switch kind {
	case -1:
		d = pick(w, 0, 0, 0, 0, 0, 1, w.nearQueueHold()/10, w.nearQueueHold()/3)
	case 0, 1, 2, 3:
	case 4:
		d = 1
	case 5:
		d = w.wait
	case 6:
		d = max(0, w.wait-1)
	case 7:
		d = per - pick[int64](w, -1, 0, 1)
	case 8:
		next := w.now - w.now%per + per // the edge of a window
		if c := w.calendar(rule); c != nil {
			_, next = c.Period(w.now)
		}
		if d = next - w.now - pick[int64](w, -1, 0, 1); d < 0 {
			d = 0
		}
	case 9:
		d = -1 - w.rng.Int64N(per)/pick[int64](w, 1, 1, 10, 1000)
	case 10:
		if w.one(4) {
			d = -1 - w.rng.Int64N(min(3*per, oracle.Horizon))
		}
	case 11:
		if len(w.held) > 0 && w.one(2) {
			d = w.held[w.rng.IntN(len(w.held))].receipt.At - w.now // to the time of a charge
		}
	case 12:
		if w.one(4) {
			d = w.rng.Int64N(min(100*per, oracle.Horizon))
			w.occurred["leap"]++
		}
	default:
		d = w.rng.Int64N(per) / pick[int64](w, 1, 10, 1000)
	}
	const (
		firstDay = 100 * 86_400_000_000
		lastDay  = 5_838_000_000_000_000 // the end of the year 2154: all times stay below 2^53
		longest  = lastDay               // 185 years: processes count nanoseconds in 63 bits, 292 years
	)
	if w.maxStep > 0 {
		d = min(d, w.maxStep)
	}
	switch {
	case w.now+d <= firstDay || w.now+d > lastDay || w.real+d > longest:
		return
	case d >= 0:
		w.real += d
	case w.steady:
		return
	default:
		w.back = d
		return
	}
	w.now += d
}

// stepBack sets the clock back.
func (w *walk) stepBack() {
	w.now += w.back
	w.real += pick(w, 0, 0, 1, min(-w.back, oracle.Horizon)/3) // time passes while the clock is set back
	w.back = 0
	w.occurred["step back"]++
}

// spend returns a Spend for one of the states, under the limit in force or under a random plan.
func (w *walk) spend() oracle.Charge {
	name := w.rng.IntN(len(w.rules))
	if w.plans {
		last := w.inForce[name]
		if w.inForce[name] = w.rng.IntN(len(w.rules[name])); w.inForce[name] != last {
			w.occurred["another plan"]++
		}
	}
	r := w.rules[name][w.inForce[name]]
	c := oracle.Charge{Key: pick(w, "a", "b"), Rule: r, Cost: 1}
	if w.waits {
		c.Key = pick(w, "a", "a", "a", "a", "b")
	}
	switch {
	case isPauseRule(r):
		c.Cost = most(w.cost(oracle.MaxCount)) // any cost fits
	case !takesOnePlace(r):
		c.Cost = most(w.cost(r.Capacity()))
	}
	return c
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
			return pick[int64](w, 1<<w.rng.IntN(63), oracle.MaxCount-1, oracle.MaxCount, oracle.MaxCount+1, math.MaxInt64)
		}
	}
	return 1
}

func (w *walk) asking() (oracle.Charge, *driver.Receipt) {
	c := w.spend()
	if w.one(4) {
		us := pick(w, c.Rule.Per/3, w.wait-1, w.wait, w.wait+1)
		c.MaxDelay = pick(w, 1, time.Microsecond, time.Duration(max(0, us))*time.Microsecond)
	}
	if w.one(6) {
		c.Op = oracle.Peek
	} else if w.one(2) || isInFlightRule(c.Rule) {
		return withReceipt(c)
	}
	return c, nil
}

func (w *walk) adjusting() (oracle.Charge, *driver.Receipt) {
	c := w.spend()
	if last := w.rules[len(w.rules)-1][0]; isPauseRule(c.Rule) || isPauseRule(last) && w.one(4) {
		if c = w.pauses(last); c.Op == oracle.Undo {
			return c, &driver.Receipt{At: c.Receipt.At}
		} else if c.Op == oracle.Debit && w.one(2) {
			return withReceipt(c)
		}
		return c, nil
	}
	c.Op = pick(w, oracle.Credit, oracle.Debit, oracle.Debit, oracle.Reset, oracle.Undo, oracle.Undo, oracle.Undo, oracle.Undo)
	if isInFlightRule(c.Rule) && c.Op != oracle.Reset {
		if c.Op = pick(w, oracle.Undo, oracle.Renew); w.one(3) {
			return w.leave(c)
		}
	}
	switch undoes := c.Op == oracle.Undo || c.Op == oracle.Renew; {
	case c.Op == oracle.Debit && !w.one(3), undoes && (len(w.held) == 0 || w.one(20)):
		return withReceipt(c)
	case undoes:
		return w.undo()
	}
	return c, nil
}

func withReceipt(c oracle.Charge) (oracle.Charge, *driver.Receipt) {
	c.Receipt = new(oracle.Receipt)
	return c, new(driver.Receipt)
}

// undo returns an Undo of a charge or of a part of it, sometimes under another limit, and sometimes
// for the second time. The age of the charge is correct, unknown, or half of the true age. The place
// of an in-flight rule is undone or renewed, sometimes with the receipt of a place of another key.
func (w *walk) undo() (oracle.Charge, *driver.Receipt) {
	at := len(w.held) - 1 // mostly the newest: older charges have often expired
	if w.one(3) {
		at = w.rng.IntN(len(w.held))
	}
	h := &w.held[at]
	c, m, own := h.charge, h.receipt, h.own
	c.Op, c.Cost, c.AtMost, c.Waiter, c.MaxDelay, c.Pause, c.Ban, c.Verdict = oracle.Undo, h.cost, false, nil, 0, 0, false, oracle.Verdict{}
	if c.Cost > 1 && w.one(3) {
		c.Cost = 1 + w.rng.Int64N(c.Cost)
		w.occurred["undo of a part"]++
	}
	limits := w.rules[w.nameOf(c.Rule)]
	if r := limits[w.rng.IntN(len(limits))]; r != c.Rule && r.Length() == c.Rule.Length() && (w.fine || w.one(3)) {
		c.Rule = r
		w.occurred["undo under another limit"]++
	}
	rest := h.cost - c.Cost
	if rest > 0 {
		r := pick(w, h.charge.Rule, c.Rule)
		m, own = m.Keep(r, rest), w.catalog[r].Keep(own, rest)
	}
	m.Age = pick(w, 0, w.real-h.at, w.real-h.at, (w.real-h.at)/2)
	own.Age, c.Receipt = m.Age, &m
	if w.now-m.At < m.Age && !c.Rule.ByCost {
		w.occurred["undo after a step back"]++
	}
	if isInFlightRule(c.Rule) {
		if c.Op = pick(w, oracle.Undo, oracle.Renew); w.one(10) {
			c.Key = pick(w, "a", "b")
		}
	}
	if c.Op == oracle.Renew {
		return c, &own
	}
	if h.cost = rest; w.one(8) {
		h.cost += c.Cost
		w.occurred["undo twice"]++
	}
	if h.cost == 0 {
		w.held = slices.Delete(w.held, at, at+1)
	}
	return c, &own
}

// answer sets the verdicts of c, and keeps them for later calls. It returns false if the store gave a place the
// number of another one.
func (w *walk) answer(c call) (ok bool) {
	o, first := &w.oracle, &c.charges[0]
	before, ahead := o.Look(w.now, first)
	line := o.Line(w.now, first)
	if c.asks() {
		o.Take(w.now, c.charges)
	} else {
		o.Adjust(w.now, c.charges)
	}
	after, _ := o.Look(w.now, first)
	w.rememberLine(first, line, o.Line(w.now, first))
	if ahead {
		w.occurred["ahead of the clock: "+kindOf(first.Rule)]++
	}
	if first.Op == oracle.Undo && after != before {
		w.occurred["freed by an undo: "+kindOf(first.Rule)]++
	}
	if first.Op == oracle.Debit && before.ResetAfter > 0 && isPauseRule(first.Rule) {
		if after.ResetAfter > before.ResetAfter {
			w.occurred["pause made longer"]++
		} else if first.Ban && first.Pause.Microseconds() > before.ResetAfter {
			w.occurred["begin in a pause"]++
		} else if first.Pause > 0 {
			w.occurred["pause not made shorter"]++
		}
	}
	ok = true
	for i, receipt := range c.receipts {
		charge := &c.charges[i]
		if charge.Op == oracle.Spend && isInFlightRule(charge.Rule) && receipt != nil && receipt.At != 0 && charge.Receipt.At != 0 {
			ok = o.Number(charge, receipt.At) && ok
		}
		w.remember(charge, receipt, len(c.charges) > 1)
	}
	return ok
}

func (w *walk) remember(c *oracle.Charge, own *driver.Receipt, together bool) {
	v, asks := c.Verdict, c.Op <= oracle.Peek
	if !isPauseRule(c.Rule) {
		w.left = v.Remaining
	}
	if v.RetryAfter > 0 && v.RetryAfter != oracle.Never {
		w.wait = v.RetryAfter
	}
	if c.Op != oracle.Undo && c.Op != oracle.Renew && own != nil && c.Receipt.At != 0 {
		w.held = append(w.held[max(0, len(w.held)-11):], held{*c, *c.Receipt, *own, w.real, c.Cost})
	}
	for name, is := range map[string]bool{
		"allowed":                            asks && v.Allowed,
		"denied":                             !v.Allowed,
		"never":                              v.RetryAfter == oracle.Never,
		"soft":                               v.Soft,
		"delayed":                            v.Delay > 0,
		"shadow denied":                      c.Rule.Shadow && !v.Allowed,
		"peek denied":                        c.Op == oracle.Peek && !v.Allowed,
		"together":                           together,
		"together denied":                    together && !v.Allowed,
		"at most":                            c.AtMost && v.Allowed,
		"at most denied":                     c.AtMost && !v.Allowed && !c.Rule.Shadow,
		"at most shadow":                     c.AtMost && !v.Allowed && c.Rule.Shadow && c.Cost > 1,
		"credit":                             c.Op == oracle.Credit,
		"undo":                               c.Op == oracle.Undo,
		"undo of nothing":                    c.Op == oracle.Undo && c.Receipt.At == 0,
		"debt":                               c.Op == oracle.Debit && v.Remaining == 0,
		"saturated":                          c.Op == oracle.Debit && c.Cost >= most(oracle.MaxCount),
		"renew":                              c.Op == oracle.Renew && v.Found,
		"by cost renewed":                    c.Op == oracle.Renew && v.Found && c.Rule.ByCost && c.Cost > 1,
		"by cost":                            c.Op == oracle.Spend && v.Allowed && c.Rule.ByCost && c.Cost > 1,
		"by cost denied":                     asks && c.Rule.ByCost && c.Cost > 1 && v.RetryAfter > 0 && v.RetryAfter != oracle.Never,
		"cost that never fits":               asks && c.Rule.ByCost && v.RetryAfter == oracle.Never,
		"smaller cost fits":                  asks && c.Rule.ByCost && !v.Allowed && v.Remaining > 0,
		"at most: " + kindOf(c.Rule):         c.AtMost && v.Allowed && c.Cost > 1,
		"renew of nothing":                   c.Op == oracle.Renew && !v.Found,
		"same time":                          c.Op == oracle.Spend && c.Receipt != nil && c.Receipt.At > w.now && !c.Rule.ByCost,
		"reset of something":                 c.Op == oracle.Reset && v.Found,
		"reset of nothing":                   c.Op == oracle.Reset && !v.Found,
		"headroom: " + kindOf(c.Rule):        c.Rule.Leaves != nil && asks && v.Allowed,
		"headroom denied: " + kindOf(c.Rule): c.Rule.Leaves != nil && !v.Allowed && v.RetryAfter != oracle.Never,
		"headroom of a soft limit":           c.Rule.Leaves != nil && c.Rule.Extra > 0,
		"headroom of a size":                 c.Rule.Leaves != nil && c.Rule.Base != nil,
		"headroom in debt":                   c.Rule.Leaves != nil && isBucketRule(c.Rule) && c.Op == oracle.Debit && v.Remaining == 0,
	} {
		if is {
			w.occurred[name]++
		}
	}
	if isPauseRule(c.Rule) {
		w.rememberPause(c, together)
	}
	if own, ok := c.Calendar.(calendar); ok {
		w.rememberPeriod(c, own)
	}
}

// rememberPause counts the situations of a charge of a pause.
func (w *walk) rememberPause(c *oracle.Charge, together bool) {
	v, closed := c.Verdict, c.Verdict.ResetAfter > 0
	for name, is := range map[string]bool{
		"paused":                   !v.Allowed,
		"paused together":          !v.Allowed && together && !c.Rule.Shadow,
		"paused: at most":          !v.Allowed && c.AtMost && !c.Rule.Shadow,
		"shadow paused":            !v.Allowed && c.Rule.Shadow,
		"not paused":               c.Op == oracle.Spend && v.Allowed,
		"not paused: at most":      c.AtMost && v.Allowed && c.Cost > 1,
		"pause of nothing":         c.Op == oracle.Debit && !closed,
		"longest pause":            c.Op == oracle.Debit && c.Pause == longestPause,
		"credit of a pause":        c.Op == oracle.Credit && closed,
		"undo of a pause":          c.Op == oracle.Undo && closed,
		"pause ended":              c.Op == oracle.Reset && v.Found,
		"a microsecond of a pause": !v.Allowed && v.RetryAfter == 1,
		"paused: peek":             c.Op == oracle.Peek && !v.Allowed,
	} {
		if is {
			w.occurred[name]++
		}
	}
}

// rememberPeriod counts the situations of a charge of a quota with the calendar own.
func (w *walk) rememberPeriod(c *oracle.Charge, own calendar) {
	start, end := own.Period(w.now)
	byCaller, _ := own.Period(w.now + own.ahead)
	for name, is := range map[string]bool{
		"a microsecond before a boundary": w.now == end-1,
		"at a boundary":                   w.now == start,
		"a microsecond after a boundary":  w.now == start+1,
		"clock of the caller ahead":       byCaller > start,
		"clock of the caller behind":      byCaller < start,
		"period of another calendar":      c.Verdict.ResetAfter > 0 && w.now+c.Verdict.Window != end && w.now+c.Verdict.ResetAfter != end,
		"undo of an earlier period":       c.Op == oracle.Undo && 0 < c.Receipt.At && c.Receipt.At < start,
		"rest":                            c.Verdict.Rest > 0,
		"rest of a plan with headroom":    c.Verdict.Rest > 0 && c.Rule.Leaves != nil,
		"taken of a rest":                 c.Op == oracle.Spend && c.Verdict.Rest > 0 && c.Verdict.Allowed,
		"denied in spite of a rest":       c.Verdict.Rest > 0 && !c.Verdict.Allowed,
		"admitted by the next rest":       !c.Verdict.Allowed && c.Cost > c.Rule.Capacity() && c.Verdict.RetryAfter != oracle.Never,
		"undo in spite of a rest":         c.Op == oracle.Undo && c.Verdict.Rest > 0,
	} {
		if is {
			w.occurred[name]++
		}
	}
}
