package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/rules"
)

// A scenario is a configuration that is applied to simulated traffic.
type scenario struct {
	*simulate.Simulation
	config   *rules.Config
	set      *rules.Set
	policies map[*core.Limiter]*simulate.Policy
	known    map[string]*simulate.Policy // by request
	other    *simulate.Policy            // of requests without a route; nil if there is none
	left     []string                    // in-flight rules, which are not simulated
	noPolicy uint64                      // requests without a policy
}

// maxKnown is the number of requests whose policies are remembered.
const maxKnown = 100_000

// newScenario returns the scenario of a configuration. Requests without a route have the named policy, or if
// that is empty the only policy.
func newScenario(config *rules.Config, policy string) (*scenario, error) {
	s := &scenario{Simulation: simulate.New(), policies: make(map[*core.Limiter]*simulate.Policy), known: make(map[string]*simulate.Policy)}
	s.config, s.left = withoutInFlight(config)
	var err error
	if s.set, err = rules.New(s.Store(), s.config); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(config.Policies))
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s has no policies", config.Name)
	case policy == "" && len(names) == 1:
		policy = names[0]
	case policy == "" && len(config.Routes) == 0:
		return nil, fmt.Errorf("%s has no routes and the policies %s: choose one with -policy", config.Name, strings.Join(names, ", "))
	case policy != "" && !slices.Contains(names, policy):
		return nil, fmt.Errorf("%s has no policy %q; it has %s", config.Name, policy, strings.Join(names, ", "))
	}
	for _, name := range names {
		if len(s.config.Policies[name].Rules) == 0 {
			continue // its in-flight rules were left out
		}
		l, err := s.set.Limiter(name)
		if err != nil {
			return nil, err
		}
		p := s.Add(name, l)
		if s.policies[l] = p; name == policy {
			s.other = p
		}
	}
	return s, nil
}

// withoutInFlight returns c without its in-flight rules, whose names are left.
func withoutInFlight(c *rules.Config) (changed *rules.Config, left []string) {
	d := *c
	d.Policies, d.Routes = make(map[string]rules.Policy), maps.Clone(c.Routes)
	for name, p := range c.Policies {
		p.Rules = slices.Clone(p.Rules)
		for i := range p.Rules {
			if r := p.Rules[i].Candidate; r != nil && r.Algorithm == driver.InFlight {
				left = append(left, name+"."+p.Rules[i].Name+" (candidate)")
				p.Rules[i].Candidate = nil
			}
		}
		var removed []string
		p.Rules = slices.DeleteFunc(p.Rules, func(r rules.Rule) bool {
			if r.Algorithm != driver.InFlight {
				return false
			}
			left, removed = append(left, name+"."+r.Name), append(removed, r.Name)
			return true
		})
		if len(removed) > 0 {
			p.Keys = maps.Clone(p.Keys)
			for key, o := range p.Keys {
				o.Limits = maps.Clone(o.Limits)
				maps.DeleteFunc(o.Limits, func(rule string, _ core.Limit) bool { return slices.Contains(removed, rule) })
				if !slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return slices.Contains(plansOf(r), o.Plan) }) {
					o.Plan = ""
				}
				p.Keys[key] = o
			}
		}
		if len(p.Rules) > 0 {
			d.Policies[name] = p
		} else {
			maps.DeleteFunc(d.Routes, func(_, policy string) bool { return policy == name })
		}
	}
	slices.Sort(left)
	return &d, left
}

// decide decides about e.
func (s *scenario) decide(ctx context.Context, e *simulate.Event) (core.Decision, error) {
	p := s.policyOf(e.Request)
	if p == nil {
		s.noPolicy++
	}
	return s.Decide(ctx, p, e)
}

// policyOf returns the policy of a request such as "POST /login", or nil.
func (s *scenario) policyOf(request string) *simulate.Policy {
	if request == "" || len(s.config.Routes) == 0 {
		return s.other
	}
	p, ok := s.known[request]
	if ok {
		return p
	}
	p = s.other
	if r, err := newRequest(request); err == nil {
		if l := s.set.ForRequest(r); l != nil {
			p = s.policies[l]
		}
	}
	if len(s.known) < maxKnown {
		s.known[strings.Clone(request)] = p
	}
	return p
}

// rules returns the rules of all policies, for an adversary.
func (s *scenario) rules() (all []core.Rule) {
	policies := s.Policies
	if s.other != nil {
		policies = []*simulate.Policy{s.other}
	}
	for _, p := range policies {
		l, err := s.set.Limiter(p.Name)
		if err == nil {
			all = append(all, l.Rules()...)
		}
	}
	return all
}
