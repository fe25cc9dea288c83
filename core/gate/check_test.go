package gate

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestCheck(t *testing.T) {
	store := new(storetest.Fake)
	l := core.Must(core.New(store, core.SlidingLog("name", core.PerHour(2))))
	for _, c := range []struct {
		name   string
		key    string
		opts   []Option
		fails  bool
		status int // of the Rejection; zero if there is none
		limit  string
		used   int
	}{
		{"first", "ann", nil, false, 0, `"name";r=1;t=3600`, 1},
		{"Cost", "ann", []Option{costs(0)}, false, 0, `"name";r=1;t=3600`, 1},
		{"no fields", "ann", []Option{Headers()}, false, 0, "", 2},
		{"denied", "ann", nil, false, 429, `"name";r=0;t=3600`, 2},
		{"Store fails", "ann", nil, true, 0, "", 2},
		{"Store fails, FailClosed", "ann", []Option{FailClosed()}, true, 503, "", 2},
		{"Store fails, OnError", "ann", []Option{OnError(func(*http.Request, error, int) int { return 500 })}, true, 500, "", 2},
		{"no key", "", nil, false, 400, "", 2},
	} {
		store.Set()
		if c.fails {
			store.Set(storetest.Fail(core.ErrUnavailable))
		}
		h, r := header(), get("/")
		rejection := check("test", r.Context(), h, r, l, c.key, c.opts)
		store.Set()
		if c.status == 0 && rejection != nil || c.status != 0 && (rejection == nil || rejection.Problem.Status != c.status) {
			t.Errorf("%s: got %v, want the status %d", c.name, rejection, c.status)
		}
		if h.Get("RateLimit") != c.limit || testkit.Used(t, l, "ann")[0] != c.used {
			t.Errorf("%s: the field is %s, and %d are in use; want %s and %d", c.name, h.Get("RateLimit"), testkit.Used(t, l, "ann")[0], c.limit, c.used)
		}
		if _, decided := FromContext(r.Context()); decided != (c.status == 0 && !c.fails || c.status == 429) {
			t.Errorf("%s: there is a decision: %t", c.name, decided)
		}
		cost, want := 1, error(nil)
		if c.status != 0 || c.fails {
			want = ErrNotAdmitted
		}
		if strings.HasPrefix(c.name, "Cost") {
			cost = 0
		}
		for _, err := range []error{Settle(r.Context(), cost), SettleFor(r.Context(), l, cost)} {
			if err != want {
				t.Errorf("%s: the error of Settle or SettleFor is %v, want %v", c.name, err, want)
			}
		}
	}
}

