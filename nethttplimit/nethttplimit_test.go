package nethttplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/gatetest"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func build(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
	return nethttplimit.New(l, key, opts...)(h)
}

func TestContract(t *testing.T) { gatetest.Run(t, build) }

func BenchmarkRequest(b *testing.B) {
	gatetest.Benchmark(b, build, func(h http.HandlerFunc) http.Handler { return h })
}

// once admits one request a day.
func once() *core.Limiter {
	return core.Must(core.New(memstore.New(), core.SlidingLog("once", core.PerDay(1))))
}

func get(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w
}

func TestOnDenied(t *testing.T) {
	var seen core.Decision
	answer := nethttplimit.OnDenied(func(w http.ResponseWriter, r *http.Request, d core.Decision) {
		seen, _ = gate.FromContext(r.Context())
		if d.Len() != 1 || d.Allowed {
			t.Errorf("the decision is %+v", d)
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "slow down")
	})
	h := build(once(), keyfunc.RemoteIP(), []gate.Option{answer}, func(http.ResponseWriter, *http.Request) {})
	get(h)
	got := get(h)
	if got.Code != 429 || got.Body.String() != "slow down" || got.Header().Get("Content-Type") == gate.ProblemMediaType {
		t.Errorf("got %d %q as %s", got.Code, got.Body, got.Header().Get("Content-Type"))
	}
	if got.Header().Get("Retry-After") != "86400" || got.Header().Get("RateLimit") != `"once";r=0;t=86400` {
		t.Errorf("the fields are %v", got.Header())
	}
	if seen.Len() != 1 {
		t.Error("the request has no decision")
	}
}

// TestOnDeniedIsForDenials checks that rejections keep their answer.
func TestOnDeniedIsForDenials(t *testing.T) {
	answer := nethttplimit.OnDenied(func(http.ResponseWriter, *http.Request, core.Decision) { t.Error("called") })
	nobody := func(context.Context, *http.Request) (string, error) { return "", keyfunc.ErrNoKey }
	h := build(once(), nobody, []gate.Option{answer}, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	if got := get(h); got.Code != 400 {
		t.Errorf("got %d, want 400", got.Code)
	}
}

// TestWriterIsNotWrapped: only RefundIf needs a writer of its own.
func TestWriterIsNotWrapped(t *testing.T) {
	for name, c := range map[string]struct {
		opt     gate.Option
		wrapped bool
	}{
		"by default": {gate.ExposeHeaders(), false}, "CountInFlight": {gate.CountInFlight(new(counter)), false},
		"RefundIf": {gate.RefundIf(func(int) bool { return true }), true},
	} {
		w := httptest.NewRecorder()
		h := build(once(), keyfunc.RemoteIP(), []gate.Option{c.opt}, func(got http.ResponseWriter, _ *http.Request) {
			if (got != w) != c.wrapped {
				t.Errorf("%s: the handler has a %T", name, got)
			}
		})
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	}
}

type counter struct{ begun, ended int }

func (c *counter) Begin() { c.begun++ }
func (c *counter) End()   { c.ended++ }

func TestNil(t *testing.T) {
	for name, f := range map[string]func(){
		"nethttplimit: New: handler is nil":       func() { nethttplimit.New(once(), keyfunc.RemoteIP())(nil) },
		"nethttplimit: OnDenied: function is nil": func() { nethttplimit.OnDenied(nil) },
	} {
		func() {
			defer func() {
				if got := recover(); got != name {
					t.Errorf("panicked with %v, want %s", got, name)
				}
			}()
			f()
		}()
	}
}
