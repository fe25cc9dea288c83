package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/reference"
)

// A history has so many steps. There are fewer histories in `go test -short`, and
// as many as WEIR_HISTORIES says if that is set.
const (
	count = 20
	steps = 250
)

func numberOfHistories(s *subject) int {
	if text := os.Getenv("WEIR_HISTORIES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			s.fail("WEIR_HISTORIES: %v", err)
		}
		return n
	}
	if testing.Short() {
		return count / 4
	}
	return count
}

// lastDay is the end of the year 2154: times stay below 2^53 microseconds.
const lastDay = 5_838_000_000_000_000

// histories compares the subject with the reference Store.
func histories(s *subject) {
	for seed := range uint64(numberOfHistories(s)) {
		s.Harness = s.newHarness(s.T)
		h := newHistory(s, seed)
		for h.step = range steps {
			h.next()
		}
	}
}

// A history is a random walk that the subject and the reference Store take together.
type history struct {
	s     *subject
	model *reference.Store
	now   int64 // of the clock of both, in Unix microseconds
	rng   *rand.Rand
	seed  uint64
	step  int
	rules []core.Rule
	other []core.Rule // the rules with another limit, as an elastic one has now and then
	held  []held
	keys  []string
	real  time.Duration // by a clock that never steps
	wait  time.Duration // the RetryAfter that was heard last
	trace []string
}

// What is held is a charge that can be undone.
type held struct {
	charge  driver.Charge
	receipt driver.Receipt
	at      time.Duration // by the clock that never steps
}

func newHistory(s *subject, seed uint64) *history {
	h := &history{s: s, now: s.Now().UnixMicro(), rng: rand.New(rand.NewPCG(seed, 7)), seed: seed}
	h.model = reference.New(func() int64 { return h.now })
	for len(h.rules) < 4 {
		rule := h.rule(fmt.Sprintf("%d.%d", seed, len(h.rules)))
		if !runs(rule) {
			continue
		}
		if other := h.changed(rule); runs(other) { // a burst of 1000 at one a year is refused
			h.rules, h.other = append(h.rules, rule), append(h.other, other)
		}
	}
	for i := range 3 {
		h.keys = append(h.keys, fmt.Sprintf("key %d", i))
	}
	return h
}

// runs says whether a store runs the rule.
func runs(r core.Rule) bool {
	return r.Compiled() != nil
}

func pick[T any](h *history, from ...T) T { return from[h.rng.IntN(len(from))] }

func (h *history) rule(name string) core.Rule {
	limit := core.Limit{
		Events: pick(h, 1, 2, 3, 7, 10, 13, 25, 60, 100, 997),
		Per: pick(h, time.Microsecond, 3*time.Microsecond, time.Millisecond, 7*time.Millisecond, time.Second,
			11*time.Second, time.Minute, time.Hour, 24*time.Hour, 365*24*time.Hour),
	}
	a := pick(h, algorithms...)
	if strings.HasSuffix(a.name, "_bucket") && h.rng.IntN(2) == 0 {
		limit.Burst = pick(h, 1, 2, 5, 20, 1000)
	}
	rule := a.rule(name, limit)
	if a.name == "sliding_window" && h.rng.IntN(2) == 0 {
		rule = rule.SubWindows(pick(h, 1, 2, 7, 100))
	}
	if h.rng.IntN(3) == 0 {
		rule = rule.Soft(pick(h, 7.5, 10, 50, 300))
	}
	if h.rng.IntN(5) == 0 {
		rule = rule.Shadow()
	}
	return rule
}

// changed is the rule with another limit.
func (h *history) changed(r core.Rule) core.Rule {
	l := r.Limit()
	l.Events *= pick(h, 1, 2, 3)
	l.Burst *= pick(h, 1, 2)
	for _, a := range algorithms {
		if a.name != r.Algorithm().String() {
			continue
		}
		changed := a.rule(r.Name(), l)
		if n := r.Compiled().Definition().SubWindows; n > 0 {
			changed = changed.SubWindows(n)
		}
		if r.IsShadow() {
			changed = changed.Shadow()
		}
		return changed
	}
	panic("storetest: an algorithm without a name")
}

// next moves the clock, asks both, and compares.
func (h *history) next() {
	h.advance()
	charges := h.charges()
	want := slices.Clone(charges)
	for i := range want {
		if m := want[i].Receipt; m != nil {
			want[i].Receipt = new(driver.Receipt)
			*want[i].Receipt = *m
		}
	}
	h.note("%v", describe(charges))
	if err := Do(context.Background(), h.model, want); err != nil {
		h.fail("the reference Store: %v", err)
	}
	if err := Do(context.Background(), h.s.Store, charges); err != nil {
		h.fail("Take: %v", err)
	}
	for i := range want {
		h.compare(&charges[i], &want[i])
	}
}

