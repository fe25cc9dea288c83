package rules

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

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
			switch field, reason := r.fault(); {
			case algorithmNames[r.Algorithm.String()] == 0:
				return nil, fmt.Errorf("rule %q has no algorithm", config.Rules[i].Name)
			case r.isForeign():
				return nil, fmt.Errorf("rule %q has a field that is not one of configurations", config.Rules[i].Name)
			case reason != "":
				return nil, invalid(config.Rules[i].Name, field, reason)
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

// pick returns the view for key: nil for the rules of the policy. ends is the time after which the
// override of key ends, or zero if it has no end.
func (v *version) pick(ctx context.Context, key string) (l *core.Limiter, ends time.Duration, err error) {
	if v.disabled {
		l, err = v.view(&v.off)
		return l, 0, err
	}
	o, err := v.override(ctx, key)
	for err == nil && !o.until.IsZero() {
		if ends = time.Until(o.until); ends > 0 {
			break
		}
		o, err = v.override(ctx, key) // it has ended in this moment
	}
	switch {
	case err != nil:
	case v.config.Enforce < 100 && !InPercent(v.name, key, v.config.Enforce):
		l, err = v.view(&o.shadow)
	case o.selections != v.others:
		l, err = v.view(&o.enforced)
	}
	return l, max(ends, 0), err
}

// override returns the override of key that applies now, or v.others. Overrides of a source have
// precedence over those of the configuration.
func (v *version) override(ctx context.Context, key string) (override, error) {
	current := override{selections: v.others}
	if o := v.keys[key]; o.inForce() {
		current = o
	}
	if source := v.set.overrides; source != nil {
		o, err := source.cache.get(ctx, v.name, key)
		if err != nil {
			return o, err
		}
		if o.selections != nil {
			current = o
		}
	}
	return current, nil
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
		} else if l, ok := c.Limits[r.Name]; ok && r.checkLimit(storeName(v.name, r.Name), l) == nil {
			*r = *r.with(l)
		}
		r.Shadow = (r.Shadow || c.asShadow) && !c.Blocked
	}
	rules := config.storeRules(v.name)
	for i, r := range rules {
		if c.unlimited {
			rules[i] = inner.Off(r)
		}
	}
	w.limiter, w.err = v.root.Variant(rules...)
	if w.err == nil && v.config.hasPlan(c.Plan) {
		w.limiter = w.limiter.Plan(c.Plan)
	}
	return w
}
