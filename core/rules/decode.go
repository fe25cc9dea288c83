package rules

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/bounds"
	"github.com/weir-go/weir/core/rules/internal/document"
	"github.com/weir-go/weir/internal/similar"
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

// A decoder decodes a configuration.
type decoder struct{ *document.Decoder }

func (d decoder) config(v document.Value) *Config {
	f := d.Object(v, fileFields)
	if f == nil {
		return nil
	}
	c := &Config{Policies: make(map[string]Policy), Disabled: d.Boolean(f["disabled"])}
	policies := d.Pairs(f["policies"])
	for _, kv := range policies {
		if !document.PlainName.MatchString(kv.Name) {
			d.Fail(kv.Key, "the name of a policy consists of letters, digits, _ and -")
		}
		c.Policies[kv.Name] = d.policy(kv.Name, kv.Value)
	}
	if len(policies) == 0 && len(d.Errors) == 0 {
		d.Fail(v, "the file has no policies")
	}
	c.Routes = d.routes(f["routes"], c.Policies)
	d.allRoutes(f["all_routes"], c)
	return c
}

func (d decoder) policy(name string, v document.Value) Policy {
	p := Policy{Enforce: 100}
	f := d.Object(v, policyFields)
	if f == nil {
		return p
	}
	p.Disabled = d.Boolean(f["disabled"])
	if e := f["enforce"]; d.Number(e, &p.Enforce, "!!float", "!!int") {
		hundredths := p.Enforce * 100
		switch {
		case !(p.Enforce >= 0 && p.Enforce <= 100): // NaN is neither
			d.Fail(e, "is %v percent, outside 0 to 100", p.Enforce)
		case math.Abs(hundredths-math.Round(hundredths)) > 1e-6:
			d.Fail(e, "is %v percent, which has more than two decimals", p.Enforce)
		}
	}
	elements := d.Elements(f["rules"])
	switch {
	case f["rules"].Node == nil || f["rules"].Node.Tag == "!!seq" && len(elements) == 0:
		d.Fail(v, "a policy needs at least one rule")
	case len(elements) > maxRules:
		d.Fail(f["rules"], "has more than %d rules", maxRules)
		return p
	}
	known := knownNames{rules: make(map[string]*Rule), plans: make(map[string]bool)}
	for _, element := range elements {
		r, ok := d.rule(name, element)
		if _, exists := known.rules[r.Name]; exists && r.Name != "" {
			d.Fail(element, "another rule of the policy is called %q", r.Name)
		}
		if r.kind().Closes && slices.ContainsFunc(p.Rules, func(o Rule) bool { return o.kind().Closes }) {
			d.Fail(element, "another rule of the policy is a pause")
		}
		if known.rules[r.Name] = nil; ok {
			known.rules[r.Name] = &r
		}
		for _, plan := range r.planNames() {
			known.plans[plan] = true
		}
		p.Rules = append(p.Rules, r)
	}
	if n := p.countRules(); n > bounds.Charges {
		d.Fail(f["rules"], "are %d rules, candidates and bans, more than %d", n, bounds.Charges)
	}
	if len(elements) == 0 {
		return p
	}
	for _, kv := range d.Pairs(f["keys"]) {
		document.Put(&p.Keys, kv.Name, d.override(kv.Value, known))
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
func (d decoder) plan(v document.Value, known knownNames) {
	switch {
	case known.rules == nil:
		r := anyRule
		r.Plans = []core.Plan{{Name: v.Node.Value, Limit: core.Unlimited}}
		d.reject(v, r.check("rule"))
	case len(known.plans) == 0:
		d.Fail(v, "the policy has no plans")
	case !known.plans[v.Node.Value]:
		names := slices.Sorted(maps.Keys(known.plans))
		d.Fail(v, "%q is no plan of the policy%s", v.Node.Value, similar.Nearest(v.Node.Value, names, ": use "+strings.Join(names, ", ")))
	}
}

// override decodes the override of a key.
func (d decoder) override(v document.Value, known knownNames) (o Override) {
	f := d.Object(v, overrideFields)
	if f == nil {
		return o
	}
	o.Blocked = d.Boolean(f["blocked"])
	if plan := f["plan"]; d.Is(plan, "!!str") {
		d.plan(plan, known)
		o.Plan = plan.Node.Value
	}
	for _, kv := range d.Pairs(f["limits"]) {
		r, exists := known.rules[kv.Name]
		switch {
		case known.rules == nil:
			d.ruleName(kv.Key, kv.Name)
		case !exists:
			names := slices.Sorted(maps.Keys(known.rules))
			d.Fail(kv.Key, "the policy has no rule %q%s", kv.Name, similar.Nearest(kv.Name, names, ""))
		}
		var l core.Limit
		if !d.limit(kv.Value, &l) {
			continue
		}
		if document.Put(&o.Limits, kv.Name, l); r != nil {
			d.reject(kv.Value, r.checkLimit("rule", l))
		}
	}
	if until := f["until"]; d.Is(until, "!!str", "!!timestamp") {
		if o.Until.UnmarshalText([]byte(until.Node.Value)) != nil {
			d.Fail(until, "%q is no time such as 2027-01-01T00:00:00Z", document.Shorten(until.Node.Value))
		} else if o.Until = o.Until.UTC(); o.Until.Year() < 1 || o.Until.Year() > 9999 || o.Until.IsZero() {
			d.Fail(until, "is not a time of the years 1 to 9999 in UTC")
		}
	}
	limits, blocked := f["limits"].Node, f["blocked"].Node
	if f["plan"].Node == nil && (limits == nil || limits.Tag == "!!map" && len(limits.Content) == 0) && (blocked == nil || blocked.Tag == "!!bool" && !o.Blocked) {
		d.Fail(v, "an override needs a plan, limits or blocked: true")
	}
	return o
}

// rule decodes a rule of a policy. It reports whether the rule is valid.
func (d decoder) rule(policy string, v document.Value) (Rule, bool) {
	before := len(d.Errors)
	f := d.Object(v, ruleFields)
	var r Rule
	if f == nil || !d.fields(v, f, ownFields, &r) || !d.fields(v, f, sharedFields, &r) {
		return r, false
	}
	name := storeName(policy, r.Name)
	if !document.PlainName.MatchString(policy) || !document.PlainName.MatchString(r.Name) {
		name = "rule" // the error is reported already
	}
	if b := f["block_for"]; b.Node != nil && len(d.Warnings) == 0 { // those about routes follow
		d.Warn(b, "use it only for keys that the client cannot choose: another client could ban them")
	}
	if c := f["candidate"]; c.Node != nil {
		r.Candidate = d.candidate(name, c)
	}
	d.check(name, v, f, &r)
	return r, len(d.Errors) == before && !d.Full()
}

// fields decodes some of the fields of a rule. It returns false if the others are not decoded.
func (d decoder) fields(v document.Value, f map[string]document.Value, some []field, r *Rule) bool {
	for i := range some {
		known := &some[i]
		if known.required && f[known.name].Node == nil && !known.isAbsent(r) {
			d.Fail(v, "the field %s is missing", known.name)
		}
		if !known.decode(d, f[known.name], r) {
			return false
		}
	}
	return true
}

func (d decoder) ruleName(v document.Value, name string) {
	if !document.PlainName.MatchString(name) {
		d.Fail(v, "the name of a rule consists of letters, digits, _ and -")
	}
}

func (d decoder) name(v document.Value, to *string) {
	if d.Is(v, "!!str") {
		*to = v.Node.Value
		d.ruleName(v, *to)
	}
}

func (d decoder) plans(v document.Value, r *Rule) bool {
	pairs := d.Pairs(v)
	if len(pairs) > maxPlans {
		d.Fail(v, "has more than %d plans", maxPlans)
		return false
	}
	for _, kv := range pairs {
		p := core.Plan{Name: kv.Name}
		d.limitOrNone(kv.Value, &p.Limit)
		r.Plans = append(r.Plans, p)
	}
	return true
}

func (d decoder) headroom(v document.Value, r *Rule) bool {
	for _, kv := range d.Pairs(v) {
		var p float64
		d.percent(kv.Value, &p)
		document.Put(&r.Headroom, kv.Name, p)
	}
	if len(r.planNames()) > maxPlans {
		d.Fail(v, "the rule has more than %d plans", maxPlans)
		return false
	}
	return true
}

// candidate decodes the candidate of the rule that has a name on a store.
func (d decoder) candidate(name string, v document.Value) *Rule {
	f := d.Object(v, candidateFields)
	if f == nil {
		return nil
	}
	c := new(Rule)
	d.fields(v, f, sharedFields, c)
	d.check(candidateName(name), v, f, c)
	return c
}

// check reports the errors of a rule that package core finds. name is its name on a store.
func (d decoder) check(name string, v document.Value, f map[string]document.Value, r *Rule) {
	if r.Algorithm == 0 || d.Full() || r.check(name) == nil {
		return
	}
	// Package core reports one error, so this checks each field in a rule that is valid otherwise.
	before, again := len(d.Errors), decoder{new(document.Decoder)}
	valid := Rule{Spec: core.Spec{Algorithm: r.Algorithm, ByCost: r.ByCost && r.allows("by cost")}} // bounds the limits
	if !r.kind().Closes {
		valid.Limit = core.Unlimited
	}
	if err := valid.check(name); err != nil {
		d.Fail(v, "%q is its name on a store: %s %s", name, err.Field, err.Reason)
	}
	for _, checked := range slices.Concat(sharedFields, ownFields) {
		if checked.single && f[checked.name].Node != nil {
			one := valid
			checked.decode(again, f[checked.name], &one)
			d.reject(f[checked.name], one.check("rule"))
		}
	}
	for i, kv := range again.Pairs(f["plans"]) {
		plan := valid
		plan.Plans = r.Plans[i : i+1]
		d.reject(kv.Value, plan.check("rule"))
	}
	for _, kv := range again.Pairs(f["headroom"]) {
		plan := valid
		plan.Headroom = map[string]float64{kv.Name: r.Headroom[kv.Name]}
		d.reject(kv.Value, plan.check("rule"))
	}
	if len(d.Errors) == before { // the fields are valid, but not together
		at, err := f["limit"], r.check(name)
		switch {
		case err.Rule == name+".ban":
			d.Fail(f["block_for"], "%q is the name of its bans on a store: %s %s", err.Rule, err.Field, err.Reason)
			return
		case err.Field == "candidate":
			at = f["candidate"]
		case err.Field == "plan" && len(r.Plans) > 0:
			at = f["plans"]
		}
		d.reject(at, err)
	}
}

// reject reports err at v unless it is nil.
func (d decoder) reject(v document.Value, err *core.RuleError) {
	if err != nil {
		d.Fail(v, "%s %s", err.Field, err.Reason)
	}
}

// limit decodes a limit, whose text may be an integer if it has no period. It returns false for an
// invalid or absent value.
func (d decoder) limit(v document.Value, to *core.Limit) bool {
	if !d.Is(v, "!!str", "!!int") {
		return false
	}
	text := v.Node.Value
	if n := 0; v.Node.Tag == "!!int" {
		if !d.Number(v, &n, "!!int") {
			return false
		}
		text = strconv.Itoa(n)
	}
	if err := to.UnmarshalText([]byte(text)); err != nil {
		d.Fail(v, "%s", strings.TrimPrefix(err.Error(), "weir: "))
		return false
	}
	return true
}

// limitOrNone decodes a limit, and a text that is none as core.Unlimited, which is valid.
func (d decoder) limitOrNone(v document.Value, to *core.Limit) {
	*to = core.Unlimited
	d.limit(v, to)
}

func (d decoder) percent(v document.Value, to *float64) { d.Number(v, to, "!!float", "!!int") }

// count decodes an integer whose default is zero, and 0 as -1: a file can leave the field out.
func (d decoder) count(v document.Value, to *int) {
	if d.Number(v, to, "!!int") && *to == 0 {
		*to = -1
	}
}
