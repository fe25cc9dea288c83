package rules

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/memo"
	"github.com/weir-go/weir/core/internal/unexported"
	"github.com/weir-go/weir/core/rules/internal/overrides"
)

// A policy is a limiter of a Set.
type policy struct {
	root    *core.Limiter // has the present rules
	limiter *core.Limiter // a view of root, with the overrides
	current atomic.Pointer[version]
}

func newPolicy(s core.Store, rules []core.Rule) (*policy, error) {
	root, err := core.New(s, rules...)
	if err != nil {
		return nil, err
	}
	p := &policy{root: root}
	p.limiter = inner.ChooseFor(root, func(ctx context.Context, key string) (*core.Limiter, time.Duration, error) {
		return p.current.Load().pick(ctx, key)
	})
	return p, nil
}

var inner = unexported.Core.(interface {
	ChooseFor(l *core.Limiter, pick func(ctx context.Context, key string) (*core.Limiter, time.Duration, error)) *core.Limiter
	Off(r core.Rule) core.Rule
	ReplaceAll(rules map[*core.Limiter][]core.Rule, then func()) error
})

// maxViews is the number of overrides of a policy for which views are cached: see enforced and shadow. A view takes
// about a kilobyte for each rule and plan.
const maxViews = 10_000

// A version is a policy of a Config while it is in force.
type version struct {
	set      *Set
	name     string // of the policy
	config   *Policy
	disabled bool
	root     *core.Limiter
	rules    []core.Rule // on the store
	keys     map[string]overrides.Override
	others   *overrides.Content // of keys without an override

	// The views by override: those of keys for which the policy is enforced, and those with shadow rules.
	enforced, shadow memo.Map[*overrides.Content, view]
}

// A view is the result of a pick.
type view struct {
	limiter *core.Limiter
	err     error
}

// newVersion checks the policy config. It uses the rules of old, if not nil, that are equal.
func newVersion(set *Set, name string, config *Policy, disabled bool, old *policy) (*version, error) {
	v := &version{set: set, name: name, config: config, disabled: disabled, others: new(overrides.Content)}
	v.enforced.Max, v.shadow.Max = maxViews, maxViews
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

// setKeys checks the overrides, and sets v.keys. Equal overrides share their Content.
func (v *version) setKeys() error {
	v.keys = make(map[string]overrides.Override, len(v.config.Keys))
	known := make(map[string]*overrides.Content)
	for key, o := range v.config.Keys {
		c := o.content()
		id := c.ID()
		if known[id] == nil {
			if err := v.config.check(v.name, c); err != nil {
				return fmt.Errorf("key %q: %w", key, err)
			}
			known[id] = c
		}
		v.keys[key] = overrides.Override{Content: known[id], Until: o.Until}
	}
	return nil
}

// pick returns the view for key: nil for the rules of the policy. ends is the time after which the
// override of key ends, or zero if it has no end.
func (v *version) pick(ctx context.Context, key string) (l *core.Limiter, ends time.Duration, err error) {
	if v.disabled {
		l, err = v.view(v.others, false)
		return l, 0, err
	}
	o, err := v.override(ctx, key)
	for err == nil && !o.Until.IsZero() {
		if ends = time.Until(o.Until); ends > 0 {
			break
		}
		o, err = v.override(ctx, key) // it has ended in this moment
	}
	switch {
	case err != nil:
	case v.config.Enforce < 100 && !InPercent(v.name, key, v.config.Enforce):
		l, err = v.view(o.Content, true)
	case o.Content != v.others:
		l, err = v.view(o.Content, false)
	}
	return l, max(ends, 0), err
}

// override returns the override of key that applies now, or v.others. Overrides of a source have
// precedence over those of the configuration.
func (v *version) override(ctx context.Context, key string) (overrides.Override, error) {
	current := overrides.Override{Content: v.others}
	if o := v.keys[key]; o.InForce() {
		current = o
	}
	if source := v.set.source; source != nil {
		o, err := source.overrides.Get(ctx, v.name, key)
		if err != nil {
			return o, err
		}
		if o.Content != nil {
			current = o
		}
	}
	return current, nil
}

// view returns the view for keys with the override c, which it remembers. All its rules are shadow rules if asShadow is
// true.
func (v *version) view(c *overrides.Content, asShadow bool) (*core.Limiter, error) {
	views := &v.enforced
	if asShadow {
		views = &v.shadow
	}
	w := views.Get(c, func(c *overrides.Content) view { return v.newView(c, asShadow) })
	return w.limiter, w.err
}

// newView makes a view. It reports and ignores a part of an override of a source that the
// policy cannot have.
func (v *version) newView(c *overrides.Content, asShadow bool) (w view) {
	if err := v.config.check(v.name, c); err != nil {
		v.set.source.invalid(fmt.Errorf("weir: policy %q: an override in %v: %w", v.name, v.set.source, err),
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
		r.Shadow = (r.Shadow || asShadow) && !c.Blocked
	}
	rules := config.storeRules(v.name)
	if v.disabled {
		for i, r := range rules {
			rules[i] = inner.Off(r)
		}
	}
	w.limiter, w.err = v.root.Variant(rules...)
	if w.err == nil && v.config.hasPlan(c.Plan) {
		w.limiter = w.limiter.Plan(c.Plan)
	}
	return w
}
