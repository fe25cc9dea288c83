package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// FailOpen answers as a store does for an untouched key.
func TestFailOpen(t *testing.T) {
	for _, a := range testkit.Algorithms {
		for _, rule := range []core.Rule{
			a.Rule("plain", core.PerMinute(7)), a.Rule("soft", core.PerMinute(7)).Soft(50), a.Rule("shadow", core.PerMinute(7)).Shadow(),
		} {
			l := testkit.Limiter(t, failover.FailOpen, rule)
			want := testkit.Peek(t, testkit.Limiter(t, memstore.New(), rule), "k").State(0)
			for _, cost := range []int{0, 1, 7, math.MaxInt / 8} {
				d := testkit.Ask(t, l, "k", cost)
				got := d.State(0)
				got.Rule, got.Window = want.Rule, want.Window // a fixed window has begun at another time
				if !d.Allowed || got != want {
					t.Errorf("%v, cost %d: got %+v, expected %+v", rule, cost, got, want)
				}
			}
			found, err := l.Reset(t.Context(), "k")
			if err := errors.Join(err, l.Credit(t.Context(), "k", 1), l.Debit(t.Context(), "k", 1)); err != nil || found {
				t.Errorf("%v: got found %v and %v, expected neither", rule, found, err)
			}
		}
	}
}

func TestFailClosed(t *testing.T) {
	rule := core.TokenBucket("r", core.PerMinute(7))
	l := testkit.Limiter(t, failover.FailClosed, rule)
	d, allow := l.Allow(t.Context(), "k")
	_, reset := l.Reset(t.Context(), "k")
	for name, err := range map[string]error{
		"Allow": allow, "Reset": reset, "Credit": l.Credit(t.Context(), "k", 1), "Debit": l.Debit(t.Context(), "k", 1),
	} {
		if !errors.Is(err, core.ErrFailClosed) || !errors.Is(err, core.ErrUnavailable) || d.Allowed {
			t.Errorf("%s: got %v and %+v, expected core.ErrFailClosed", name, err, d)
		}
	}
	testkit.Admit(t, testkit.Limiter(t, failover.FailClosed, rule.Shadow()), "k", 1)
	for _, a := range []failover.Answer{failover.FailOpen, failover.FailClosed} {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := testkit.Limiter(t, a, rule).Allow(ended, "k"); !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnavailable) {
			t.Errorf("a caller that has left: got %v, expected %v", err, context.Canceled)
		}
	}
}

// Each rule has its own backup, and the rules are decided together.
func TestBackup_AnswersByRule(t *testing.T) {
	s := failover.New(absent(), memstore.New(), failover.FailClosedFor("login", "trial"), failover.FailOpenFor("search", "image"))
	defer s.Close()
	per := core.PerHour(3)
	api := testkit.Limiter(t, s, core.SlidingLog("api", per))
	login := testkit.Limiter(t, s, core.SlidingLog("login", per))
	search := testkit.Limiter(t, s, core.SlidingLog("search", per), core.TokenBucket("image", per))
	trial := testkit.Limiter(t, s, core.SlidingLog("trial", per).Shadow())
	ask := func(l ...*core.Limiter) (core.Decision, error) {
		var asks []core.Ask
		for _, l := range l {
			asks = append(asks, core.Ask{Limiter: l, Key: "k"})
		}
		return core.AllowTogether(t.Context(), asks...)
	}
	for range 10 {
		for _, l := range [][]*core.Limiter{{login}, {login, search}, {api, login}, {trial, login, api}} {
			if d, err := ask(l...); !errors.Is(err, core.ErrFailClosed) || d.Allowed {
				t.Fatalf("with a fail-closed rule: got %+v and %v, expected core.ErrFailClosed", d, err)
			}
		}
		if d, err := ask(search); err != nil || !d.Allowed {
			t.Fatalf("fail-open rules: got %+v and %v, expected an admission", d, err)
		}
	}
	for i := range 5 {
		d, err := ask(search, api, trial)
		if err != nil || d.Allowed != (i < 3) {
			t.Fatalf("event %d of 3: got %+v and %v", i, d, err)
		}
		for j, want := range []int{3, 3, max(0, 2-i), 3} {
			if got := d.State(j); got.Remaining != want || got.Allowed != (j != 2 || i < 3) {
				t.Errorf("event %d, %v: got %+v, expected %d left", i, got.Rule, got, want)
			}
		}
	}
}

