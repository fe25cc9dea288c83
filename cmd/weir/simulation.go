package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules"
)

// A simulation is a configuration that is applied to simulated traffic.
type simulation struct {
	*simulate.Simulation
	config   *rules.Config
	set      *rules.Set
	policies map[*core.Limiter]*simulate.Policy
	known    map[string]*simulate.Policy // by request
	other    *simulate.Policy            // of requests without a route; nil if there is none
	all      *simulate.Policy            // that of all routes, beside the others; nil if there is none
	left     []string                    // in-flight rules, which are not simulated
	pauses   []string                    // rules that are a pause: no key is paused
	requests uint64
	noPolicy uint64                               // requests without a policy
	methods  int                                  // routes with a method
	noMethod uint64                               // requests without a method, if a route has one
	paths    bool                                 // a request has a method, a path or the name of a route
	plans    map[*simulate.Policy]map[string]bool // of all rules
	unknown  []string                             // some plans that requests have, and their policies do not
	noPlan   uint64                               // requests with such a plan
}

// maxUnknown is the number of unknown plans that a report names.
const maxUnknown = 5

// maxKnown is the number of requests whose policies are remembered.
const maxKnown = 100_000

// newSimulation returns the simulation of a configuration. Requests without a route have the named policy, or if
// that is empty the only policy. Every request has the policy of all routes, too.
func newSimulation(config *rules.Config, policy string) (*simulation, error) {
	s := &simulation{Simulation: simulate.New(), policies: make(map[*core.Limiter]*simulate.Policy), known: make(map[string]*simulate.Policy), plans: make(map[*simulate.Policy]map[string]bool)}
	s.config, s.left = withoutInFlight(config)
	var err error
	if s.set, err = rules.New(s.Store(), s.config); err != nil {
		return nil, err
	}
	for route := range config.Routes {
		if strings.Contains(route, " ") {
			s.methods++
		}
	}
	names := slices.Sorted(maps.Keys(config.Policies))
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s has no policies", config.Name)
	case policy == "" && len(names) == 1:
		policy = names[0]
	case policy == "" && len(config.Routes) == 0 && config.AllRoutes == "":
		return nil, fmt.Errorf("%s has no routes and the policies %s: choose one with -policy", config.Name, strings.Join(names, ", "))
	case policy != "" && !slices.Contains(names, policy):
		return nil, fmt.Errorf("%s has no policy %q; it has %s", config.Name, policy, strings.Join(names, ", "))
	}
	for _, name := range names {
		l, err := s.set.Limiter(name)
		if err != nil {
			return nil, err
		}
		p := s.Add(name, l)
		s.plans[p] = make(map[string]bool)
		for _, r := range config.Policies[name].Rules {
			for _, plan := range plansOf(r) {
				s.plans[p][plan] = true
			}
			if core.NewRule(r.Spec).Kind().Closes {
				s.pauses = append(s.pauses, name+"."+r.Name)
			}
		}
		if s.policies[l] = p; name == policy {
			s.other = p
		}
		if name == config.AllRoutes {
			s.all = p
		}
	}
	return s, nil
}

// withoutInFlight returns c with in-flight rules that count nothing, whose names are left.
func withoutInFlight(c *rules.Config) (changed *rules.Config, left []string) {
	d := *c
	d.Policies = make(map[string]rules.Policy)
	for name, p := range c.Policies {
		p.Rules, p.Keys = slices.Clone(p.Rules), maps.Clone(p.Keys)
		for i := range p.Rules {
			r := &p.Rules[i]
			if r.Candidate != nil && core.NewRule(r.Candidate.Spec).Kind().Holds {
				r.Candidate, left = nil, append(left, name+"."+r.Name+" (candidate)")
			}
			if !core.NewRule(r.Spec).Kind().Holds {
				continue
			}
			left = append(left, name+"."+r.Name)
			for _, plan := range slices.Sorted(maps.Keys(r.Headroom)) {
				if !slices.ContainsFunc(r.Plans, func(p core.Plan) bool { return p.Name == plan }) {
					r.Plans = append(slices.Clip(r.Plans), core.Plan{Name: plan, Limit: r.Limit})
				}
			}
			r.Limit, r.Plans, r.Headroom = uncounted(r.Limit), slices.Clone(r.Plans), nil
			for j := range r.Plans {
				r.Plans[j].Limit = uncounted(r.Plans[j].Limit)
			}
			for key, o := range p.Keys {
				if l, ok := o.Limits[r.Name]; ok {
					o.Limits = maps.Clone(o.Limits)
					o.Limits[r.Name] = uncounted(l)
					p.Keys[key] = o
				}
			}
		}
		d.Policies[name] = p
	}
	slices.Sort(left)
	return &d, left
}

