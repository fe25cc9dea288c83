package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

func everybody(*http.Request) bool { return true }

// newHandler returns a Handler that is closed at the end of the test.
func newHandler(t *testing.T, authorize func(*http.Request) bool, store *observe.Store, opts ...Option) *Handler {
	t.Helper()
	h := New(authorize, store, opts...)
	t.Cleanup(func() { testkit.Must(t, h.Close()) })
	return h
}

// ask sends a request with a form, if it is not empty.
func ask(h http.Handler, method, target string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	if len(form) > 0 {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// reportOf returns the JSON document of a question.
func reportOf(t *testing.T, h http.Handler, form url.Values) (document struct {
	Requests map[string]uint64
	Series   []struct {
		Rule, Plan          string
		Decisions, Requests struct{ Total, Hour map[string]uint64 }
	}
	Minutes []struct{ Requests map[string]uint64 }
	Rules   []rule
	Key     *answer
}) {
	t.Helper()
	method := "POST"
	if form == nil {
		method = "GET"
	}
	w := ask(h, method, "/?format=json", form)
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s: %v", w.Code, w.Body, err)
	}
	return document
}

func TestHandler_Requests(t *testing.T) {
	h := newHandler(t, func(r *http.Request) bool { return r.Header.Get("X-Operator") == "" }, observe.New(memstore.New()))
	for _, c := range []struct {
		name, method, target string
		form                 url.Values
		want                 int
	}{
		{"page", "GET", "/debug/limits", nil, 200},
		{"HEAD", "HEAD", "/debug/limits", nil, 200},
		{"a key", "POST", "/", url.Values{"key": {"user:7"}}, 200},
		{"no key", "POST", "/", url.Values{"plan": {"gold"}}, 200},
		{"a key in the URL is not read", "GET", "/?key=user:7", nil, 200},
		{"another body", "POST", "/", nil, 415},
		{"another method", "DELETE", "/", nil, 405},
		{"a large form", "POST", "/", url.Values{"key": {strings.Repeat("k", maxBody)}}, 400},
	} {
		w := ask(h, c.method, c.target, c.form)
		if w.Code != c.want || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: got %d with %v, want %d", c.name, w.Code, w.Header(), c.want)
		}
		if shown := strings.Contains(w.Body.String(), "Key <code>user:7"); shown != (c.name == "a key") {
			t.Errorf("%s: the key is on the page: %t", c.name, shown)
		}
		if c.want == 200 && !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'sha256-") {
			t.Errorf("%s: got the policy %q", c.name, w.Header().Get("Content-Security-Policy"))
		}
	}
}

// authorize is called for every request, and nothing is done for one that it rejects.
func TestHandler_Unauthorized(t *testing.T) {
	calls := 0
	h := newHandler(t, func(*http.Request) bool { calls++; return false }, observe.New(memstore.New()))
	for i, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"} {
		w := ask(h, method, "/?format=json", url.Values{"key": {"k"}})
		if w.Code != 401 || calls != i+1 || w.Header().Get("WWW-Authenticate") == "" || strings.Contains(w.Body.String(), "process") {
			t.Errorf("%s: got %d %q after %d calls", method, w.Code, w.Body, calls)
		}
	}
}

// A key may contain anything.
func TestHandler_HostileKeys(t *testing.T) {
	store := observe.New(memstore.New(), observe.TopKeys(3), observe.ClearKeys())
	l := testkit.Limiter(t, store, core.SlidingLog("api", core.PerHour(1)))
	h := newHandler(t, everybody, store, Limiters(l))
	for _, key := range []string{"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "{{.}}", "\x00\xff", "</style>", strings.Repeat("é", 2000)} {
		testkit.Allow(t, l, key)
		testkit.Allow(t, l, key)
		w := ask(h, "POST", "/", url.Values{"key": {key}})
		if w.Code != 200 || strings.Contains(w.Body.String(), "<script>alert") || strings.Contains(w.Body.String(), "<img") || strings.Count(w.Body.String(), "</style>") != 1 {
			t.Errorf("%q is not escaped", key)
		}
		if d := reportOf(t, h, url.Values{"key": {key}}); d.Key.Limits[0].Allowed || !d.Key.Used {
			t.Errorf("%q: got %+v, want a denial", key, d.Key)
		}
	}
}

