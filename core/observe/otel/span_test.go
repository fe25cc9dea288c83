package otel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	weirotel "github.com/weir-go/weir/core/observe/otel"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// A span notes its attributes.
type span struct {
	noop.Span
	records bool
	all     []string
}

func (s *span) IsRecording() bool { return s.records }

func (s *span) SetAttributes(all ...attribute.KeyValue) {
	for _, a := range all {
		s.all = append(s.all, fmt.Sprint(a.Key, "=", a.Value.Emit()))
	}
	slices.Sort(s.all)
}

// The outcome of each request is in the span of the request.
func TestSpan(t *testing.T) { synctest.Test(t, spans) }

func spans(t *testing.T) {
	store := memstore.New()
	plan := func(_ context.Context, r *http.Request) (string, error) { return r.Header.Get("Plan"), nil }
	l := testkit.Limiter(t, store, core.SlidingLog("api.minute", core.PerMinute(2)).Plan("pro", core.PerMinute(9)).Plan("free", core.Blocked).Plan("staff", core.Unlimited),
		core.SlidingLog("trial", core.PerDay(1)).Shadow(), core.SlidingLog("day", core.PerDay(4)).Plan("staff", core.Unlimited).Plan("pro", core.PerDay(5)))
	h := nethttplimit.New(l, keyfunc.RemoteIP(), gate.Plan(plan), gate.OnDecision(weirotel.Span), gate.Skip(func(_ context.Context, r *http.Request) bool { return r.URL.Path == "/health" }))(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct{ path, plan, want string }{
		{"/", "", "[weir.limit=2/m weir.outcome=admitted weir.policy=api weir.remaining=1 weir.rule=api.minute]"},
		{"/", "", "[weir.limit=2/m weir.outcome=admitted weir.policy=api weir.remaining=0 weir.rule=api.minute]"},
		{"/", "", "[weir.limit=2/m weir.outcome=denied weir.policy=api weir.remaining=0 weir.retry_after=60 weir.rule=api.minute]"},
		{"/", "pro", "[weir.limit=5/d weir.outcome=admitted weir.plan=pro weir.remaining=2 weir.rule=day]"},
		{"/", "staff", "[weir.outcome=admitted]"},
		{"/", "free", "[weir.limit=blocked weir.outcome=denied weir.plan=free weir.policy=api weir.remaining=0 weir.rule=api.minute]"},
		{"/health", "", "[weir.outcome=skipped]"},
	} {
		s := &span{records: true}
		r := httptest.NewRequest("GET", c.path, nil)
		r.Header.Set("Plan", c.plan)
		h.ServeHTTP(httptest.NewRecorder(), r.WithContext(trace.ContextWithSpan(r.Context(), s)))
		if got := fmt.Sprint(s.all); got != c.want {
			t.Errorf("%s %q: got %s, want %s", c.path, c.plan, got, c.want)
		}
	}
}

// A denial whose response has no Retry-After has none in the span.
func TestSpan_NoRetryAfter(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.InFlight("places", 1))
	held := testkit.Reserve(t, l, "k", 1)
	s := &span{records: true}
	weirotel.Span(trace.ContextWithSpan(t.Context(), s), gate.Event{Outcome: gate.Denied, Decision: testkit.Reserve(t, l, "k", 1).Decision()})
	if got := fmt.Sprint(s.all); got != "[weir.limit=1 weir.outcome=denied weir.remaining=0 weir.rule=places]" {
		t.Errorf("got %s", got)
	}
	testkit.Must(t, held.Release(t.Context()))
}

// A span that does not record costs no allocation.
func TestSpan_NotRecording(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.SlidingLog("api", core.PerHour(5)))
	d := testkit.Allow(t, l, "k")
	for name, ctx := range map[string]context.Context{"none": t.Context(), "not recording": trace.ContextWithSpan(t.Context(), &span{})} {
		if n := testing.AllocsPerRun(100, func() { weirotel.Span(ctx, gate.Event{Outcome: gate.Admitted, Decision: d}) }); n > 0 {
			t.Errorf("%s: got %v allocations", name, n)
		}
	}
}
