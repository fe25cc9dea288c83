package rules_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// Clients see the end of a block.
func TestSet_BlockWithEnd(t *testing.T) {
	const policies = `policies:
  api:
    rules:
      - {name: minute, algorithm: sliding_log, limit: 9/m, unit: bytes}
      - {name: day, algorithm: fixed_window, limit: 99/d, unit: tokens}
    keys:
      short: {blocked: true, until: 2000-01-01T00:00:05Z}
      ever: {blocked: true}
      one: {limits: {day: blocked}, until: 2000-01-01T00:00:05Z}
`
	const blocked, open = `"minute";q=0;qu="content-bytes", "day";q=0`, `"minute";q=9;qu="content-bytes";w=60, "day";q=99;w=86400`
	for name, c := range map[string]struct {
		key                         string
		after                       time.Duration
		policy, limit, retry, reset string
		detail                      string // empty if the request is admitted
	}{
		"a block":          {"short", 0, blocked, `"minute";r=0;t=5, "day";r=0;t=5`, "5", "946684805", `Policy "minute" allows no bytes until 2000-01-01T00:00:05Z. Retry in 5 s.`},
		"near its end":     {"short", 5*time.Second - 1, blocked, `"minute";r=0;t=1, "day";r=0;t=1`, "1", "946684805", `Policy "minute" allows no bytes until 2000-01-01T00:00:05Z. Retry in 1 s.`},
		"at its end":       {"short", 5 * time.Second, open, `"minute";r=8;t=60, "day";r=98;t=86395`, "", "946684865", ""},
		"without an end":   {"ever", 0, blocked, `"minute";r=0, "day";r=0`, "", "", `Policy "minute" allows no bytes.`},
		"one blocked rule": {"one", 0, `"day";q=0`, `"day";r=0;t=5`, "5", "946684805", `Policy "day" allows no tokens until 2000-01-01T00:00:05Z. Retry in 5 s.`},
		"another key":      {"other", 0, open, `"minute";r=8;t=60, "day";r=98;t=86400`, "", "946684860", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, err := rules.Parse("test", []byte(policies))
				testkit.Must(t, err)
				set, err := rules.New(memstore.New(), config)
				testkit.Must(t, err)
				l, err := set.Limiter("api")
				testkit.Must(t, err)
				key := func(context.Context, *http.Request) (string, error) { return c.key, nil }
				limited := nethttplimit.New(l, key, gate.Headers(gate.IETFDraft, gate.XRateLimit))(http.NotFoundHandler())
				time.Sleep(c.after)
				for range 2 { // the second text is remembered
					w := httptest.NewRecorder()
					limited.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
					h, got := w.Header(), map[string]string{"detail": ""}
					if w.Code == http.StatusTooManyRequests {
						var problem struct{ Detail string }
						testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &problem))
						got["detail"] = problem.Detail
					}
					want := map[string]string{"detail": c.detail, "RateLimit-Policy": c.policy, "RateLimit": c.limit, "Retry-After": c.retry, "X-RateLimit-Reset": c.reset}
					for name, want := range want {
						if name != "detail" {
							got[name] = h.Get(name)
						}
						if got[name] != want {
							t.Errorf("%s: got  %s\n\twant %s", name, got[name], want)
						}
					}
					if _, err := l.Reset(t.Context(), c.key); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// Rules that change while requests are decided: each request is decided by the old or the new ones.
func TestSet_Apply_RoutesInUse(t *testing.T) {
	config := func(routes map[string]string) *rules.Config {
		c := &rules.Config{Policies: make(map[string]rules.Policy), Routes: routes}
		for i, name := range []string{"base", "user", "all"} {
			rule := rules.Rule{Spec: core.Spec{Name: name, Algorithm: driver.TokenBucket, Limit: core.PerMinute(1000 + i)}}
			c.Policies[name] = rules.Policy{Enforce: 100, Rules: []rules.Rule{rule}}
		}
		return c
	}
	configs := []*rules.Config{config(map[string]string{"/users/{id}": "user"}), config(map[string]string{"/users/": "all"}), config(nil)}
	set, err := rules.New(memstore.New(), configs[0])
	testkit.Must(t, err)
	base, err := set.Limiter("base")
	testkit.Must(t, err)
	h := nethttplimit.New(base, keyfunc.Constant("k"), gate.Routes(set))(http.NotFoundHandler())
	var seen [3]atomic.Bool
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for i := range 200 {
				if err := set.Apply(configs[i%3]); err != nil {
					t.Error(err)
				}
				got := httptest.NewRecorder()
				h.ServeHTTP(got, httptest.NewRequest("GET", "/users/1", nil))
				name, _, _ := strings.Cut(got.Header().Get("RateLimit-Policy"), ";")
				policy := slices.Index([]string{`"user"`, `"all"`, `"base"`}, name)
				if policy < 0 {
					t.Errorf("got status %d and policy %q", got.Code, name)
					return
				}
				seen[policy].Store(true)
			}
		})
	}
	clients.Wait()
	for i := range seen {
		if !seen[i].Load() {
			t.Errorf("no request had the policy of configuration %d", i)
		}
	}
}
