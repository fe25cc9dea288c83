package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// newRow returns the row of a new database.
func newRow(t *testing.T) row {
	t.Helper()
	db, err := open(t.Context(), filepath.Join(t.TempDir(), "limits.db"))
	demotest.Must(t, err)
	t.Cleanup(func() { demotest.Must(t, db.Close()) })
	return row{db, "shop"}
}

// exec changes the database as another program does.
func (r row) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := r.db.ExecContext(t.Context(), query, args...)
	demotest.Must(t, err)
}

func TestRowChanges(t *testing.T) {
	limits := newRow(t)
	failed := make(chan error, 10)
	set, err := start(t.Context(), memstore.New(), limits, rules.OnError(func(err error) { failed <- err }))
	demotest.Must(t, err)
	h, err := newHandler(set, limits)
	demotest.Must(t, err)
	want := func(policy string) {
		t.Helper()
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.SetBasicAuth("ann", "")
		h.ServeHTTP(w, r)
		if got := w.Header().Get("RateLimit-Policy"); w.Code != http.StatusOK || got != policy {
			t.Errorf("got status %d and %s, want %s", w.Code, got, policy)
		}
	}
	applied := func(change func()) {
		t.Helper()
		version := set.Version()
		change()
		demotest.Until(t, "the changed row is applied", func() bool { return set.Version() != version })
	}
	want(`"minute";q=10;w=60`)
	applied(func() { limits.exec(t, "UPDATE limits SET config = replace(config, '10/m', '30/m')") })
	want(`"minute";q=30;w=60`)

	for _, c := range []struct{ query, want string }{
		{"UPDATE limits SET config = 'polices: {}'", `limits/shop:1:1: polices: is an unknown field; did you mean "policies"?`},
		{"DELETE FROM limits", "weir: configuration of limits/shop: sql: no rows in result set"},
	} {
		limits.exec(t, c.query)
		if err := <-failed; err.Error() != c.want {
			t.Errorf("%s: got error %v, want %s", c.query, err, c.want)
		}
		want(`"minute";q=30;w=60`)
	}
	applied(func() { limits.exec(t, "INSERT INTO limits VALUES ('shop', replace(?, '10/m', '40/m'))", initial) })
	want(`"minute";q=40;w=60`)
}

func TestSave(t *testing.T) {
	limits := newRow(t)
	for _, c := range []struct {
		text   string
		status int
		want   string
	}{
		{strings.Replace(initial, "10/m", "30/m", 1), http.StatusOK, ""},
		{strings.Replace(initial, "10/m", "30", 1), http.StatusBadRequest, "request:5:"},
		{strings.Repeat("#", rules.MaxSize+1), http.StatusBadRequest, "too large"},
	} {
		before, err := limits.Load(t.Context())
		demotest.Must(t, err)
		w := httptest.NewRecorder()
		limits.save(w, httptest.NewRequest("PUT", "/admin/limits", strings.NewReader(c.text)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("got status %d and %s, want %d and %s", w.Code, w.Body, c.status, c.want)
		}
		saved := string(before)
		if c.status == http.StatusOK {
			saved = c.text
		}
		if got, err := limits.Load(t.Context()); err != nil || string(got) != saved {
			t.Errorf("got the row %q (%v), want %q", got, err, saved)
		}
	}
}

func TestStart_Errors(t *testing.T) {
	limits := newRow(t)
	for _, c := range []struct{ query, want string }{
		{"UPDATE limits SET config = replace(config, 'limit:', 'limits:')", "limits/shop:5:"},
		{"DELETE FROM limits", "weir: configuration of limits/shop: sql: no rows"},
		{"DROP TABLE limits", "no such table"},
	} {
		limits.exec(t, c.query)
		if _, err := start(t.Context(), memstore.New(), limits); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %s", c.query, err, c.want)
		}
	}
	other := newRow(t)
	other.exec(t, "UPDATE limits SET config = replace(config, 'api:', 'apis:')")
	set, err := start(t.Context(), memstore.New(), other)
	demotest.Must(t, err)
	if _, err := newHandler(set, other); err == nil {
		t.Error("got no error for a configuration without the policy api")
	}
}

func TestHints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	demotest.RunHints(t, demotest.Start(t, "DATABASE="+path),
		`"api.minute" 9 of 10 left`, `"api.minute" 99 of 100 left`, `"api.minute" 18 of 20 left`, "HTTP/1.1 429", "HTTP/1.1 400", "polices: is an unknown field")

	// The changed row is in the database at the next start.
	a := demotest.Start(t, "DATABASE="+path).Do(t, "GET", "/", "Authorization: Basic YW5uOg==")
	a.WantField(t, "RateLimit-Policy", `"minute";q=20;w=60`)
}
