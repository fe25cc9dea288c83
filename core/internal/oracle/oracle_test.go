package oracle

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// Over random walks, the engine gives the answers of the definitions, in every field.
func TestOracle_EqualsEngine(t *testing.T) {
	walks, steps := 1600, 125
	if testing.Short() {
		walks /= 4
	}
	met := make(map[string]int)
	for seed := range uint64(walks) {
		w := newWalk(t, seed, met)
		for w.step = range steps {
			w.next()
		}
	}
	for _, name := range situations {
		if met[name] < walks/8 {
			t.Errorf("got %d times %q in %d walks, expected at least %d", met[name], name, walks, walks/8)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%8d %s", met[name], name)
	}
}

// situations must all be met by the walks, or they check less than they claim to.
var situations = []string{
	"allowed", "denied", "never", "soft", "delayed", "shadow denied", "peek denied", "together", "together denied",
	"debt", "saturated", "undo", "undo of a part", "undo twice", "undo after a step back", "undo under another limit",
	"undo of nothing", "credit", "reset of something", "reset of nothing", "step back", "leap", "limit changed",
	"elastic",
	"events freed by an undo of a token_bucket", "events freed by an undo of a leaky_bucket",
	"events freed by an undo of a fixed_window", "events freed by an undo of a sliding_log",
	"events freed by an undo of a sliding_window", "state after now of a token_bucket",
	"state after now of a leaky_bucket", "state after now of a fixed_window",
	"state after now of a sliding_log", "state after now of a sliding_window",
}

// A walk is a random sequence of calls to the engine and the oracle.
type walk struct {
	*testing.T
	rng    *rand.Rand
	seed   uint64
	step   int
	engine *engine
	oracle Oracle
	now    int64 // of the clock of the stores
	real   int64 // of a clock that never steps
	steady bool  // the clock does not step back, so more charges can be undone
	wait   int64 // the last RetryAfter
	left   int64 // the last Remaining
	names  [][]limit
	force  []int // the limit in force of every name
	held   []held
	trace  [][]core.Charge
	times  []int64 // of the calls in trace
	met    map[string]int
}

// A limit is a rule in both forms.
type limit struct {
	core core.Rule
	rule *Rule
}

// A held charge can be undone.
type held struct {
	name, variant int
	core          core.Charge
	receipt       core.Receipt // of the engine
	own           Receipt      // of the oracle
	at            int64        // by the clock that never steps
	cost          int64        // what has not been undone
}

func newWalk(t *testing.T, seed uint64, met map[string]int) *walk {
	w := &walk{T: t, rng: rand.New(rand.NewPCG(seed, 11)), seed: seed, engine: newEngine(), met: met, steady: seed%3 == 0}
	w.now = 1_700_000_000_000_000 + w.rng.Int64N(1e15)
	for i := range 3 {
		var variants []limit
		for len(variants) == 0 {
			variants = w.variants(fmt.Sprint("rule", i))
		}
		w.names, w.force = append(w.names, variants), append(w.force, 0)
	}
	return w
}

func pick[T any](w *walk, from ...T) T { return from[w.rng.IntN(len(from))] }

func (w *walk) one(in int) bool { return w.rng.IntN(in) == 0 }

// variants are limits that one name has, one after the other. None is returned if a store would
// refuse them all.
func (w *walk) variants(name string) (all []limit) {
	algorithm := pick(w, core.TokenBucket, core.LeakyBucket, core.FixedWindow, core.SlidingLog, core.SlidingWindow)
	events := pick(w, 1, 2, 3, 7, 10, 13, 25, 60, 100, 997, 1_000_003, 1<<47+1, 1<<48-1)
	per := pick(w, 1, 3, 1000, 7000, 1_000_000, 11_000_000, 60_000_000, 3_600_000_000, 86_400_000_000,
		365*86_400_000_000, Horizon)
	shadow := w.one(5)
	for range 1 + w.rng.IntN(4) {
		l := core.Limit{Events: events, Per: time.Duration(per) * time.Microsecond}
		if len(all) > 0 || w.one(4) {
			l.Events = min(max(1, l.Events*pick(w, 1, 2, 3)/pick(w, 1, 1, 2, 3)), 1<<48-1)
			l.Per = time.Duration(max(1, per/pick[int64](w, 1, 1, 2, 3, 100)*pick[int64](w, 1, 1, 2))) * time.Microsecond
		}
		if w.one(2) {
			l.Burst = pick(w, 1, 2, 5, 20, 1000, l.Events)
		}
		rule := algorithm(name, l)
		if a := rule.Algorithm(); a != core.AlgorithmTokenBucket && a != core.AlgorithmLeakyBucket {
			l.Burst = 0
			rule = algorithm(name, l)
		}
		if rule.Algorithm() == core.AlgorithmSlidingWindow && !w.one(3) {
			rule = rule.SubWindows(pick(w, 1, 2, 3, 7, 10, 120))
		}
		if w.one(3) {
			rule = rule.Soft(pick(w, 7.5, 10, 50, 33.3, 300))
		}
		if shadow {
			rule = rule.Shadow()
		}
		if !runs(rule) {
			continue
		}
		all = append(all, limit{rule, ruleOf(rule, nil)})
		if w.one(4) {
			all = append(all, w.elastic(all[len(all)-1])...)
		}
	}
	return all
}

// runs reports whether a store accepts the rule.
func runs(r core.Rule) bool { return core.CheckCharges([]core.Charge{{Rule: r, Cost: 1}}) == nil }

// elastic are the enlarged forms of a limit.
func (w *walk) elastic(base limit) (all []limit) {
	spare := 0.0
	rule := base.core.Elastic(func() float64 { return spare }, pick(w, 1.5, 2, 3.7, 10))
	if !runs(rule) {
		return nil
	}
	l, err := core.New(newEngine().store, rule)
	if err != nil {
		w.Fatal(err)
	}
	for _, spare = range []float64{0.3, 1} {
		d, err := l.Peek(context.Background(), "k")
		if err != nil {
			w.Fatal(err)
		}
		enlarged := d.State(0).Rule
		var elasticBase *Rule
		if base.rule.isBucket() {
			elasticBase = base.rule
		}
		all = append(all, limit{enlarged, ruleOf(enlarged, elasticBase)})
		w.met["elastic"]++
	}
	return all
}

// next moves the clock, maybe changes a limit, makes a call, and compares.
func (w *walk) next() {
	w.advance()
	if name := w.rng.IntN(len(w.names)); w.one(20) && len(w.names[name]) > 1 {
		w.force[name] = w.rng.IntN(len(w.names[name]))
		w.met["limit changed"]++
	}
	charges, own := w.asks, w.oracle.Take
	if w.one(4) {
		charges, own = w.tells, w.oracle.Adjust
	}
	got, want := charges()
	w.trace, w.times = append(w.trace, got), append(w.times, w.now)
	found, before := make([]bool, len(got)), make([]state, len(got))
	for i := range got {
		before[i] = w.oracle.read(&want[i], w.now)
		if got[i].Op == core.Reset {
			var err error
			if found[i], err = w.engine.inUse(w.now, got[i]); err != nil {
				w.fail("%v", err)
			}
		}
	}
	if err := w.engine.take(w.now, got); err != nil {
		w.fail("%v", err)
	}
	own(w.now, want)
	for i := range got {
		if d := differ(&got[i], &want[i]); d != "" {
			w.fail("charge %d: %s", i, d)
		}
		if want[i].Verdict.Found != found[i] {
			w.fail("charge %d: got in use %v, want %v", i, found[i], want[i].Verdict.Found)
		}
		if want[i].Op == Undo && before[i].left() != w.oracle.read(&want[i], w.now).left() {
			w.met["events freed by an undo of a "+want[i].Rule.Algorithm]++
		}
		if before[i].late() {
			w.met["state after now of a "+want[i].Rule.Algorithm]++
		}
		w.remember(&got[i], &want[i], len(got))
	}
}

// remember notes the answer for the calls to come.
func (w *walk) remember(got *core.Charge, want *Charge, together int) {
	v := want.Verdict
	w.left = v.Remaining
	if v.RetryAfter > 0 && v.RetryAfter != Never {
		w.wait = v.RetryAfter
	}
	if m := want.Receipt; m != nil && want.Op != Undo && m.At != 0 {
		name, variant := w.find(want.Rule)
		w.held = append(w.held[max(0, len(w.held)-11):], held{name, variant, *got, *got.Receipt, *m, w.real, want.Cost})
	}
	asks := want.Op <= Peek
	for name, is := range map[string]bool{
		"allowed":            asks && v.Allowed,
		"denied":             asks && !v.Allowed,
		"never":              v.RetryAfter == Never,
		"soft":               v.Soft,
		"delayed":            v.Delay > 0,
		"shadow denied":      want.Rule.Shadow && !v.Allowed,
		"peek denied":        want.Op == Peek && !v.Allowed,
		"together":           together > 1,
		"together denied":    together > 1 && !v.Allowed,
		"credit":             want.Op == Credit,
		"debt":               want.Op == Debit && v.Remaining == 0,
		"saturated":          want.Op == Debit && want.Cost >= MaxCount,
		"reset of something": v.Found,
		"reset of nothing":   want.Op == Reset && !v.Found,
	} {
		if is {
			w.met[name]++
		}
	}
}

func (w *walk) find(r *Rule) (name, variant int) {
	for name := range w.names {
		for variant := range w.names[name] {
			if w.names[name][variant].rule == r {
				return name, variant
			}
		}
	}
	panic("a rule that is not of this walk")
}

// advance moves the clock: mostly by a part of a period, also to the edges of what the last answer
// said, back, to times that were before, and far ahead.
func (w *walk) advance() {
	name := w.rng.IntN(len(w.names))
	per := w.names[name][w.force[name]].rule.Per
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
		d = per - w.now%per - pick[int64](w, 0, 1) // an edge
	case 9:
		if w.one(2) {
			d = -1 - w.rng.Int64N(per)/pick[int64](w, 1, 1, 10, 1000)
		}
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
	const first, last = 1_600_000_000_000_000, 5_838_000_000_000_000
	if w.now+d < first || w.now+d > last || w.steady && d < 0 {
		return
	}
	if d < 0 {
		w.met["step back"]++
	}
	w.now += d
	if d > 0 {
		w.real += d
	} else {
		w.real += pick(w, 0, 0, 1, per/3) // the clock was set back while time passed
	}
}

// asks are Spends and Peeks of one to four states.
func (w *walk) asks() (got []core.Charge, want []Charge) {
	for range 1 + w.rng.IntN(4)*w.rng.IntN(2) {
		c, o := w.charge(core.Spend)
		if w.one(6) {
			c.Op = core.Peek
		} else if w.one(2) {
			c.Receipt, o.Receipt = new(core.Receipt), new(Receipt)
		}
		if w.one(4) {
			c.MaxDelay = pick(w, 1, time.Microsecond, c.Rule.Limit().Per/3, time.Duration(w.wait)*time.Microsecond)
		}
		o.Op, o.MaxDelay = ops[c.Op], c.MaxDelay
		got, want = with(got, want, c, o)
	}
	return got, want
}

// tells are charges that cannot be denied, of one to three states.
func (w *walk) tells() (got []core.Charge, want []Charge) {
	for len(got) == 0 || w.one(3) {
		c, o := w.charge(pick(w, core.Credit, core.Debit, core.Debit, core.Reset, core.Undo, core.Undo, core.Undo, core.Undo))
		switch {
		case c.Op == core.Debit && !w.one(3):
			c.Receipt, o.Receipt = new(core.Receipt), new(Receipt)
		case c.Op == core.Undo && len(w.held) > 0 && !w.one(20):
			c, o = w.undo()
		case c.Op == core.Undo:
			if !knowsZero(o.Rule, o.Cost, w.now) {
				continue
			}
			c.Receipt, o.Receipt = new(core.Receipt), new(Receipt)
			w.met["undo of nothing"]++
		}
		got, want = with(got, want, c, o)
	}
	return got, want
}

// undo undoes a charge, or part of it, and sometimes again what was undone.
func (w *walk) undo() (core.Charge, Charge) {
	at := len(w.held) - 1 // the newest, mostly: older ones seldom count still
	if w.one(3) {
		at = w.rng.IntN(len(w.held))
	}
	h := &w.held[at]
	l := w.names[h.name][h.variant]
	cost := h.cost
	if cost > 1 && w.one(3) {
		cost = 1 + w.rng.Int64N(cost)
		w.met["undo of a part"]++
	}
	rest := h.cost - cost
	receipt, own := h.receipt, h.own
	if rest > 0 {
		receipt, own = keep(receipt, l.core, rest), own.Keep(l.rule, rest)
	}
	receipt.Age = pick(w, 0, w.real-h.at, w.real-h.at, (w.real-h.at)/2)
	own.Age = receipt.Age
	if own.stepped(w.now) {
		w.met["undo after a step back"]++
	}
	if force := w.force[h.name]; force != h.variant {
		w.met["undo under another limit"]++
		if other := w.names[h.name][force]; readsReceipt(l.rule, other.rule) {
			l = pick(w, l, other)
		}
	}
	c := core.Charge{Key: h.core.Key, Rule: l.core, Op: core.Undo, Cost: int(cost), Receipt: &receipt}
	o := Charge{Key: h.core.Key, Rule: l.rule, Op: Undo, Cost: cost, Receipt: &own}
	w.met["undo"]++
	if h.cost = rest; w.one(8) {
		h.cost += cost
		w.met["undo twice"]++
	}
	if h.cost == 0 {
		w.held = slices.Delete(w.held, at, at+1)
	}
	return c, o
}

// charge is a charge of one of the states, under the limit in force.
func (w *walk) charge(op core.Op) (core.Charge, Charge) {
	name := w.rng.IntN(len(w.names))
	l, key := w.names[name][w.force[name]], pick(w, "a", "b")
	cost := w.cost(l.rule.capacity())
	return core.Charge{Key: key, Rule: l.core, Op: op, Cost: int(cost)}, Charge{Key: key, Rule: l.rule, Op: ops[op], Cost: cost}
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

// with adds a charge, unless there is one of the same state already.
func with(got []core.Charge, want []Charge, c core.Charge, o Charge) ([]core.Charge, []Charge) {
	for i := range want {
		if want[i].Key == o.Key && want[i].Rule.Name == o.Rule.Name {
			return got, want
		}
	}
	return append(got, c), append(want, o)
}

func (w *walk) fail(format string, args ...any) {
	w.Helper()
	for i := max(0, len(w.trace)-20); i < len(w.trace); i++ {
		w.Logf("at %d:", w.times[i])
		for _, c := range w.trace[i] {
			w.Logf("  op %d, %q, %v, cost %d, receipt %+v: %+v", c.Op, c.Key, c.Rule, c.Cost, c.Receipt, c.State)
		}
	}
	w.Fatalf("walk %d, step %d: %s", w.seed, w.step, fmt.Sprintf(format, args...))
}
