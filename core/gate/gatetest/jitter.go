package gatetest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/internal/testkit"
)

// testJitter checks that Retry-After and the number or time of the document are longer by the random seconds of
// gate.Jitter, and that all else stays the same.
func (s *suite) testJitter(t *testing.T) {
	const longest = 5 // of Jitter, in seconds
	minute, hour := core.FixedWindow("minute", core.PerMinute(10)), core.FixedWindow("hour", core.PerHour(50))
	places := core.InFlight("places", 5)
	login := core.FixedWindow("login", core.PerHour(1)).FromFirst().BlockFor(2 * time.Hour)
	full := denied(time.Hour) // an estimate
	for _, c := range []struct {
		name   string
		rules  []core.Rule
		states states
		before func(t *testing.T, l *core.Limiter)
		retry  int // without Jitter, in seconds; 0 for none, which is also that of Jitter if never
		never  bool
	}{
		{"a window", []core.Rule{minute}, states{"minute": denied(12 * time.Second)}, nil, 12, false},
		{"a part of a second", []core.Rule{minute}, states{"minute": denied(time.Millisecond)}, nil, 1, false},
		{"several rules", []core.Rule{minute, hour}, states{"minute": denied(12 * time.Second), "hour": denied(time.Hour)}, nil, 3600, false},
		{"one of several rules", []core.Rule{minute, hour}, states{"minute": denied(12 * time.Second), "hour": allowed(7, time.Hour, 0)}, nil, 12, false},
		{"a day", []core.Rule{hour}, states{"hour": denied(24*time.Hour - 6*time.Second)}, nil, 86394, false},
		{"above a day", []core.Rule{hour}, states{"hour": denied(30 * time.Hour)}, nil, 108000, false},
		{"places", []core.Rule{places}, states{"places": full}, nil, 0, false},
		{"places for two days", []core.Rule{places}, states{"places": denied(48 * time.Hour)}, nil, 0, false},
		{"places beside a rate", []core.Rule{minute, places}, states{"minute": allowed(7, time.Minute, 0), "places": full}, nil, 0, false},
		{"places beside an unknown rule", []core.Rule{minute, places}, states{"minute": {Allowed: true, Unknown: true}, "places": full}, nil, 0, false},
		{"places and a rate", []core.Rule{places, minute}, states{"minute": denied(12 * time.Second), "places": full}, nil, 12, false},
		{"without a reason", []core.Rule{minute}, states{"minute": {Allowed: true, Unknown: true}}, nil, 1, false},
		{"too expensive", []core.Rule{minute}, states{"minute": {Remaining: 10, RetryAfter: core.Never}}, nil, 0, true},
		{"blocked for ever", []core.Rule{core.FixedWindow("no", core.Blocked)}, nil, nil, 0, true},
		{"closed until a time", []core.Rule{core.Pause("partner"), minute}, nil, func(t *testing.T, l *core.Limiter) {
			testkit.Must(t, l.Pause(t.Context(), "k", 90*time.Second))
		}, 90, false},
		{"banned", []core.Rule{login}, nil, func(t *testing.T, l *core.Limiter) {
			testkit.Ask(t, l, "k", 1)
			testkit.Ask(t, l, "k", 1)
		}, 7200, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status := func(d core.Decision) int { return 400 + int(min(d.RetryAfter/time.Second, 99)) }
				opts := []gate.Option{gate.Headers(gate.IETFDraft, gate.XRateLimit), gate.ExposeHeaders(), gate.DeniedStatus(status)}
				a := s.start(setup{Rules: c.rules, States: c.states, Opts: opts})
				if c.before != nil {
					c.before(t, a.Limiter)
				}
				house := gate.Options(gate.Jitter(time.Hour), gate.Jitter((longest+1)*time.Second-1)) // the later one counts
				with := s.start(setup{Limiter: a.Limiter, Opts: append(opts, house)})
				plain := record(t, a, request("GET", "/"))
				if n, _ := plain.RetryAfter(t); n != c.retry {
					t.Fatalf("without Jitter, Retry-After is %d, want %d", n, c.retry)
				}
				for range 20 {
					got := record(t, with, request("GET", "/"))
					n, ok := got.RetryAfter(t)
					if ok == c.never || ok && (n <= c.retry || n > c.retry+longest) {
						t.Errorf("Retry-After is %q, want %d and 1 to %d more, or none: %t", got.Header["Retry-After"], c.retry, longest, c.never)
					}
					want := plain.Body
					if !c.never {
						want = waits(plain.Body, c.retry, n)
					}
					if got.Status != plain.Status || got.Body != want {
						t.Errorf("got %d, %s, want %d, %s", got.Status, got.Body, plain.Status, want)
					}
					if got, want := others(got.Header), others(plain.Header); got != want {
						t.Errorf("the other fields are %s, want %s", got, want)
					}
				}
			})
		})
	}
	over := states{"hundred": denied(12 * time.Second)}
	t.Run("not denied", func(t *testing.T) {
		jitter := gate.Jitter(time.Hour)
		for want, c := range map[string]setup{
			"":  {States: states{"hundred": allowed(7, time.Minute, 0)}, Opts: []gate.Option{jitter}},
			"1": {Err: errSecret, Opts: []gate.Option{jitter, quiet, gate.FailClosed()}},
		} {
			s.checkFields(t, record(t, s.start(c), request("GET", "/")), map[string]string{"Retry-After": want})
		}
	})
	t.Run("draws", func(t *testing.T) {
		a, seen := s.start(setup{States: over, Opts: []gate.Option{gate.Jitter(time.Hour)}}), map[int]bool{}
		for range 200 {
			n, _ := record(t, a, request("GET", "/")).RetryAfter(t)
			if n < 12+1 || n > 12+3600 {
				t.Errorf("Retry-After is %d, want 13 to 3612", n)
			}
			seen[n] = true
		}
		if len(seen) < 50 {
			t.Errorf("200 denials have %d different Retry-After, want at least 50", len(seen))
		}
	})
	t.Run("the gate that denies", func(t *testing.T) {
		inner := Gate{core.Must(core.New(apptest.Scripted(over, nil), apptest.Hundred)), constant("k"), nil}
		outer := Gate{core.Must(core.New(memory(), core.SlidingLog("outer", core.PerMinute(9)))), constant("k"), []gate.Option{gate.Jitter(time.Second)}}
		s.checkFields(t, record(t, s.stack([]Gate{outer, inner}, says("ok\n")), request("GET", "/")), map[string]string{"Retry-After": "12"})
		inner.Opts, outer.Opts = outer.Opts, nil
		s.checkFields(t, record(t, s.stack([]Gate{outer, inner}, says("ok\n")), request("GET", "/")), map[string]string{"Retry-After": "13"})
	})
	if s.onDenied != nil {
		t.Run("OnDenied", func(t *testing.T) {
			seen := ""
			own := s.onDenied(func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
				if n, _ := gate.RetryAfter(d); n != 12 || d.RetryAfter != 12*time.Second {
					t.Errorf("OnDenied gets %v, and RetryAfter returns %d, want 12 s", d, n)
				}
				seen = w.Header().Get("Retry-After")
				w.WriteHeader(http.StatusTooManyRequests)
			})
			got := record(t, s.start(setup{States: over, Opts: []gate.Option{own, gate.Jitter(time.Hour)}}), request("GET", "/"))
			if n, err := strconv.Atoi(seen); err != nil || n < 13 || n > 3612 {
				t.Errorf("OnDenied finds Retry-After %q, want 13 to 3612", seen)
			}
			s.checkFields(t, got, map[string]string{"Retry-After": seen, "RateLimit": `"hundred";r=0;t=12`})
		})
	}
	if s.buildCalls != nil {
		t.Run("Check", func(t *testing.T) {
			l := core.Must(core.New(apptest.Scripted(over, nil), apptest.Hundred))
			got := record(t, s.buildCalls(nil, func(_ http.ResponseWriter, call Call) error { return call.Check(l, "ann", gate.Jitter(time.Second)) }), request("GET", "/"))
			s.checkFields(t, got, map[string]string{"Retry-After": "13", "RateLimit": `"hundred";r=0;t=12`})
		})
	}
}

// waits returns the document of a denial with another wait, in seconds. A wait of 0 is that of places.
func waits(document string, from, to int) string {
	if from == 0 {
		return strings.Replace(document, `at the same time."`, fmt.Sprintf(`at the same time. Retry in %d s."`, to), 1)
	}
	at := func(seconds int) string {
		return time.Now().Add(time.Duration(seconds) * time.Second).UTC().Format("Retry after " + time.RFC3339)
	}
	return strings.NewReplacer(fmt.Sprintf("Retry in %d s.", from), fmt.Sprintf("Retry in %d s.", to), at(from), at(to)).Replace(document)
}

// others returns the header fields that do not depend on the wait.
func others(h http.Header) string {
	h = h.Clone()
	h.Del("Retry-After")
	h.Del("Content-Length")
	return fmt.Sprint(h)
}
