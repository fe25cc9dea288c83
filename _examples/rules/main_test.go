package main

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// copied returns a copy of the file of the example, with changes.
func copied(t *testing.T, oldnew ...string) string {
	t.Helper()
	text, err := os.ReadFile("limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer(oldnew...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFileChanges(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	path := copied(t)
	set, err := start(ctx, memstore.New(), path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := newHandler(set)
	if err != nil {
		t.Fatal(err)
	}
	policy := func(method, target, user string) string {
		r := httptest.NewRequest(method, target, nil)
		if user != "" {
			r.SetBasicAuth(user, "")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Errorf("%s %s as %s: got status %d", method, target, user, w.Code)
		}
		return w.Header().Get("RateLimit-Policy")
	}
	for _, c := range []struct{ method, target, user, want string }{
		{"GET", "/", "ann", `"minute";q=10;w=60`}, {"GET", "/", "sue", `"minute";q=100;w=60`}, {"GET", "/search", "ann", `"search";q=3;w=60`}, {"POST", "/login", "", `"login";q=5;w=900`},
	} {
		if got := policy(c.method, c.target, c.user); got != c.want {
			t.Errorf("%s %s as %s: got %s, want %s", c.method, c.target, c.user, got, c.want)
		}
	}
	version := set.Version()
	changed, err := os.ReadFile(copied(t, "10/m", "30/m"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	demotest.Until(t, "the changed file is applied", func() bool { return set.Version() != version })
	if got, want := policy("GET", "/", "ann"), `"minute";q=30;w=60`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStart_Errors(t *testing.T) {
	for name, path := range map[string]string{
		"a missing file": "none.yaml", "a broken file": copied(t, "limit:", "limits:"),
	} {
		if _, err := start(t.Context(), memstore.New(), path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	set, err := start(t.Context(), memstore.New(), copied(t, "login:", "signin:"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHandler(set); err == nil {
		t.Error("got no error for a configuration without the policy login")
	}
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t, "CONFIG="+copied(t)),
		`"api.minute" 9 of 10 left`, `"api.minute" 99 of 100 left`, `"minute";q=250;w=60`, `"minute";q=20;w=60`, `"api.minute" 18 of 20 left`)
}