// withoutBans returns c with rules that ban no key, or nil if it has no other ones.
func withoutBans(c *rules.Config) *rules.Config {
	d, bans := *c, false
	d.Policies = make(map[string]rules.Policy)
	for name, p := range c.Policies {
		p.Rules = slices.Clone(p.Rules)
		for i := range p.Rules {
			r := &p.Rules[i]
			bans = bans || r.BlockFor > 0
			r.BlockFor = 0
		}
		d.Policies[name] = p
	}
	if !bans {
		return nil
	}
	return &d
}

// uncounted returns the limit of an in-flight rule that counts nothing.
func uncounted(l core.Limit) core.Limit {
	if l == core.Blocked {
		return l
	}
	return core.Unlimited
}

// decide decides about e.
func (s *simulation) decide(ctx context.Context, e *simulate.Event) (core.Decision, error) {
	var both [2]simulate.Ask
	asks, unknown := both[:0], false
	add := func(p *simulate.Policy) {
		plan := e.Plan
		if plan != "" && len(s.plans[p]) > 0 && !s.plans[p][plan] {
			plan, unknown = "", true // the limiter would log a warning
		}
		asks = append(asks, simulate.Ask{Policy: p, Plan: plan})
	}
	if e.Request != "" {
		s.paths = true
		if s.methods > 0 && strings.HasPrefix(e.Request, "/") {
			s.noMethod++
		}
	}
	s.requests++
	p := s.policyOf(e.Request)
	if p != nil {
		add(p)
	}
	if s.all != nil && s.all != p {
		add(s.all)
	}
	if len(asks) == 0 {
		s.noPolicy++
	}
	if unknown {
		if s.noPlan++; len(s.unknown) < maxUnknown && !slices.Contains(s.unknown, e.Plan) {
			s.unknown = append(s.unknown, strings.Clone(e.Plan))
		}
	}
	return s.DecideTogether(ctx, e, asks...)
}

// absentKeys returns the number of overrides for keys without a request.
func (s *simulation) absentKeys() (n int) {
	for _, p := range s.config.Policies {
		for key := range p.Keys {
			if s.Clients[key] == nil {
				n++
			}
		}
	}
	return n
}

// check returns an error if no request has a policy: a report would be about no limit.
func (s *simulation) check() error {
	if slices.ContainsFunc(s.Policies, func(p *simulate.Policy) bool { return p.Requests > 0 }) {
		return nil
	}
	advice := "choose the policy with -policy, or for a generator the request, such as steady:request=GET /orders"
	if !s.paths {
		advice = "no request has a path. Name its field with -path, and that of the method with -method, or choose the policy with -policy"
	}
	return fmt.Errorf("no request has a policy, because no route of %s matches: %s", s.config.Name, advice)
}

// policyOf returns the policy of a request such as "POST /login", or nil.
func (s *simulation) policyOf(request string) *simulate.Policy {
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
func (s *simulation) rules() (all []core.Rule) {
	policies := s.Policies
	if s.other != nil {
		policies = []*simulate.Policy{s.other}
		if s.all != nil && s.all != s.other {
			policies = append(policies, s.all)
		}
	}
	for _, p := range policies {
		all = append(all, p.Limiter.Rules()...)
	}
	return all
}