// The decisions of checks are found beside those of gates, and their header fields have the rules of all.
// Settle and Refund change only the charges of gates, and SettleFor that of the last check of a limiter.
func TestCheck_InsideGate(t *testing.T) {
	store := memstore.New()
	limiter := func(name string) *core.Limiter {
		return core.Must(core.New(store, core.SlidingLog(name, core.PerHour(100))))
	}
	api, first, second := limiter("api"), limiter("first"), limiter("second")
	r, h := get("/"), header()
	r, _, _ = newGate("test", api, anyKey, nil).Admit(r.Context(), h, r, "")
	for i := range 3 * maxChecks {
		if rejection := check("test", r.Context(), h, r, first, "k", nil); rejection != nil {
			t.Fatalf("check %d: %v", i, rejection)
		}
	}
	if rejection := check("test", r.Context(), h, r, second, "k", []Option{costs(3)}); rejection != nil {
		t.Fatal(rejection)
	}
	if got, want := h.Get("RateLimit"), `"api";r=99;t=3600, "first";r=76;t=3600, "second";r=97;t=3600`; got != want {
		t.Errorf("the field is %s, want %s", got, want)
	}
	if d, _ := FromContext(r.Context()); d.Len() != 1 || d.State(0).Rule.Name() != "second" {
		t.Errorf("the decision is %v, want that of second", d)
	}
	list := DecisionsFrom(r.Context())
	if n := len(list); n != 3 || list[0].State(0).Rule.Name() != "api" || list[1].State(0).Rule.Name() != "first" {
		t.Errorf("there are %d decisions: %v", n, list)
	}
	for i := range 3 * maxChecks {
		if rejection := check("test", r.Context(), h, r, []*core.Limiter{first, second}[i%2], "l", nil); rejection != nil {
			t.Fatal(rejection)
		}
	}
	if n := len(DecisionsFrom(r.Context())); n < 3 || n > 1+maxChecks {
		t.Errorf("after many checks there are %d decisions, want 3 to %d", n, 1+maxChecks)
	}
	if err := Refund(r.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(SettleFor(r.Context(), second.Plan("pro"), 0), SettleFor(r.Context(), first, 5)); err != nil {
		t.Errorf("the error of SettleFor is %v", err)
	}
	for l, want := range map[*core.Limiter]int{first: 3*maxChecks/2 + 4, second: 3*maxChecks/2 - 1} {
		if got := testkit.Used(t, l, "l")[0]; got != want {
			t.Errorf("%s: %d are in use after SettleFor, want %d", l.Rules()[0].Name(), got, want)
		}
	}
	for l, want := range map[*core.Limiter]int{api: 0, first: 3 * maxChecks, second: 3} {
		if got := testkit.Used(t, l, "k")[0]; got != want {
			t.Errorf("%s: %d are in use, want %d", l.Rules()[0].Name(), got, want)
		}
	}
	inner := newGate("test", limiter("inner"), anyKey, nil)
	r, _, _ = inner.Admit(r.Context(), h, r, "")
	if got := h.Get("RateLimit"); !strings.Contains(got, `"second";r=88`) || !strings.Contains(got, `"inner";r=99`) {
		t.Errorf("the field of a gate inside is %s", got)
	}
	if d, _ := FromContext(r.Context()); d.State(0).Rule.Name() != "inner" {
		t.Errorf("the decision is %v, want that of inner", d)
	}
}

// A status 400 that OnError has chosen says nothing about the key.
func TestCheck_Detail(t *testing.T) {
	store := new(storetest.Fake)
	l := core.Must(core.New(store, core.SlidingLog("name", core.PerHour(2))))
	opts := []Option{OnError(func(*http.Request, error, int) int { return 400 })}
	store.Set(storetest.Fail(core.ErrUnavailable))
	for key, want := range map[string]string{"": "The value that is limited is missing.", "ann": ""} {
		rejection := check("test", t.Context(), header(), get("/"), l, key, opts)
		if rejection == nil || rejection.Problem.Detail != want {
			t.Errorf("key %q: the rejection is %v, want the detail %q", key, rejection, want)
		}
	}
}

func TestCheck_Panics(t *testing.T) {
	l := once()
	for name, opt := range map[string]Option{
		"And": And(l, anyKey), "Plan": Plan(anyKey), "RefundIf": RefundIf(func(int) bool { return true }), "ExposeHeaders": ExposeHeaders(),
		"Skip": Skip(func(context.Context, *http.Request) bool { return true }), "MaxDelay": MaxDelay(1), "Options": Options(FailClosed(), MaxDelay(1)),
		"CostOfBody": CostOfBody(1, func(context.Context, *http.Request, []byte) (int, error) { return 1, nil }),
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Panics(t, "test: Check: only Cost, FailClosed, Headers, Jitter, OnDecision, OnError and XRateLimitRule can be given", func() {
				check("test", t.Context(), header(), get("/"), l, "k", []Option{opt})
			})
		})
	}
	testkit.Panics(t, "test: Check: limiter is nil", func() { check("test", t.Context(), header(), get("/"), nil, "k", nil) })
	testkit.Panics(t, "test: Check: option 0 is nil", func() { check("test", t.Context(), header(), get("/"), l, "k", []Option{nil}) })
}

func TestDeny(t *testing.T) {
	l := once()
	h, r := header(), get("/orders")
	r, _, _ = newGate("test", core.Must(core.New(memstore.New(), core.SlidingLog("api", core.PerHour(5)))), anyKey, nil).Admit(r.Context(), h, r, "")
	testkit.Admit(t, l, "k", 1)
	d := testkit.Allow(t, l, "k")
	rejection := deny("test", h, r, d)
	if got := h.Get("RateLimit"); got != `"api";r=4;t=3600, "once";r=0;t=86400` || h.Get("Retry-After") != "86400" || rejection.Problem.Status != 429 || !errors.Is(rejection, ErrDenied) {
		t.Errorf("RateLimit %s, Retry-After %s, %v", got, h.Get("Retry-After"), rejection)
	}
	h = header()
	if rejection = deny("test", h, get("/"), core.Decision{}); rejection.Problem.Status != 503 || h.Get("Retry-After") != "1" || rejection.Denied() {
		t.Errorf("the zero Decision: %v, Retry-After %s", rejection, h.Get("Retry-After"))
	}
	d, _ = l.Allow(t.Context(), "other")
	testkit.Panics(t, "test: Deny: the decision is allowed", func() { deny("test", h, r, d) })
}

// Without a gate, a check replaces one of the same limiter just before, too.
func TestCheck_Repeated(t *testing.T) {
	store := memstore.New()
	limiter := func(name string) *core.Limiter {
		return core.Must(core.New(store, core.SlidingLog(name, core.PerHour(100))))
	}
	first, second := limiter("first"), limiter("second")
	r, h := get("/"), header()
	for i, want := range []string{"first", "first", "first second", "first second", "first second first"} {
		check("test", r.Context(), h, r, []*core.Limiter{first, first, second, second, first}[i], "k", nil)
		var names []string
		for _, d := range DecisionsFrom(r.Context()) {
			names = append(names, d.State(0).Rule.Name())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("after %d checks there are the decisions of %q, want %q", i+1, got, want)
		}
	}
}

