package inspect

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

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
		r := testkit.Reserve(t, l, "k", 1)
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
		defer runtime.KeepAlive(testkit.Reserve(t, api, "k", c.cost)) // the places of garbage are free
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

// A key that is not used may be the name without the word before it, or the hash of a key that the process knows.
func TestHandler_UnusedKey(t *testing.T) {
	store := observe.New(memstore.New(), observe.TopKeys(3))
	l := testkit.Limiter(t, store, core.SlidingLog("api", core.PerHour(1)))
	h := newHandler(t, everybody, store, Limiters(testkit.Limiter(t, store, core.SlidingLog("other", core.PerHour(1))), l))
	testkit.Allow(t, l, "basic:ann")
	testkit.Allow(t, l, "basic:ann")
	for _, c := range []struct {
		key, similar string
		used         bool
		is           string // the key that the answer is about
	}{
		{"ann", "basic:ann", false, "ann"}, {" basic:ann\t", "", true, "basic:ann"}, {"bob", "", false, "bob"},
		{"user:0123456789abcdefg", "", false, "user:0123456789abcdefg"}, // as long as a hash
		{store.Tag("basic:ann"), "", true, "basic:ann"}, {"#" + store.Tag("basic:ann"), "", true, "basic:ann"}, {store.Tag("bob"), "", false, store.Tag("bob")},
	} {
		k := reportOf(t, h, url.Values{"key": {c.key}}).Key
		if k.Used != c.used || k.Key != c.is || (k.Asked != "") != (strings.TrimSpace(c.key) != c.is) || strings.Join(k.Similar, " ") != c.similar {
			t.Errorf("%q: got %+v", c.key, k)
		}
		if body := ask(h, "POST", "/", url.Values{"key": {c.key}}).Body.String(); strings.Contains(body, "a hash: only the process") != (c.key == store.Tag("bob")) {
			t.Errorf("%q: the page says that the key is a hash: %t", c.key, c.key != store.Tag("bob"))
		}
		if c.used && k.Limits[0].States[0].Rule != "api" {
			t.Errorf("%q: got %+v, want the rule that denies first", c.key, k.Limits)
		}
	}
}

