package inspect

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

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