// Every gate answers 503 for a fail-closed rule, without an option of the gate.
func TestFailClosedFor_Gate(t *testing.T) {
	s := failover.New(absent(), memstore.New(), failover.FailClosedFor("login"))
	defer s.Close()
	login := testkit.Limiter(t, s, core.TokenBucket("login", core.PerMinute(1)))
	quiet := gate.OnError(func(_ *http.Request, _ error, status int) int { return status })
	for _, opts := range [][]gate.Option{{quiet}, {quiet, gate.FailClosed()}} {
		h := nethttplimit.New(login, keyfunc.RemoteIP(), opts...)(http.NotFoundHandler())
		for range 20 {
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != http.StatusServiceUnavailable {
				t.Fatalf("the status: got %d, expected 503", w.Code)
			}
		}
	}
}

// The verdicts have the divided rule, always the same, and the charges keep the caller's rule.
func TestInstances_Verdict(t *testing.T) {
	s := failover.New(absent(), memstore.New(), failover.Instances(4))
	defer s.Close()
	rule := core.SlidingLog("log", core.PerHour(20)).Soft(25)
	l := testkit.Limiter(t, s, rule, core.TokenBucket("bucket", core.PerHour(20)))
	first, again := testkit.Allow(t, l, "k"), testkit.Allow(t, l, "k")
	for i, want := range []string{`sliding_log "log" 5/h soft 25%`, `token_bucket "bucket" 5/h`} {
		if got := first.State(i); got.Rule.String() != want || got.Remaining != 4 || again.State(i).Rule != got.Rule {
			t.Errorf("got %v, %+v and then %v, expected %s twice and 4 left", got.Rule, got, again.State(i).Rule, want)
		}
	}
	compiled := testkit.Compiled(rule)
	charges := []driver.Charge{{Key: "k", Rule: compiled, Cost: 1}}
	if err := s.Take(t.Context(), charges); err != nil || charges[0].Rule != compiled || charges[0].Verdict.Rule.Definition != testkit.Compiled(first.State(0).Rule).Definition {
		t.Errorf("got %+v and %v, expected the rule of the caller, and the divided rule in the verdict", charges[0], err)
	}
}