func TestHandler_Report(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := observe.New(memstore.New())
		l := testkit.Limiter(t, store, core.SlidingLog("api", core.PerDay(2)).Plan("gold", core.PerDay(3)), core.SlidingLog("trial", core.PerDay(1)).Shadow())
		h := newHandler(t, everybody, store, Limiters(l))
		for range 4 {
			testkit.Allow(t, l, "k")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		testkit.Allow(t, l.Plan("gold"), "other")
		d := reportOf(t, h, nil)
		if got := fmt.Sprint(d.Requests, d.Series[0], d.Series[1]); got != "map[allowed:3 denied:2] {api  {map[allowed:2 denied:2] map[allowed:2 denied:2]} {map[allowed:2 denied:2] map[allowed:2 denied:2]}}"+
			" {api gold {map[allowed:1] map[allowed:1]} {map[allowed:1] map[allowed:1]}}" {
			t.Errorf("got %s", got)
		}
		if got := fmt.Sprint(d.Minutes); got != "[{map[allowed:2 denied:2]} {map[allowed:1]}]" {
			t.Errorf("got the minutes %s", got)
		}
		if got := fmt.Sprint(d.Rules); got != "[{api sliding_log 2/d [gold 3/d] enforced code} {trial sliding_log 1/d [] shadow code}]" {
			t.Errorf("got the rules %s", got)
		}
		// After an hour, the first minute is not in the last hour any more.
		time.Sleep(time.Hour)
		synctest.Wait()
		d = reportOf(t, h, nil)
		if len(d.Minutes) != minutes || len(d.Series[0].Decisions.Hour) != 0 || d.Series[0].Decisions.Total["denied"] != 2 {
			t.Errorf("got %d minutes and %+v", len(d.Minutes), d.Series[0])
		}
	})
}

// The results of rules that a cached denial did not evaluate are in the table, if there are any.
func TestHandler_Unknown(t *testing.T) {
	for name, c := range map[string]struct {
		over   func(core.Store) core.Store
		want   string
		column bool
	}{
		"memstore":  {func(s core.Store) core.Store { return s }, "map[allowed:1 shadow_denied:3]", false},
		"denycache": {func(s core.Store) core.Store { return denycache.New(s) }, "map[allowed:1 shadow_denied:1 unknown:2]", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := observe.New(c.over(memstore.New()))
				l := testkit.Limiter(t, store, core.SlidingLog("api", core.PerDay(2)), core.SlidingLog("trial", core.PerDay(1)).Shadow())
				h := newHandler(t, everybody, store, Limiters(l))
				for range 4 {
					testkit.Allow(t, l, "k")
				}
				if got := fmt.Sprint(reportOf(t, h, nil).Series[1].Decisions.Hour); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				page := ask(h, "GET", "/", nil).Body.String()
				for _, text := range []string{
					`<th scope="col" class="n">Unknown</th>`, "between Shadow and Shadow plus Unknown.",
					`<th scope="row">trial</th><td></td><td class="n">1</td><td class="n">0</td><td class="n">0</td><td class="n">0</td><td class="n">1</td><td class="n">2</td>`,
				} {
					if strings.Contains(page, text) != c.column {
						t.Errorf("the page has %q: %t, want %t", text, !c.column, c.column)
					}
				}
			})
		})
	}
}

