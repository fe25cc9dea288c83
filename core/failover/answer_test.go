package failover_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

var kinds = []struct {
	name string
	rule func(name string, l core.Limit) core.Rule
}{
	{"token_bucket", core.TokenBucket},
	{"leaky_bucket", core.LeakyBucket},
	{"fixed_window", core.FixedWindow},
	{"sliding_window", core.SlidingWindow},
	{"sliding_log", core.SlidingLog},
}

// FailOpen says what a store says about an untouched key.
func TestFailOpen(t *testing.T) {
	for _, kind := range kinds {
		for _, rule := range []core.Rule{
			kind.rule("plain", core.PerMinute(7)), kind.rule("soft", core.PerMinute(7)).Soft(50), kind.rule("shadow", core.PerMinute(7)).Shadow(),
		} {
			open, real := limiter(t, failover.FailOpen, rule), limiter(t, memstore.New(), rule)
			want, err := real.Peek(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				for _, cost := range []int{0, 1, 7, math.MaxInt / 8} {
					got, err := open.AllowN(t.Context(), "k", cost)
					if err != nil || !got.Allowed {
						t.Fatalf("%v, cost %d: %+v, %v", rule, cost, got, err)
					}
					a, b := got.State(0), want.State(0)
					a.Rule, b.Rule, a.Window, b.Window = core.Rule{}, core.Rule{}, a.Window/time.Minute, b.Window/time.Minute // windows begin at any time
					if a != b {
						t.Fatalf("%v, cost %d:\n\t%+v, want\n\t%+v", rule, cost, a, b)
					}
				}
			}
			found, err := open.Reset(t.Context(), "k")
			if err := errors.Join(err, open.Credit(t.Context(), "k", 1), open.Debit(t.Context(), "k", 1)); err != nil || found {
				t.Errorf("found %v, %v", found, err)
			}
		}
	}
}

func TestFailClosed(t *testing.T) {
	rule := core.TokenBucket("r", core.PerMinute(7))
	l := limiter(t, failover.FailClosed, rule)
	_, err := l.Reset(t.Context(), "k")
	for name, err := range map[string]error{"Credit": l.Credit(t.Context(), "k", 1), "Debit": l.Debit(t.Context(), "k", 1), "Reset": err} {
		if !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d, err := l.Allow(t.Context(), "k"); !errors.Is(err, core.ErrUnavailable) || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	shadow := limiter(t, failover.FailClosed, rule.Shadow())
	if d, err := shadow.Allow(t.Context(), "k"); err != nil || !d.Allowed {
		t.Errorf("a rule that is not enforced: %+v, %v", d, err)
	}
	for _, a := range []failover.Answer{failover.FailOpen, failover.FailClosed} {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := limiter(t, a, rule).Allow(ended, "k"); !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
}

// Each rule has its own backup, and they are still decided together.
func TestAnswersByRule(t *testing.T) {
	backup := memstore.New()
	s := failover.New(absent{}, backup, failover.FailClosedFor("login", "trial"), failover.FailOpenFor("search", "image"))
	defer s.Close()
	per := core.PerHour(3)
	api := limiter(t, s, core.SlidingLog("api", per))
	login := limiter(t, s, core.SlidingLog("login", per))
	search := limiter(t, s, core.SlidingLog("search", per), core.TokenBucket("image", per))
	trial := limiter(t, s, core.SlidingLog("trial", per).Shadow())
	ask := func(l ...*core.Limiter) (core.Decision, error) {
		var asks []core.Ask
		for _, l := range l {
			asks = append(asks, core.Ask{Limiter: l, Key: "k", Cost: 1})
		}
		return core.AllowTogether(t.Context(), asks...)
	}
	for range 10 {
		for _, l := range [][]*core.Limiter{{login}, {login, search}, {api, login}, {trial, login, api}} {
			if d, err := ask(l...); !errors.Is(err, core.ErrUnavailable) || d.Allowed {
				t.Fatalf("with a closed rule: %+v, %v", d, err)
			}
		}
		if d, err := ask(search); err != nil || !d.Allowed {
			t.Fatalf("open: %+v, %v", d, err)
		}
	}
	for i := range 5 {
		d, err := ask(search, api, trial)
		if err != nil || d.Allowed != (i < 3) {
			t.Fatalf("event %d of 3: %+v, %v", i, d, err)
		}
		for j, want := range []int{3, 3, max(0, 2-i), 3} {
			if got := d.State(j); got.Remaining != want || got.Allowed != (j != 2 || i < 3) {
				t.Errorf("event %d, %v: %+v", i, got.Rule, got)
			}
		}
	}
}

// A fail-closed rule is a 503 without any option of the gate.
func TestFailClosedFor_EveryGate(t *testing.T) {
	s := failover.New(absent{}, memstore.New(), failover.FailClosedFor("login"))
	defer s.Close()
	login := limiter(t, s, core.TokenBucket("login", core.PerMinute(1)))
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	quiet := gate.OnError(func(_ *http.Request, _ error, status int) int { return status })
	for _, c := range []struct {
		opts []gate.Option
		want int
	}{
		{[]gate.Option{quiet}, http.StatusServiceUnavailable},
		{[]gate.Option{quiet, gate.FailClosed()}, http.StatusServiceUnavailable},
	} {
		h := nethttplimit.New(login, keyfunc.RemoteIP(), c.opts...)(ok)
		for range 20 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if w.Code != c.want {
				t.Fatalf("status %d, want %d", w.Code, c.want)
			}
		}
	}
}

// A name that no rule has leaves the rule that was meant to the backup, so it is reported.
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
			s := failover.New(absent{}, memstore.New(), c.option)
			defer s.Close()
			login := limiter(t, s, core.SlidingLog("login", core.PerHour(3)))
			err := s.Check()
			if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, core.ErrInvalidRule) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check: got %v, want %s in a core.ErrInvalidRule", err, c.want)
			}
			for range 10 {
				_, _ = login.Allow(t.Context(), "k")
			}
			lines, want := strings.Count(log.String(), "\n"), 1
			if c.want == "" {
				want = 0
			}
			if lines != want || !strings.Contains(strings.ReplaceAll(log.String(), `\"`, `"`), c.want) {
				t.Errorf("%d lines are logged, want %d with %s: %s", lines, want, c.want, log.String())
			}
		})
	}
}
