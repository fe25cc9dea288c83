package lease_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A fixture has a Store behind with a round trip, for one or more leasing processes, in a bubble
// of testing/synctest. Its key is "k".
type fixture struct {
	*testing.T
	memory *memstore.Store // decides, without a delay
	behind *storetest.Fake // calls memory, by default after the delay trip, and answers after another
}

const trip = time.Millisecond

// bubble runs f with a new fixture.
func bubble(t *testing.T, f func(x *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &fixture{T: t, memory: memstore.New()}
		x.behind = &storetest.Fake{Store: x.memory}
		x.behind.Set(storetest.Delay(trip, trip))
		f(x)
	})
}

// goroutines returns the number of goroutines of the bubble. Those of other tests may end at any time.
func (x *fixture) goroutines() int {
	stacks := make([]byte, 1<<20)
	own := synctestBubble.Find(stacks[:runtime.Stack(stacks, false)])
	if own == nil {
		x.Fatal("the stack names no bubble")
	}
	own = bytes.Clone(own)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], own)
}

// synctestBubble matches the end of the first line of a goroutine's stack.
var synctestBubble = regexp.MustCompile(`synctest bubble \d+\]`)

// bubbleEach runs f in a subtest for each of rules.
func bubbleEach(t *testing.T, rules []core.Rule, f func(x *fixture, rule core.Rule)) {
	t.Helper()
	t.Parallel()
	for _, rule := range rules {
		t.Run(rule.Name(), func(t *testing.T) {
			t.Helper()
			t.Parallel()
			bubble(t, func(x *fixture) { f(x, rule) })
		})
	}
}

// lease returns the Store of one process.
func (x *fixture) lease(opts ...lease.Option) *lease.Store {
	s := lease.New(x.behind, opts...)
	x.Cleanup(func() { _ = s.Close() })
	return s
}

// overDenycache returns the Store of one process, over a denycache.
func (x *fixture) overDenycache() *lease.Store {
	s := lease.New(denycache.New(x.behind))
	x.Cleanup(func() { _ = s.Close() })
	return s
}

func (x *fixture) limiter(s core.Store, rules ...core.Rule) *core.Limiter {
	x.Helper()
	return testkit.Limiter(x, s, rules...)
}

func (x *fixture) ask(l *core.Limiter, n int) core.Decision {
	x.Helper()
	return testkit.Ask(x, l, "k", n)
}

// admit asks for n single events, which have to be admitted.
func (x *fixture) admit(l *core.Limiter, n int) {
	x.Helper()
	for range n {
		testkit.Admit(x, l, "k", 1)
	}
}

// drain asks for single events until one is denied, and returns the number of the others.
func (x *fixture) drain(l *core.Limiter) (n int) {
	x.Helper()
	for x.ask(l, 1).Allowed {
		n++
	}
	return n
}

// left returns the number of events that the Store behind has left.
func (x *fixture) left(rule core.Rule) int {
	x.Helper()
	return testkit.Left(x, x.limiter(x.memory, rule), "k")
}

// hold asks s for single events until it holds tokens, and returns their number.
func (x *fixture) hold(s *lease.Store, rule core.Rule) int {
	x.Helper()
	l := x.limiter(s, rule)
	for range 20 {
		x.ask(l, 1)
	}
	for range 400 {
		synctest.Wait()
		if held := int(s.Stats().Held); held > 0 {
			return held
		}
		x.ask(l, 1)
	}
	x.Fatal("expected tokens that are held, got none")
	return 0
}

// calls returns the number of calls of the Store behind while f runs.
func (x *fixture) calls(f func()) int {
	before := x.behind.Calls()
	f()
	return x.behind.Calls() - before
}

// take calls s.Take with a charge of cost for each of rules, and reports whether all are allowed.
func (x *fixture) take(s driver.Store, cost int, rules ...core.Rule) bool {
	x.Helper()
	charges := make([]driver.Charge, len(rules))
	for i, rule := range rules {
		charges[i] = driver.Charge{Key: "k", Rule: testkit.Compiled(rule), Cost: cost}
	}
	testkit.Must(x, s.Take(x.Context(), charges))
	for i := range charges {
		if !charges[i].Verdict.Allowed {
			return false
		}
	}
	return true
}

// expect reports an error unless got is between low and high.
func (x *fixture) expect(low, high, got int, unit string) {
	x.Helper()
	if got < low || got > high {
		x.Errorf("expected %d to %d %s, got %d", low, high, unit, got)
	}
}

// bucketAndWindow returns a bucket and a window of the same limit.
func bucketAndWindow(l core.Limit) []core.Rule {
	return []core.Rule{core.TokenBucket("bucket", l), core.FixedWindow("window", l)}
}

var hourly, daily = bucketAndWindow(core.PerHour(50_000)), bucketAndWindow(core.PerDay(1600))

// hangDeadline is the deadline that a Store behind keeps by itself while it hangs.
const hangDeadline = 100 * time.Millisecond

// hang makes the Store behind fail after hangDeadline.
func (x *fixture) hang() {
	x.behind.Set(storetest.Delay(hangDeadline, 0), storetest.Fail(errHangs))
}

// holdMany makes s hold a bundle of the same size for each of the keys k0, k1 and so on, by
// that many decisions about each, and returns the size.
func (x *fixture) holdMany(s *lease.Store, rule core.Rule, keys, decisions int) (each int) {
	x.Helper()
	x.behind.Set()
	l := x.limiter(s, rule)
	for i := range keys {
		for range decisions {
			testkit.Admit(x, l, fmt.Sprint("k", i), 1)
		}
		synctest.Wait()
	}
	if each = int(s.Stats().Held) / keys; each == 0 {
		x.Fatalf("expected a bundle for each of %d keys, got %d tokens in all", keys, s.Stats().Held)
	}
	return each
}

var hangRules = []core.Rule{
	core.TokenBucket("bucket", core.PerHour(100_000)), core.FixedWindow("window", core.PerDay(100_000)),
}

// plansOf returns the compiled rules of r and its plans, r itself first.
func plansOf(t testing.TB, r core.Rule) (all []*driver.Compiled) {
	t.Helper()
	var s recorder
	testkit.Limiter(t, &s, r)
	for _, d := range s.declared {
		c, err := d.Compile()
		testkit.Must(t, err)
		all = append(all, c)
	}
	return all
}

// withPlans returns a bucket and a window with three limits of one length. The smallest limit is not
// leased.
func withPlans(base core.Limit) []core.Rule {
	rules := bucketAndWindow(base)
	for i, r := range rules {
		pro, small := base, base
		pro.Events, small.Events = 4*base.Events, 100
		rules[i] = r.Plan("pro", pro).Plan("small", small)
	}
	return rules
}

var errHangs = errors.New("no answer within the deadline")