func TestHandler_Key(t *testing.T) {
	config, err := rules.Parse("limits.yaml", []byte(`{policies: {
		api: {rules: [{name: s, algorithm: sliding_log, limit: 2/d, plans: {gold: 5/d}}], keys: {blocked: {blocked: true}, other: {limits: {s: 9/d}}}},
		off: {disabled: true, rules: [{name: s, algorithm: sliding_log, limit: 1/d}]}}}`))
	testkit.Must(t, err)
	store := observe.New(memstore.New())
	set, err := rules.New(store, config)
	testkit.Must(t, err)
	h := newHandler(t, everybody, store, Rules(set))
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	for range 2 {
		testkit.Allow(t, api, "used up")
	}
	for _, c := range []struct{ key, plan, decision, state, override string }{
		{"new", "", "Admitted.", "{api.s 2/d  enforced 0 2 now now false }", ""},
		{"used up", "", "Denied: the next event is admitted in 24h0m0s.", "", ""},
		{"used up", "gold", "Admitted.", "", ""},
		{"used up", "none such", "Denied: the next event is admitted in 24h0m0s.", "", ""},
		{"blocked", "", "Blocked: every event is denied.", "{api.s blocked  enforced   never now true }", "{blocked: true} the configuration"},
		{"other", "", "Admitted.", "{api.s 9/d  enforced 0 9 now now false }", "{limits: {s: 9/d}} the configuration"},
	} {
		d := reportOf(t, h, url.Values{"key": {c.key}, "plan": {c.plan}})
		l, off := d.Key.Limits[0], d.Key.Limits[1]
		if l.Policy != "api" || l.Decision != c.decision || c.state != "" && fmt.Sprint(l.States[0]) != c.state || strings.TrimSpace(l.Override+" "+l.Source) != c.override {
			t.Errorf("%s %s: got %+v", c.key, c.plan, l)
		}
		if off.Decision != "Admitted." || off.States[0].Mode != "off" || len(l.Commands) > 0 {
			t.Errorf("%s: got %+v of the disabled policy, and the commands %v", c.key, off, l.Commands)
		}
	}
	if n := store.Snapshot(); n.Total().Total() != 2 {
		t.Errorf("questions are counted as decisions: %v", n.Total())
	}
}

// The page and the document name the policy of all routes.
func TestHandler_AllRoutes(t *testing.T) {
	for file, want := range map[string]string{"": "", "all_routes: account": "account"} {
		config, err := rules.Parse("limits.yaml", []byte("policies: {account: {rules: [{name: s, algorithm: sliding_log, limit: 2/d}]}, media: {rules: [{name: s, algorithm: sliding_log, limit: 1/d}]}}\n"+file))
		testkit.Must(t, err)
		store := observe.New(memstore.New())
		set, err := rules.New(store, config)
		testkit.Must(t, err)
		h := newHandler(t, everybody, store, Rules(set))
		w := ask(h, "POST", "/", url.Values{"key": {"k"}})
		for _, text := range []string{"Every request is charged to the policy account, too.", "<h3>Policy account, that of all routes</h3>"} {
			if got := strings.Count(w.Body.String(), text); got != len(want)/len("account") {
				t.Errorf("all_routes %q: got %q %d times", want, text, got)
			}
		}
		w = ask(h, "POST", "/?format=json", url.Values{"key": {"k"}})
		var d struct {
			Config struct {
				AllRoutes string `json:"all_routes"`
			} `json:"configuration"`
			Key struct {
				Limits []struct {
					Policy string
					OfAll  bool `json:"of_all_routes"`
				}
			}
		}
		testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &d))
		if d.Config.AllRoutes != want || len(d.Key.Limits) != 2 {
			t.Errorf("got %+v, want %q", d, want)
		}
		for _, l := range d.Key.Limits {
			if l.OfAll != (l.Policy == want) {
				t.Errorf("all_routes %q: got %+v", want, l)
			}
		}
	}
}

