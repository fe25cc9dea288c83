package oracle

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// Over random walks, the engine gives the answers of the definitions, in every field.
func TestOracle_EqualsEngine(t *testing.T) {
	walks, steps := 1600, 125
	if testing.Short() {
		walks /= 4
	}
	met := make(map[string]int)
	for seed := range uint64(walks) {
		e := newEngine()
		c := comparison{T: t, walk: newWalk(seed, e, met), engine: e}
		for range steps {
			if !c.next() {
				c.Fatalf("walk %d: %s", seed, c.trace[max(0, len(c.trace)-20):])
			}
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

// situations have to be met by the walks, which would compare less than they claim to otherwise.
var situations = []string{
	"allowed", "denied", "never", "soft", "delayed", "shadow denied", "peek denied", "together", "together denied",
	"debt", "saturated", "undo", "undo of a part", "undo twice", "undo after a step back", "undo under another limit",
	"undo of nothing", "credit", "reset of something", "reset of nothing", "step back", "leap", "limit changed", "elastic",
	"freed by an undo: token_bucket", "freed by an undo: leaky_bucket", "freed by an undo: fixed_window",
	"freed by an undo: sliding_log", "freed by an undo: sliding_window",
	"from after now: token_bucket", "from after now: leaky_bucket", "from after now: fixed_window",
	"from after now: sliding_log", "from after now: sliding_window",
}

// A comparison makes the calls of a walk to the engine and to the oracle.
type comparison struct {
	*testing.T
	*walk
	oracle Oracle
	engine *engine
	trace  []fmt.Stringer
}

// next makes the next call, and reports whether the answers are equal.
func (c *comparison) next() (equal bool) {
	charges, asks := c.walk.next()
	call := call{now: c.now, charges: charges}
	answers, receipts, err := c.engine.call(c.now, charges)
	if err != nil {
		c.Fatal(err)
	}
	first := &charges[0]
	before := c.oracle.read(first, c.now)
	if asks {
		c.oracle.Take(c.now, charges)
	} else {
		c.oracle.Adjust(c.now, charges)
	}
	for i := range charges {
		o := &charges[i]
		if o.Verdict != answers[i] {
			call.fault += fmt.Sprintf("\n\t\tcharge %d:\n\t\tgot  %+v\n\t\twant %+v", i, answers[i], o.Verdict)
		}
		if o.Receipt != nil && o.Op != Undo && !same(receipts[i], *o.Receipt) {
			call.fault += fmt.Sprintf("\n\t\tcharge %d:\n\t\tgot  receipt %v\n\t\twant receipt %v", i, receipts[i], *o.Receipt)
		}
	}
	if before.late() {
		c.met["from after now: "+first.Rule.Algorithm]++
	}
	if first.Op == Undo && before.left() != c.oracle.read(first, c.now).left() {
		c.met["freed by an undo: "+first.Rule.Algorithm]++
	}
	c.trace = append(c.trace, call)
	c.remember(charges)
	return call.fault == ""
}

func same(a, b Receipt) bool {
	if a.Used == nil || b.Used == nil {
		return a == b
	}
	return a.At == b.At && a.Age == b.Age && a.Used.Cmp(b.Used) == 0
}

// A call is written down for the case that a later one fails.
type call struct {
	now     int64
	charges []Charge
	fault   string
}

func (c call) String() string {
	text := fmt.Sprintf("\n\tat %d:", c.now)
	for _, o := range c.charges {
		text += fmt.Sprintf("\n\t\top %d of %q, cost %d, max delay %v, %+v", o.Op, o.Key, o.Cost, o.MaxDelay, *o.Rule)
		if o.Receipt != nil {
			text += fmt.Sprintf(", receipt %v of age %d", *o.Receipt, o.Receipt.Age)
		}
	}
	return text + c.fault
}

// A receipt of which a part stays taken is the engine's as well.
func TestReceipt_Keep(t *testing.T) {
	for seed := range uint64(100) {
		e := newEngine()
		w := newWalk(seed, e, make(map[string]int))
		for range 50 {
			c := w.charge()
			c.Receipt = new(Receipt)
			var o Oracle
			o.Adjust(w.now, []Charge{{Rule: c.Rule, Op: Debit, Cost: w.cost(c.Rule.Capacity())}})
			o.Adjust(w.now, []Charge{{Rule: c.Rule, Op: Debit, Cost: c.Cost, Receipt: c.Receipt}})
			rest := 1 + w.rng.Int64N(c.Cost)
			if got, want := e.keep(*c.Receipt, c.Rule, rest), c.Receipt.Keep(c.Rule, rest); !same(got, want) {
				t.Fatalf("%+v, %d kept of %d: got %v, expected %v", *c.Rule, rest, c.Cost, got, want)
			}
		}
	}
}

// RetryAfter, ResetAfter and, for buckets, Window are the least times after which what they say is so.
func TestVerdict_LeastTimes(t *testing.T) {
	for seed := range uint64(200) {
		w := newWalk(seed, newEngine(), make(map[string]int))
		var o Oracle
		for range 100 {
			charges, asks := w.next()
			if asks {
				o.Take(w.now, charges)
			} else {
				o.Adjust(w.now, charges)
			}
			for i := range charges {
				c := &charges[i]
				v := c.Verdict
				if o.read(c, w.now).late() {
					continue // it was not written, so it stays as late as it is
				}
				admitted := func(s state) bool { return s.fits(c.Cost, c.patience()) }
				unused := func(s state) bool { return s.reset() == 0 }
				available := func(s state) bool { return s.left() > c.Rule.soft() }
				for _, field := range []struct {
					name  string
					span  int64
					valid bool
					is    func(state) bool
				}{
					{"RetryAfter", v.RetryAfter, !v.Allowed && v.RetryAfter != Never, admitted},
					{"ResetAfter", v.ResetAfter, true, unused},
					{"Window", v.Window, v.Allowed && v.Remaining == 0 && c.Rule.isBucket() && (asks || o.read(c, w.now).fits(1, Never)), available},
				} {
					if field.valid && (!field.is(o.read(c, w.now+field.span)) || field.span > 0 && field.is(o.read(c, w.now+field.span-1))) {
						t.Fatalf("walk %d: %s of %d is not the least: %v", seed, field.name, field.span, call{now: w.now, charges: charges[i : i+1]})
					}
				}
			}
			w.remember(charges)
		}
	}
}
