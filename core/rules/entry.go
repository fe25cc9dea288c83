package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir/core/rules/internal/overrides"
	"github.com/weir-go/weir/internal/argument"
)

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
func newRecord(key string, opts []WriteOption) (overrides.Record, error) {
	r := record{Record: overrides.Record{At: time.Now().UnixMilli()}}
	argument.Apply("rules: Override", &r, opts)
	hidden := func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }
	switch {
	case len(r.Note) > maxNote:
		return r.Record, fmt.Errorf("weir: the note has %d bytes, more than %d", len(r.Note), maxNote)
	case strings.ContainsFunc(r.Note, hidden):
		return r.Record, errors.New("weir: the note contains a character that is not printable")
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
