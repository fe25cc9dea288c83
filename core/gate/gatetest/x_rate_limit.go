package gatetest

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
)

// testXRateLimit checks which rule the fields X-RateLimit-* describe, with the options in a list and in an Options.
func (s *suite) testXRateLimit(t *testing.T) {
	hourly, minute := core.SlidingLog("hourly", core.PerHour(5000)), core.SlidingLog("minute", core.PerMinute(60))
	places := core.InFlight("places", 100)
	labelled := core.NewRule(core.Spec{Name: "v2-hourly", Label: "calls", Algorithm: core.AlgorithmSlidingLog, Limit: core.PerHour(5000)})
	left := func(hourly, minute, places int) states {
		return states{
			"hourly": allowed(hourly, time.Hour, time.Hour), "v2-hourly": allowed(hourly, time.Hour, time.Hour),
			"minute": allowed(minute, time.Minute, time.Minute), "places": allowed(places, 0, 0),
		}
	}
	over := left(4000, 0, 1)
	over["minute"] = denied(30 * time.Second)
	full := left(4000, 40, 0)
	full["places"] = denied(time.Second)
	for _, c := range []struct {
		name       string
		rules      []core.Rule
		states     states
		rule       string // of XRateLimitRule
		status     int
		limit, has int // X-RateLimit-Limit and -Remaining
		reset      bool
	}{
		{"one rule", []core.Rule{hourly}, left(4999, 0, 0), "", 200, 5000, 4999, true},
		{"the smallest part", []core.Rule{hourly, minute}, left(4000, 20, 0), "", 200, 60, 20, true},
		{"a rate beside places", []core.Rule{hourly, places}, left(4999, 0, 1), "", 200, 5000, 4999, true},
		{"places before a rate", []core.Rule{places, hourly}, left(4999, 0, 1), "", 200, 5000, 4999, true},
		{"a rate beside places, denied by them", []core.Rule{hourly, places}, full, "", 429, 5000, 4000, true},
		{"places alone", []core.Rule{places}, left(0, 0, 99), "", 200, 100, 99, false},
		{"named", []core.Rule{hourly, minute, places}, left(4000, 1, 1), "hourly", 200, 5000, 4000, true},
		{"named last", []core.Rule{places, minute, hourly}, left(4000, 1, 1), "hourly", 200, 5000, 4000, true},
		{"named places", []core.Rule{hourly, places}, left(1, 0, 99), "places", 200, 100, 99, false},
		{"named, denied by another", []core.Rule{hourly, minute}, over, "hourly", 429, 5000, 4000, true},
		{"named by its label", []core.Rule{labelled, minute}, left(4000, 1, 0), "calls", 200, 5000, 4000, true},
		{"a label, by its name", []core.Rule{labelled, minute}, left(4000, 1, 0), "v2-hourly", 200, 5000, 4000, true},
		{"no such rule", []core.Rule{hourly, minute, places}, left(4000, 20, 1), "daily", 200, 60, 20, true},
		{"a shadow", []core.Rule{hourly.Shadow(), minute, places}, left(4000, 20, 1), "hourly", 200, 60, 20, true},
	} {
		for _, bundled := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: "/Options"}[bundled], func(t *testing.T) {
				opts := []gate.Option{gate.Headers(), gate.Headers(gate.XRateLimit)}
				if c.rule != "" {
					opts = append(opts, gate.XRateLimitRule("minute"), gate.XRateLimitRule(c.rule))
				}
				if bundled {
					opts = []gate.Option{gate.Headers(gate.IETFDraft), gate.Options(gate.Options(opts[:1]...), gate.Options(opts[1:]...))}
				}
				got := exchange(t, s.start(setup{Rules: c.rules, States: c.states, Opts: opts}), request("GET", "/v1/orders"))
				if got.Status != c.status || (got.Header.Get("X-RateLimit-Reset") != "") != c.reset {
					t.Errorf("got %d with the reset %q, want %d and a reset: %t", got.Status, got.Header.Get("X-RateLimit-Reset"), c.status, c.reset)
				}
				s.checkFields(t, got, map[string]string{
					"X-RateLimit-Limit": strconv.Itoa(c.limit), "X-RateLimit-Remaining": strconv.Itoa(c.has), "RateLimit": "",
				})
			})
		}
	}
	t.Run("by route", func(t *testing.T) { // of two policies, one has the rule
		other := core.Must(core.New(memory(), core.SlidingLog("search", core.PerMinute(10))))
		l := core.Must(core.New(memory(), hourly, minute))
		byRoute := gate.Routes(apptest.PolicyFunc(func(r *http.Request) *core.Limiter {
			if r.URL.Path == "/search" {
				return other
			}
			return nil
		}))
		a := s.start(setup{Limiter: l, Opts: []gate.Option{byRoute, gate.Headers(gate.XRateLimit), gate.XRateLimitRule("hourly")}})
		for path, want := range map[string]string{"/search": "10", "/v1/orders": "5000"} {
			if got := exchange(t, a, request("GET", path)).Header.Get("X-RateLimit-Limit"); got != want {
				t.Errorf("%s: the limit is %s, want %s", path, got, want)
			}
		}
	})
	t.Run("Options in And", func(t *testing.T) {
		store := memory()
		l, second := core.Must(core.New(store, hourly)), core.Must(core.New(store, minute))
		cost := gate.Options(gate.Cost(func(context.Context, *http.Request) int { return 7 }))
		got := exchange(t, s.start(setup{Limiter: l, Opts: []gate.Option{gate.Options(gate.And(second, constant("k"), cost))}}), request("GET", "/"))
		if limit := got.Header["Ratelimit"]; !slices.Equal(limit, []string{`"hourly";r=4999;t=3600, "minute";r=53;t=60`}) {
			t.Errorf("RateLimit is %q", limit)
		}
	})
}
