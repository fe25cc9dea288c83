package rules_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// A model makes the decisions of a Set with plain limiters. It finds the limits for each decision
// anew.
type model struct {
	policies map[string]rules.Policy // the latest configuration of each
	off      bool
	store    core.Store
	written  map[[2]string]rules.Override // by policy and key
	blocked  map[[2]string]bool
	running  [][2]*core.Reservation // of the Set and of the model: events that have not ended
}

func newModel(s core.Store) *model {
	return &model{
		policies: make(map[string]rules.Policy), store: undeclared{s},
		written: make(map[[2]string]rules.Override), blocked: make(map[[2]string]bool),
	}
}

// An undeclared store does not know the rules of its limiters, so it accepts any.
type undeclared struct{ core.Store }

func (u undeclared) Describe() driver.Description { return driver.Describe(u.Store) }

func (m *model) apply(c *rules.Config) {
	m.off = c.Disabled
	for name, p := range c.Policies {
		m.policies[name] = p
	}
}

// rules returns the rules for an event.
func (m *model) rules(policy, key, plan string) (all []core.Rule) {
	p := m.policies[policy]
	o := m.override(policy, key)
	if written, ok := m.written[[2]string{policy, key}]; ok {
		o = written
	}
	if m.blocked[[2]string{policy, key}] {
		o = rules.Override{Blocked: true}
	}
	if hasPlan(p, o.Plan) { // a later configuration may not have it
		plan = o.Plan
	}
	for _, r := range p.Rules {
		l, shadow := limitOf(r, plan), r.Shadow || !rules.InPercent(policy, key, p.Enforce)
		if own, ok := o.Limits[r.Name]; ok && suits(own, r.Algorithm) { // a later configuration may have another algorithm
			l = own
		}
		if o.Blocked {
			l, shadow = core.Blocked, false
		}
		own := m.rule(p, policy+"."+r.Name, r, l, shadow)
		if own.Algorithm() != driver.Pause { // which has no plans
			own = own.Headroom("caller", r.Headroom[plan])
		}
		all = append(all, own)
		if r.Candidate != nil {
			all = append(all, m.rule(p, policy+"."+r.Name+".candidate", *r.Candidate, limitOf(*r.Candidate, plan), true).Headroom("caller", r.Candidate.Headroom[plan]))
		}
	}
	return all
}

func hasPlan(p rules.Policy, plan string) bool {
	return slices.ContainsFunc(p.Rules, func(r rules.Rule) bool {
		_, ok := r.Headroom[plan]
		return ok || slices.ContainsFunc(r.Plans, func(p core.Plan) bool { return p.Name == plan })
	})
}

// override returns the override of the configuration that applies now.
func (m *model) override(policy, key string) rules.Override {
	o := m.policies[policy].Keys[key]
	if !o.Until.IsZero() && !time.Now().Before(o.Until) {
		return rules.Override{}
	}
	return o
}

// retryAfter returns the RetryAfter of a rule with a blocked limit. A plan that ends is that of the
// configuration alone.
func (m *model) retryAfter(policy, key, plan string, rule core.Rule) time.Duration {
	p, o := m.policies[policy], m.override(policy, key)
	if o.Until.IsZero() {
		return core.Never
	}
	for _, r := range p.Rules {
		for _, own := range []struct {
			name   string
			rule   *rules.Rule
			shadow bool
		}{{policy + "." + r.Name, &r, r.Shadow}, {policy + "." + r.Name + ".candidate", r.Candidate, true}} {
			if own.name == rule.Name() && limitOf(*own.rule, plan) == core.Blocked && (rule.IsShadow() || !own.shadow) {
				return core.Never
			}
		}
	}
	return time.Until(o.Until)
}

// suits reports whether a rule with the algorithm can have the limit.
func suits(l core.Limit, a driver.Algorithm) bool {
	switch {
	case l == core.Unlimited, l == core.Blocked:
		return true
	case l.Calendar != 0:
		return a == driver.Quota
	case l.Per == 0:
		return a == driver.InFlight
	}
	return a != driver.InFlight && a != driver.Quota
}

func limitOf(r rules.Rule, plan string) core.Limit {
	for _, p := range r.Plans {
		if p.Name == plan {
			return p.Limit
		}
	}
	return r.Limit
}

