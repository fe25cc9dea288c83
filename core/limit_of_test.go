package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// Each key has the limit of its tenant, and all else of the rule.
func TestLimiter_LimitOf(t *testing.T) {
	limits := map[string]core.Limit{
		"large": core.PerMinute(40), "free": core.Unlimited, "banned": core.Blocked, "longer": core.PerHour(7), "a burst": core.PerMinute(9).WithBurst(2),
	}
	limitOf := func(_ context.Context, key string) (core.Limit, error) {
		if limit, ok := limits[key]; ok {
			return limit, nil
		}
		tenant, _, _ := strings.Cut(key, " ")
		return limits[tenant], nil
	}
	choose := func(l *core.Limiter) *core.Limiter {
		views := map[string]*core.Limiter{"plan": l.Plan("pro")}
		if len(l.Rules()) > 1 {
			views["b"] = core.Must(l.Variant(core.SlidingLog("b", core.PerDay(6))))
		}
		views["picked"] = core.Must(l.Variant(core.SlidingLog("api", core.PerMinute(3))))
		return l.Choose(func(_ context.Context, key string) (*core.Limiter, error) {
			return views[key[strings.LastIndex(key, " ")+1:]], nil
		})
	}
	soft := core.SlidingLog("api", core.PerMinute(10)).Soft(50).Plan("pro", core.PerMinute(20))
	for name, c := range map[string]struct {
		rules     []core.Rule
		view      func(*core.Limiter) *core.Limiter // of the limiter before LimitOf
		key, plan string
		want      []string
	}{
		"of the table":    {[]core.Rule{soft}, nil, "large", "", []string{`sliding_log "api" 40/m soft 50%`}},
		"none":            {[]core.Rule{soft}, nil, "ann", "", []string{`sliding_log "api" 10/m soft 50%`}},
		"none, of a plan": {[]core.Rule{soft}, nil, "ann", "pro", []string{`sliding_log "api" 20/m soft 50% plan "pro"`}},
		"beside a plan":   {[]core.Rule{soft}, nil, "large", "pro", []string{`sliding_log "api" 40/m soft 50% plan "pro"`}},
		"unlimited":       {[]core.Rule{soft}, nil, "free", "", []string{`sliding_log "api" unlimited soft 50%`}},
		"blocked":         {[]core.Rule{soft}, nil, "banned", "", []string{`sliding_log "api" blocked soft 50%`}},
		"another length":  {[]core.Rule{soft}, nil, "longer", "", []string{`sliding_log "api" 7/h soft 50%`}},
		"a burst":         {[]core.Rule{core.TokenBucket("api", core.PerMinute(1))}, nil, "a burst", "", []string{`token_bucket "api" 9/m burst 2`}},
		"two rules": {[]core.Rule{core.TokenBucket("a", core.PerMinute(1)), core.SlidingLog("b", core.PerDay(5))}, nil, "large", "",
			[]string{`token_bucket "a" 40/m`, `sliding_log "b" 5/d`}},
		"of a Variant": {[]core.Rule{core.TokenBucket("a", core.PerMinute(1)), core.SlidingLog("b", core.PerDay(5))}, func(l *core.Limiter) *core.Limiter {
			return core.Must(l.Variant(core.TokenBucket("a", core.PerMinute(2)), core.SlidingLog("b", core.PerDay(6))))
		}, "large", "", []string{`token_bucket "a" 40/m`, `sliding_log "b" 6/d`}},
		"after a Pause":     {[]core.Rule{core.Pause("p"), core.SlidingLog("b", core.PerDay(5))}, nil, "large", "", []string{`pause "p"`, `sliding_log "b" 40/m`}},
		"of a Choose, none": {[]core.Rule{soft}, choose, "large", "", []string{`sliding_log "api" 40/m soft 50%`}},
		"of a Choose, of the table": {[]core.Rule{soft, core.SlidingLog("b", core.PerDay(5))}, choose, "large b", "",
			[]string{`sliding_log "api" 40/m soft 50%`, `sliding_log "b" 6/d`}},
		"of a Choose, picked":           {[]core.Rule{soft}, choose, "large picked", "", []string{`sliding_log "api" 3/m`}},
		"of a Choose, picked, no limit": {[]core.Rule{soft}, choose, "picked", "", []string{`sliding_log "api" 3/m`}},
		"of a Choose, a plan":           {[]core.Rule{soft}, choose, "large plan", "", []string{`sliding_log "api" 20/m soft 50% plan "pro"`}},
		"of a LimitOf": {[]core.Rule{soft}, func(l *core.Limiter) *core.Limiter {
			return l.LimitOf(func(_ context.Context, key string) (core.Limit, error) {
				return map[string]core.Limit{"large": core.PerMinute(4), "ann": core.PerMinute(5)}[key], nil
			})
		}, "large", "", []string{`sliding_log "api" 4/m soft 50%`}},
		"of a Plan, of the table": {[]core.Rule{soft, core.SlidingLog("b", core.PerDay(5)).Plan("gold", core.PerDay(50))}, func(l *core.Limiter) *core.Limiter { return l.Plan("pro") }, "large", "gold",
			[]string{`sliding_log "api" 40/m soft 50%`, `sliding_log "b" 50/d plan "gold"`}},
		"of a Plan": {[]core.Rule{soft}, func(l *core.Limiter) *core.Limiter { return l.Plan("pro") }, "ann", "", []string{`sliding_log "api" 20/m soft 50% plan "pro"`}},
	} {
		t.Run(name, func(t *testing.T) {
			l := testkit.Limiter(t, memstore.New(), c.rules...)
			if c.view != nil {
				l = c.view(l)
			}
			tenants := l.LimitOf(limitOf)
			if c.plan != "" {
				tenants = tenants.Plan(c.plan)
			}
			for range 2 {
				d := testkit.Allow(t, tenants, c.key)
				for i, want := range c.want {
					if got := d.State(i).Rule.String(); got != want {
						t.Errorf("got the rule %s, want %s", got, want)
					}
				}
			}
		})
	}
}

