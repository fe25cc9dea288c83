// Package testkit provides functions for tests. A call that fails ends its test.
package testkit

import (
	"context"
	"fmt"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// An Algorithm makes rules. Name is the text of their [core.Rule.Algorithm].
type Algorithm struct {
	Name string
	Rule func(name string, l core.Limit) core.Rule
}

// Kind returns the facts about the rules of a.
func (a Algorithm) Kind() *driver.Kind { return a.Rule("r", core.PerDay(1)).Kind() }

// Names returns all algorithms of package driver, by which rules of configurations name them. Algorithms are those of
// rates.
func Names() (all []driver.Algorithm) {
	for a := driver.Algorithm(1); a.String() != "none"; a++ {
		all = append(all, a)
	}
	return all
}

// Algorithms contains all algorithms of rates, and the fixed window with FromFirst.
var Algorithms = []Algorithm{
	{"token_bucket", core.TokenBucket},
	{"leaky_bucket", core.LeakyBucket},
	{"fixed_window", core.FixedWindow},
	{"sliding_window", core.SlidingWindow},
	{"sliding_log", core.SlidingLog},
	{"fixed_window_from_first", func(name string, l core.Limit) core.Rule { return core.FixedWindow(name, l).FromFirst() }},
}

// Compiled returns the compiled form of r that a Store gets, or nil if r is invalid, [core.Unlimited] or
// [core.Blocked].
func Compiled(r core.Rule) *driver.Compiled {
	var s lastStore
	if l, err := core.New(&s, r); err == nil {
		_, _ = l.Peek(context.Background(), "k")
	}
	return s.rule
}

// OfPlan returns r with its limit for the callers of a plan.
func OfPlan(t testing.TB, r core.Rule, plan string) core.Rule {
	t.Helper()
	return Limiter(t, new(lastStore), r).Plan(plan).Rules()[0]
}

// A lastStore notes the rule of the last charge, and does not decide.
type lastStore struct{ rule *driver.Compiled }

func (s *lastStore) Take(_ context.Context, charges []driver.Charge) error {
	s.rule = charges[0].Rule
	return driver.ErrUnavailable
}

func (s *lastStore) Adjust(context.Context, []driver.Charge) error { return driver.ErrUnavailable }

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Limiter returns a limiter of rules on s.
func Limiter(t testing.TB, s core.Store, rules ...core.Rule) *core.Limiter {
	t.Helper()
	l, err := core.New(s, rules...)
	Must(t, err)
	return l
}

// Ask returns the decision about n events of key.
func Ask(t testing.TB, l *core.Limiter, key string, n int) core.Decision {
	t.Helper()
	d, err := l.AllowN(t.Context(), key, n)
	if err != nil {
		t.Fatalf("%d events of %.40q: %v", n, key, err)
	}
	return d
}

// Allow returns the decision about one event of key.
func Allow(t testing.TB, l *core.Limiter, key string) core.Decision {
	t.Helper()
	return Ask(t, l, key, 1)
}

// Admit returns the decision about n events of key, which ends the test if it is a denial.
func Admit(t testing.TB, l *core.Limiter, key string, n int) core.Decision {
	t.Helper()
	d := Ask(t, l, key, n)
	if !d.Allowed {
		t.Fatalf("%d events of %.40q were denied: %+v", n, key, d)
	}
	return d
}

// Reserve returns a reservation of n events of key.
func Reserve(t testing.TB, l *core.Limiter, key string, n int) *core.Reservation {
	t.Helper()
	r, err := l.Reserve(t.Context(), key, n)
	Must(t, err)
	return r
}

// Peek returns the decision that an event of key would get now.
func Peek(t testing.TB, l *core.Limiter, key string) core.Decision {
	t.Helper()
	d, err := l.Peek(t.Context(), key)
	Must(t, err)
	return d
}

// Left returns how many events the first rule of l has left for key.
func Left(t testing.TB, l *core.Limiter, key string) int {
	t.Helper()
	return Peek(t, l, key).State(0).Remaining
}

// Used returns how much of the capacity of each rule of l is in use by key.
func Used(t testing.TB, l *core.Limiter, key string) (used []int) {
	t.Helper()
	for _, s := range Peek(t, l, key).States() {
		used = append(used, s.Used())
	}
	return used
}

// Panics reports an error unless f panics with a value whose text is want.
func Panics(t testing.TB, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); got != want {
			t.Errorf("got the panic %q, want %q", got, want)
		}
	}()
	f()
}

// SameRule reports whether a and b are the same rule, or that of a quota with the same rest, which is made for each Verdict.
func SameRule(a, b *driver.Compiled) bool {
	return a == b || a != nil && b != nil && a.Rollover > 0 && a.Definition.Equal(b.Definition) && a.Constants == b.Constants
}