func (m *model) rule(p rules.Policy, name string, r rules.Rule, l core.Limit, shadow bool) core.Rule {
	at := slices.IndexFunc(testkit.Algorithms, func(a testkit.Algorithm) bool { return a.Name == r.Algorithm.String() })
	var rule core.Rule
	switch {
	case p.Disabled || m.off:
		return core.TokenBucket(name, core.Unlimited)
	case at >= 0:
		rule = testkit.Algorithms[at].Rule(name, l).Soft(r.Soft)
	case l == core.Unlimited, l == core.Blocked: // the same for all algorithms
		rule = core.TokenBucket(name, l)
	case r.Algorithm == driver.Pause:
		rule = core.Pause(name)
	case r.Algorithm == driver.Quota:
		zone, err := time.LoadLocation(r.Timezone)
		if err != nil {
			panic(err)
		}
		rule = core.Quota(name, l).In(zone).Soft(r.Soft)
	default:
		rule = core.InFlight(name, l.Events).Hold(cmp.Or(r.Hold, 30*time.Second)).MaxHold(r.MaxHold).Soft(r.Soft)
	}
	if r.ByCost && rule.Algorithm() == driver.InFlight {
		rule = rule.ByCost()
	}
	if r.SubWindows > 0 {
		rule = rule.SubWindows(r.SubWindows)
	}
	if shadow {
		rule = rule.Shadow()
	}
	return rule
}

// A history has random configurations and events.
type history struct {
	*rand.Rand
	real bool // the time is that of servers, which two stores do not read at once
}

func (h history) one(n int) bool { return h.IntN(n) == 0 }

func draw[T any](h history, from ...T) T { return from[h.IntN(len(from))] }

func (h history) limit(a driver.Algorithm) core.Limit {
	if h.one(10) {
		return draw(h, core.Unlimited, core.Blocked)
	}
	if a == driver.InFlight {
		return core.Limit{Events: draw(h, 1, 2, 3, 7, 20)}
	}
	if a == driver.Quota {
		n := draw(h, 1, 2, 3, 7, 20)
		if h.real { // a test is not at the end of two days in different zones
			return core.Monthly(n)
		}
		return draw(h, core.Daily, core.Weekly, core.Monthly)(n)
	}
	if core.NewRule(core.Spec{Algorithm: a}).Kind().Refills { // of one length: another one begins in use, see core.Limiter.Replace
		return core.Per(draw(h, 1, 2, 3, 7, 20), map[bool]time.Duration{false: 10 * time.Second, true: 1000 * time.Hour}[h.real])
	}
	if h.real { // nothing is restored during the test
		return core.Per(draw(h, 1, 2, 3, 7, 20), draw(h, 1000*time.Hour, 2000*time.Hour))
	}
	return core.Per(draw(h, 1, 2, 3, 7, 20), draw(h, time.Second, 10*time.Second, time.Minute))
}

// historyAlgorithms are those of rules with a limit, in-flight twice.
var historyAlgorithms = append(slices.DeleteFunc(testkit.Names(), func(a driver.Algorithm) bool { return a == driver.Pause }), driver.InFlight)

func (h history) rule(name string) rules.Rule {
	r := rules.Rule{
		Spec: core.Spec{
			Name: name, Shadow: h.one(6), Soft: draw[float64](h, 0, 0, 50),
			Algorithm: draw(h, historyAlgorithms...),
		},
	}
	r.Limit = h.limit(r.Algorithm)
	switch {
	case core.NewRule(r.Spec).Kind().Refills:
		r.Soft = 0
	case r.Algorithm == driver.SlidingWindow:
		r.SubWindows = draw(h, 0, 5)
	case r.Algorithm == driver.Quota && !h.real:
		r.Timezone = draw(h, "", "UTC", "America/Sao_Paulo", "Asia/Kathmandu", "Europe/Berlin")
	case r.Algorithm == driver.InFlight && h.real:
		r.Hold = draw(h, time.Hour, 2*time.Hour)
	case r.Algorithm == driver.InFlight: // the places lapse between two events of the history
		r.Hold, r.MaxHold = draw(h, 0, 2*time.Second), draw(h, 0, 5*time.Second+time.Microsecond)
	}
	r.ByCost = r.Algorithm == driver.InFlight && h.one(2)
	for _, plan := range []string{"gold", "free"} {
		if h.one(2) {
			r.Plans = append(r.Plans, core.Plan{Name: plan, Limit: h.limit(r.Algorithm)})
		}
		if h.one(4) {
			if r.Headroom == nil {
				r.Headroom = make(map[string]float64)
			}
			r.Headroom[plan] = draw[float64](h, 10, 50, 90)
		}
	}
	return r
}

