package core_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A key that has used the whole limit of 10 a minute one second ago, after a change of the limit.
func TestLimiter_Replace_States(t *testing.T) {
	for _, a := range testkit.Algorithms {
		bucket := a.Kind().Refills
		for _, c := range []struct {
			name       string
			limit      core.Limit
			remaining  int           // for a window or log; a bucket has none
			retryAfter time.Duration // for a bucket
		}{
			{"20 a minute", core.PerMinute(20), 9, 2 * time.Second},
			{"5 a minute", core.PerMinute(5), 0, 11 * time.Second},
			{"10 an hour", core.PerHour(10), 9, 6 * time.Minute},
		} {
			t.Run(a.Name+", "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rule := func(l core.Limit) core.Rule { return a.Rule("r", l) }
					l := testkit.Limiter(t, memstore.New(), rule(core.PerMinute(10)))
					testkit.Admit(t, l, "k", 10)
					time.Sleep(time.Second)
					testkit.Must(t, l.Replace(rule(c.limit)))
					s := testkit.Allow(t, l, "k").State(0)
					if s.Limit() != c.limit {
						t.Errorf("got the limit %v, want %v", s.Limit(), c.limit)
					}
					switch {
					case bucket && c.retryAfter > 0:
						if s.Allowed || s.RetryAfter != c.retryAfter {
							t.Errorf("got %+v, want a RetryAfter of %v", s, c.retryAfter)
						}
						time.Sleep(c.retryAfter)
						testkit.Admit(t, l, "k", 1)
					case s.Allowed != (c.remaining > 0) || s.Remaining != c.remaining:
						t.Errorf("got %+v, want %d remaining", s, c.remaining)
					}
				})
			})
		}
	}
}

// A call of Replace or ReplaceAll that fails changes nothing: neither limits nor names on the Store.
func TestReplaceAll_Errors(t *testing.T) {
	store := memstore.New()
	rule := func(name string, n int) core.Rule { return core.TokenBucket(name, core.PerMinute(n)) }
	a, b := testkit.Limiter(t, store, rule("a", 1)), testkit.Limiter(t, store, rule("b", 1), rule("both", 1))
	testkit.Limiter(t, store, rule("taken", 1).Plan("pro", core.PerMinute(2)), rule("both", 1))
	elsewhere := testkit.Limiter(t, memstore.New(), rule("a", 1))
	type change = map[*core.Limiter][]core.Rule
	for _, c := range []struct {
		name   string
		change change
		want   error
		text   string
	}{
		{"no rules", change{a: nil, b: {rule("free", 1)}}, core.ErrInvalidRule, "rules are missing"},
		{"an invalid rule", change{a: {rule("free", 1), rule("a", 0)}}, core.ErrInvalidRule, `rule "a": events is 0, not positive`},
		{"the zero rule", change{a: {{}}}, core.ErrInvalidRule, "algorithm is none"},
		{"an invalid plan", change{a: {rule("a", 2).Plan("", core.PerMinute(1))}}, core.ErrInvalidRule, "plan has no name"},
		{"a name that another limiter has", change{a: {rule("free", 1), rule("taken", 2)}}, core.ErrRuleConflict, `rule "taken": name is taken on this store`},
		{"a plan that another limiter has", change{a: {rule("taken", 1).Plan("pro", core.PerMinute(3))}}, core.ErrRuleConflict, `and now token_bucket "taken" 3/m plan "pro"`},
		{"a name that another limiter has, too", change{b: {rule("b", 1), rule("both", 2)}}, core.ErrRuleConflict, `rule "both"`},
		{"two rules of one name", change{a: {rule("free", 1)}, b: {rule("free", 2)}}, core.ErrRuleConflict, `rule "free"`},
		{"two views", change{a: {rule("a", 2)}, a.Plan("p"): {rule("a", 2)}}, core.ErrInvalidAsk, "two limiters are views of one"},
		{"no limiter", change{nil: {rule("free", 1)}}, core.ErrInvalidAsk, "the limiter is nil"},
		{"two stores", change{a: {rule("free", 1)}, elsewhere: {rule("free", 1)}}, core.ErrInvalidAsk, "different stores"},
	} {
		err := core.ReplaceAll(c.change)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %v with the text %s", c.name, err, c.want, c.text)
		}
		var ruleError *core.RuleError
		if c.want != core.ErrInvalidAsk && !errors.As(err, &ruleError) {
			t.Errorf("%s: got %v, want a RuleError", c.name, err)
		}
		if got := slices.Concat(texts(a.Rules()), texts(b.Rules()), texts(elsewhere.Rules())); strings.Join(got, ", ") !=
			`token_bucket "a" 1/m, token_bucket "b" 1/m, token_bucket "both" 1/m, token_bucket "a" 1/m` {
			t.Errorf("%s: got the rules %v after the error", c.name, got)
		}
		if _, err := core.New(store, rule("a", 9)); !errors.Is(err, core.ErrRuleConflict) {
			t.Errorf("%s: after the error, the name a is free: %v", c.name, err)
		}
	}
	testkit.Limiter(t, store, rule("free", 7)) // no call has taken the name
	testkit.Must(t, core.ReplaceAll(nil))
}