// The places of an in-flight rule are free when events end, which has no known time.
func TestHandler_InFlight(t *testing.T) {
	store := observe.New(memstore.New())
	config, err := rules.Parse("limits.yaml", []byte(`{policies: {api: {rules: [
		{name: exports, algorithm: in_flight, limit: 3, plans: {pro: 20}, max_hold: 1h}, {name: day, algorithm: sliding_log, limit: 4/d}]}}}`))
	testkit.Must(t, err)
	set, err := rules.New(store, config)
	testkit.Must(t, err)
	h := newHandler(t, everybody, store, Rules(set))
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	if got := fmt.Sprint(reportOf(t, h, nil).Rules[0]); got != "{api.exports in_flight 3 hold 30s max hold 1h [pro 20] enforced limits.yaml}" {
		t.Errorf("got the rule %s", got)
	}
	reserve := func(l *core.Limiter) *core.Reservation {
		r, err := l.Reserve(t.Context(), "k", 1)
		testkit.Must(t, err)
		return r
	}
	look := func(name, decision, state, page string) {
		t.Helper()
		l := reportOf(t, h, url.Values{"key": {"k"}}).Key.Limits[0]
		if got := fmt.Sprint(l.States[0]); l.Decision != decision || got != state {
			t.Errorf("%s: got %q and %s", name, l.Decision, got)
		}
		if body := ask(h, "POST", "/", url.Values{"key": {"k"}}).Body.String(); !strings.Contains(body, page) {
			t.Errorf("%s: the page does not contain %q", name, page)
		}
	}
	look("unused", "Admitted.", "{api.exports 3  enforced 0 3 now now false 30s}", `<td class="n">0 of 3 taken</td>`)
	first := reserve(api)
	look("a place", "Admitted.", "{api.exports 3  enforced 1 2 now when all events end false 30s}", "<td>3 at the same time, hold 30s</td>")
	second, third := reserve(api), reserve(api)
	look("all places", "Denied: all places are taken. The next event is admitted when a running one ends.",
		"{api.exports 3  enforced 3 0 when an event ends when all events end true 30s}", `<td class="n">3 of 3 taken</td>`)
	if total := reportOf(t, h, nil).Requests; reserve(api).Decision().Allowed || reportOf(t, h, nil).Requests["denied"] != total["denied"]+1 {
		t.Error("a denial by places is not counted")
	}
	fourth := reserve(api.Plan("pro"))
	look("a limit per day, too", "Denied: the next event is admitted when a running one has ended, in 24h0m0s at the earliest.",
		"{api.exports 3  enforced 3 0 when an event ends when all events end true 30s}", `<td class="n">3 of 3 taken</td>`)
	for _, r := range []*core.Reservation{first, second, third, fourth} {
		testkit.Must(t, r.Release(t.Context()))
	}
	look("ended", "Denied: the next event is admitted in 24h0m0s.", "{api.exports 3  enforced 0 3 now now false 30s}", `<td class="n">0 of 3 taken</td>`)
}

// The page says that a key is paused, and until when. A pause has no limit.
func TestHandler_Pause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := observe.New(memstore.New())
		config, err := rules.Parse("limits.yaml", []byte(`{policies: {api: {rules: [{name: stop, algorithm: pause}, {name: day, algorithm: fixed_window, limit: 4/d}],
			keys: {blocked: {blocked: true, until: 2000-01-01T01:00:00Z}}}}}`))
		testkit.Must(t, err)
		set, err := rules.New(store, config)
		testkit.Must(t, err)
		api, err := set.Limiter("api")
		testkit.Must(t, err)
		own := testkit.Limiter(t, store, core.Pause("own").Shadow(), core.SlidingLog("hour", core.PerHour(9)))
		h := newHandler(t, everybody, store, Rules(set), Limiters(own))
		for _, key := range []string{"paused", "blocked"} {
			testkit.Must(t, api.Pause(t.Context(), key, 90*time.Second))
		}
		testkit.Must(t, own.Pause(t.Context(), "shadow", time.Second))
		for range 2 {
			testkit.Allow(t, api, "paused")
		}
		d := reportOf(t, h, nil)
		if got, want := fmt.Sprint(d.Rules, d.Requests), "[{own pause none [] shadow code} {hour sliding_log 9/h [] enforced code} {api.stop pause none [] enforced limits.yaml}"+
			" {api.day fixed_window 4/d [] enforced limits.yaml}] map[denied:2]"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		for _, c := range []struct {
			key      string
			decision string
			states   string
			limiter  int // in the order of the answer
		}{
			{"other", "Admitted.", "[{api.stop none  enforced   now now false } {api.day 4/d  enforced 0 4 now now false }]", 1},
			{"paused", "Paused by the rule api.stop: every event is denied for 1m30s.", "[{api.stop paused  enforced   in 1m30s in 1m30s true } {api.day 4/d  enforced 0 4 now now false }]", 0},
			{"blocked", "Blocked: every event is denied for 1h0m0s.", "[{api.stop blocked  enforced   in 1h0m0s in 1h0m0s true } {api.day blocked  enforced   in 1h0m0s in 1h0m0s true }]", 0},
			{"shadow", "Admitted.", "[{own paused  shadow   in 1s in 1s false } {hour 9/h  enforced 0 9 now now false }]", 0},
		} {
			l := reportOf(t, h, url.Values{"key": {c.key}}).Key.Limits[c.limiter]
			if got := fmt.Sprint(l.States); l.Decision != c.decision || got != c.states {
				t.Errorf("%s:\ngot  %q %s\nwant %q %s", c.key, l.Decision, got, c.decision, c.states)
			}
			if body := ask(h, "POST", "/", url.Values{"key": {c.key}}).Body.String(); !strings.Contains(body, c.decision) {
				t.Errorf("%s: the page does not contain %q", c.key, c.decision)
			}
		}
	})
}