// policy returns a policy that often has rules of like.
func (h history) policy(like rules.Policy) (p rules.Policy) {
	p.Enforce, p.Disabled = draw[float64](h, 0, 30, 60, 100, 100, 100), h.one(10)
	plans := []string{""}
	for i := range 1 + h.IntN(3) {
		r := h.rule(fmt.Sprint("r", i))
		same := slices.IndexFunc(like.Rules, func(o rules.Rule) bool { return o.Name == r.Name })
		switch {
		case same >= 0 && h.one(2):
			r = like.Rules[same]
		case h.one(4):
			c := h.rule("")
			r.Candidate = &c
		}
		for _, plan := range r.Plans {
			plans = append(plans, plan.Name)
		}
		plans = append(plans, slices.Sorted(maps.Keys(r.Headroom))...)
		p.Rules = append(p.Rules, r)
	}
	if h.one(2) {
		pause := rules.Rule{Spec: core.Spec{Name: "pause", Algorithm: driver.Pause, Shadow: h.one(6)}}
		p.Rules = slices.Insert(p.Rules, h.IntN(1+len(p.Rules)), pause)
	}
	p.Keys = make(map[string]rules.Override)
	for i := range h.IntN(4) {
		o := h.override(p, plans)
		if h.one(3) {
			o.Until = time.Now().Add(time.Duration(h.IntN(20)) * time.Second)
			if h.real {
				o.Until = time.Now().Add(draw(h, -time.Hour, time.Hour))
			}
		}
		p.Keys[fmt.Sprint("k", i)] = o
	}
	return p
}

// override returns an override for p, which has the plans.
func (h history) override(p rules.Policy, plans []string) rules.Override {
	o := rules.Override{Blocked: h.one(6), Plan: draw(h, plans...), Limits: make(map[string]core.Limit)}
	for _, r := range p.Rules {
		if r.Algorithm != driver.Pause && h.one(2) {
			o.Limits[r.Name] = h.limit(r.Algorithm)
		}
	}
	return o
}

func (h history) config(m *model) *rules.Config {
	c := &rules.Config{Disabled: h.one(15), Policies: make(map[string]rules.Policy)}
	for _, name := range []string{"a", "b", "c"} {
		if !h.one(4) {
			c.Policies[name] = h.policy(m.policies[name])
		}
	}
	return c
}

// Random configurations are applied under random events. Every decision is that of plain limiters.
func TestSet_Histories(t *testing.T) {
	testkit.WithoutRace(t)
	occurred := make(map[string]int)
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			h := history{Rand: rand.New(rand.NewPCG(seed, 1))}
			m := newModel(memstore.New())
			c := h.config(m)
			s, err := rules.New(memstore.New(), c)
			testkit.Must(t, err)
			m.apply(c)
			for range 300 {
				switch {
				case h.one(15):
					h.change(t, s, m, occurred)
				case h.one(5):
					h.end(t, m, occurred)
				case h.one(10):
					h.pause(t, s, m, occurred)
				case h.one(40):
					for len(m.running) > 0 { // they would renew their places all the time
						h.end(t, m, occurred)
					}
					time.Sleep(draw(h, 15*time.Hour, 10*24*time.Hour) + time.Duration(h.IntN(3600))*time.Second)
				case h.one(3):
					time.Sleep(time.Duration(h.IntN(5000)) * time.Millisecond)
				default:
					h.ask(t, s, m, occurred)
				}
			}
		})
	}
	for _, name := range []string{"allowed", "denied", "shadow", "unlimited", "blocked", "block with an end", "invalid", "soft", "delay", "candidate", "places denied", "lost", "headroom", "quota denied", "quota of a zone", "paused", "paused in shadow", "no pause"} {
		if occurred[name] == 0 {
			t.Errorf("%s never occurred: %v", name, occurred)
		}
	}
}