func (h *history) compare(got, want *driver.Charge) {
	if got.Verdict != want.Verdict {
		h.fail("%v:\n\tgot  %+v\n\twant %+v", describe([]driver.Charge{*got}), got.Verdict, want.Verdict)
	}
	if r := want.Verdict.RetryAfter; r > 0 && r != core.Never {
		h.wait = r
	}
	if want.Receipt == nil || want.Op == driver.Undo || *want.Receipt == (driver.Receipt{}) {
		return
	}
	if *got.Receipt != *want.Receipt {
		h.fail("%v:\n\tgot  receipt %+v\n\twant receipt %+v", describe([]driver.Charge{*got}), *got.Receipt, *want.Receipt)
	}
	h.held = append(h.held, held{*got, *got.Receipt, h.real})
}

func (h *history) advance() {
	var d time.Duration
	per := h.rules[h.rng.IntN(len(h.rules))].Limit().Per
	switch h.rng.IntN(12) {
	case 0, 1, 2, 3:
	case 4:
		d = time.Microsecond
	case 5:
		d = h.wait
	case 6:
		d = max(0, h.wait-time.Microsecond)
	case 7:
		d = -time.Duration(h.rng.Int64N(int64(per))) / pick[time.Duration](h, 1, 1000)
	case 8:
		d = per
	case 9:
		d = per - time.Microsecond
	default:
		d = time.Duration(h.rng.Int64N(int64(per))) / pick[time.Duration](h, 1, 10, 1000)
	}
	if h.s.GivesBack && d < 0 || h.now+d.Microseconds() > lastDay {
		d = 0
	}
	d = d.Truncate(time.Microsecond)
	h.now += d.Microseconds()
	h.real += max(0, d)
	h.s.Advance(d)
	h.note("advance %v", d)
}

// charges are one to four, no two of the same rule and key.
func (h *history) charges() []driver.Charge {
	var charges []driver.Charge
	tells := h.rng.IntN(5) == 0
	for range 1 + h.rng.IntN(4)*h.rng.IntN(2) {
		c := h.asking()
		if tells {
			c = h.telling(c)
		}
		taken := slices.ContainsFunc(charges, func(o driver.Charge) bool {
			return o.Key == c.Key && o.Rule.Name() == c.Rule.Name()
		})
		if !taken {
			charges = append(charges, c)
		}
	}
	return charges
}

func (h *history) asking() driver.Charge {
	i := h.rng.IntN(len(h.rules))
	c := driver.Charge{Key: pick(h, h.keys...), Rule: h.rules[i].Compiled()}
	if h.rng.IntN(10) == 0 {
		c.Rule = h.other[i].Compiled()
	}
	c.Cost = h.cost(int(c.Rule.Capacity() - c.Rule.Constants().Extra))
	if h.rng.IntN(6) == 0 {
		c.MaxDelay = pick(h, 1, time.Microsecond, c.Rule.Definition().Per/3)
	}
	if h.rng.IntN(8) == 0 {
		c.Op = driver.Peek
	} else if h.rng.IntN(3) == 0 {
		c.Receipt = new(driver.Receipt)
	}
	return c
}

// telling turns c into a charge that cannot be denied.
func (h *history) telling(c driver.Charge) driver.Charge {
	c.Receipt, c.MaxDelay = nil, 0
	c.Op = pick(h, driver.Credit, driver.Debit, driver.Undo, driver.Undo, driver.Undo, driver.Reset)
	switch {
	case c.Op == driver.Undo && len(h.held) > 0:
		i := h.rng.IntN(len(h.held))
		back := h.held[i]
		if c = back.charge; h.rng.IntN(4) > 0 { // and sometimes twice
			h.held = slices.Delete(h.held, i, i+1)
		}
		c.Op, c.Verdict, c.MaxDelay = driver.Undo, driver.Verdict{}, 0
		if c.Cost = min(c.Cost, 1+h.rng.IntN(c.Cost)*2); c.Cost < back.charge.Cost {
			back.receipt = c.Rule.Keep(back.receipt, int64(back.charge.Cost-c.Cost))
		}
		back.receipt.Age = (h.real - back.at).Microseconds()
		c.Receipt = &back.receipt
	case c.Op == driver.Undo:
		c.Op = driver.Credit
	case c.Op == driver.Debit && h.rng.IntN(2) == 0:
		c.Receipt = new(driver.Receipt)
	}
	return c
}

func (h *history) cost(capacity int) int {
	switch h.rng.IntN(8) {
	case 0:
		return capacity
	case 1:
		return capacity + 1
	case 2:
		return 1 + h.rng.IntN(capacity)
	case 3:
		return 1 << h.rng.IntN(strconv.IntSize-1)
	}
	return 1
}

func (h *history) note(format string, args ...any) {
	h.trace = append(h.trace, fmt.Sprintf(format, args...))
}

func (h *history) fail(format string, args ...any) {
	h.s.Helper()
	last := h.trace[max(0, len(h.trace)-30):]
	for _, line := range last {
		h.s.Log(line)
	}
	h.s.fail("history %d, step %d: %s", h.seed, h.step, fmt.Sprintf(format, args...))
}

func describe(charges []driver.Charge) []string {
	var out []string
	for _, c := range charges {
		out = append(out, fmt.Sprintf("{%s op %d, %q, cost %d}", c.Rule, c.Op, c.Key, c.Cost))
	}
	return out
}