// A tenant keeps the events that it has used when its limit changes, and every limit has the rules after Replace.
func TestLimiter_LimitOf_Changes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.PerMinute(5)
		l := testkit.Limiter(t, memstore.New(), core.SlidingLog("api", core.PerMinute(10)))
		tenants := l.LimitOf(func(context.Context, string) (core.Limit, error) { return limit, nil })
		testkit.Admit(t, tenants, "k", 5)
		for _, step := range []struct {
			limit core.Limit
			left  int
		}{{core.PerMinute(5), 0}, {core.PerMinute(8), 3}, {core.Limit{}, 5}, {core.PerMinute(2), 0}, {core.PerMinute(20), 15}} {
			limit = step.limit
			if got := testkit.Left(t, tenants, "k"); got != step.left {
				t.Errorf("%v: %d are left, want %d", limit, got, step.left)
			}
		}
		testkit.Must(t, l.Replace(core.SlidingLog("api", core.PerMinute(10)).Soft(100)))
		if got := testkit.Allow(t, tenants, "k").State(0).Rule.String(); got != `sliding_log "api" 20/m soft 100%` {
			t.Errorf("after Replace: got %s", got)
		}
		if found, err := tenants.Reset(t.Context(), "k"); !found || err != nil || testkit.Left(t, tenants, "k") != 20 {
			t.Errorf("after Reset: got %v, %v and %d left", found, err, testkit.Left(t, tenants, "k"))
		}
		time.Sleep(time.Minute)
	})
}

