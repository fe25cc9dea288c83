package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

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

// A record has the parts of an entry that decisions do not need.
type record struct {
	At      int64  `json:"at"` // in Unix milliseconds
	Note    string `json:"note,omitempty"`
	Key     string `json:"key,omitempty"`
	withKey bool
}

const (
	maxNote    = 200 // in bytes
	maxKeyText = 256
)

// newRecord returns the text of the record of an entry for a key.
func newRecord(key string, opts []WriteOption) (text string, err error) {
	r := record{At: time.Now().UnixMilli()}
	argument.Apply("rules: Override", &r, opts)
	hidden := func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }
	switch {
	case len(r.Note) > maxNote:
		return "", fmt.Errorf("weir: the note has %d bytes, more than %d", len(r.Note), maxNote)
	case strings.ContainsFunc(r.Note, hidden):
		return "", errors.New("weir: the note contains a character that is not printable")
	case r.withKey && len(key) > maxKeyText:
		return "", fmt.Errorf("weir: the key has %d bytes, more than %d: it cannot be written as text", len(key), maxKeyText)
	case r.withKey:
		r.Key = key
	}
	all, err := json.Marshal(r)
	return string(all), err
}

// recordKey returns the key of the record of a member. It is in the hash slot of the sets, and ends after the member.
func (s *RedisSource) recordKey(k kind, member string) string {
	return strings.TrimSuffix(s.setKey(k), "s") + ":" + member
}

// A member is an element of a sorted set.
type member struct {
	kind  kind
	name  string // see memberOf
	score float64
	record
}

// List returns the overrides and blocks that have not ended: the n that were written last, newest first. Those of
// other programs without a time are last. List reads all members of the sets in Redis, a thousand at a time, which takes
// about 8 s for a million; each reply has a second. An override of another program whose text is absent has no effect:
// it is left out, and there may then be fewer than n entries.
func (s *RedisSource) List(ctx context.Context, n int) ([]Entry, error) {
	var newest []member
	cut := func() {
		slices.SortFunc(newest, func(a, b member) int {
			return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
		})
		newest = slices.CompactFunc(newest, func(a, b member) bool { return a.name == b.name && a.kind == b.kind }) // a scan may repeat a member
		newest = newest[:min(len(newest), max(0, n))]
	}
	for _, k := range []kind{blockKind, overrideKind} {
		err := s.scan(ctx, k, func(ctx context.Context, page []redis.Z) error {
			all := make([]member, len(page))
			for i, z := range page {
				all[i] = member{kind: k, name: z.Member.(string), score: z.Score}
			}
			all, err := s.withRecords(ctx, all)
			if newest = append(newest, all...); len(newest)-maxPage > n {
				cut()
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("weir: overrides in %v: %w", s, err)
		}
	}
	cut()
	return s.entries(ctx, newest)
}

// EntriesOf returns the block and the override of a key in Redis that have not ended, in this order. The errors are
// those of [Set.Override].
func (s *Set) EntriesOf(ctx context.Context, policy, key string) ([]Entry, error) {
	_, tag, err := s.overridden(policy, key)
	if err != nil {
		return nil, err
	}
	r, name := s.overrides, memberOf(policy, tag)
	all, err := ask(ctx, func(ctx context.Context) (all []member, err error) {
		for _, k := range []kind{blockKind, overrideKind} {
			scores, err := r.rdb.ZMScore(ctx, r.setKey(k), name).Result()
			if err != nil {
				return nil, err
			}
			if len(scores) == 1 && scores[0] != 0 {
				all = append(all, member{kind: k, name: name, score: scores[0]})
			}
		}
		return all, nil
	})
	if err == nil {
		all, err = r.withRecords(ctx, all)
	}
	if err != nil {
		return nil, fmt.Errorf("weir: override in %v: %w", r, err)
	}
	return r.entries(ctx, all)
}

// withRecords returns the members of all that have not ended, with their records.
func (s *RedisSource) withRecords(ctx context.Context, all []member) ([]member, error) {
	now := time.Now().UnixMilli()
	all = slices.DeleteFunc(all, func(m member) bool { return endOf(m.score) <= now })
	if len(all) == 0 {
		return nil, nil
	}
	keys := make([]string, len(all))
	for i, m := range all {
		keys[i] = s.recordKey(m.kind, m.name)
	}
	texts, err := ask(ctx, func(ctx context.Context) ([]any, error) { return s.rdb.MGet(ctx, keys...).Result() })
	for i := range min(len(texts), len(all)) {
		if text, ok := texts[i].(string); ok && json.Unmarshal([]byte(text), &all[i].record) != nil {
			all[i].record = record{} // of another program
		}
	}
	return all, err
}

// entries returns the entries of members.
func (s *RedisSource) entries(ctx context.Context, all []member) ([]Entry, error) {
	entries, fetches := make([]Entry, len(all)), make([]*fetch, len(all))
	for i, m := range all {
		tag, policy, _ := strings.Cut(m.name, ":")
		e := Entry{Policy: policy, Tag: tag, Note: m.Note}
		if m.At > 0 {
			e.At = time.UnixMilli(m.At)
		}
		if m.Key != "" && s.hasher.Tag(m.Key) == tag { // not another text of another program
			e.Key = m.Key
		}
		entries[i], fetches[i] = e, &fetch{policy: policy, tag: tag}
	}
	for from := 0; from < len(all); from += maxBatch {
		part := fetches[from:min(from+maxBatch, len(all))]
		if _, err := ask(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.read(ctx, part) }); err != nil {
			return nil, fmt.Errorf("weir: overrides in %v: %w", s, err)
		}
	}
	present := entries[:0]
	for i, m := range all {
		e, is := entries[i], fetches[i].hasText
		switch e.Override = fetches[i].override.public(); {
		case m.kind == blockKind:
			e.Override, is = s.cache.block(endOf(m.score)).public(), true
		case fetches[i].err != nil:
			return nil, fmt.Errorf("weir: overrides in %v: %w", s, fetches[i].err)
		}
		// The end of a text can be before that of its member: see put.
		if is && (e.Override.Until.IsZero() || time.Now().Before(e.Override.Until)) {
			present = append(present, e)
		}
	}
	return present, nil
}

// ErrKeySecret is the error of [RedisSource.CheckSecret] after a write with another [KeySecret].
var ErrKeySecret = errors.New("the latest override or block was written with another KeySecret: those of that secret have no effect here")

// secretKey returns the key of a text that tells with which secret the latest entry was written.
func (s *RedisSource) secretKey() string { return s.sharedKey("secret") }

// secretCheck returns that text for the secret of s.
func (s *RedisSource) secretCheck() string { return s.hasher.Tag("the secret of weir") }

// CheckSecret returns an [ErrKeySecret] if the latest override or block in Redis was written with another
// [KeySecret], or with none while s has one. After a change of the secret, the next write ends the error.
// [Set.Watch] calls CheckSecret when it begins, and reports the error (see [OnError]).
func (s *RedisSource) CheckSecret(ctx context.Context) error {
	texts, err := ask(ctx, func(ctx context.Context) ([]any, error) { return s.rdb.MGet(ctx, s.secretKey()).Result() })
	if err == nil && len(texts) == 1 && texts[0] != nil && texts[0] != s.secretCheck() {
		err = ErrKeySecret
	}
	return err
}
