package page

import (
	"encoding/json"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/playground"
	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/internal/testkit"
)

func TestHandler(t *testing.T) {
	h := Handler()
	for _, c := range []struct {
		method, target string
		status         int
		kind, body     string // the beginning
	}{
		{"GET", "/", 200, "text/html; charset=utf-8", "<!DOCTYPE html>"},
		{"GET", "/?limit=0", 200, "text/html; charset=utf-8", "<!DOCTYPE html>"}, // the script reads it
		{"HEAD", "/", 200, "text/html; charset=utf-8", ""},
		{"GET", "/run", 200, "application/json", `{"traffic":"adversary","limit":100,"per":"m","burst":100,"rate":150,"clients":1,`},
		{"GET", "/run?limit=20&per=s", 200, "application/json", `{"traffic":"adversary","limit":20,"per":"s","burst":20,`},
		{"HEAD", "/run", 200, "application/json", ""},
		{"GET", "/run?limit=0", 400, "application/json", `{"error":"limit is \"0\", and not a number from 1 to 500"}`},
		{"GET", "/run?traffic=%3Cscript%3E", 400, "application/json", `{"error":"traffic is \"%3Cscript%3E\", and not one of `},
		{"GET", "/run/", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/page.js", 404, "text/plain; charset=utf-8", ""},
		{"POST", "/", 405, "text/plain; charset=utf-8", ""},
		{"DELETE", "/run", 405, "text/plain; charset=utf-8", ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
		if w.Code != c.status || w.Header().Get("Content-Type") != c.kind || !strings.HasPrefix(w.Body.String(), c.body) {
			t.Errorf("%s %s: got %d %s %.200s", c.method, c.target, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Security-Policy": "default-src 'none'; style-src 'sha256-"} {
			if got := w.Header().Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s %s: %s is %q, want %q", c.method, c.target, name, got, want)
			}
		}
	}
}

// The page has the defaults, the kinds of traffic and the algorithms of package playground.
func TestPage_Content(t *testing.T) {
	p, err := playground.Parse("")
	testkit.Must(t, err)
	r, err := playground.Run(t.Context(), p)
	testkit.Must(t, err)
	var of, want []string
	for _, l := range content.Lanes {
		of = append(of, l.ID)
	}
	for _, l := range r.Lanes {
		want = append(want, l.Algorithm)
	}
	slices.Sort(of)
	slices.Sort(want)
	if !slices.Equal(of, want) {
		t.Errorf("the lanes are %q, want %q", of, want)
	}
	of = nil
	for _, c := range content.Traffic {
		of = append(of, c.ID)
	}
	if !slices.Equal(of, simulate.Kinds) {
		t.Errorf("the traffic is %q, want %q", of, simulate.Kinds)
	}
	text, err := json.Marshal(r)
	testkit.Must(t, err)
	var run map[string]any
	testkit.Must(t, json.Unmarshal(text, &run))
	for _, s := range content.Sliders {
		if run[s.ID] != float64(s.Value) {
			t.Errorf("%s is %d, want %v", s.ID, s.Value, run[s.ID])
		}
	}
}

// The page for a server of files has a policy of its own, which permits the program.
func TestStatic(t *testing.T) {
	served := httptest.NewRecorder()
	Handler().ServeHTTP(served, httptest.NewRequest("GET", "/", nil))
	const script, policy = `<script src="wasm_exec.js">`, "&#39;self&#39; &#39;wasm-unsafe-eval&#39;"
	if text := string(Static()); !strings.Contains(text, script) || !strings.Contains(text, policy) {
		t.Errorf("got %.800s", text)
	}
	if text := served.Body.String(); strings.Contains(text, script) || strings.Contains(text, policy) {
		t.Errorf("the served page has the program")
	}
}

// The program for browsers consists of core, memstore and small packages of the standard library.
func TestProgram_Imports(t *testing.T) {
	c := exec.Command("go", "list", "-deps", "github.com/weir-go/weir/cmd/weir/internal/playground/wasm")
	c.Env = append(c.Environ(), "GOOS=js", "GOARCH=wasm")
	out, err := c.Output()
	testkit.Must(t, err)
	deps := strings.Fields(string(out))
	for _, dep := range deps {
		if first, _, _ := strings.Cut(dep, "/"); dep == "net/http" || dep == "time/tzdata" || strings.Contains(first, ".") && !strings.HasPrefix(dep, "github.com/weir-go/weir/") {
			t.Errorf("the program has %s", dep)
		}
	}
	if !slices.Contains(deps, "github.com/weir-go/weir/core/memstore") {
		t.Errorf("got %q", deps)
	}
}