// A cost above the part of a limit, but not above the limit, is admitted when the primary returns.
func TestInstances_aboveThePart(t *testing.T) {
	rules := []core.Rule{core.InFlight("places", 20).ByCost(), core.TokenBucket("soft", core.PerMinute(20)).Soft(20)}
	for _, a := range testkit.Algorithms {
		rules = append(rules, a.Rule(a.Name, core.PerMinute(20)))
	}
	for _, rule := range rules {
		for cost, want := range map[int]time.Duration{7: time.Second, 20: time.Second, 25: core.Never} {
			t.Run(fmt.Sprintf("%s, %d", rule.Name(), cost), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := newPair(t, true, failover.Instances(4))
					l := testkit.Limiter(t, p, rule)
					p.leave()
					d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: "k", Cost: cost, Peek: true})
					if err != nil || d.Allowed || d.RetryAfter != want {
						t.Errorf("got %v, %v, %v, want denied, %v", d, d.RetryAfter, err, want)
					}
					known := want != core.Never && !rule.Kind().Holds
					if seconds, ok := gate.RetryAfter(d); ok != known || ok && seconds != int64(want/time.Second) {
						t.Errorf("a client is to wait for %d s (%v), want %v", seconds, ok, want)
					}
					waited := make(chan error)
					go func() {
						r, err := l.AcquireN(t.Context(), "k", cost)
						if err == nil {
							err = r.Release(t.Context())
						}
						waited <- err
					}()
					if want == core.Never {
						if err := <-waited; !errors.Is(err, core.ErrNeverAdmitted) {
							t.Errorf("got %v", err)
						}
						return
					}
					time.Sleep(time.Minute)
					p.comeBack()
					if err := <-waited; err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// An elastic rule is divided with the limit in force.
func TestInstances_Elastic(t *testing.T) {
	s := failover.New(absent(), memstore.New(), failover.Instances(2))
	defer s.Close()
	spare := 0.0
	l := testkit.Limiter(t, s, core.SlidingLog("log", core.PerHour(20)).Elastic(func() float64 { return spare }, 3))
	for _, want := range []int{10, 30, 10} {
		if got := testkit.Allow(t, l, "k").State(0).Rule.Capacity(); got != want {
			t.Errorf("the divided limit with %v to spare: got %d, expected %d", spare, got, want)
		}
		spare = 1 - spare
	}
}

// A part of an event of a divided rule can be refunded, and no more than that part.
func TestInstances_Refund(t *testing.T) {
	for _, a := range testkit.Algorithms {
		for _, n := range []int{2, 3, 7} {
			s := failover.New(absent(), memstore.New(), failover.Instances(n))
			defer s.Close()
			// 7 and 11 make a microsecond's fractions that the parts do not share.
			l := testkit.Limiter(t, s, a.Rule("r", core.Per(7*11*n, 13*time.Hour)))
			r := testkit.Reserve(t, l, "k", 40)
			testkit.Must(t, r.Settle(t.Context(), 15))
			if got := testkit.Left(t, l, "k"); got < 77-40 || got > 77-15 {
				t.Errorf("%s, %d instances, 15 of 40 are charged: got %d left, expected %d to %d", a.Name, n, got, 77-40, 77-15)
			}
			testkit.Must(t, r.Refund(t.Context()))
			if got := testkit.Allow(t, l, "k").State(0).Remaining; got > 76 {
				t.Errorf("%s, %d instances, all is refunded and 1 charged: got %d left, expected at most 76", a.Name, n, got)
			}
		}
	}
}

// allowance returns the most that one store admits of rule in d.
func allowance(rule core.Rule, d time.Duration) int {
	l := rule.Limit()
	n := rule.Capacity() + int(d*time.Duration(l.Events)/l.Per)
	if rule.Algorithm() == driver.FixedWindow {
		n += l.Events // of the window in which d begins
	}
	return n
}

// The bounds of the package comment hold while processes that share a primary have more load
// than they may admit. With Instances not much less than the limit is admitted.
func TestStore_Bounds(t *testing.T) {
	const processes, outage, back = 4, 10 * time.Second, 1500 * time.Millisecond
	for _, a := range testkit.Algorithms {
		rule := a.Rule(a.Name, core.Per(40, 2*time.Second))
		for _, instances := range []int{1, processes} {
			t.Run(fmt.Sprintf("%s/%d instances", a.Name, instances), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					p := newPair(t, true, failover.Instances(instances))
					stores := []*failover.Store{p.Store}
					for range processes - 1 {
						s := failover.New(p.primary.WithDeadline(deadline), memstore.New(), failover.Instances(instances))
						defer s.Close()
						stores = append(stores, s)
					}
					var limiters []*core.Limiter
					for _, s := range stores {
						limiters = append(limiters, testkit.Limiter(t, s, rule))
					}
					run := func(d time.Duration) (admitted int) { // on all processes
						for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
							for _, l := range limiters {
								if testkit.Allow(t, l, "k").Allowed {
									admitted++
								}
							}
						}
						return admitted
					}
					run(3 * time.Second)
					p.set(hang)
					begun := time.Now()
					during := run(outage)
					away := time.Since(begun) // a little longer, for calls that hung
					most := processes * allowance(rule.Divide(instances), away)
					if during > most || during < most*7/10 {
						t.Errorf("admitted in an outage of %v: got %d, expected at most %d and not much less", away, during, most)
					}
					p.set()
					begun = time.Now()
					after := run(4 * time.Second)
					most = processes*allowance(rule.Divide(instances), away+back) + allowance(rule, time.Since(begun))
					if during+after > most {
						t.Errorf("admitted until the end of the recovery: got %d, expected at most %d", during+after, most)
					}
					for _, s := range stores {
						if s.State() != failover.Primary {
							t.Errorf("the state: got %v, expected %v", s.State(), failover.Primary)
						}
					}
				})
			})
		}
	}
}

