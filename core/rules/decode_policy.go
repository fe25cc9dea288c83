package rules

import (
	"maps"
	"math"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// The fields of the mappings of a file. weir.schema.json contains them, too.
var (
	fileFields      = []string{"policies", "routes", "all_routes", "disabled"}
	policyFields    = []string{"rules", "keys", "enforce", "disabled"}
	ruleFields      = slices.Concat(namesOf(ownFields), []string{"candidate"}, candidateFields)
	candidateFields = namesOf(sharedFields)
	overrideFields  = []string{"blocked", "plan", "limits", "until"}
)

// These limits bound the time in which a policy is checked.
const (
	maxRules = 100  // of a policy
	maxPlans = 1000 // of a rule
)

func (d *decoder) config(v value) *Config {
	f := d.object(v, fileFields)
	if f == nil {
		return nil
	}
	c := &Config{Policies: make(map[string]Policy), Disabled: d.boolean(f["disabled"])}
	policies := d.pairs(f["policies"])
	for _, kv := range policies {
		if !plainName.MatchString(kv.name) {
			d.fail(kv.key, "the name of a policy consists of letters, digits, _ and -")
		}
		c.Policies[kv.name] = d.policy(kv.name, kv.value)
	}
	if len(policies) == 0 && len(d.errors) == 0 {
		d.fail(v, "the file has no policies")
	}
	c.Routes = d.routes(f["routes"], c.Policies)
	d.allRoutes(f["all_routes"], c)
	return c
}

func (d *decoder) policy(name string, v value) Policy {
	p := Policy{Enforce: 100}
	f := d.object(v, policyFields)
	if f == nil {
		return p
	}
	p.Disabled = d.boolean(f["disabled"])
	if e := f["enforce"]; d.number(e, &p.Enforce, "!!float", "!!int") {
		hundredths := p.Enforce * 100
		switch {
		case !(p.Enforce >= 0 && p.Enforce <= 100): // NaN is neither
			d.fail(e, "is %v percent, outside 0 to 100", p.Enforce)
		case math.Abs(hundredths-math.Round(hundredths)) > 1e-6:
			d.fail(e, "is %v percent, which has more than two decimals", p.Enforce)
		}
	}
	elements := d.elements(f["rules"])
	switch {
	case f["rules"].node == nil || f["rules"].node.Tag == "!!seq" && len(elements) == 0:
		d.fail(v, "a policy needs at least one rule")
	case len(elements) > maxRules:
		d.fail(f["rules"], "has more than %d rules", maxRules)
		return p
	}
	known := knownNames{rules: make(map[string]*Rule), plans: make(map[string]bool)}
	for _, element := range elements {
		r, ok := d.rule(name, element)
		if _, exists := known.rules[r.Name]; exists && r.Name != "" {
			d.fail(element, "another rule of the policy is called %q", r.Name)
		}
		if r.kind().Closes && slices.ContainsFunc(p.Rules, func(o Rule) bool { return o.kind().Closes }) {
			d.fail(element, "another rule of the policy is a pause")
		}
		if known.rules[r.Name] = nil; ok {
			known.rules[r.Name] = &r
		}
		for _, plan := range r.planNames() {
			known.plans[plan] = true
		}
		p.Rules = append(p.Rules, r)
	}
	if len(elements) == 0 {
		return p
	}
	for _, kv := range d.pairs(f["keys"]) {
		put(&p.Keys, kv.name, d.override(kv.value, known))
	}
	return p
}

// knownNames are the names that the overrides of a policy can use. The zero knownNames are those of
// a policy that is not known.
type knownNames struct {
	rules map[string]*Rule // nil for an invalid rule
	plans map[string]bool
}

// anyRule is a valid rule.
var anyRule = Rule{Spec: core.Spec{Algorithm: driver.TokenBucket, Limit: core.Unlimited}}

// plan reports an error if v is not the name of a plan of the policy.
func (d *decoder) plan(v value, known knownNames) {
	switch {
	case known.rules == nil:
		r := anyRule
		r.Plans = []core.Plan{{Name: v.node.Value, Limit: core.Unlimited}}
		d.reject(v, r.check("rule"))
	case len(known.plans) == 0:
		d.fail(v, "the policy has no plans")
	default:
		chosen("plan of the policy", known.plans)(d, v, new(bool))
	}
}

// override decodes the override of a key.
func (d *decoder) override(v value, known knownNames) (o Override) {
	f := d.object(v, overrideFields)
	if f == nil {
		return o
	}
	o.Blocked = d.boolean(f["blocked"])
	if plan := f["plan"]; d.is(plan, "!!str") {
		d.plan(plan, known)
		o.Plan = plan.node.Value
	}
	for _, kv := range d.pairs(f["limits"]) {
		r, exists := known.rules[kv.name]
		switch {
		case known.rules == nil:
			d.ruleName(kv.key, kv.name)
		case !exists:
			names := slices.Sorted(maps.Keys(known.rules))
			d.fail(kv.key, "the policy has no rule %q%s", kv.name, nearest(kv.name, names, ""))
		}
		var l core.Limit
		if !d.limit(kv.value, &l) {
			continue
		}
		if put(&o.Limits, kv.name, l); r != nil {
			d.reject(kv.value, r.checkLimit("rule", l))
		}
	}
	if until := f["until"]; d.is(until, "!!str", "!!timestamp") {
		if o.Until.UnmarshalText([]byte(until.node.Value)) != nil {
			d.fail(until, "%q is no time such as 2027-01-01T00:00:00Z", shorten(until.node.Value))
		} else if o.Until = o.Until.UTC(); o.Until.Year() < 1 || o.Until.Year() > 9999 || o.Until.IsZero() {
			d.fail(until, "is not a time of the years 1 to 9999 in UTC")
		}
	}
	limits, blocked := f["limits"].node, f["blocked"].node
	if f["plan"].node == nil && (limits == nil || limits.Tag == "!!map" && len(limits.Content) == 0) && (blocked == nil || blocked.Tag == "!!bool" && !o.Blocked) {
		d.fail(v, "an override needs a plan, limits or blocked: true")
	}
	return o
}

// rule decodes a rule of a policy. It reports whether the rule is valid.
func (d *decoder) rule(policy string, v value) (Rule, bool) {
	before := len(d.errors)
	f := d.object(v, ruleFields)
	var r Rule
	if f == nil || !d.fields(v, f, ownFields, &r) || !d.fields(v, f, sharedFields, &r) {
		return r, false
	}
	name := storeName(policy, r.Name)
	if !plainName.MatchString(policy) || !plainName.MatchString(r.Name) {
		name = "rule" // the error is reported already
	}
	if c := f["candidate"]; c.node != nil {
		r.Candidate = d.candidate(name, c)
	}
	d.check(name, v, f, &r)
	return r, len(d.errors) == before && !d.full()
}

// fields decodes some of the fields of a rule. It returns false if the others are not decoded.
func (d *decoder) fields(v value, f map[string]value, some []field, r *Rule) bool {
	for i := range some {
		known := &some[i]
		if known.required && f[known.name].node == nil && !known.isAbsent(r) {
			d.fail(v, "the field %s is missing", known.name)
		}
		if !known.decode(d, f[known.name], r) {
			return false
		}
	}
	return true
}

func (d *decoder) ruleName(v value, name string) {
	if !plainName.MatchString(name) {
		d.fail(v, "the name of a rule consists of letters, digits, _ and -")
	}
}

func (d *decoder) name(v value, to *string) {
	if d.is(v, "!!str") {
		*to = v.node.Value
		d.ruleName(v, *to)
	}
}

func (d *decoder) plans(v value, r *Rule) bool {
	pairs := d.pairs(v)
	if len(pairs) > maxPlans {
		d.fail(v, "has more than %d plans", maxPlans)
		return false
	}
	for _, kv := range pairs {
		p := core.Plan{Name: kv.name}
		d.limitOrNone(kv.value, &p.Limit)
		r.Plans = append(r.Plans, p)
	}
	return true
}

func (d *decoder) headroom(v value, r *Rule) bool {
	for _, kv := range d.pairs(v) {
		var p float64
		d.percent(kv.value, &p)
		put(&r.Headroom, kv.name, p)
	}
	if len(r.planNames()) > maxPlans {
		d.fail(v, "the rule has more than %d plans", maxPlans)
		return false
	}
	return true
}

// candidate decodes the candidate of the rule that has a name on a store.
func (d *decoder) candidate(name string, v value) *Rule {
	f := d.object(v, candidateFields)
	if f == nil {
		return nil
	}
	c := new(Rule)
	d.fields(v, f, sharedFields, c)
	d.check(candidateName(name), v, f, c)
	return c
}

// check reports the errors of a rule that package core finds. name is its name on a store.
func (d *decoder) check(name string, v value, f map[string]value, r *Rule) {
	if r.Algorithm == 0 || d.full() || r.check(name) == nil {
		return
	}
	// Package core reports one error, so this checks each field in a rule that is valid otherwise.
	before := len(d.errors)
	valid := Rule{Spec: core.Spec{Algorithm: r.Algorithm, ByCost: r.ByCost && r.allows("by cost")}} // bounds the limits
	if !r.kind().Closes {
		valid.Limit = core.Unlimited
	}
	if err := valid.check(name); err != nil {
		d.fail(v, "%q is its name on a store: %s %s", name, err.Field, err.Reason)
	}
	for _, checked := range slices.Concat(sharedFields, ownFields) {
		if checked.single && f[checked.name].node != nil {
			one := valid
			checked.decode(new(decoder), f[checked.name], &one)
			d.reject(f[checked.name], one.check("rule"))
		}
	}
	for i, kv := range new(decoder).pairs(f["plans"]) {
		plan := valid
		plan.Plans = r.Plans[i : i+1]
		d.reject(kv.value, plan.check("rule"))
	}
	for _, kv := range new(decoder).pairs(f["headroom"]) {
		plan := valid
		plan.Headroom = map[string]float64{kv.name: r.Headroom[kv.name]}
		d.reject(kv.value, plan.check("rule"))
	}
	if len(d.errors) == before { // the fields are valid, but not together
		at, err := f["limit"], r.check(name)
		switch {
		case err.Field == "candidate":
			at = f["candidate"]
		case err.Field == "plan" && len(r.Plans) > 0:
			at = f["plans"]
		}
		d.reject(at, err)
	}
}

// reject reports err at v unless it is nil.
func (d *decoder) reject(v value, err *core.RuleError) {
	if err != nil {
		d.fail(v, "%s %s", err.Field, err.Reason)
	}
}
