package otel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// Span sets attributes of the current span to the outcome of a request. It is a function for [gate.OnDecision], with a
// middleware outside of the gate that begins the span:
//
//	nethttplimit.New(limiter, keyfunc.RemoteIP(), gate.OnDecision(weirotel.Span))
//
// OpenTelemetry has no semantic conventions for rate limits. The attributes contain no key:
//
//	weir.outcome      the text of the gate.Outcome, such as "denied"
//	weir.rule         the rule that denies for the longest time; of a request that is let through, the one with the fewest
//	                  events left. Shadows, unlimited and unknown rules do not count
//	weir.policy       the name of the rule up to a dot: of a rule in a configuration (package rules), its policy
//	weir.plan         the plan of its limit, if it has one
//	weir.limit        the limit in force, such as "100/m"
//	weir.remaining    the events that are left
//	weir.retry_after  of a denial: the seconds of gate.RetryAfter, to which gate.Jitter adds, unless it returns none
//
// With several gates for a request, those of the last one stay. A span that does not record costs no allocation.
func Span(ctx context.Context, e gate.Event) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	all := append(make([]attribute.KeyValue, 0, 7), attribute.String("weir.outcome", e.Outcome.String()))
	if s, ok := determining(e.Decision); ok {
		name := s.Rule.Name()
		all = append(all, attribute.String("weir.rule", name), attribute.String("weir.limit", s.Limit().String()), attribute.Int("weir.remaining", s.Remaining))
		if policy, _, ok := strings.Cut(name, "."); ok {
			all = append(all, attribute.String("weir.policy", policy))
		}
		if plan := s.Rule.PlanName(); plan != "" {
			all = append(all, attribute.String("weir.plan", plan))
		}
	}
	if seconds, ok := gate.RetryAfter(e.Decision); ok && e.Outcome == gate.Denied {
		all = append(all, attribute.Int64("weir.retry_after", seconds))
	}
	span.SetAttributes(all...)
}

// determining returns the State of the rule that the attributes are about.
func determining(d core.Decision) (found core.State, ok bool) {
	for _, s := range d.States() {
		switch {
		case s.Rule.IsShadow() || s.Unknown || s.Limit() == core.Unlimited || !d.Allowed && s.Allowed:
		case !ok || !d.Allowed && s.RetryAfter > found.RetryAfter || d.Allowed && s.Remaining < found.Remaining:
			found, ok = s, true
		}
	}
	return found, ok
}
