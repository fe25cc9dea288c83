package main

import (
	"context"
	"encoding/base64"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
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
	set, err := fromFile(ctx, path)
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

func TestFromFile_Errors(t *testing.T) {
	for name, path := range map[string]string{
		"a missing file": "none.yaml", "a broken file": copied(t, "limit:", "limits:"),
	} {
		if _, err := fromFile(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	set, err := fromFile(t.Context(), copied(t, "login:", "signin:"))
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

func TestHints_Redis(t *testing.T) {
	server := redistest.NewServer(t)
	if out, err := exec.Command("go", "run", "github.com/weir-go/weir/cmd/weir", "check", "limits.yaml").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out) // the first run compiles it, which the time for the commands does not include
	}
	url := "REDIS_URL=redis://" + server.Addr + "/0"
	one := demotest.Start(t, url, "CONFIG="+copied(t))
	two := demotest.Start(t, url, "CONFIG="+copied(t, "10/m", "30/m")) // not used: there is a configuration
	wantPolicy(t, two, "ann", `"minute";q=10;w=60`)
	demotest.RunHints(t, one, `"api.minute" 8 of 10 left`, `"api.minute" 99 of 100 left`,
		`"minute";q=250;w=60`, "HTTP/1.1 429", "api.minute: 10/m to 20/m", `"api.minute" 19 of 20 left`)
	demotest.Until(t, "the other process follows", func() bool { return policy(t, two, "cid") == `"minute";q=20;w=60` })
	wantPolicy(t, two, "ann", `"minute";q=250;w=60`)
}

// policy returns the limits of a user.
func policy(t *testing.T, p *demotest.Process, user string) string {
	t.Helper()
	a := p.Do(t, "GET", "/", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(user+":")))
	return a.Header.Get("RateLimit-Policy")
}

func wantPolicy(t *testing.T, p *demotest.Process, user, want string) {
	t.Helper()
	if got := policy(t, p, user); got != want {
		t.Errorf("%s: got %s, want %s", user, got, want)
	}
}

// The file is used while Redis is down.
func TestRedis_AbsentAtStart(t *testing.T) {
	server := redistest.NewServer(t)
	demotest.Must(t, server.Stop())
	p := demotest.Start(t, "REDIS_URL=redis://"+server.Addr+"/0")
	wantPolicy(t, p, "ann", `"minute";q=10;w=60`)
	demotest.Must(t, server.Start())
	source := rules.Redis(server.Client(), "rules")
	text, err := os.ReadFile(copied(t, "10/m", "30/m"))
	demotest.Must(t, err)
	demotest.Must(t, source.Put(t.Context(), text))
	demotest.Until(t, "Redis is followed", func() bool { return policy(t, p, "ann") == `"minute";q=30;w=60` })
}
