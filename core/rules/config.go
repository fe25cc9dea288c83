package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules/internal/document"
	"github.com/weir-go/weir/core/rules/internal/overrides"
)

// A Config is a set of policies: the content of a configuration file. Parse checks everything, so
// every rule of a Config is valid. A Config does not change.
type Config struct {
	Name      string            // of the source: that of Parse; it has no effect
	Policies  map[string]Policy // by name
	Routes    map[string]string // net/http patterns to names of policies
	AllRoutes string            // the policy that every request is charged to, beside that of its route; empty for none
	Disabled  bool              // no limit is enforced or counted
}

// version returns a hash of c without its name.
func (c *Config) version() string {
	text := fmt.Appendf(nil, "%t %q %q", c.Disabled, c.Routes, c.AllRoutes)
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		p := c.Policies[name]
		text = fmt.Appendf(text, " policy %q %t %v", name, p.Disabled, p.Enforce)
		for i := range p.Rules {
			text = document.Encoded(text, p.Rules[i].node())
		}
		for _, key := range slices.Sorted(maps.Keys(p.Keys)) {
			o := p.Keys[key]
			text = fmt.Appendf(text, " key %q %s %v", key, o.content().ID(), o.Until.UTC())
		}
	}
	return hashOf(text)
}

// A Policy is the configuration of one limiter.
type Policy struct {
	Rules    []Rule
	Keys     map[string]Override // by key
	Enforce  float64             // the percentage of keys for which the policy is enforced; shadow rules for the others
	Disabled bool                // the policy is neither enforced nor counted
}

// rate returns the events a second that p admits in the long run without a plan: 0 if p is blocked or has a
// limit without a period, and +Inf if nothing is limited.
func (p *Policy) rate() float64 {
	rate := math.Inf(1)
	for _, r := range p.Rules {
		switch l := r.Limit; {
		case p.Disabled || p.Enforce == 0 || r.Shadow || l == core.Unlimited || r.kind().Closes:
		case l == core.Blocked || l.Per == 0 && l.Calendar == 0:
			return 0
		default:
			rate = min(rate, float64(l.Events)/cmp.Or(spans[l.Calendar], l.Per).Seconds())
		}
	}
	return rate
}

// hasPlan reports whether a rule of p has a plan of the name.
func (p *Policy) hasPlan(name string) bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool { return slices.Contains(r.planNames(), name) })
}

// countRules returns the number of rules of p on the store, with those of bans.
func (p *Policy) countRules() (n int) {
	for i := range p.Rules {
		if n++; p.Rules[i].Candidate != nil {
			n++
		}
		if p.Rules[i].BlockFor != 0 && !p.Rules[i].Shadow {
			n++
		}
	}
	return n
}

// check returns an error if p, which is called name, cannot have the override o.
func (p *Policy) check(name string, o *overrides.Content) error {
	if o.Plan != "" && !p.hasPlan(o.Plan) {
		return fmt.Errorf("no rule of the policy has the plan %q", o.Plan)
	}
	for rule, l := range o.Limits {
		at := slices.IndexFunc(p.Rules, func(r Rule) bool { return r.Name == rule })
		if at < 0 {
			return fmt.Errorf("the policy has no rule %q", rule)
		}
		if err := p.Rules[at].checkLimit(storeName(name, rule), l); err != nil {
			return err
		}
	}
	return nil
}

// storeRules returns the rules of p on the store, where the policy is called name: each rule, and
// after it its candidate.
func (p *Policy) storeRules(name string) (rules []core.Rule) {
	for i := range p.Rules {
		r := &p.Rules[i]
		at := storeName(name, r.Name)
		s := r.spec(at)
		s.Label = r.Name
		rules = append(rules, core.NewRule(s))
		if r.Candidate != nil {
			rules = append(rules, core.NewRule(r.Candidate.spec(candidateName(at))).Shadow())
		}
	}
	return rules
}

// InPercent reports whether key belongs to the given percentage of the keys of a policy (see
// [Policy]). A key that belongs to a percentage also belongs to every larger one. percent is rounded
// to hundredths.
//
// The result is true if n < 100 × percent, where n is the remainder of the division by 10000 of the
// first 8 bytes, as a big-endian number, of SHA-256(policy, 0x00, key). Other programs can compute
// it, too. Test vectors:
//
//	policy  key          n
//	api     user:1       2074
//	api     user:2       2581
//	login   user:1       1581
//	login   203.0.113.7  2565
//	login   用户           203
func InPercent(policy, key string, percent float64) bool {
	return float64(bucket(policy, key)) < math.Round(percent*100)
}

// bucket returns n of InPercent.
func bucket(policy, key string) uint64 {
	var buf [256]byte
	sum := sha256.Sum256(append(append(append(buf[:0], policy...), 0), key...))
	return binary.BigEndian.Uint64(sum[:]) % 10_000
}