// A rule that several limiters have changes with ReplaceAll. Names that no limiter has any more are
// free.
func TestReplaceAll(t *testing.T) {
	store := memstore.New()
	rule := func(name string, n int) core.Rule {
		return core.TokenBucket(name, core.PerMinute(n)).Plan("pro", core.PerHour(n))
	}
	a, b := testkit.Limiter(t, store, rule("r", 1)), testkit.Limiter(t, store, rule("s", 1), rule("r", 1))
	if err := a.Replace(rule("r", 2)); !errors.Is(err, core.ErrRuleConflict) {
		t.Errorf("one of two limiters: got %v, want ErrRuleConflict", err)
	}
	testkit.Must(t, core.ReplaceAll(map[*core.Limiter][]core.Rule{a: {rule("r", 2)}, b.Plan("pro"): {rule("r", 2)}}))
	for _, l := range []*core.Limiter{a, b} {
		if got := texts(l.Rules()); !slices.Equal(got, []string{`token_bucket "r" 2/m`}) {
			t.Errorf("got %v", got)
		}
		if got := texts(l.Plan("pro").Rules()); !slices.Equal(got, []string{`token_bucket "r" 2/h plan "pro"`}) {
			t.Errorf("plan pro: got %v", got)
		}
	}
	c := testkit.Limiter(t, store, core.FixedWindow("s", core.PerMinute(1))) // released by b
	if err := b.Replace(rule("s", 1)); !errors.Is(err, core.ErrRuleConflict) {
		t.Errorf("a name that another limiter took: got %v, want ErrRuleConflict", err)
	}
	testkit.Must(t, c.Replace(rule("t", 1)))
	testkit.Must(t, b.Replace(rule("s", 1)))
	testkit.Must(t, a.Replace(rule("r", 3))) // b has it no longer
	testkit.Must(t, core.ReplaceAll(map[*core.Limiter][]core.Rule{b: {rule("r", 9)}, a: {rule("s", 9)}}))
}

// Replace wakes the callers of Wait: they ask again with the new rules, in the same order.
func TestLimiter_Replace_WakesWaiters(t *testing.T) {
	bucket := func(n int) core.Rule { return core.TokenBucket("r", core.PerMinute(n)) }
	log := core.SlidingLog("log", core.PerHour(1))
	for _, c := range []struct {
		name  string
		after time.Duration // the time of Replace
		rules []core.Rule
		costs []int
		want  []time.Duration // when each Wait ends
		errs  []error
	}{
		{"no change", 0, []core.Rule{bucket(10)}, []int{1, 1}, []time.Duration{6 * time.Second, 12 * time.Second}, []error{nil, nil}},
		{"twice the rate", time.Second, []core.Rule{bucket(20)}, []int{1}, []time.Duration{3 * time.Second}, []error{nil}},
		{"twice the rate, in order", time.Second, []core.Rule{bucket(20)}, []int{2, 1, 3},
			[]time.Duration{6 * time.Second, 9 * time.Second, 18 * time.Second}, []error{nil, nil, nil}},
		{"half the rate", time.Second, []core.Rule{bucket(5)}, []int{1}, []time.Duration{12 * time.Second}, []error{nil}},
		{"costs that cannot fit any more", time.Second, []core.Rule{bucket(5)}, []int{6, 1, 6},
			[]time.Duration{time.Second, 12 * time.Second, 12 * time.Second}, []error{core.ErrNeverAdmitted, nil, core.ErrNeverAdmitted}},
		{"another length", 4 * time.Second, []core.Rule{core.TokenBucket("r", core.PerHour(2))}, []int{1, 1},
			[]time.Duration{4*time.Second + time.Hour/2, 4*time.Second + time.Hour}, []error{nil, nil}},
		{"another rule", 4 * time.Second, []core.Rule{log}, []int{1, 1}, []time.Duration{4 * time.Second, time.Hour + 4*time.Second}, []error{nil, nil}},
		{"unlimited", time.Second, []core.Rule{core.TokenBucket("r", core.Unlimited)}, []int{1, 10},
			[]time.Duration{time.Second, time.Second}, []error{nil, nil}},
		{"blocked", time.Second, []core.Rule{core.TokenBucket("r", core.Blocked)}, []int{1, 1},
			[]time.Duration{time.Second, time.Second}, []error{core.ErrNeverAdmitted, core.ErrNeverAdmitted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), bucket(10))
				testkit.Admit(t, l, "k", 10)
				begin := time.Now()
				got, errs := make([]time.Duration, len(c.costs)), make([]error, len(c.costs))
				var wg sync.WaitGroup
				for i, cost := range c.costs {
					wg.Go(func() {
						errs[i] = l.WaitN(t.Context(), "k", cost)
						got[i] = time.Since(begin)
					})
					synctest.Wait() // until it waits
				}
				if c.after > 0 {
					time.Sleep(c.after)
					testkit.Must(t, l.Plan("p").Replace(c.rules...))
				}
				wg.Wait()
				if !slices.Equal(got, c.want) || !slices.EqualFunc(errs, c.errs, errors.Is) {
					t.Errorf("got ends after %v with %v, want %v with %v", got, errs, c.want, c.errs)
				}
			})
		})
	}
}

