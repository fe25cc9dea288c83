package inspect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

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
	Minutes     []struct{ Requests map[string]uint64 }
	Rules       []rule
	Application *struct {
		Error       string
		Off         []turnedOff
		Differences []string
		Processes   []process
		Hour        map[string]uint64
		Rules       []struct {
			Rule string
			Hour map[string]uint64
		}
		Denied []deniedKey
	}
	Key *answer
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