// The states, the configuration and overrides are in Redis.
func TestSet_Histories_Redis(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb, ctx := redistest.Shared(t).Client(), t.Context()
	occurred := make(map[string]int)
	for seed := range uint64(12) {
		h := history{Rand: rand.New(rand.NewPCG(seed, 2)), real: true}
		m := newModel(redisstore.New(rdb, "test", redisstore.Prefix(newPrefix()), redisstore.Timeout(time.Minute)))
		prefix := newPrefix()
		source := rules.Redis(rdb, "test", rules.Prefix(prefix), rules.Timeout(time.Minute))
		c := h.config(m)
		s, err := rules.New(redisstore.New(rdb, "test", redisstore.Prefix(prefix), redisstore.Timeout(time.Minute)), c, rules.Overrides(source))
		testkit.Must(t, err)
		m.apply(c)
		for range 200 {
			name, key := draw(h, "a", "b", "c"), fmt.Sprint("k", h.IntN(6))
			at := [2]string{name, key}
			_, inForce := s.OverrideOf(ctx, name, key)
			switch n := h.IntN(15); {
			case n == 0:
				h.change(t, s, m, occurred)
			case n > 13:
				h.pause(t, s, m, occurred)
			case n > 11:
				h.end(t, m, occurred)
			case n > 3 || inForce != nil: // the configuration has no such policy
				h.ask(t, s, m, occurred)
			case n == 1:
				p := m.policies[name]
				o := h.override(p, []string{"", "gold"})
				if o.Plan != "" && !hasPlan(p, "gold") || !o.Blocked && o.Plan == "" && len(o.Limits) == 0 {
					break // invalid
				}
				testkit.Must(t, s.Override(ctx, name, key, o))
				if m.blocked[at] = m.blocked[at] || o.Blocked; !o.Blocked {
					m.written[at] = o
				}
				occurred["written"]++
			case n == 2:
				if m.blocked[at] = h.one(2); m.blocked[at] {
					testkit.Must(t, s.Block(ctx, name, key, time.Now().Add(time.Hour)))
				} else {
					testkit.Must(t, s.Unblock(ctx, name, key))
				}
			case n == 3:
				testkit.Must(t, s.Remove(ctx, name, key))
				delete(m.written, at)
				delete(m.blocked, at)
			}
		}
	}
	for _, name := range []string{"allowed", "denied", "shadow", "unlimited", "blocked", "soft", "candidate", "written", "places denied", "headroom", "quota denied", "paused"} {
		if occurred[name] == 0 {
			t.Errorf("%s never occurred: %v", name, occurred)
		}
	}
}

// end ends a running event. It has lost its place, or not, as with plain limiters.
func (h history) end(t *testing.T, m *model, occurred map[string]int) {
	t.Helper()
	if len(m.running) == 0 {
		return
	}
	at := h.IntN(len(m.running))
	var lost [2]bool
	for i, r := range m.running[at] {
		select {
		case <-r.Lost():
			lost[i] = true
			occurred["lost"]++
		default:
		}
		testkit.Must(t, r.Release(t.Context()))
	}
	if lost[0] != lost[1] {
		t.Fatalf("an event has lost its place: %t, with plain limiters %t", lost[0], lost[1])
	}
	m.running = slices.Delete(m.running, at, at+1)
}

// pause pauses a key of a policy, or ends its pause.
func (h history) pause(t *testing.T, s *rules.Set, m *model, occurred map[string]int) {
	t.Helper()
	policy, key, length := draw(h, "a", "b", "c"), fmt.Sprint("k", h.IntN(6)), draw(h, 0, time.Second, 20*time.Second)
	p, ok := m.policies[policy]
	if !ok {
		return
	}
	if h.real { // it does not end during the test
		length *= 1000
	}
	err := limiter(t, s, policy).Pause(t.Context(), key, length)
	if !slices.ContainsFunc(p.Rules, func(r rules.Rule) bool { return r.Algorithm == driver.Pause }) {
		if !errors.Is(err, core.ErrInvalidAsk) {
			t.Fatalf("policy %s: got %v, want an error: it has no pause", policy, err)
		}
		occurred["no pause"]++
		return
	}
	testkit.Must(t, err)
	testkit.Must(t, testkit.Limiter(t, m.store, core.Pause(policy+".pause")).Pause(t.Context(), key, length))
}

// change applies another configuration, or an invalid one.
func (h history) change(t *testing.T, s *rules.Set, m *model, occurred map[string]int) {
	t.Helper()
	c := h.config(m)
	if h.one(4) { // the invalid policy
		c.Policies["d"] = rules.Policy{Enforce: 100, Rules: []rules.Rule{{Spec: core.Spec{Name: "r", Algorithm: driver.TokenBucket}}}}
		if err := s.Apply(c); err == nil {
			t.Fatal("got no error for an invalid limit")
		}
		occurred["invalid"]++
		return
	}
	testkit.Must(t, s.Apply(c))
	m.apply(c)
}