// A rule that fails open does not bound the cost, and is charged with the others.
func TestBackup_AtMostByRule(t *testing.T) {
	costs := make(map[string]int)
	behind := failover.New(absent(), memstore.New(), failover.FailOpenFor("open"), failover.Instances(2))
	defer behind.Close()
	s := &storetest.Fake{Store: behind}
	s.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		err := next(ctx, charges)
		for _, c := range charges {
			costs[c.Rule.Name] = c.Cost
		}
		return err
	})
	open, window := core.SlidingLog("open", core.PerDay(3)), core.FixedWindow("window", core.PerDay(10))
	reserveAtMost(t, testkit.Limiter(t, s, open, window), 100, 5)
	if costs["open"] != 5 || costs["window"] != 5 {
		t.Errorf("got the costs %v, want 5 of both", costs)
	}
	reserveAtMost(t, testkit.Limiter(t, s, open, window), 100, 0)
	reserveAtMost(t, testkit.Limiter(t, s, open), 100, 100)
}

// In the outages of a period, the backup of each process admits an n-th of a quota in all, in the periods
// of its calendar. The primary has its own count afterwards.
func TestInstances_Quota(t *testing.T) {
	testkit.WithoutRace(t)
	zone := time.FixedZone("", -3600)
	for _, rule := range []core.Rule{core.Quota("q", core.Daily(20)).In(zone), core.Quota("q", core.Daily(20)).In(zone).Soft(20)} {
		t.Run(rule.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, true, failover.Instances(4))
				l := testkit.Limiter(t, p, rule)
				time.Sleep(23 * time.Hour) // 2000-01-01 23:00 UTC, 22:00 in the zone
				part := testkit.Compiled(rule).Divide(4).Constants.Capacity
				testkit.Admit(t, l, "k", 8)
				for _, want := range []int64{part, 0} {
					p.leave()
					if got := drain(t, l, "k"); got != want {
						t.Errorf("the backup has admitted %d, expected %d", got, want)
					}
					p.comeBack()
					testkit.Admit(t, l, "k", 1)
				}
				if got := testkit.Used(t, l, "k")[0]; got != 10 {
					t.Errorf("the primary has counted %d, expected 10", got)
				}
				p.leave()
				if d := testkit.Allow(t, l, "k"); d.Allowed || d.State(0).Period() != 24*time.Hour || d.RetryAfter > 2*time.Hour {
					t.Errorf("got %v, period %v, expected a denial until the end of the day", d, d.State(0).Period())
				} else {
					time.Sleep(d.RetryAfter)
				}
				if got := drain(t, l, "k"); got != part {
					t.Errorf("the backup has admitted %d on the next day, expected %d", got, part)
				}
			})
		})
	}
}

// A part of a limit keeps its headroom.
func TestInstances_Headroom(t *testing.T) {
	rules := []core.Rule{core.Quota("q", core.Daily(40))}
	for _, a := range testkit.Algorithms {
		rules = append(rules, a.Rule(a.Name, core.PerDay(40)))
	}
	for _, rule := range rules {
		rule = rule.Headroom("sheddable", 50)
		t.Run(rule.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, true, failover.Instances(4))
				l := testkit.Limiter(t, p, rule)
				p.leave()
				if got := drain(t, l.Plan("sheddable"), "k"); got != 5 {
					t.Errorf("the backup has admitted %d of the plan, expected 5", got)
				}
				if got := drain(t, l, "k"); got != 5 {
					t.Errorf("the backup has admitted %d of all others, expected 5", got)
				}
			})
		})
	}
}

// A quota that must not be exceeded is decided by the primary only.
func TestFailClosedFor_Quota(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t, true, failover.FailClosedFor("q"))
		l := testkit.Limiter(t, p, core.Quota("q", core.Monthly(20)).Plan("pro", core.Monthly(30)))
		testkit.Admit(t, l, "k", 8)
		p.leave()
		for _, l := range []*core.Limiter{l, l.Plan("pro")} {
			if d, err := l.Allow(t.Context(), "k"); !errors.Is(err, core.ErrFailClosed) {
				t.Errorf("got %v, %v, expected ErrFailClosed", d, err)
			}
		}
		p.comeBack()
		if got := testkit.Used(t, l, "k")[0]; got != 8 {
			t.Errorf("%d are used, expected 8", got)
		}
	})
}

