package inspect

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

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
					`<th scope="row">trial</th><td></td><td class="n">1</td><td class="n">0</td><td class="n">0</td><td class="n">0</td><td class="n">0</td><td class="n">1</td><td class="n">2</td>`,
				} {
					if strings.Contains(page, text) != c.column {
						t.Errorf("the page has %q: %t, want %t", text, !c.column, c.column)
					}
				}
			})
		})
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

// During an outage the page says that overrides cannot be read, and still answers in time.
func TestHandler_Outage(t *testing.T) {
	server := redistest.NewServer(t)
	config, err := rules.Parse("Redis", []byte(`{policies: {api: {rules: [{name: s, algorithm: sliding_log, limit: 1/d}]}}}`))
	testkit.Must(t, err)
	store := observe.New(memstore.New())
	set, err := rules.New(store, config, rules.Overrides(rules.Redis(server.Client(), "test")), rules.OnError(func(error) {}))
	testkit.Must(t, err)
	h := newHandler(t, everybody, store, Rules(set))
	testkit.Must(t, server.Pause())
	defer func() { testkit.Must(t, server.Resume()) }()
	begun := time.Now()
	l := reportOf(t, h, url.Values{"key": {"k"}}).Key.Limits[0]
	if l.Unread == "" || l.Override != "" || l.Used || l.Decision != "Admitted." || time.Since(begun) > 5*time.Second {
		t.Errorf("got %+v after %v", l, time.Since(begun))
	}
}