// A caller that waits for its departure from a queue is not affected by Replace.
func TestLimiter_Replace_KeepsDepartures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testkit.Limiter(t, memstore.New(), core.LeakyBucket("r", core.PerMinute(10)))
		testkit.Admit(t, l, "k", 1)
		begin := time.Now()
		time.AfterFunc(time.Second, func() {
			if err := l.Replace(core.LeakyBucket("r", core.PerMinute(20))); err != nil {
				t.Error(err)
			}
		})
		if err := l.Wait(t.Context(), "k"); err != nil || time.Since(begin) != 6*time.Second {
			t.Errorf("got %v after %v, want nil after 6s", err, time.Since(begin))
		}
	})
}

// A Reservation undoes each charge under the rule that charged it, although Settle charges the same
// state under another one.
func TestReservation_Refund_AfterReplace(t *testing.T) {
	for _, a := range testkit.Algorithms {
		for name, others := range map[string]int{"unused": 0, "beside other events": 20} {
			t.Run(a.Name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := t.Context()
					l := testkit.Limiter(t, memstore.New(), a.Rule("r", core.PerMinute(100)))
					if others > 0 {
						testkit.Admit(t, l, "k", others)
					}
					r := testkit.Reserve(t, l, "k", 10)
					testkit.Must(t, l.Replace(a.Rule("r", core.PerMinute(200))))
					testkit.Must(t, r.Settle(ctx, 30))
					testkit.Must(t, r.Refund(ctx))
					testkit.Must(t, l.Replace(a.Rule("r", core.PerMinute(100))))
					if got := testkit.Used(t, l, "k")[0]; got != others {
						t.Errorf("after Refund: got %d in use, want %d", got, others)
					}
					r = testkit.Reserve(t, l, "k", 10)
					testkit.Must(t, l.Replace(a.Rule("r", core.PerMinute(200))))
					testkit.Must(t, r.Settle(ctx, 30))
					testkit.Must(t, l.Replace(a.Rule("r", core.PerMinute(100))))
					if got := testkit.Used(t, l, "k")[0]; got != others+30 {
						t.Errorf("after Settle(30): got %d in use, want %d", got, others+30)
					}
					testkit.Must(t, r.Settle(ctx, 5))
					if got := testkit.Used(t, l, "k")[0]; got != others+5 {
						t.Errorf("after Settle(5): got %d in use, want %d", got, others+5)
					}
				})
			})
		}
	}
}

