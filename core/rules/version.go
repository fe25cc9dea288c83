package rules

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/memo"
)

// maxViews is the number of selections of a policy for which a view is cached. A view takes about a
// kilobyte for each rule and plan.
const maxViews = 10_000

// A version is a policy of a Config while it is in force.
type version struct {
	set      *Set
	name     string // of the policy
	config   *Policy
	disabled bool
	root     *core.Limiter
	rules    []core.Rule // on the store
	keys     map[string]override
	others   *selections
	off      selection
	views    memo.Map[*selection, view]
}

// selections are the rules for keys with equal overrides.
type selections struct{ enforced, shadow selection }

// A selection determines the view for some keys.
type selection struct {
	Override
	asShadow  bool // all rules are shadow rules
	unlimited bool // no rule counts
}

// A view is the result of a pick.
type view struct {
	limiter *core.Limiter
	err     error
}

// newVersion checks the policy config. It uses the rules of old, if not nil, that are equal.
func newVersion(set *Set, name string, config *Policy, off bool, old *policy) (*version, error) {
	v := &version{set: set, name: name, config: config, disabled: off, off: selection{unlimited: true}, others: newSelections(Override{})}
	v.views.Max = maxViews
	if !(config.Enforce >= 0 && config.Enforce <= 100) { // NaN is neither
		return nil, fmt.Errorf("enforce is %v percent, outside 0 to 100", config.Enforce)
	}
	if old != nil && reflect.DeepEqual(old.current.Load().config.Rules, config.Rules) {
		v.rules = old.current.Load().rules
		return v, v.setKeys()
	}
	for i := range config.Rules {
		for r := &config.Rules[i]; r != nil; r = r.Candidate {
			if constructors[r.Algorithm] == nil {
				return nil, fmt.Errorf("rule %q has no algorithm", config.Rules[i].Name)
			}
		}
	}
	v.rules = config.storeRules(name)
	if _, err := core.New(noStore{}, v.rules...); err != nil {
		return nil, err
	}
	return v, v.setKeys()
}

func newSelections(o Override) *selections {
	return &selections{enforced: selection{Override: o}, shadow: selection{Override: o, asShadow: true}}
}

// setKeys checks the overrides, and sets v.keys. Equal overrides share their selections.
func (v *version) setKeys() error {
	v.keys = make(map[string]override, len(v.config.Keys))
	known := make(map[string]*selections)
	for key, o := range v.config.Keys {
		text := o.id()
		c := known[text]
		if c == nil {
			if err := v.config.check(v.name, o); err != nil {
				return fmt.Errorf("key %q: %w", key, err)
			}
			c = newSelections(o)
			known[text] = c
		}
		v.keys[key] = override{c, o.Until}
	}
	return nil
}

// pick returns the view for key: nil for the rules of the policy. Overrides of a source have
// precedence over those of the configuration.
func (v *version) pick(ctx context.Context, key string) (*core.Limiter, error) {
	if v.disabled {
		return v.view(&v.off)
	}
	c := v.others
	if len(v.keys) > 0 {
		if o := v.keys[key]; o.inForce() {
			c = o.selections
		}
	}
	if source := v.set.overrides; source != nil {
		o, err := source.cache.get(ctx, v.name, key)
		if err != nil {
			return nil, err
		}
		if o.selections != nil {
			c = o.selections
		}
	}
	if v.config.Enforce < 100 && !InPercent(v.name, key, v.config.Enforce) {
		return v.view(&c.shadow)
	}
	if c == v.others {
		return nil, nil
	}
	return v.view(&c.enforced)
}

// view returns the view for c, which it remembers.
func (v *version) view(c *selection) (*core.Limiter, error) {
	w := v.views.Get(c, v.newView)
	return w.limiter, w.err
}

// newView makes the view for c. It reports and ignores a part of an override of a source that the
// policy cannot have.
func (v *version) newView(c *selection) (w view) {
	if err := v.config.check(v.name, c.Override); err != nil {
		v.set.overrides.invalid(fmt.Errorf("weir: policy %q: an override in %v: %w", v.name, v.set.overrides, err),
			func(err error) { v.set.report(cannotEnforce, err) })
	}
	config := *v.config
	config.Rules = slices.Clone(config.Rules)
	for i := range config.Rules {
		r := &config.Rules[i]
		if c.Blocked {
			*r = *r.with(core.Blocked)
		} else if l, ok := c.Limits[r.Name]; ok {
			if limited := r.with(l); limited.check(storeName(v.name, r.Name)) == nil {
				*r = *limited
			}
		}
		r.Shadow = (r.Shadow || c.asShadow) && !c.Blocked
	}
	rules := config.storeRules(v.name)
	for i, r := range rules {
		if c.unlimited {
			rules[i] = constructors[r.Algorithm()](r.Name(), core.Unlimited)
		}
	}
	w.limiter, w.err = v.root.Variant(rules...)
	if w.err == nil && v.config.hasPlan(c.Plan) {
		w.limiter = w.limiter.Plan(c.Plan)
	}
	return w
}