// The places of a rule by cost are those that the cost of running events takes.
func TestHandler_ByCost(t *testing.T) {
	store := observe.New(memstore.New())
	config, err := rules.Parse("limits.yaml", []byte(`{policies: {api: {rules: [
		{name: tokens, algorithm: in_flight, limit: 90000, by_cost: true, plans: {pro: 1000000}, headroom: {pro: 20}, max_hold: 1h}]}}}`))
	testkit.Must(t, err)
	set, err := rules.New(store, config)
	testkit.Must(t, err)
	own := testkit.Limiter(t, store, core.InFlight("slots", 5).ByCost().Hold(time.Minute).Shadow())
	h := newHandler(t, everybody, store, Rules(set), Limiters(own))
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	if got, want := fmt.Sprint(reportOf(t, h, nil).Rules), "[{slots in_flight 5 by cost hold 1m [] shadow code}"+
		" {api.tokens in_flight 90000 by cost hold 30s max hold 1h [pro 1000000 by cost headroom 20%] enforced limits.yaml}]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, c := range []struct {
		cost                  int // of an event that begins
		decision, state, page string
	}{
		{0, "Admitted.", "{api.tokens 90000 by cost  enforced 0 90000 now now false 30s}", `<td class="n">0 of 90000 taken</td>`},
		{60_000, "Admitted.", "{api.tokens 90000 by cost  enforced 60000 30000 now when all events end false 30s}", "<td>90000 by cost at the same time, hold 30s</td>"},
		{30_000, "Denied: all places are taken. The next event is admitted when a running one ends.",
			"{api.tokens 90000 by cost  enforced 90000 0 when an event ends when all events end true 30s}", `<td class="n">90000 of 90000 taken</td>`},
	} {
		_, err := api.Reserve(t.Context(), "k", c.cost)
		testkit.Must(t, err)
		body := ask(h, "POST", "/", url.Values{"key": {"k"}}).Body.String()
		limits := reportOf(t, h, url.Values{"key": {"k"}}).Key.Limits
		l := limits[slices.IndexFunc(limits, func(l limitsOfKey) bool { return l.States[0].Rule == "api.tokens" })]
		if got := fmt.Sprint(l.States[0]); l.Decision != c.decision || got != c.state || !strings.Contains(body, c.page) {
			t.Errorf("after a cost of %d: got %q and %s, and the page contains %q: %t", c.cost, l.Decision, got, c.page, strings.Contains(body, c.page))
		}
	}
}

// A quota begins again at a time of the calendar, and the plan of a headroom may use a part of it.
func TestHandler_Quota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock is at 2000-01-01T00:00:00Z
		store := observe.New(memstore.New())
		config, err := rules.Parse("limits.yaml", []byte(`{policies: {api: {rules: [
			{name: calls, algorithm: quota, limit: 1000000/month, plans: {pro: 5000000/month}, headroom: {batch: 20}, timezone: America/New_York, soft: 10},
			{name: day, algorithm: quota, limit: 3000000/day, mode: shadow}]}}}`))
		testkit.Must(t, err)
		set, err := rules.New(store, config)
		testkit.Must(t, err)
		h := newHandler(t, everybody, store, Rules(set))
		api, err := set.Limiter("api")
		testkit.Must(t, err)
		if got := fmt.Sprint(reportOf(t, h, nil).Rules); got != "[{api.calls quota 1000000/month in America/New_York soft 10% [pro 5000000/month in America/New_York batch 1000000/month in America/New_York headroom 20%] enforced limits.yaml}"+
			" {api.day quota 3000000/day in UTC [] shadow limits.yaml}]" {
			t.Errorf("got the rules %s", got)
		}
		look := func(name, plan, decision, states, page string) {
			t.Helper()
			form := url.Values{"key": {"k"}, "plan": {plan}}
			l := reportOf(t, h, form).Key.Limits[0]
			if got := fmt.Sprint(l.States); l.Decision != decision || got != states {
				t.Errorf("%s: got %q and %s", name, l.Decision, got)
			}
			if body := ask(h, "POST", "/", form).Body.String(); !strings.Contains(body, page) {
				t.Errorf("%s: the page does not contain %q", name, page)
			}
		}
		look("unused", "", "Admitted.", "[{api.calls 1000000/month in America/New_York  enforced 0 1000000 now now false } {api.day 3000000/day in UTC  shadow 0 3000000 now now false }]",
			`<td>1000000/month in America/New_York</td>`)
		if d, err := api.AllowN(t.Context(), "k", 800_000); err != nil || !d.Allowed {
			t.Fatalf("got %v, %v", d, err)
		}
		const month, day = "at 2000-01-01T00:00:00-05:00", "at 2000-01-02T00:00:00Z"
		look("used", "", "Admitted.", "[{api.calls 1000000/month in America/New_York  enforced 800000 200000 now "+month+" false } {api.day 3000000/day in UTC  shadow 800000 2200000 now "+day+" false }]",
			`<td>at 2000-01-01T00:00:00-05:00</td>`)
		look("headroom", "batch", "Denied: the next event is admitted in 5h0m0s.",
			"[{api.calls 1000000/month in America/New_York headroom 20% batch enforced 800000 0 "+month+" "+month+" true } {api.day 3000000/day in UTC  shadow 800000 2200000 now "+day+" false }]",
			`<option selected>batch</option>`)
		look("plan", "pro", "Admitted.", "[{api.calls 5000000/month in America/New_York pro enforced 800000 4200000 now "+month+" false } {api.day 3000000/day in UTC  shadow 800000 2200000 now "+day+" false }]", "")
	})
}

