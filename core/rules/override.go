package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules/internal/overrides"
)

// An Override blocks one key, or gives it another plan or other limits.
type Override struct {
	Blocked bool // every event is denied, also by shadow rules and outside Enforce; Plan and Limits have no effect
	Plan    string
	Limits  map[string]core.Limit // by the name of the rule
	Until   time.Time             // the zero Time means for ever
}

// content returns o without its end.
func (o Override) content() *overrides.Content {
	return &overrides.Content{Blocked: o.Blocked, Plan: o.Plan, Limits: o.Limits}
}

// publicOverride returns o for applications, which may change it: equal overrides share their limits.
func publicOverride(o overrides.Override) Override {
	if o.Content == nil {
		return Override{}
	}
	return Override{o.Blocked, o.Plan, maps.Clone(o.Limits), o.Until}
}

// clone returns a copy that an application may change: equal overrides share their limits.
func (o Override) clone() Override {
	o.Limits = maps.Clone(o.Limits)
	return o
}

// errNoOverrides is the error of methods of a Set without the option Overrides.
var errNoOverrides = errors.New("weir: the Set has no source of overrides: see the option Overrides")

// Override gives a key other limits than the configuration, until o.Until or for ever: in this
// process at once if Redis replies in time, and within two seconds in every process that watches the
// source. It replaces an earlier override of the key, but a [Set.Block] stays in force. States
// continue, as after a change of the configuration. A waiting caller of Wait notices it at its next
// attempt.
//
//	friday := time.Date(2027, 3, 5, 18, 0, 0, 0, time.UTC)
//	err := set.Override(ctx, "api", "user:99", rules.Override{
//		Limits: map[string]core.Limit{"second": core.PerSecond(20)}, Until: friday,
//	})
//
// Override returns an error, and writes nothing, if the policy does not exist, if the key is empty, or
// if o is empty, has ended, or has a plan, rule or limit that the policy cannot have. If a later
// configuration does not have that plan or rule, this part of the override has no effect. After an
// error of Redis, some processes may have the override at once, and others after [MaxAge] or never:
// call Override again, or Remove.
//
// If o.Blocked is true, Override is [Set.Block] until o.Until, and an earlier override stays.
func (s *Set) Override(ctx context.Context, policy, key string, o Override, opts ...WriteOption) error {
	if err := s.writable(policy, key, &o); err != nil {
		return err
	}
	r, err := newRecord(key, opts)
	switch {
	case err != nil:
		return err
	case o.Blocked:
		return s.source.overrides.Block(ctx, policy, key, o.Until, r)
	}
	text, err := o.Format()
	if err != nil {
		return err
	}
	return s.source.overrides.Put(ctx, policy, key, string(text), o.Until, r)
}

// Block denies all events of a key in a policy, until a time, rounded up to a millisecond, or, if
// that is the zero Time, for ever. It is written in one step, and replaces an earlier block.
// Afterwards, the override that the key had before is in force again. The errors are those of
// [Set.Override].
//
// The decisions are [core.Decision.Blocked]. RetryAfter is the time until the rounded end, or
// core.Never. Wait waits for the end, and Unblock does not wake it. A block is also enforced for
// shadow rules and for keys outside of the percentage that a policy is enforced for, but not if the
// policy is disabled.
func (s *Set) Block(ctx context.Context, policy, key string, until time.Time, opts ...WriteOption) error {
	return s.Override(ctx, policy, key, Override{Blocked: true, Until: until}, opts...)
}

// Unblock ends the Block of a key. An override with a plan or limits that are blocked stays, and a block of the
// configuration: see [Set.Remove]. The errors are those of [Set.Override].
func (s *Set) Unblock(ctx context.Context, policy, key string) error {
	return s.remove(ctx, policy, key, overrides.Blocks)
}

// Remove removes the override and the block of a key. Overrides of the configuration stay. The
// errors are those of [Set.Override].
func (s *Set) Remove(ctx context.Context, policy, key string) error {
	return s.remove(ctx, policy, key, overrides.Overrides, overrides.Blocks)
}

func (s *Set) remove(ctx context.Context, policy, key string, kinds ...overrides.Kind) error {
	if _, err := s.overridden(policy, key); err != nil {
		return err
	}
	return s.source.overrides.Remove(ctx, policy, key, kinds...)
}

// writable checks whether key can have the override o.
func (s *Set) writable(policy, key string, o *Override) error {
	p, err := s.overridden(policy, key)
	switch {
	case err != nil:
		return err
	case o.Plan == "" && len(o.Limits) == 0 && !o.Blocked:
		return errors.New("weir: the override is empty")
	case !o.Until.IsZero() && !time.Now().Before(o.Until):
		return fmt.Errorf("weir: the override ends at %s, which is past", o.Until.Format(time.RFC3339))
	}
	if err := p.check(policy, o.content()); err != nil {
		return fmt.Errorf("weir: policy %q: %w", policy, err)
	}
	return nil
}

// overridden returns a policy in force, and an error if the overrides of a key cannot be read.
func (s *Set) overridden(policy, key string) (*Policy, error) {
	p, ok := s.applied.Load().config.Policies[policy]
	switch {
	case !ok:
		return nil, errNoPolicy(policy)
	case key == "":
		return nil, core.ErrEmptyKey
	case s.source == nil:
		return &p, errNoOverrides
	}
	return &p, nil
}

// OverrideOf returns the override of a key: that of [Set.Block], else that of [Set.Override], else
// that of the configuration, which may have ended, or the zero Override if there is none.
// OverrideOf reads Redis, and not the cache. Without a source of overrides, it is that of the
// configuration. The other errors are those of Set.Override.
func (s *Set) OverrideOf(ctx context.Context, policy, key string) (Override, error) {
	p, err := s.overridden(policy, key)
	switch {
	case err == errNoOverrides:
		return p.Keys[key].clone(), nil
	case err != nil:
		return Override{}, err
	}
	if o, err := s.source.overrides.Read(ctx, policy, key); err != nil || o.Content != nil {
		return publicOverride(o), err
	}
	return p.Keys[key].clone(), nil
}
