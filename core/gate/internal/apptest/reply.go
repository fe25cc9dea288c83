package apptest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/gate"
)

// A Reply is a response that has been read to its end.
type Reply struct {
	Status  int
	Header  http.Header
	Trailer http.Header
	Body    string
}

// Exchange sends one request to a real server.
func Exchange(t *testing.T, h http.Handler, r *http.Request) Reply {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	return Send(t, server, r)
}

// Send sends r, whose URL has no host, to server.
func Send(t *testing.T, server *httptest.Server, r *http.Request) Reply {
	t.Helper()
	r = r.Clone(t.Context())
	r.URL.Scheme, r.URL.Host, r.RequestURI = "http", strings.TrimPrefix(server.URL, "http://"), ""
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return ReadReply(t, resp)
}

// ReadReply reads resp to its end, because closing earlier would hang up.
func ReadReply(t *testing.T, resp *http.Response) Reply {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := Reply{resp.StatusCode, resp.Header, resp.Trailer, string(body)}
	got.check(t)
	return got
}

// Record sends one request to h without a server, for example in a synctest bubble.
func Record(t *testing.T, h http.Handler, r *http.Request) Reply {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	got := Reply{w.Code, w.Result().Header, nil, w.Body.String()}
	got.check(t)
	return got
}

// Request returns a request without a host.
func Request(method, target string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = "192.0.2.1:1234"
	return r
}

// check checks the rules that hold for every response.
func (got Reply) check(t *testing.T) {
	t.Helper()
	policies := got.list(t, "Ratelimit-Policy", "q")
	members := got.list(t, "Ratelimit", "r")
	if len(policies) != len(members) {
		t.Errorf("%d policies and %d members, want a member for every policy", len(policies), len(members))
	}
	retry, hasRetry := got.RetryAfter(t)
	for i := range members {
		if i < len(policies) && policies[i].name != members[i].name {
			t.Errorf("member %d is %q in one field and %q in the other", i, policies[i].name, members[i].name)
		}
		w, hasWindow := policies[i].params["w"]
		if hasWindow && (w < 1 || policies[i].places) {
			t.Errorf("policy %q has w=%d: want a positive window, and none for places", policies[i].name, w)
		}
		switch at, ok := members[i].params["t"]; {
		case i < len(policies) && policies[i].places:
			if ok {
				t.Errorf("%q has t=%d: nobody knows when a place is free", members[i].name, at)
			}
		case !ok && hasWindow && (got.Status < 400 || hasRetry): // places by cost have neither a window nor t
			t.Errorf("%q has no t, which is only for a cost that can never be admitted", members[i].name)
		case ok && at == 0 && members[i].params["r"] == 0:
			t.Errorf("%q has r=0 and t=0: a client would retry at once", members[i].name)
		}
	}
	switch {
	case got.Status == http.StatusServiceUnavailable && !hasRetry:
		t.Error("503 without Retry-After")
	case got.Status < 400 && hasRetry:
		t.Errorf("%d with Retry-After", got.Status)
	case hasRetry && retry < 1:
		t.Errorf("Retry-After is %d: want at least 1", retry)
	}
	if got.Status == http.StatusUnauthorized && got.Header.Get("WWW-Authenticate") == "" {
		t.Error("401 without a challenge")
	}
	if got.Status >= 400 && got.Header.Get("Cache-Control") != "no-store" {
		t.Error("an error without Cache-Control: no-store")
	}
	for name := range got.Trailer {
		t.Errorf("trailer %s: want no field in the trailers", name)
	}
	if media := got.Header.Get("Content-Type"); strings.HasSuffix(media, "json") && got.Body != "" {
		got.checkProblem(t)
	}
}

// list reads a field in which every name must occur at most once.
func (got Reply) list(t *testing.T, field string, params ...string) []item {
	t.Helper()
	lines := got.Header[field]
	if len(lines) == 0 {
		return nil
	}
	items, err := parseList(strings.Join(lines, ", "))
	if err != nil {
		t.Errorf("%s: %v", field, err)
	}
	seen := map[string]bool{}
	for _, it := range items {
		if seen[it.name] {
			t.Errorf("%s has %q twice", field, it.name)
		}
		seen[it.name] = true
		for _, p := range params {
			if _, ok := it.params[p]; !ok {
				t.Errorf("%s: %q has no %s", field, it.name, p)
			}
		}
	}
	return items
}

func (got Reply) RetryAfter(t *testing.T) (int, bool) {
	t.Helper()
	lines := got.Header["Retry-After"]
	if len(lines) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(lines[0])
	if len(lines) > 1 || err != nil {
		t.Errorf("Retry-After is %q, not one integer", lines)
	}
	return n, true
}

// checkProblem checks that the body is one problem document with the status of the response.
func (got Reply) checkProblem(t *testing.T) {
	t.Helper()
	var p gate.Problem
	d := json.NewDecoder(strings.NewReader(got.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		t.Errorf("the body is not a problem document: %v\n%s", err, got.Body)
	}
	if p.Status != got.Status || p.Type == "" {
		t.Errorf("status %d has a document with status %d and type %q", got.Status, p.Status, p.Type)
	}
	if d.More() {
		t.Errorf("more than one body: %s", got.Body)
	}
}

// An item is a member of RateLimit-Policy or RateLimit.
type item struct {
	name   string
	params map[string]int64
	places bool // the unit is concurrent-requests
}

// member matches a String of RFC 9651 with Integer parameters and perhaps a unit after the first one, and
// the separator after it.
var member = regexp.MustCompile(`^"((?:[ !#-\[\]-~]|\\["\\])*)"((?:;[a-z]+=[0-9]{1,15}(?:;qu="[a-z-]+")?)?(?:;[a-z]+=[0-9]{1,15})*)(?:, |$)`)

// parseList reads a field, which is a List of RFC 9651. It rejects a second space and an empty
// list.
func parseList(s string) ([]item, error) {
	var items []item
	for rest := s; ; {
		m := member.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%q has no String with Integer parameters at %q", s, rest)
		}
		it := item{name: strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(m[1]), params: map[string]int64{}}
		for _, param := range strings.Split(m[2], ";")[1:] {
			key, value, _ := strings.Cut(param, "=")
			if key == "qu" {
				it.places = value == `"concurrent-requests"`
				continue
			}
			if _, twice := it.params[key]; twice {
				return nil, fmt.Errorf("%q has the parameter %s twice", m[0], key)
			}
			it.params[key], _ = strconv.ParseInt(value, 10, 64)
		}
		items = append(items, it)
		if !strings.HasSuffix(m[0], ", ") {
			return items, nil
		}
		rest = rest[len(m[0]):]
	}
}