// ask compares the decision about an event with that of the model.
func (h history) ask(t *testing.T, s *rules.Set, m *model, occurred map[string]int) {
	t.Helper()
	policy := draw(h, "a", "b", "c")
	if _, ok := m.policies[policy]; ok {
		h.compare(t, m, limiter(t, s, policy), policy, fmt.Sprint("k", h.IntN(6)), draw(h, "", "", "gold", "free", "none"), 1+h.IntN(3), occurred)
	}
}

func (h history) compare(t *testing.T, m *model, l *core.Limiter, policy, key, plan string, cost int, occurred map[string]int) {
	t.Helper()
	event, err := core.ReserveTogether(context.Background(), core.Ask{Limiter: l, Key: key, Plan: plan, Cost: cost})
	testkit.Must(t, err)
	all := m.rules(policy, key, plan)
	like, err := core.ReserveTogether(context.Background(), core.Ask{Limiter: testkit.Limiter(t, m.store, all...), Key: key, Plan: "caller", Cost: cost})
	testkit.Must(t, err)
	got, want := event.Decision(), like.Decision()
	if event.Lost() != nil {
		m.running = append(m.running, [2]*core.Reservation{event, like})
	}
	blocked := func(s core.State) bool { return s.Limit() == core.Blocked && s.Rule.Algorithm() != driver.Pause }
	if want.Blocked() {
		ends := time.Duration(0)
		for _, w := range want.States() {
			if blocked(w) && !w.Rule.IsShadow() {
				ends = max(ends, m.retryAfter(policy, key, plan, w.Rule))
			}
		}
		want.RetryAfter = cmp.Or(ends, want.RetryAfter)
		if want.RetryAfter != core.Never {
			occurred["block with an end"]++
		}
	}
	if got.Allowed != want.Allowed || got.Len() != want.Len() || !h.real && (got.RetryAfter != want.RetryAfter || got.Delay != want.Delay) {
		t.Fatalf("policy %s, key %s, plan %q: got %v, want %v of %v", policy, key, plan, got, want, all)
	}
	occurred[map[bool]string{true: "allowed", false: "denied"}[got.Allowed]]++
	for i, g := range got.States() {
		w := want.State(i)
		if g.Limit() != w.Limit() || g.Rule.Name() != w.Rule.Name() || g.Rule.IsShadow() != w.Rule.IsShadow() {
			t.Fatalf("policy %s, key %s, plan %q: got the rule %v, want %v", policy, key, plan, g.Rule, w.Rule)
		}
		for name, is := range map[string]bool{
			"shadow": g.Rule.IsShadow(), "unlimited": g.Limit() == core.Unlimited, "blocked": g.Limit() == core.Blocked,
			"soft": g.Soft, "delay": g.Delay > 0, "candidate": len(g.Rule.Name()) > 5,
			"headroom":         strings.Contains(g.Rule.String(), " headroom "),
			"quota denied":     g.Rule.Algorithm() == driver.Quota && !g.Allowed,
			"quota of a zone":  g.Rule.Algorithm() == driver.Quota && g.Rule.Spec().Location != nil,
			"paused":           w.Rule.Algorithm() == driver.Pause && !g.Allowed && !g.Rule.IsShadow() && !g.Unknown,
			"paused in shadow": w.Rule.Algorithm() == driver.Pause && !g.Allowed && g.Rule.IsShadow(),
			"places denied":    g.Rule.Algorithm() == driver.InFlight && g.Estimate,
		} {
			if is {
				occurred[name]++
			}
		}
		if blocked(w) {
			if w.RetryAfter = m.retryAfter(policy, key, plan, w.Rule); w.RetryAfter != core.Never {
				w.ResetAfter = w.RetryAfter
			}
			w.Window = w.RetryAfter
		}
		if h.real {
			g.RetryAfter, g.ResetAfter, g.Window, g.Delay = w.RetryAfter, w.ResetAfter, w.Window, w.Delay
		}
		if g.Rule = w.Rule; g != w {
			t.Fatalf("policy %s, key %s, plan %q, %v:\n\tgot  %+v\n\twant %+v", policy, key, plan, w.Rule, g, w)
		}
	}
}