// AllowTogether never uses the old rules of one limiter and the new rules of another. Otherwise it
// would return ErrInvalidAsk, because the limiters share a rule and a key. There are many limiters,
// so that the replacement takes long enough.
func TestReplaceAll_Concurrent(t *testing.T) {
	ctx, store := t.Context(), memstore.New()
	rules := func(i int) []core.Rule {
		return []core.Rule{core.TokenBucket("r", core.PerSecond(1000+i)).Plan("pro", core.PerSecond(2000+i))}
	}
	first := rules(0)
	change, asks := make(map[*core.Limiter][]core.Rule), make([]core.Ask, 32)
	for i := range asks {
		l := testkit.Limiter(t, store, first...)
		change[l], asks[i] = nil, core.Ask{Limiter: l, Key: "k"}
	}
	l := asks[0].Limiter
	variant := core.Must(l.Variant(core.TokenBucket("r", core.PerSecond(5))))
	chosen := l.Choose(func(context.Context, string) (*core.Limiter, error) { return variant, nil })
	calls := []func() error{
		func() error { _, err := core.AllowTogether(ctx, asks...); return err },
		func() error { _, err := variant.Allow(ctx, "k"); return err },
		func() error { _, err := l.Reset(ctx, "k"); return err },
		func() error { return chosen.Wait(ctx, "wait") },
		func() error { _, err := core.New(store, core.TokenBucket("other", core.PerSecond(1))); return err },
		func() error {
			r, err := core.ReserveTogether(ctx, asks...)
			if err == nil {
				err = r.SettleFor(ctx, l, 3)
			}
			return err
		},
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for !done.Load() {
				if err := calls[max(0, i-64+len(calls))](); err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
			}
		})
	}
	for i := range 25 {
		next := rules(i)
		for l := range change {
			change[l] = next
		}
		if err := core.ReplaceAll(change); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	wg.Wait()
}

// Each decision uses rules of a limiter and data of its function of Choose of one version, also if
// rules are added and removed, and if the function returns an error about the present rules.
func TestReplaceAll_Then(t *testing.T) {
	ctx, store := t.Context(), memstore.New()
	rules := func(version int) []core.Rule {
		l := core.PerSecond(1000 + version)
		return []core.Rule{core.TokenBucket("always", l), []core.Rule{core.TokenBucket("even", l), core.SlidingLog("odd", l)}[version%2]}
	}
	change, chosen := make(map[*core.Limiter][]core.Rule), make([]*core.Limiter, 2)
	var current atomic.Int64
	for i := range chosen {
		l := testkit.Limiter(t, store, rules(0)...)
		change[l] = nil
		chosen[i] = l.Choose(func(_ context.Context, key string) (*core.Limiter, error) {
			if key == "base" {
				return nil, nil
			}
			next := rules(int(current.Load()))
			return l.Variant(next[0].Shadow(), next[1].Shadow()) // an error if l has other rules
		})
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for !done.Load() {
				d, err := core.AllowTogether(ctx, core.Ask{Limiter: chosen[0], Key: "base", Peek: true}, core.Ask{Limiter: chosen[1], Key: "k", Peek: true})
				if i%2 == 0 {
					d, err = chosen[0].Peek(ctx, "k")
				}
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				limit := d.State(0).Limit()
				for _, s := range d.States() {
					if s.Limit() != limit || (s.Rule.Name() != "always") && (s.Rule.Name() == "odd") != (limit.Events%2 == 1) {
						t.Errorf("caller %d: got rules of two versions: %v", i, d)
						return
					}
				}
				if _, err := chosen[1].Reset(ctx, "k"); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			}
		})
	}
	for i := range 300 {
		for l := range change {
			change[l] = rules(i)
		}
		if err := inner.ReplaceAll(change, func() { current.Store(int64(i)) }); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	wg.Wait()
	change[nil] = nil
	if err := inner.ReplaceAll(change, func() { t.Error("called after an error") }); !errors.Is(err, core.ErrInvalidAsk) {
		t.Errorf("got error %v, want ErrInvalidAsk", err)
	}
}

