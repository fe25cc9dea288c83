package gate

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/unexported"
	"github.com/weir-go/weir/internal/argument"
)

// DeniedStatus makes f choose the status of the response to a denied request, from 400 to 599. Any
// other result means 429, the default. d.RetryAfter is [core.Never] if the cost is above the
// capacity of a rule, and also if the caller is [core.Blocked] for ever. Test for Blocked first:
//
//	gate.DeniedStatus(func(d core.Decision) int {
//		switch {
//		case d.Blocked():
//			return http.StatusForbidden
//		case d.RetryAfter == core.Never:
//			return http.StatusRequestEntityTooLarge
//		}
//		return http.StatusTooManyRequests
//	})
//
// With another status than 429, the [Problem] has the type about:blank and the title of the status.
// Its detail, its violated policies, Retry-After and all other header fields stay the same; a 401 has
// WWW-Authenticate, too. OnDenied of an adapter chooses its own status. f is called concurrently.
// DeniedStatus panics if f is nil.
func DeniedStatus(f func(d core.Decision) int) Option {
	argument.NotNil("gate: DeniedStatus", "function", f)
	return option(func(o *options) { o.deniedStatus = f })
}

// Jitter makes the Retry-After of each denied request longer by a random number of seconds, from 1 to the whole
// seconds of d, so that denied clients do not return together. Use it for a [core.FixedWindow] or a [core.Quota],
// whose denied clients otherwise all return at the end of the window. With 30 s, 300 clients return at about 10 a
// second:
//
//	nethttplimit.Limit(store, core.FixedWindow("api", core.PerMinute(100)), user, gate.Jitter(30*time.Second))
//
// The problem document names the wait of Retry-After. A denial by the places of a [core.InFlight] alone, which otherwise
// has no Retry-After, gets the random seconds as Retry-After. A denial for ever ([core.Never]) still has none.
//
// The seconds are drawn once for each denial, independently of others, and are in Retry-After before OnDenied of an adapter is
// called. The decision, [RetryAfter], the fields RateLimit and X-RateLimit-Reset, and the end of a block in the document
// are without them, and so are rejections (503). A gate does not inherit Jitter from the gate around it, and Deny of an
// adapter has none.
//
// Jitter panics if d is less than a second or more than 24 hours.
func Jitter(d time.Duration) Option {
	if d < time.Second || d > 24*time.Hour {
		panic("gate: Jitter: the duration is not from 1 s to 24 h")
	}
	return option(func(o *options) { o.jitter = int32(d / time.Second) })
}

// A denial is the Rejection of a denied request. One allocation holds it and all that it refers to.
type denial struct {
	rejection Rejection
	problem   Problem
	violated  [1]string // the array of problem.Violated, unless there are more
	values    [2]string // of the header fields
}

// deny returns the Rejection of a request that d denies and sets its header fields.
func (g *gate) deny(h http.Header, r *http.Request, d core.Decision) *Rejection {
	n := &denial{values: [2]string{1: "no-store"}}
	h["Cache-Control"] = n.values[1:2:2]
	status := http.StatusTooManyRequests
	if g.deniedStatus != nil {
		if s := g.deniedStatus(d); s >= 400 && s <= 599 {
			status = s
		}
	}
	if status == http.StatusUnauthorized {
		challenge(h)
	}
	p := &n.problem
	if *p = newProblem(r, status); status == http.StatusTooManyRequests {
		p.Type, p.Title = unexported.TypeQuotaExceeded, unexported.TitleOfQuota
	}
	violated := n.violated[:0]
	named, wait := -1, time.Duration(-1) // the rule with the longest RetryAfter that is no estimate, which the text describes
	for i, s := range d.States() {
		if s.Allowed || s.Rule.IsShadow() {
			continue
		}
		if after := s.RetryAfter; s.Estimate && named < 0 {
			named = i
		} else if !s.Estimate && after > wait {
			named, wait = i, after
		}
		if name := g.policies.of(i, s.Rule).client; !slices.Contains(violated, name) {
			violated = append(violated, name)
		}
	}
	retry, later := RetryAfter(d)
	switch {
	case g.jitter > 0 && d.RetryAfter != core.Never:
		later = true // places have no other Retry-After
		n.values[0], p.Detail = g.spread(&d, named, retry)
		p.Violated = violated
	case named >= 0:
		s, text := d.State(named), retry
		if s.Estimate {
			text = unknownRetry
		}
		texts := g.policies.of(named, s.Rule).denial(text, endOf(&s, g.now), banned(&s))
		n.values[0], p.Detail, p.Violated = texts.retryAfter, texts.detail, violated
	default: // the Store denies without a reason
		n.values[0] = strconv.FormatInt(retry, 10)
	}
	if later {
		h["Retry-After"] = n.values[0:1:1]
	} else {
		h.Del("Retry-After")
	}
	n.rejection = Rejection{Problem: p, Decision: d, Err: ErrDenied}
	return &n.rejection
}

// spread returns Retry-After, longer than retry by the random seconds of [Jitter], and the detail of the document. named is
// the number of the State that denied, or -1. The texts are not remembered, because they would replace those of other
// denials.
func (g *gate) spread(d *core.Decision, named int, retry int64) (retryAfter, detail string) {
	jitter := 1 + int64(rand.Int32N(g.jitter))
	retry += jitter
	if retryAfter = strconv.FormatInt(retry, 10); named < 0 {
		return retryAfter, ""
	}
	s := d.State(named)
	p := g.policies.of(named, s.Rule)
	return retryAfter, p.describe(retry, laterEnd(s, g.now, jitter), banned(&s))
}

// RetryAfter returns the Retry-After of the denied decision d in seconds, for an OnDenied function
// that writes the wait in its own words. With [Jitter], the field Retry-After of the response is longer than
// the result: read the field instead. The result is at least 1, and at least the parameter t of
// the RateLimit field for every rule that denied. RetryAfter returns false if d is admitted, if its cost
// can never be admitted, or if the wait is unknown ([core.State.Estimate]).
func RetryAfter(d core.Decision) (seconds int64, ok bool) {
	if d.Allowed || d.RetryAfter == core.Never {
		return 0, false
	}
	wait, estimate, known := d.RetryAfter, false, false
	for _, s := range d.States() {
		switch {
		case s.Allowed || s.Rule.IsShadow():
		case s.Estimate:
			estimate = true
		default:
			wait, known = max(wait, s.Window), true
		}
	}
	if estimate && !known {
		return 0, false
	}
	return int64((wait-1)/time.Second) + 1, true // rounded up; 1 for zero
}
