package rules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules/internal/overrides"
	"github.com/weir-go/weir/internal/argument"
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
	r, err := s.newRecord(key, opts)
	if err != nil {
		return err
	}
	if o.Blocked {
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
	if err == nil {
		if o, err := s.source.overrides.Read(ctx, policy, key); err != nil || o.Content != nil {
			return publicOverride(o), err
		}
	} else if err != errNoOverrides {
		return Override{}, err
	}
	o := p.Keys[key]
	o.Limits = maps.Clone(o.Limits)
	return o, nil
}

// An Entry is an override or a block in Redis that has not ended.
type Entry struct {
	Policy   string
	Tag      string    // the hash of the key, as in the keys of Redis
	Key      string    // its text, if the entry was written with KeyText; otherwise empty
	Override Override  // a block has Blocked; zero if the text of the override is invalid
	Note     string    // see Note
	At       time.Time // when the entry was written, to the millisecond; zero if another program has not said it
}

// A WriteOption adds information for operators to the [Entry] that [Set.Override] or [Set.Block] writes. Decisions
// do not read it.
type WriteOption interface{ argument.Option[record] }

type writeOption = argument.OptionFunc[record]

// Note adds a text to an entry, such as the reason of a block: at most 200 bytes of printable characters and spaces.
// The entry is otherwise an error, and is not written.
func Note(text string) WriteOption { return writeOption(func(r *record) { r.Note = text }) }

// KeyText adds the text of the key to an entry, in place of its hash alone. Readers of Redis then see which user or
// address it concerns, until the entry is removed or two hours after its end. A key of more than 256 bytes is an
// error, and its entry is not written.
func KeyText() WriteOption { return writeOption(func(r *record) { r.withKey = true }) }

// A record is the Record of an entry while the options of a write change it.
type record struct {
	overrides.Record
	withKey bool
}

const (
	maxNote    = 200 // in bytes
	maxKeyText = 256
)

// newRecord returns the Record of an entry for a key.
func (s *Set) newRecord(key string, opts []WriteOption) (overrides.Record, error) {
	hashed := s.source.overrides.Hasher.IsHash(key)
	r := record{Record: overrides.Record{At: time.Now().UnixMilli()}}
	argument.Apply("rules: Override", &r, opts)
	hidden := func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }
	switch {
	case len(r.Note) > maxNote:
		return r.Record, fmt.Errorf("weir: the note has %d bytes, more than %d", len(r.Note), maxNote)
	case strings.ContainsFunc(r.Note, hidden):
		return r.Record, errors.New("weir: the note contains a character that is not printable")
	case r.withKey && hashed:
		return r.Record, errors.New("weir: the key is a hash, whose text is not known")
	case r.withKey && len(key) > maxKeyText:
		return r.Record, fmt.Errorf("weir: the key has %d bytes, more than %d: it cannot be written as text", len(key), maxKeyText)
	case r.withKey:
		r.Key = key
	}
	return r.Record, nil
}

// List returns the overrides and blocks that have not ended: the n that were written last, newest first. Those of
// other programs without a time are last. List reads all members of the sets in Redis, a thousand at a time, which takes
// about 8 s for a million; each reply has a second. An override of another program whose text is absent has no effect:
// it is left out, and there may then be fewer than n entries.
func (s *RedisSource) List(ctx context.Context, n int) ([]Entry, error) {
	return public(s.overrides.List(ctx, n))
}

// EntriesOf returns the block and the override of a key in Redis that have not ended, in this order. The errors are
// those of [Set.Override].
func (s *Set) EntriesOf(ctx context.Context, policy, key string) ([]Entry, error) {
	if _, err := s.overridden(policy, key); err != nil {
		return nil, err
	}
	return public(s.source.overrides.Entries(ctx, policy, key))
}

// public returns entries for applications.
func public(all []overrides.Entry, err error) ([]Entry, error) {
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(all))
	for i, e := range all {
		entries[i] = Entry{Policy: e.Policy, Tag: e.Tag, Key: e.Key, Override: publicOverride(e.Override), Note: e.Note, At: e.At}
	}
	return entries, nil
}

// ErrKeySecret is the error of [RedisSource.CheckSecret] after a write with another [KeySecret].
var ErrKeySecret = overrides.ErrKeySecret

// CheckSecret returns an [ErrKeySecret] if the latest override or block in Redis was written with another
// [KeySecret], or with none while s has one. After a change of the secret, the next write ends the error.
// [Set.Watch] calls CheckSecret when it begins, and reports the error (see [OnError]).
func (s *RedisSource) CheckSecret(ctx context.Context) error { return s.overrides.CheckSecret(ctx) }
