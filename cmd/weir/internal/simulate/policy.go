package simulate

import (
	"time"

	"github.com/weir-go/weir/core"
)

// A Policy is a limiter, with counts of its decisions.
type Policy struct {
	Name               string
	Limiter            *core.Limiter
	Requests, Admitted uint64
	Denied             uint64 // by this policy; others were denied by another policy of the same decision
	Delayed            uint64 // admitted, after a delay
	// RetryAfter has the waits that denied clients were told, in seconds, rounded up as in the header field.
	RetryAfter Distribution
	Never      uint64  // denials of costs that can never be admitted, without such a wait
	Rules      []*Rule // in the order of those of the limiter; those that never counted an event are nil
}

// Seconds returns the value of Retry-After for a wait: whole seconds, rounded up, at least 1.
func Seconds(d time.Duration) int64 { return max(1, int64((d-1)/time.Second)+1) }

// count counts the decision d about e, an event of c. ask is the index of the ask of p.
func (p *Policy) count(c *Client, e *Event, d *core.Decision, ask int) {
	p.Requests++
	denies := !d.Allowed && denies(d, ask)
	if denies {
		c.deny(p)
	}
	switch {
	case d.Allowed:
		p.Admitted++
		if d.Delay > 0 {
			p.Delayed++
		}
	case !denies:
	case d.RetryAfter == core.Never:
		p.Denied++
		p.Never++
	default:
		p.Denied++
		p.RetryAfter.Add(Seconds(d.RetryAfter))
	}
	if p.Rules == nil {
		p.Rules = make([]*Rule, len(p.Limiter.Rules()))
	}
	first := -1 // the index of the first state of p
	for i, s := range d.States() {
		if s.Ask != ask {
			continue
		}
		if first < 0 {
			first = i
		}
		if s.Unknown || s.Limit() == core.Unlimited {
			continue
		}
		r := &p.Rules[i-first]
		if *r == nil {
			*r = &Rule{Rule: p.Limiter.Rules()[i-first]}
		}
		(*r).count(c, e, d, &s)
	}
}

// denies reports whether a rule of an ask denies the event of d.
func denies(d *core.Decision, ask int) bool {
	for _, s := range d.States() {
		if s.Ask == ask && !s.Allowed && !s.Rule.IsShadow() {
			return true
		}
	}
	return false
}

// A Rule is a rule of a [Policy], with counts of its decisions. A shadow rule counts the events that it
// would deny.
type Rule struct {
	Rule             core.Rule // with the limit without a plan
	Admitted, Denied uint64    // by this rule, whatever the others decided
	Delayed          uint64    // admitted by all rules, after a delay
	Delay            Distribution
	Queue            Distribution // of a leaky bucket: the events in the queue after each admitted one
	Worst            Window
	Bans             uint64           // see core.Spec.BlockFor
	ends             map[string]int64 // of the last bans, by key
}

// BannedKeys returns the number of keys that were banned at least once.
func (r *Rule) BannedKeys() int { return len(r.ends) }

func (r *Rule) count(c *Client, e *Event, d *core.Decision, s *core.State) {
	if !s.Allowed {
		r.Denied++
		if end := e.At + s.Ban.Microseconds(); s.Ban > 0 && end > r.ends[e.Key] {
			if r.ends == nil {
				r.ends = make(map[string]int64)
			}
			r.ends[e.Key] = end
			r.Bans++
		}
		return
	}
	r.Admitted++
	if !d.Allowed {
		return
	}
	if r.Rule.Kind().Delays {
		r.Queue.Add(int64(s.Used()))
		if s.Delay > 0 {
			r.Delayed++
			r.Delay.Add(s.Delay.Microseconds())
		}
	}
	if l := s.Limit(); l.Per > 0 {
		c.window(r, l).add(e, max(e.Cost, 1), s.Delay)
	}
}