// Without a gate, Settle and Refund are about the last check, also if it could not be decided: otherwise the
// tokens of a model would be charged to a check of requests.
func TestCheck_Settle(t *testing.T) {
	store := new(storetest.Fake)
	requests := core.Must(core.New(store, core.SlidingLog("requests", core.PerHour(100))))
	tokens := core.Must(core.New(store, core.SlidingLog("tokens", core.PerHour(100))))
	exports := core.Must(core.New(store, core.InFlight("exports", 5)))
	for _, c := range []struct {
		name             string
		fails            bool
		third            *core.Limiter
		err, errFor      error
		requests, tokens int
	}{
		{"decided", false, nil, nil, nil, 1, 30},
		{"undecided", true, nil, ErrNotAdmitted, ErrNotAdmitted, 1, 0},
		{"a place", false, exports, ErrNotAdmitted, nil, 1, 30},
	} {
		r := get("/")
		check("test", r.Context(), header(), r, requests, c.name, nil)
		if c.fails {
			store.Set(storetest.Fail(core.ErrUnavailable))
		}
		check("test", r.Context(), header(), r, tokens, c.name, nil)
		store.Set()
		if c.third != nil {
			check("test", r.Context(), header(), r, c.third, c.name, nil)
		}
		if err := Settle(r.Context(), 30); err != c.err {
			t.Errorf("%s: the error of Settle is %v, want %v", c.name, err, c.err)
		}
		if err := SettleFor(r.Context(), tokens, 30); err != c.errFor {
			t.Errorf("%s: the error of SettleFor is %v, want %v", c.name, err, c.errFor)
		}
		if a, b := testkit.Used(t, requests, c.name)[0], testkit.Used(t, tokens, c.name)[0]; a != c.requests || b != c.tokens {
			t.Errorf("%s: %d requests and %d tokens are in use, want %d and %d", c.name, a, b, c.requests, c.tokens)
		}
		if key, ok := Key(r.Context(), requests); key != c.name || !ok {
			t.Errorf("%s: the key is %q, %t", c.name, key, ok)
		}
		if err := Reset(r.Context(), requests); err != nil || testkit.Used(t, requests, c.name)[0] != 0 {
			t.Errorf("%s: Reset returns %v and leaves %d", c.name, err, testkit.Used(t, requests, c.name)[0])
		}
	}
}

// Headers of a check is about that check, and an undecided check leaves the decision of the same limiter before.
func TestCheck_Before(t *testing.T) {
	store := new(storetest.Fake)
	first := core.Must(core.New(store, core.SlidingLog("first", core.PerHour(100))))
	second := core.Must(core.New(store, core.SlidingLog("second", core.PerHour(100))))
	r, h := get("/"), header()
	check("test", r.Context(), h, r, first, "k", []Option{Headers()})
	check("test", r.Context(), h, r, second, "k", nil)
	if got := h.Get("RateLimit"); got != `"second";r=99;t=3600` {
		t.Errorf("the field is %s", got)
	}
	store.Set(storetest.Fail(core.ErrUnavailable))
	check("test", r.Context(), h, r, second, "k", nil)
	store.Set()
	if d, ok := FromContext(r.Context()); !ok || d.State(0).Rule.Name() != "second" || len(DecisionsFrom(r.Context())) != 2 {
		t.Errorf("the decisions are %v, want those of first and second", DecisionsFrom(r.Context()))
	}
}

// After Reset, the charge of a check is not refunded, also behind a gate.
func TestCheck_Reset(t *testing.T) {
	store := memstore.New()
	limiter := func(name string) *core.Limiter {
		return core.Must(core.New(store, core.SlidingLog(name, core.PerHour(100))))
	}
	user, r := core.Must(core.New(store, core.FixedWindow("user", core.PerHour(100)))), get("/")
	r, _, _ = newGate("test", limiter("api"), anyKey, nil).Admit(r.Context(), header(), r, "")
	check("test", r.Context(), header(), r, user, "ann", []Option{costs(5)})
	testkit.Must(t, Reset(r.Context(), user))
	testkit.Admit(t, user, "ann", 7)
	if err := SettleFor(r.Context(), user, 0); err != nil || testkit.Used(t, user, "ann")[0] != 7 {
		t.Errorf("%v, and %d are in use after a Settle, want 7", err, testkit.Used(t, user, "ann")[0])
	}
}