// The commands of a key depend on why it is denied.
func TestHandler_Commands(t *testing.T) {
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: stop, algorithm: pause}, {name: s, algorithm: sliding_log, limit: 1/d, plans: {gold: 5/d, banned: blocked}}], keys: {"in file": {blocked: true}}},
		gate: {rules: [{name: closed, algorithm: pause}]}}}`))
	testkit.Must(t, err)
	store := observe.New(memstore.New())
	set, err := rules.New(store, config, rules.Overrides(rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix("inspect:"))))
	testkit.Must(t, err)
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	h := newHandler(t, everybody, store, Rules(set))
	testkit.Allow(t, api, "used up")
	testkit.Must(t, set.Block(t.Context(), "api", "blocked", time.Now().Add(time.Hour)))
	testkit.Must(t, set.Override(t.Context(), "api", "slow", rules.Override{Limits: map[string]core.Limit{"s": core.PerDay(1)}}))
	testkit.Must(t, set.Override(t.Context(), "api", "lawless", rules.Override{Plan: "gold"}))
	testkit.Allow(t, api, "slow")
	testkit.Must(t, api.Pause(t.Context(), "paused", time.Hour))
	gate, err := set.Limiter("gate")
	testkit.Must(t, err)
	testkit.Must(t, gate.Pause(t.Context(), "elsewhere", time.Hour))
	for _, c := range []struct{ key, plan, decision, override, commands string }{
		{"new", "", "Admitted", "", "override api new block api new 24h"},
		{"used up", "", "Denied: the next event", "", "reset api 'used up' override api 'used up' block api 'used up' 24h"},
		{"blocked", "", "Blocked: every event is denied for ", "{blocked: true, until", "unblock api blocked"},
		{"slow", "", "Denied: the next event", "{limits: {s: 1/d}}", "remove api slow reset api slow override api slow"},
		{"lawless", "", "Admitted", "{plan: gold}", "remove api lawless override api lawless"},
		{"in file", "", "Blocked: every event is denied.", "{blocked: true}", "override api 'in file'"},
		{"paused", "", "Paused by the rule api.stop: every event is denied for ", "", "reset -rule stop api paused override api paused block api paused 24h"},
		{"elsewhere", "", "Paused by the rule gate.closed", "", "reset -rule closed gate elsewhere block gate elsewhere 24h"},
		{"new", "banned", "Blocked: every event is denied.", "", "override api new block api new 24h"},
		{"\x1b[2J", "", "Admitted", "", ""},
	} {
		l := reportOf(t, h, url.Values{"key": {c.key}, "plan": {c.plan}}).Key.Limits[0]
		var got []string
		for _, command := range l.Commands {
			_, args, _ := strings.Cut(command.Line, "-prefix inspect: ")
			args, _, _ = strings.Cut(args, " '{")
			got = append(got, args)
		}
		if !strings.HasPrefix(l.Decision, c.decision) || !strings.HasPrefix(l.Override, c.override) || strings.Join(got, " ") != c.commands {
			t.Errorf("%s %s: got %q, %q and %q", c.key, c.plan, l.Decision, l.Override, got)
		}
	}
}

// The ban of a key has its end and its command, and the limit says how long a ban is.
func TestHandler_Ban(t *testing.T) {
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: s, algorithm: sliding_log, limit: 1/m, block_for: 10m}, {name: stop, algorithm: pause}]}}}`))
	testkit.Must(t, err)
	store := observe.New(memstore.New())
	set, err := rules.New(store, config, rules.Overrides(rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix("bans:"))))
	testkit.Must(t, err)
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	code := testkit.Limiter(t, store, core.SlidingLog("code", core.PerDay(1)).BlockFor(time.Hour))
	h := newHandler(t, everybody, store, Rules(set), Limiters(code))
	for _, l := range []*core.Limiter{api, code} {
		for range 2 {
			testkit.Allow(t, l, "k")
		}
	}
	testkit.Must(t, api.Pause(t.Context(), "both", time.Hour))
	testkit.Must(t, api.Pause(t.Context(), "k", time.Second))
	r := reportOf(t, h, url.Values{"key": {"k"}})
	end, commands := time.Now(), map[string]string{}
	for _, l := range r.Key.Limits {
		s := l.States[0]
		until, at := map[string]time.Duration{"api.s": 10 * time.Minute, "code": time.Hour}[s.Rule], time.Time{}
		testkit.Must(t, at.UnmarshalText([]byte(l.BannedUntil)))
		if before := at.Sub(end); l.Allowed || before > until || before < until-time.Minute || s.Used != "banned" || s.Left != "0" ||
			!strings.HasPrefix(l.Decision, "Banned by "+s.Rule+" until "+l.BannedUntil+". The next event is admitted in ") || !strings.HasSuffix(l.Decision, "ends the ban.") {
			t.Errorf("%s: got %+v", s.Rule, l)
		}
		for _, c := range l.Commands {
			commands[c.Effect] = c.Line
		}
	}
	if line := commands["Let the key in: end the ban, and forget its events"]; !strings.HasSuffix(line, " reset api k") {
		t.Errorf("got the commands %q", commands)
	}
	limits := map[string]string{}
	for _, of := range r.Rules {
		limits[of.Name] = of.Limit
	}
	if want := map[string]string{"api.s": "1/m block for 10m", "api.stop": "none", "code": "1/d block for 1h"}; !reflect.DeepEqual(limits, want) {
		t.Errorf("got the limits %q, want %q", limits, want)
	}
	if n := r.Requests["banned"]; n != 2 {
		t.Errorf("got %v, want 2 banned", r.Requests)
	}
	body := ask(h, "POST", "/", url.Values{"key": {"k"}}).Body.String()
	for _, want := range []string{"Banned by api.s until ", "1/d block for 1h", `<i class="banned"></i>banned <b>2</b>`, `<th scope="col" class="n">Banned</th>`,
		`<th scope="row">api.s</th><td></td>` + strings.Join([]string{"", "1", "0", "0", "0", "1", "0"}, `</td><td class="n">`)[len("</td>"):], // allowed, soft, denied, blocked, banned, shadow
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if l := reportOf(t, h, url.Values{"key": {"both"}}).Key.Limits[0]; !strings.HasPrefix(l.Decision, "Paused") {
		t.Errorf("a paused key: got %+v", l)
	}
}