func TestLimiter_LimitOf_Errors(t *testing.T) {
	errTable := errors.New("the table cannot be read")
	for name, c := range map[string]struct {
		limit core.Limit
		err   error
		want  []error
	}{
		"of the function":   {core.PerMinute(5), errTable, []error{core.ErrInvalidAsk, errTable}},
		"of the database":   {core.Limit{}, fmt.Errorf("%w: down", core.ErrUnavailable), []error{core.ErrUnavailable}},
		"an invalid limit":  {core.Limit{Events: -1, Per: time.Minute}, nil, []error{core.ErrInvalidAsk, core.ErrInvalidRule}},
		"a burst of a log":  {core.PerMinute(5).WithBurst(2), nil, []error{core.ErrInvalidAsk, core.ErrInvalidRule}},
		"a month of a log":  {core.Monthly(5), nil, []error{core.ErrInvalidAsk, core.ErrInvalidRule}},
		"without a period":  {core.Limit{Events: 5}, nil, []error{core.ErrInvalidAsk, core.ErrInvalidRule}},
		"not representable": {core.Per(math.MaxInt, 7*time.Nanosecond), nil, []error{core.ErrInvalidAsk, core.ErrInvalidRule}},
	} {
		t.Run(name, func(t *testing.T) {
			l := testkit.Limiter(t, memstore.New(), core.SlidingLog("api", core.PerMinute(10)))
			tenants := l.LimitOf(func(context.Context, string) (core.Limit, error) { return c.limit, c.err })
			for range 2 {
				_, err := tenants.Allow(t.Context(), "k")
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
				}
			}
			if testkit.Left(t, l, "k") != 10 {
				t.Error("the key was charged")
			}
		})
	}
	testkit.Panics(t, "core: LimitOf: limit is nil", func() { testkit.Limiter(t, memstore.New(), core.SlidingLog("api", core.PerDay(1))).LimitOf(nil) })
}

// Many different limits take bounded memory, also while rules are replaced.
func TestLimiter_LimitOf_ManyLimits(t *testing.T) {
	r := core.TokenBucket("api", core.PerMinute(10))
	l := testkit.Limiter(t, memstore.New(), r)
	tenants := l.LimitOf(func(_ context.Context, key string) (core.Limit, error) {
		n, err := strconv.Atoi(key)
		return core.PerMinute(n), err
	})
	ask := func(n int) {
		d, err := tenants.Peek(t.Context(), strconv.Itoa(n))
		if err != nil || d.State(0).Remaining != n {
			t.Errorf("tenant %d: got %v, %v", n, d, err)
		}
	}
	before := testkit.Heap()
	testkit.Concurrently(8, func(i int) {
		for n := range 3000 {
			if ask(1 + i*3000 + n); n%1000 == 0 {
				testkit.Must(t, l.Replace(r.Soft(float64(i))))
			}
		}
	})
	if grown := testkit.Heap() - before; grown > 16<<20 && !testkit.Instrumented() {
		t.Errorf("%d limits take %d bytes", 24_000, grown)
	}
	runtime.KeepAlive(tenants)
}

// The views of an elastic rule with plans do not take memory for each plan.
func TestLimiter_LimitOf_MemoryOfPlans(t *testing.T) {
	testkit.WithoutRace(t)
	r := core.TokenBucket("api", core.PerMinute(1000)).Elastic(func() float64 { return 0.5 }, 200)
	for i := range 20 {
		r = r.Plan(fmt.Sprint("p", i), core.PerMinute(100*(i+1)))
	}
	tenants := testkit.Limiter(t, memstore.New(), r).LimitOf(func(_ context.Context, key string) (core.Limit, error) {
		n, err := strconv.Atoi(key)
		return core.PerMinute(n), err
	})
	const limits = 300
	before := testkit.Heap()
	for n := range limits {
		testkit.Peek(t, tenants, strconv.Itoa(n+1))
	}
	if grown := (testkit.Heap() - before) / limits; grown > 20<<10 {
		t.Errorf("a limit takes %d bytes", grown)
	}
	runtime.KeepAlive(tenants)
}