// drain asks for single events until one is denied, and returns the number of the others.
func drain(t *testing.T, l *core.Limiter, key string) (n int64) {
	t.Helper()
	for testkit.Allow(t, l, key).Allowed {
		n++
	}
	return n
}

// The parts of the limits of one length share a state of the backup: a caller that alternates
// between the plans gains nothing.
func TestInstances_Plans(t *testing.T) {
	const n, span = 4, 10 * time.Minute
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, true, failover.Instances(n))
				base := testkit.Limiter(t, p, a.Rule("r", core.PerMinute(10)).Plan("pro", core.PerMinute(100)))
				pro := base.Plan("pro")
				p.leave()
				used, begun := 0.0, time.Now() // the sum of the admitted parts of the limits
				for time.Since(begun) < span {
					for _, l := range []*core.Limiter{pro, base} {
						d := testkit.Ask(t, l, "k", 1)
						for ; d.Allowed; d = testkit.Ask(t, l, "k", 1) {
							used += n / float64(l.Rules()[0].Capacity())
						}
						if got, want := d.State(0).Rule.PlanName(), l.Rules()[0].PlanName(); got != want {
							t.Fatalf("got the plan %q, want %q", got, want)
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				if most := 1 + float64(span)/float64(time.Minute); used > most*1.001 || used < most*0.6 {
					t.Errorf("got %.2f limits in %v, want %.2f at most", used, span, most)
				}
			})
		})
	}
}

// The Answer of a rule is that of all its plans. The limits Unlimited and Blocked need no store.
func TestFailClosedFor_Plans(t *testing.T) {
	for _, c := range []struct {
		name    string
		option  failover.Option
		err     error // of the plans that call a store
		allowed bool
	}{
		{"closed", failover.FailClosedFor("r"), core.ErrFailClosed, false},
		{"open", failover.FailOpenFor("r"), nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			primary := absent()
			s := failover.New(primary, memstore.New(), c.option)
			defer s.Close()
			l := testkit.Limiter(t, s, core.SlidingLog("r", core.PerHour(1)).Plan("pro", core.PerHour(2)).
				Plan("staff", core.Unlimited).Plan("banned", core.Blocked))
			testkit.Must(t, s.Check())
			for plan, allowed := range map[string]bool{"staff": true, "banned": false} {
				if d := testkit.Allow(t, l.Plan(plan), "k"); d.Allowed != allowed || primary.Calls() > 0 {
					t.Errorf("%s: got %v and %d calls, expected allowed %v and no call", plan, d, primary.Calls(), allowed)
				}
			}
			for _, plan := range []string{"", "pro"} {
				for range 4 {
					if d, err := l.Plan(plan).Allow(t.Context(), "k"); !errors.Is(err, c.err) || d.Allowed != c.allowed {
						t.Errorf("plan %q: got %v and %v, expected allowed %v and %v", plan, d, err, c.allowed, c.err)
					}
				}
			}
		})
	}
}

// Nothing rolls over in a backup, whose counts are those of an outage, and a cost that fits the limit of the primary with a rest
// is not denied for ever.
func TestBackup_Rollover(t *testing.T) {
	for name, opts := range map[string][]failover.Option{"no number": nil, "one": {failover.Instances(1)}, "two": {failover.Instances(2)}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, true, opts...)
				rule := core.Quota("q", core.Daily(100)).Rollover(50)
				l := testkit.Limiter(t, p, rule)
				testkit.Admit(t, l, "k", 100)
				p.leave()
				testkit.Admit(t, l, "k", 1)
				p.comeBack()
				time.Sleep(24 * time.Hour)
				p.leave()
				s := testkit.Allow(t, l, "k").State(0)
				if got := s.Limit(); got.Events > 100 || got.Events < 50 {
					t.Errorf("got the limit %v of a backup, want 100 a day or its half", got)
				}
				if d := testkit.Ask(t, l, "k", 120); d.Allowed || d.RetryAfter == core.Never {
					t.Errorf("got %v, want a denial until the primary may decide", d)
				}
				if d := testkit.Ask(t, l, "k", 151); d.RetryAfter != core.Never {
					t.Errorf("got %v, want a denial for ever", d)
				}
			})
		})
	}
}