// A key that is not used may be the name without the word before it, or the tag of a top key.
func TestHandler_UnusedKey(t *testing.T) {
	store := observe.New(memstore.New(), observe.TopKeys(3))
	l := testkit.Limiter(t, store, core.SlidingLog("api", core.PerHour(1)))
	h := newHandler(t, everybody, store, Limiters(testkit.Limiter(t, store, core.SlidingLog("other", core.PerHour(1))), l))
	testkit.Allow(t, l, "basic:ann")
	testkit.Allow(t, l, "basic:ann")
	for _, c := range []struct {
		key, similar string
		used, isTag  bool
	}{{"ann", "basic:ann", false, false}, {" basic:ann\t", "", true, false}, {"bob", "", false, false}, {store.Tag("basic:ann"), "", false, true}} {
		k := reportOf(t, h, url.Values{"key": {c.key}}).Key
		if k.Used != c.used || k.IsTag != c.isTag || strings.Join(k.Similar, " ") != c.similar {
			t.Errorf("%q: got %+v", c.key, k)
		}
		if c.used && k.Limits[0].States[0].Rule != "api" {
			t.Errorf("%q: got %+v, want the rule that denies first", c.key, k.Limits)
		}
	}
}

// A function of the application that panics does not end the process.
func TestHandler_Panic(t *testing.T) {
	store := observe.New(memstore.New())
	l := testkit.Limiter(t, store, core.SlidingLog("api", core.PerHour(1)))
	bad := l.Choose(func(context.Context, string) (*core.Limiter, error) { panic("no view") })
	k := reportOf(t, newHandler(t, everybody, store, Limiters(bad, l)), url.Values{"key": {"k"}}).Key
	if k.Limits[0].Error != "panic: no view" || k.Limits[1].Decision != "Admitted." {
		t.Errorf("got %+v", k.Limits)
	}
}

func TestNew_InvalidArguments(t *testing.T) {
	store := observe.New(memstore.New())
	testkit.Panics(t, "inspect: New: authorize is nil", func() { New(nil, store) })
	testkit.Panics(t, "inspect: New: store is nil", func() { New(everybody, nil) })
	testkit.Panics(t, "inspect: New: option 0 is nil", func() { New(everybody, store, nil) })
	testkit.Panics(t, "inspect: Limiters: limiter 0 is nil", func() { Limiters(nil) })
	testkit.Panics(t, "inspect: Rules: set is nil", func() { Rules(nil) })
}

func TestHandler_Close(t *testing.T) {
	h := New(everybody, observe.New(memstore.New()))
	for range 2 {
		testkit.Must(t, h.Close())
	}
	if w := ask(h, "GET", "/", nil); w.Code != 200 {
		t.Errorf("a closed Handler responds with %d", w.Code)
	}
}
