package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
)

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
	tag, err := s.writable(policy, key, &o)
	if err != nil {
		return err
	}
	record, err := newRecord(key, opts)
	switch {
	case err != nil:
		return err
	case o.Blocked:
		return s.overrides.block(ctx, policy, tag, o.Until, record)
	}
	return s.overrides.put(ctx, policy, tag, o, record)
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
	return s.remove(ctx, policy, key, blockKind)
}

// Remove removes the override and the block of a key. Overrides of the configuration stay. The
// errors are those of [Set.Override].
func (s *Set) Remove(ctx context.Context, policy, key string) error {
	return s.remove(ctx, policy, key, overrideKind, blockKind)
}

func (s *Set) remove(ctx context.Context, policy, key string, kinds ...kind) error {
	_, tag, err := s.overridden(policy, key)
	if err != nil {
		return err
	}
	return s.overrides.remove(ctx, policy, tag, kinds...)
}

// writable checks whether key can have the override o, and returns the tag of the key.
func (s *Set) writable(policy, key string, o *Override) (tag string, err error) {
	p, tag, err := s.overridden(policy, key)
	switch {
	case err != nil:
		return "", err
	case o.Plan == "" && len(o.Limits) == 0 && !o.Blocked:
		return "", errors.New("weir: the override is empty")
	case !o.Until.IsZero() && !time.Now().Before(o.Until):
		return "", fmt.Errorf("weir: the override ends at %s, which is past", o.Until.Format(time.RFC3339))
	}
	if err := p.check(policy, *o); err != nil {
		return "", fmt.Errorf("weir: policy %q: %w", policy, err)
	}
	return tag, nil
}

// overridden returns a policy in force, and the tag of a key.
func (s *Set) overridden(policy, key string) (*Policy, string, error) {
	p, ok := s.applied.Load().config.Policies[policy]
	switch {
	case !ok:
		return nil, "", errNoPolicy(policy)
	case key == "":
		return nil, "", core.ErrEmptyKey
	case s.overrides == nil:
		return &p, "", errNoOverrides
	}
	return &p, s.overrides.hasher.Tag(key), nil
}

// OverrideOf returns the override of a key: that of [Set.Block], else that of [Set.Override], else
// that of the configuration, which may have ended, or the zero Override if there is none.
// OverrideOf reads Redis, and not the cache. Without a source of overrides, it is that of the
// configuration. The other errors are those of Set.Override.
func (s *Set) OverrideOf(ctx context.Context, policy, key string) (Override, error) {
	p, tag, err := s.overridden(policy, key)
	switch {
	case err == errNoOverrides:
		return p.Keys[key].clone(), nil
	case err != nil:
		return Override{}, err
	}
	stored, err := await(ctx, func() (stored, error) {
		k := &fetch{policy: policy, tag: tag}
		err := s.overrides.read(ctx, []*fetch{k})
		return k.stored, cmp.Or(err, k.err)
	})
	if err != nil {
		return Override{}, fmt.Errorf("weir: override in %v: %w", s.overrides, err)
	}
	if o := stored.current(); o.selections != nil {
		return o.public(), nil
	}
	return p.Keys[key].clone(), nil
}
