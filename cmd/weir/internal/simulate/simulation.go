// Package simulate applies limits to recorded or generated traffic, and counts the decisions.
//
// The limiters are those of package core, on a memstore.Store whose clock is the time of the events. A
// simulated client does not adapt: it sends each request at the time of the trace, also after a denial.
package simulate

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// A Simulation applies the limiters of one configuration to events. It is not safe for concurrent use.
type Simulation struct {
	Policies []*Policy
	Clients  map[string]*Client // by key
	Timeline Timeline

	store *memstore.Store
	now   int64 // Unix microseconds
	asks  []core.Ask
}

// An Ask is a policy that an event is charged to, and the plan of the event in it.
type Ask struct {
	Policy *Policy
	Plan   string
}

// New returns a Simulation without policies.
func New() *Simulation {
	s := &Simulation{Clients: make(map[string]*Client)}
	s.store = memstore.New(memstore.Clock(func() time.Time { return time.UnixMicro(s.now) }), memstore.MaxMemory(math.MaxInt/16))
	return s
}

// Store returns the store of the limiters for [Simulation.Add]. It evicts no state.
func (s *Simulation) Store() core.Store { return s.store }

// Add adds a policy, whose limiter has the store of s.
func (s *Simulation) Add(name string, l *core.Limiter) *Policy {
	p := &Policy{Name: name, Limiter: l}
	s.Policies = append(s.Policies, p)
	return p
}

// Decide decides about an event in a policy of s, at the time of the event, and counts the decision. The
// times of events must not decrease. If p is nil, no limit applies to the event.
func (s *Simulation) Decide(ctx context.Context, p *Policy, e *Event) (core.Decision, error) {
	if p == nil {
		return s.DecideTogether(ctx, e)
	}
	return s.DecideTogether(ctx, e, Ask{p, e.Plan})
}

// DecideTogether is Decide for an event that is charged to several policies, or to none. The plan of e has no
// effect.
func (s *Simulation) DecideTogether(ctx context.Context, e *Event, asks ...Ask) (core.Decision, error) {
	s.now = e.At
	d := core.Decision{Allowed: true}
	if len(asks) > 0 {
		s.asks = s.asks[:0]
		for _, a := range asks {
			s.asks = append(s.asks, core.Ask{Limiter: a.Policy.Limiter, Key: e.Key, Cost: e.Cost, Plan: a.Plan})
		}
		var err error
		if d, err = core.AllowTogether(ctx, s.asks...); err != nil {
			return d, err
		}
	}
	c := s.Clients[e.Key]
	if c == nil {
		c = new(Client)
		s.Clients[e.Key] = c
	}
	c.count(&d)
	s.Timeline.add(e.At, d.Allowed)
	for i, a := range asks {
		a.Policy.count(c, e, &d, i)
	}
	return d, nil
}

// Requests returns the keys and the numbers of their events.
func (s *Simulation) Requests() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for key, c := range s.Clients {
			if !yield(key, c.Requests) {
				return
			}
		}
	}
}

// Peek returns the decision that an event of a key would get in a policy of s at a time, and counts nothing.
func (s *Simulation) Peek(ctx context.Context, p *Policy, key string, at int64) (core.Decision, error) {
	s.now = at
	return p.Limiter.Peek(ctx, key)
}