// Requests that a page of another origin has caused get no answer, whatever authorize would say.
func TestHandler_Origin(t *testing.T) {
	authorized := 0
	h := newHandler(t, func(*http.Request) bool { authorized++; return true }, observe.New(memstore.New()))
	const host, navigation = "limits.example:8080", "Sec-Fetch-Mode: navigate, Sec-Fetch-Dest: document, "
	for _, c := range []struct {
		name, fields string
		get, post    int
	}{
		{"curl", "", 200, 200},
		{"curl with an empty Origin", "Origin: ", 200, 200},
		{"the page", "Sec-Fetch-Site: same-origin, Origin: http://" + host, 200, 200},
		{"the page in an old browser", "Origin: http://" + host, 200, 200},
		{"the page behind a proxy that changes the host", "Sec-Fetch-Site: same-origin, Origin: https://public.example", 200, 200},
		{"an address that is typed", navigation + "Sec-Fetch-Site: none", 200, 200},
		{"a link", navigation + "Sec-Fetch-Site: cross-site", 200, 403},
		{"a link of a sibling domain", navigation + "Sec-Fetch-Site: same-site", 200, 403},
		{"a form of another site", navigation + "Sec-Fetch-Site: cross-site, Origin: http://evil.example", 200, 403},
		{"fetch", "Sec-Fetch-Site: cross-site, Sec-Fetch-Mode: cors, Sec-Fetch-Dest: empty, Origin: http://evil.example", 403, 403},
		{"fetch without CORS", "Sec-Fetch-Site: cross-site, Sec-Fetch-Mode: no-cors", 403, 403},
		{"fetch of a sibling domain", "Sec-Fetch-Site: same-site, Origin: http://www.limits.example", 403, 403},
		{"an unknown relation", "Sec-Fetch-Site: other", 403, 403},
		{"a frame", "Sec-Fetch-Site: cross-site, Sec-Fetch-Mode: navigate, Sec-Fetch-Dest: iframe", 403, 403},
		{"an image", "Sec-Fetch-Site: cross-site, Sec-Fetch-Mode: no-cors, Sec-Fetch-Dest: image", 403, 403},
		{"the Origin of another host", "Origin: http://evil.example", 403, 403},
		{"the Origin of another port", "Origin: http://limits.example", 403, 403},
		{"a sandboxed frame", "Origin: null", 403, 403},
		{"an invalid Origin", "Origin: %", 403, 403},
	} {
		for method, want := range map[string]int{"GET": c.get, "HEAD": c.get, "POST": c.post} {
			r := httptest.NewRequest(method, "http://"+host+"/debug/limits?format=json", strings.NewReader("key=user:7"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for field := range strings.SplitSeq(c.fields, ", ") {
				name, value, _ := strings.Cut(field, ": ")
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			authorized = 0
			if h.ServeHTTP(w, r); w.Code != want || authorized != map[bool]int{true: 1}[want == 200] || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s of %s: got %d after %d calls of authorize, want %d", method, c.name, w.Code, authorized, want)
			}
			if want == 403 && strings.Contains(w.Body.String(), "process") {
				t.Errorf("%s of %s: got %q", method, c.name, w.Body)
			}
		}
	}
	// With "no-referrer", browsers send the form of the page with the Origin null.
	if got := ask(h, "GET", "/", nil).Header().Get("Referrer-Policy"); got != "same-origin" {
		t.Errorf("got the Referrer-Policy %q", got)
	}
}

// The page shows the application beside this process, and waits for a moment only if Redis is away.
func TestHandler_Application(t *testing.T) {
	server := redistest.NewServer(t)
	store := resilient.New(server.Client(), "test")
	t.Cleanup(func() { store.Close() })
	l := testkit.Limiter(t, store, core.SlidingLog("api", core.PerHour(5)))
	h := newHandler(t, everybody, store.Observer(), Limiters(l))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		body := ask(h, "GET", "/", nil).Body.String()
		if strings.Contains(body, "<h2>Application</h2>") && strings.Contains(body, fmt.Sprintf(`<td class="n">%d</td>`, os.Getpid())) {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("after a minute: the page is %s", body)
		}
	}
	if all := reportOf(t, h, nil).Application.Processes; len(all) != 1 || all[0].PID != os.Getpid() || len(all[0].Sets) > 0 {
		t.Errorf("got %+v", all)
	}
	h.figures.at = time.Time{} // they are read again
	rdb, fleet, minute := server.Client(), rules.FleetOf(store), time.Now().Unix()/60
	testkit.Must(t, rdb.HSet(t.Context(), fmt.Sprintf("weir:test:{test}processes:figures:%d", minute), "", "0 12345 0 7", "api", "0 12345 0 7", "<b>", "0 1").Err())
	testkit.Must(t, rdb.Do(t.Context(), "zadd", fmt.Sprintf("weir:test:{test}processes:denied:%d", minute/60), 6, fleet.Tag("ann")+" api", 1, "other api").Err())
	_, err := fleet.TurnOff(t.Context(), rules.Switch{Rule: "api", By: "ann", Reason: "<i>"})
	testkit.Must(t, err)
	testkit.Allow(t, l, "k")
	d := reportOf(t, h, url.Values{"key": {"ann"}})
	if a := d.Application; a.Error != "" || len(a.Off) != 1 || a.Off[0].By != "ann" || fmt.Sprint(a.Hour, a.Rules, a.Denied) !=
		"map[allowed:12345 denied:7] [{<b> map[allowed:1]} {api map[allowed:12345 denied:7]}] [{"+fleet.Tag("ann")+" ann api 6} {other  api 1}]" {
		t.Errorf("got %+v", a)
	}
	for begun := time.Now(); ; <-tick.C {
		if all := reportOf(t, h, nil).Rules; len(all) == 1 && all[0].Mode == "off, by weir off" {
			break
		} else if time.Since(begun) > time.Minute {
			t.Fatalf("after a minute: got %v", all)
		}
	}
	body := ask(h, "GET", "/", nil).Body.String()
	for _, part := range []string{
		"The limits of api are off since ", " by ann: &lt;i&gt;. The command weir on turns them on again.", `<tr><th scope="row">&lt;b&gt;</th>`,
		`<tr><th scope="row">api</th><td class="n">12` + "\u202f" + `345</td><td class="n muted">1</td>`, `<code class="tag">#` + fleet.Tag("ann") + `</code></th><td>api</td><td class="n">6</td>`,
	} {
		if !strings.Contains(body, part) {
			t.Errorf("the page does not contain %q:\n%s", part, body[strings.Index(body, `<section id="application"`):])
		}
	}
	testkit.Must(t, server.Pause())
	begun := time.Now()
	body = ask(h, "GET", "/", nil).Body.String()
	if took := time.Since(begun); !strings.Contains(body, "Not all is shown: ") || took > 10*time.Second {
		t.Errorf("after %v: got the page %s", took, body)
	}
}