// How many events follow at once after a key had used 20 of "10/s burst 20", and its rule was replaced.
func TestLimiter_Replace_BucketOfAnotherLength(t *testing.T) {
	burst := func(rate, burst int) core.Limit { return core.PerSecond(rate).WithBurst(burst) }
	rule := func(l core.Limit, pro core.Limit) core.Rule { return core.TokenBucket("r", l).Plan("pro", pro) }
	spent := func(t *testing.T, l *core.Limiter) { testkit.Admit(t, l, "k", 20) }
	replace := func(rules ...core.Rule) func(t *testing.T, l *core.Limiter) {
		return func(t *testing.T, l *core.Limiter) { testkit.Must(t, l.Replace(rules...)) }
	}
	wait := func(d time.Duration) func(t *testing.T, l *core.Limiter) {
		return func(*testing.T, *core.Limiter) { time.Sleep(d) }
	}
	view := func(l *core.Limiter) *core.Limiter { return l }
	pro := func(l *core.Limiter) *core.Limiter { return l.Plan("pro") }
	old, lower := rule(burst(10, 20), burst(30, 30)), rule(burst(1, 20), burst(30, 40))
	for _, c := range []struct {
		name  string
		steps []func(t *testing.T, l *core.Limiter)
		view  func(l *core.Limiter) *core.Limiter
		want  int
	}{
		{"lower rate", []func(*testing.T, *core.Limiter){spent, replace(lower)}, view, 0},
		{"other keys", []func(*testing.T, *core.Limiter){replace(lower)}, view, 20},
		{"replaced twice", []func(*testing.T, *core.Limiter){spent, replace(rule(burst(5, 20), burst(30, 30))), replace(lower)}, view, 0},
		{"removed for a moment", []func(*testing.T, *core.Limiter){spent, replace(core.SlidingLog("s", core.PerSecond(1))), replace(lower)}, view, 20},
		{"a second later", []func(*testing.T, *core.Limiter){spent, wait(time.Second), replace(lower)}, view, 10},
		{"after the old bucket is full", []func(*testing.T, *core.Limiter){spent, replace(lower), wait(2 * time.Second)}, view, 20},
		{"another algorithm", []func(*testing.T, *core.Limiter){spent, replace(core.LeakyBucket("r", burst(1, 20)))}, view, 20},
		{"soft", []func(*testing.T, *core.Limiter){spent, replace(core.TokenBucket("r", burst(1, 10)).Soft(100))}, view, 0},
		{"headroom", []func(*testing.T, *core.Limiter){spent, replace(lower.Headroom("pro", 50))}, pro, 20},
		{"unlimited", []func(*testing.T, *core.Limiter){spent, replace(rule(core.Unlimited, burst(1, 1))), replace(lower)}, view, 0},
		{"blocked", []func(*testing.T, *core.Limiter){spent, replace(rule(core.Blocked, burst(1, 1))), replace(lower)}, view, 0},
		{"a plan that was not used", []func(*testing.T, *core.Limiter){spent, replace(lower)}, pro, 40},
		{"a plan that was used", []func(*testing.T, *core.Limiter){
			func(t *testing.T, l *core.Limiter) { testkit.Admit(t, l.Plan("pro"), "k", 15) }, replace(lower),
		}, pro, 20},
		{"a variant", []func(*testing.T, *core.Limiter){spent, replace(lower)}, func(l *core.Limiter) *core.Limiter {
			return core.Must(l.Variant(core.TokenBucket("r", burst(1, 7))))
		}, 7},
		{"reset", []func(*testing.T, *core.Limiter){spent, replace(lower), func(t *testing.T, l *core.Limiter) {
			if found, err := l.Reset(t.Context(), "k"); err != nil || !found {
				t.Errorf("Reset: got %v, %v, want true", found, err)
			}
		}}, view, 20},
		{"a debit", []func(*testing.T, *core.Limiter){spent, replace(lower), func(t *testing.T, l *core.Limiter) {
			testkit.Must(t, l.Debit(t.Context(), "k", 1))
		}, wait(time.Second)}, view, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), old)
				for _, step := range c.steps {
					step(t, l)
				}
				l = c.view(l)
				if got := testkit.Left(t, l, "k"); got != c.want {
					t.Errorf("got Remaining %d, want %d", got, c.want)
				}
				if r, err := l.ReserveAtMost(t.Context(), "k", 100); err != nil || r.Cost() != c.want {
					t.Errorf("got %d events, error %v, want %d events", r.Cost(), err, c.want)
				}
			})
		})
	}
}

// The first decision about a key after a change makes one more call, or two if the old bucket was in use.
func TestLimiter_Replace_Calls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Fake)
		l := testkit.Limiter(t, s, core.TokenBucket("r", core.PerSecond(10).WithBurst(20)))
		testkit.Admit(t, l, "spent", 20)
		testkit.Must(t, l.Replace(core.TokenBucket("r", core.PerSecond(1).WithBurst(20))))
		s.Set(storetest.Fail(core.ErrUnavailable))
		if _, err := l.Allow(t.Context(), "spent"); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("got the error %v, want ErrUnavailable", err)
		}
		s.Set()
		for _, c := range []struct {
			key   string
			after time.Duration
			want  int
		}{{"spent", 0, 3}, {"spent", 0, 1}, {"new", 0, 2}, {"new", 0, 1}, {"another", 2 * time.Second, 1}} {
			time.Sleep(c.after)
			before := s.Calls()
			if testkit.Allow(t, l, c.key); s.Calls()-before != c.want {
				t.Errorf("%s: got %d calls, want %d", c.key, s.Calls()-before, c.want)
			}
		}
		for i := range 8 { // of which it remembers the last four
			testkit.Must(t, l.Replace(core.TokenBucket("r", core.PerSecond(1).WithBurst(30+i))))
		}
		before := s.Calls()
		if testkit.Allow(t, l, "after many changes"); s.Calls()-before != 5 {
			t.Errorf("after many changes: got %d calls, want 5", s.Calls()-before)
		}
	})
}