// The number of blocked keys is that of the keys that the page shows as blocked.
func TestHandler_BlockedKeys(t *testing.T) {
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: s, algorithm: sliding_log, limit: 1/d, plans: {gold: 5/d}}],
		keys: {"in file": {blocked: true}, freed: {blocked: true}, "old in file": {blocked: true, until: 2020-01-01T00:00:00Z}}}}}`))
	testkit.Must(t, err)
	store, source := observe.New(memstore.New()), rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix("counts:"))
	set, err := rules.New(store, config, rules.Overrides(source))
	testkit.Must(t, err)
	store.Add(set)
	h := newHandler(t, everybody, store, Rules(set))
	testkit.Must(t, set.Block(t.Context(), "api", "blocked", time.Time{}))
	ended := time.Now().Add(-time.Second).UnixMilli()
	testkit.Must(t, redistest.Shared(t).Client().Do(t.Context(), "ZADD", "counts:test:{rules:test}blocks", ended, keyhash.New(nil).Tag("ended")+":api").Err())
	testkit.Must(t, set.Override(t.Context(), "api", "by override", rules.Override{Blocked: true}))
	testkit.Must(t, set.Override(t.Context(), "api", "freed", rules.Override{Plan: "gold"}))
	go func() { _ = set.Watch(t.Context(), source) }()
	for deadline := time.Now().Add(time.Minute); source.Stats().Age < 0 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	shown := 0
	for _, key := range []string{"in file", "freed", "old in file", "blocked", "ended", "by override"} {
		if strings.HasPrefix(reportOf(t, h, url.Values{"key": {key}}).Key.Limits[0].Decision, "Blocked") {
			shown++
		}
	}
	cards := view{h.report(t.Context(), question{})}.Cards()
	for _, c := range cards {
		if c.ID == "blocks" && c.Value == fmt.Sprint(shown) && shown == 3 {
			return
		}
	}
	t.Errorf("got the cards %v, and %d keys are shown as blocked, want 3", cards, shown)
}

// An operator finds a key by the address of a client, and by a name with another word.
func TestHandler_Similar(t *testing.T) {
	store := observe.New(memstore.New())
	api := testkit.Limiter(t, store, core.SlidingLog("api", core.PerDay(9)))
	testkit.Allow(t, api, "2001:db8::/64")
	testkit.Allow(t, api, "user:ann")
	h := newHandler(t, everybody, store, Limiters(api))
	for key, want := range map[string]string{"2001:db8::7": "[2001:db8::/64]", "ann": "[user:ann]", "basic:ann": "[user:ann]", "user:bob": "[]"} {
		if got := fmt.Sprint(reportOf(t, h, url.Values{"key": {key}}).Key.Similar); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}

// A line contains nothing that any shell executes: neither the shells that it is for, nor PowerShell or cmd.exe.
func TestHandler_CommandCharacters(t *testing.T) {
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: s, algorithm: sliding_log, limit: 1/d, plans: {gold: 2/d, "a & b": 3/d, "1": 4/d}}]}}}`))
	testkit.Must(t, err)
	page := func(config *rules.Config) (*Handler, *rules.Set) {
		store := observe.New(memstore.New())
		set, err := rules.New(store, config, rules.Overrides(rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix("characters:"))))
		testkit.Must(t, err)
		return newHandler(t, everybody, store, Rules(set)), set
	}
	h, set := page(config)
	const end = "which can have a meaning in a shell."
	const other = "The configuration has a name with a character that can have a meaning in a shell."
	look := func(h *Handler, key string, lines int, reason string) {
		t.Helper()
		l := reportOf(t, h, url.Values{"key": {key}}).Key.Limits[0]
		if len(l.Commands) != lines || l.NoCommand != reason {
			t.Errorf("%q: got %q and the reason %q, want %d lines and %q", key, l.Commands, l.NoCommand, lines, reason)
		}
		for _, c := range l.Commands {
			if words := strings.Split(c.Line, "'"); len(words)%2 == 0 || strings.ContainsAny(c.Line, "\\\"&|<>^%!`$;()#\r\n") {
				t.Errorf("%q: got %s", key, c.Line)
			}
		}
		body := ask(h, "POST", "/", url.Values{"key": {key}}).Body.String()
		if (reason != "") != strings.Contains(body, "There is no command to copy: ") || !strings.Contains(body, "bash, zsh, fish and sh, not for PowerShell and cmd.exe") {
			t.Errorf("%q: the page does not name the shells, or the reason", key)
		}
		if strings.Contains(body, `class="copy"`) != (lines > 0) {
			t.Errorf("%q: the page has another number of lines than %d", key, lines)
		}
	}
	for _, key := range []string{
		"user:ann", "ip:2001:db8::/64", "203.0.113.0/24", "body:user:ann@example.com", "used up", "ключ", "用户ー", "é", "e\u0301", "user@1:b:a", "@ann", "join:1:a3:b:c",
		"join?-1:a", "a,b", "=x", "~x", "{a}", "[a]*", "a+b", "x--y", "key=value",
	} {
		look(h, key, 2, "")
	}
	for _, c := range "'\"&|<>^%!$;()#\\`\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\uff02\uff06\uff07\uff5c\u2013\u2026\u00b4\u00a0\u200b\u202e\u2028\u0085\x00\x1b\n\r\t\ufffd" {
		look(h, "x"+string(c)+"calc", 0, fmt.Sprintf("The key contains %#U, %s", c, end))
	}
	look(h, "x\xffy", 0, fmt.Sprintf("The key contains %#U, %s", '\ufffd', end))
	look(h, "x' ; calc ; '", 0, fmt.Sprintf("The key contains %#U, %s", '\'', end))
	// A plan, or the file of the configuration, may have such a name.
	testkit.Must(t, set.Override(t.Context(), "api", "planned", rules.Override{Plan: "a & b"}))
	look(h, "planned", 1, other)
	testkit.Must(t, set.Override(t.Context(), "api", "one", rules.Override{Plan: "1", Until: time.Now().Add(time.Hour)}))
	look(h, "one", 1, other) // the quotes of the plan are necessary
	testkit.Must(t, set.Override(t.Context(), "api", "golden", rules.Override{Plan: "gold", Until: time.Now().Add(time.Hour)}))
	look(h, "golden", 2, "")
	windows := *config
	windows.Name = `C:\limits.yaml`
	h, _ = page(&windows)
	look(h, "k", 0, other)
}

