package failover_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestStore_Declare(t *testing.T) {
	primary, backup := memstore.New(), memstore.New()
	s := failover.New(primary, backup, failover.Instances(2))
	defer s.Close()
	testkit.Limiter(t, s, core.TokenBucket("minute", core.PerMinute(10)))
	other := core.TokenBucket("minute", core.PerMinute(20))
	for name, store := range map[string]core.Store{"failover": s, "primary": primary, "backup": backup} {
		if _, err := core.New(store, other); !errors.Is(err, core.ErrRuleConflict) {
			t.Errorf("another rule of the name on the %s: got %v, expected core.ErrRuleConflict", name, err)
		}
	}
	testkit.Limiter(t, backup, core.TokenBucket("minute", core.PerMinute(10))) // whole, as the number of processes may change
	testkit.Limiter(t, failover.New(struct{ core.Store }{absent()}, failover.FailOpen), other)
}

// If the backup rejects one of several changes, neither store nor Check knows any of them.
func TestStore_Declare_BackupRejects(t *testing.T) {
	primary, backup := memstore.New(), memstore.New()
	s := failover.New(primary, backup, failover.Instances(2), failover.FailClosedFor("c"))
	defer s.Close()
	rule := func(name string, n int) core.Rule {
		return core.TokenBucket(name, core.PerMinute(n)).Plan("pro", core.PerMinute(2*n))
	}
	a, b := testkit.Limiter(t, s, rule("a", 10)), testkit.Limiter(t, s, rule("b", 10))
	testkit.Limiter(t, backup, rule("c", 5))
	err := core.ReplaceAll(map[*core.Limiter][]core.Rule{a: {rule("a", 20)}, b: {rule("b", 20), rule("c", 20)}})
	if !errors.Is(err, core.ErrRuleConflict) {
		t.Fatalf("got %v, expected core.ErrRuleConflict", err)
	}
	if s.Check() == nil {
		t.Error("Check: got nil, expected an error about c, which no limiter has")
	}
	for _, store := range []core.Store{primary, backup} {
		for _, name := range []string{"a", "b"} {
			if _, err := core.New(store, rule(name, 30)); !errors.Is(err, core.ErrRuleConflict) {
				t.Errorf("%s: got %v, expected core.ErrRuleConflict with the old rule", name, err)
			}
		}
	}
	testkit.Limiter(t, primary, rule("a", 10), rule("b", 10), rule("c", 30))
	testkit.Limiter(t, backup, rule("a", 10), rule("b", 10), rule("c", 5))
}

// A name that no rule has is reported, because the ordinary backup would decide the intended rule.
func TestStore_Check(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	for _, c := range []struct {
		name   string
		option failover.Option
		want   string // in the error and in the log; none if empty
	}{
		{"known", failover.FailClosedFor("login"), ""},
		{"misspelt, closed", failover.FailClosedFor("logn", "login"), `"logn"`},
		{"misspelt, open", failover.FailOpenFor("serch", "imgae"), `"imgae" "serch"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			log.Reset()
			s := failover.New(absent(), memstore.New(), c.option, failover.OnChange(func(failover.State, failover.State, error) {}))
			defer s.Close()
			login := testkit.Limiter(t, s, core.SlidingLog("login", core.PerHour(3)))
			err := s.Check()
			if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, core.ErrInvalidRule) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check: got %v, expected %s in a core.ErrInvalidRule", err, c.want)
			}
			for range 10 {
				_, _ = login.Allow(t.Context(), "k")
			}
			lines, want := strings.Count(log.String(), "\n"), 1
			if c.want == "" {
				want = 0
			}
			if lines != want || !strings.Contains(strings.ReplaceAll(log.String(), `\"`, `"`), c.want) {
				t.Errorf("the log: got %d lines %s, expected %d with %s", lines, log.String(), want, c.want)
			}
		})
	}
}

// A closed Store goes on deciding, and does nothing in the background.
func TestStore_Close(t *testing.T) {
	for _, c := range []struct {
		name  string
		hooks []storetest.Hook
		want  failover.State
	}{
		{"healthy", nil, failover.Primary},
		{"hangs", []storetest.Hook{hang}, failover.Backup},
		{"refuses", []storetest.Hook{refuse}, failover.Backup},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachPair(t, func(t *testing.T, p *pair) {
				p.set(c.hooks...)
				for range 10 {
					p.allow("k")
				}
				begun := time.Now()
				p.Close()
				p.Close()
				if took := time.Since(begun); took != 0 {
					t.Errorf("Close: got %v, expected no wait", took)
				}
				synctest.Wait() // for a probe that Close has abandoned
				calls := p.primary.Calls()
				time.Sleep(time.Minute)
				if n := p.primary.Calls() - calls; n != 0 {
					t.Errorf("calls of the primary after Close: got %d, expected 0", n)
				}
				for range 20 {
					p.allow("k")
				}
				p.set()
				time.Sleep(time.Minute)
				p.is(c.want)
			})
		})
	}
}
