package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// Histories are longer outside `go test -short`.
const (
	runs  = 20
	steps = 250
)

// lastDay is the end of the year 2154: times stay below 2^53 microseconds.
const lastDay = 5_838_000_000_000_000

// histories compares the subject with the model.
func histories(s *subject) {
	n := runs
	if testing.Short() {
		n /= 4
	}
	for seed := range uint64(n) {
		s.Harness = s.newHarness(s.T)
		h := newHistory(s, seed)
		for h.step = range steps {
			h.next()
		}
	}
}

// A history is a random walk that the subject and the model take together.
type history struct {
	s     *subject
	m     *model
	rng   *rand.Rand
	seed  uint64
	step  int
	rules []core.Rule
	keys  []string
	wait  time.Duration // the RetryAfter that was heard last
	trace []string
}

func newHistory(s *subject, seed uint64) *history {
	h := &history{s: s, m: newModel(s.Now().UnixMicro()), rng: rand.New(rand.NewPCG(seed, 7)), seed: seed}
	for len(h.rules) < 4 {
		rule := h.rule(fmt.Sprintf("%d.%d", seed, len(h.rules)))
		if _, err := core.New(s.Store, rule); err == nil { // a burst of 1000 at one a year is refused
			h.rules = append(h.rules, rule)
		}
	}
	for i := range 3 {
		h.keys = append(h.keys, fmt.Sprintf("key %d", i))
	}
	return h
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
	return rule
}

// next moves the clock, asks both, and compares.
func (h *history) next() {
	h.advance()
	charges := h.charges()
	want := slices.Clone(charges)
	h.m.take(want)
	h.note("%v", describe(charges))
	if err := h.s.Store.Take(context.Background(), charges); err != nil {
		h.fail("Take: %v", err)
	}
	for i := range want {
		if charges[i].State != want[i].State {
			h.fail("charge %d of %v:\n\tgot  %+v\n\twant %+v", i, describe(charges), charges[i].State, want[i].State)
		}
		if r := want[i].State.RetryAfter; r > 0 && r != core.Never {
			h.wait = r
		}
	}
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
	if h.s.GivesBack && d < 0 || h.m.now+d.Microseconds() > lastDay {
		d = 0
	}
	d = d.Truncate(time.Microsecond)
	h.m.now += d.Microseconds()
	h.s.Advance(d)
	h.note("advance %v", d)
}

// charges are one to four, no two of the same rule and key.
func (h *history) charges() []core.Charge {
	var charges []core.Charge
	refund := h.rng.IntN(10) == 0
	for range 1 + h.rng.IntN(4)*h.rng.IntN(2) {
		r := &h.rules[h.rng.IntN(len(h.rules))]
		c := core.Charge{Key: pick(h, h.keys...), Rule: r, Cost: h.cost(r.Capacity())}
		if refund {
			c.Op = core.Refund
		} else if h.rng.IntN(8) == 0 {
			c.Op = core.Peek
		}
		taken := slices.ContainsFunc(charges, func(o core.Charge) bool { return o.Key == c.Key && o.Rule == c.Rule })
		if !taken {
			charges = append(charges, c)
		}
	}
	return charges
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
		return 1 << h.rng.IntN(63)
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

func describe(charges []core.Charge) []string {
	var out []string
	for _, c := range charges {
		out = append(out, fmt.Sprintf("{%s op %d, %q, cost %d}", c.Rule, c.Op, c.Key, c.Cost))
	}
	return out
}
