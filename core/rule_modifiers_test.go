package core_test

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	goldenRules = "testdata/rules.txt"
	listedRules = 120    // rules whose texts are in the file
	allRules    = 15_000 // rules whose texts are in its hash
)

// Rules that are made by modifiers in random orders have the texts, errors, states and constants of the
// golden file.
func TestRule_ModifiersInAnyOrder(t *testing.T) {
	testkit.WithoutRace(t)
	log := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of unknown plans
	t.Cleanup(func() { slog.SetDefault(log) })
	rnd := rand.New(rand.NewPCG(49, 1))
	hash := fnv.New64a()
	var b strings.Builder
	for i := range allRules {
		r, steps := randomRule(rnd)
		text := describe(r, steps)
		if again := describe(core.NewRule(r.Spec()), steps); again != text {
			t.Fatalf("the rule of the Spec of a rule:\ngot  %s\nwant %s", again, text)
		}
		if hash.Write([]byte(text)); i < listedRules {
			b.WriteString(text)
		}
	}
	got := fmt.Sprintf("%sFNV-1a of %d rules: %x\n", b.String(), allRules, hash.Sum64())
	if *update {
		testkit.Must(t, os.WriteFile(goldenRules, []byte(got), 0o644))
	}
	want, err := os.ReadFile(goldenRules)
	testkit.Must(t, err)
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("line %d:\ngot  %s\nwant %s", i+1, gotLines[i], wantLines[i])
		}
	}
	t.Fatalf("got %d lines, want %d", len(gotLines), len(wantLines))
}

// describe returns the texts of the steps, of the error of New, and of the rule for each plan.
func describe(r core.Rule, steps []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\t%v\n", strings.Join(steps, " "), r)
	l, err := core.New(memstore.New(), r)
	if err != nil {
		return b.String() + "\terror: " + err.Error() + "\n"
	}
	for _, plan := range []string{"", "a", "b", "c"} {
		of := l.Plan(plan).Rules()[0]
		capacity := int64(of.Capacity())
		if of.Limit() == core.Unlimited {
			capacity = math.MaxInt64 // also on systems of 32 bits
		}
		fmt.Fprintf(&b, "\t%q: %v, capacity %d", plan, of, capacity)
		if c := testkit.Compiled(of); c != nil {
			k := c.Constants
			k.Periods = driver.Periods{} // those of now
			fmt.Fprintf(&b, ", %s %x %v", c.StateName, c.ID, k)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// randomRule returns a random rule and the texts of the steps that made it. About half of the rules are valid.
func randomRule(rnd *rand.Rand) (r core.Rule, steps []string) {
	pick := func(n int) int { return rnd.IntN(n) }
	kind := pick(7)
	limit := func() core.Limit {
		switch pick(30) {
		case 0:
			return core.Unlimited
		case 1:
			return core.Blocked
		case 2:
			return core.Limit{}
		case 3:
			return core.Per(1+pick(100), time.Duration(1+pick(3000))*time.Millisecond)
		}
		n := []int{1, 2, 3, 5, 10, 60, 100, 500}[pick(8)]
		switch {
		case kind == 5:
			return core.Limit{Events: n}
		case kind == 6:
			return []core.Limit{core.Daily(n), core.Weekly(n), core.Monthly(n)}[pick(3)]
		}
		l := core.Per(n, []time.Duration{time.Second, time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour, 20 * 365 * 24 * time.Hour}[pick(41)%6])
		if pick(3) == 0 && (kind < 2 || pick(10) == 0) {
			l = l.WithBurst(1 + pick(3*n))
		}
		return l
	}
	l := limit()
	switch kind {
	case 0:
		r = core.TokenBucket("r", l)
	case 1:
		r = core.LeakyBucket("r", l)
	case 2:
		r = core.FixedWindow("r", l)
	case 3:
		r = core.SlidingLog("r", l)
	case 4:
		r = core.SlidingWindow("r", l)
	case 5:
		r = core.InFlight("r", 1+pick(9))
	case 6:
		r = core.Quota("r", l)
	}
	steps = append(steps, fmt.Sprintf("%v %v", r.Algorithm(), r.Limit()))
	names := []string{"a", "b", "c"}
	berlin := time.FixedZone("Berlin", 3600)
	for range pick(6) {
		var step string
		switch op := pick(17); op {
		case 0, 1:
			p := []float64{0, 10, 33.3, 50, 100}[pick(5)]
			r, step = r.Soft(p), fmt.Sprint("soft ", p)
		case 2:
			r, step = r.Shadow(), "shadow"
		case 3:
			n := pick(8)
			if kind == 4 || pick(10) == 0 {
				r, step = r.SubWindows(n*16), fmt.Sprint("sub-windows ", n*16)
			}
		case 4:
			d := time.Duration(1+pick(90)) * time.Second
			if kind == 5 || pick(10) == 0 {
				r, step = r.Hold(d), fmt.Sprint("hold ", d)
			}
		case 5:
			d := time.Duration(pick(4)) * time.Minute
			if kind == 5 || pick(10) == 0 {
				r, step = r.MaxHold(d), fmt.Sprint("max hold ", d)
			}
		case 6:
			if kind == 6 || pick(10) == 0 {
				r, step = r.In(berlin), "in Berlin"
			}
		case 7:
			if kind == 6 || pick(10) == 0 {
				r = r.Anchor(func(context.Context, string) time.Time { return time.Time{} })
				step = "anchor"
			}
		case 8, 9, 10:
			name, l := names[pick(3)], limit()
			r, step = r.Plan(name, l), fmt.Sprintf("plan %s %v", name, l)
		case 11, 12:
			name, p := names[pick(3)], []float64{0, 10, 20, 99}[pick(4)]
			r, step = r.Headroom(name, p), fmt.Sprintf("headroom %s %v", name, p)
		case 13:
			spare, up := 0.0, []float64{1, 2, 3.5, 10}[pick(4)]
			if kind == 5 {
				spare, up = 1, []float64{0.5, 0.1, 1, 2}[pick(4)]
			}
			r, step = r.Elastic(func() float64 { return spare }, up), fmt.Sprint("elastic ", up)
		case 14, 15:
			n := pick(12)
			r, step = r.Divide(n), fmt.Sprint("divide ", n)
		case 16:
			u := []string{"tokens", "bytes", ""}[pick(3)]
			r, step = r.Unit(u), fmt.Sprintf("unit %q", u)
		}
		if step != "" {
			steps = append(steps, step)
		}
	}
	return r, slices.Clip(steps)
}