// A Reset of an in-flight rule takes the places of running events away.
func TestHandler_ResetInFlight(t *testing.T) {
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: running, algorithm: in_flight, limit: 1}]}}}`))
	testkit.Must(t, err)
	store := observe.New(memstore.New())
	set, err := rules.New(store, config, rules.Overrides(rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix("places:"))))
	testkit.Must(t, err)
	api, err := set.Limiter("api")
	testkit.Must(t, err)
	r := testkit.Reserve(t, api, "k", 1)
	commands := reportOf(t, newHandler(t, everybody, store, Rules(set)), url.Values{"key": {"k"}}).Key.Limits[0].Commands
	testkit.Must(t, r.Release(t.Context()))
	if got := commands[0]; got.Effect != "Let the key in: forget its events; those that run lose their places" || !strings.HasSuffix(got.Line, " reset api k") {
		t.Errorf("got %+v", got)
	}
	if got := commands[1]; got.Effect != "Give the key another limit until the time in the line: change 1 there" || !strings.Contains(got.Line, "{limits: {running: 1}, until: ") {
		t.Errorf("got %+v", got)
	}
}

// core.Never is no duration.
func TestHandler_Never(t *testing.T) {
	config, err := rules.Parse("limits.yaml", []byte(`{policies: {api: {rules: [{name: s, algorithm: sliding_log, limit: 1/d, plans: {none: blocked}}, {name: i, algorithm: in_flight, limit: 1, max_hold: 2562047h47m16.854775807s}],
		keys: {b: {blocked: true}, l: {limits: {s: blocked}}, until: {blocked: true, until: 9999-01-01T00:00:00Z}}}}}`))
	testkit.Must(t, err)
	store := observe.New(memstore.New())
	set, err := rules.New(store, config)
	testkit.Must(t, err)
	code := testkit.Limiter(t, store, core.TokenBucket("bucket", core.PerSecond(1)), core.InFlight("i", 1).MaxHold(core.Never), core.SlidingLog("no", core.Blocked).Shadow())
	closed := testkit.Limiter(t, store, core.LeakyBucket("closed", core.Blocked))
	h := newHandler(t, everybody, store, Rules(set), Limiters(code, closed))
	for _, key := range []string{"a", "b", "l", "until"} {
		for _, format := range []string{"", "?format=json"} {
			for _, plan := range []string{"", "none"} {
				if text := ask(h, "POST", "/"+format, url.Values{"key": {key}, "plan": {plan}}).Body.String(); strings.Contains(text, "2562047h") || !strings.Contains(text, "never") {
					at := strings.Index(text, "2562047h")
					t.Errorf("key %s, plan %q: got %q", key, plan, text[max(0, at-100):max(20, at+20)])
				}
			}
		}
	}
	for d, want := range map[string]string{"1ms": "100ms", "61.1s": "1m2s", "2562047h47m16.854775807s": "more than 290 years", "2562047h47m16.8s": "more than 290 years"} {
		if got := text(parsed(t, d)); got != want {
			t.Errorf("text(%s): got %s, want %s", d, got, want)
		}
	}
}

func parsed(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	testkit.Must(t, err)
	return d
}
