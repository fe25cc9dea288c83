package overrides

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// An Entry is an override or a block that has not ended: see rules.Entry.
type Entry struct {
	Policy   string
	Tag      string
	Key      string
	Override Override
	Note     string
	At       time.Time
}

// A member is an element of a sorted set.
type member struct {
	kind  Kind
	name  string // see memberOf
	score float64
	Record
}

// List returns the overrides and blocks that have not ended: the n that were written last, newest first. It leaves out
// an override whose text is absent.
func (s *Redis) List(ctx context.Context, n int) ([]Entry, error) {
	var newest []member
	cut := func() {
		slices.SortFunc(newest, func(a, b member) int {
			return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
		})
		newest = slices.CompactFunc(newest, func(a, b member) bool { return a.name == b.name && a.kind == b.kind }) // a scan may repeat a member
		newest = newest[:min(len(newest), max(0, n))]
	}
	for _, k := range []Kind{Blocks, Overrides} {
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
			return nil, fmt.Errorf("weir: overrides in Redis: %w", err)
		}
	}
	cut()
	return s.entries(ctx, newest)
}

// Entries returns the block and the override of a key that have not ended, in this order.
func (s *Redis) Entries(ctx context.Context, policy, key string) ([]Entry, error) {
	name := memberOf(policy, s.Hasher.Tag(key))
	all, err := ask(ctx, func(ctx context.Context) (all []member, err error) {
		for _, k := range []Kind{Blocks, Overrides} {
			scores, err := s.Client.ZMScore(ctx, s.setKey(k), name).Result()
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
		all, err = s.withRecords(ctx, all)
	}
	if err != nil {
		return nil, fmt.Errorf("weir: override in Redis: %w", err)
	}
	return s.entries(ctx, all)
}

// withRecords returns the members of all that have not ended, with their records.
func (s *Redis) withRecords(ctx context.Context, all []member) ([]member, error) {
	now := time.Now().UnixMilli()
	all = slices.DeleteFunc(all, func(m member) bool { return endOf(m.score) <= now })
	if len(all) == 0 {
		return nil, nil
	}
	keys := make([]string, len(all))
	for i, m := range all {
		keys[i] = s.recordKey(m.kind, m.name)
	}
	texts, err := ask(ctx, func(ctx context.Context) ([]any, error) { return s.Client.MGet(ctx, keys...).Result() })
	for i := range min(len(texts), len(all)) {
		if text, ok := texts[i].(string); ok && json.Unmarshal([]byte(text), &all[i].Record) != nil {
			all[i].Record = Record{} // of another program
		}
	}
	return all, err
}

// entries returns the entries of members.
func (s *Redis) entries(ctx context.Context, all []member) ([]Entry, error) {
	entries, fetches := make([]Entry, len(all)), make([]*fetch, len(all))
	for i, m := range all {
		tag, policy, _ := strings.Cut(m.name, ":")
		e := Entry{Policy: policy, Tag: tag, Note: m.Note}
		if m.At > 0 {
			e.At = time.UnixMilli(m.At)
		}
		if m.Key != "" && s.Hasher.Tag(m.Key) == tag { // not another text of another program
			e.Key = m.Key
		}
		entries[i], fetches[i] = e, &fetch{policy: policy, tag: tag}
	}
	for from := 0; from < len(all); from += maxBatch {
		part := fetches[from:min(from+maxBatch, len(all))]
		if _, err := ask(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.readKeys(ctx, part) }); err != nil {
			return nil, fmt.Errorf("weir: overrides in Redis: %w", err)
		}
	}
	present := entries[:0]
	for i, m := range all {
		e, is := entries[i], fetches[i].hasText
		switch e.Override = fetches[i].override; {
		case m.kind == Blocks:
			e.Override, is = s.block(endOf(m.score)), true
		case fetches[i].err != nil:
			return nil, fmt.Errorf("weir: overrides in Redis: %w", fetches[i].err)
		}
		// The end of a text can be before that of its member: see Put.
		if is && (e.Override.Content == nil || e.Override.InForce()) {
			present = append(present, e)
		}
	}
	return present, nil
}

// ErrKeySecret is the error of [Redis.CheckSecret] after a write with another secret.
var ErrKeySecret = errors.New("the latest override or block was written with another KeySecret: those of that secret have no effect here")

// SecretCheck returns the text at secretKey for the secret of s. It does not tell the secret.
func (s *App) SecretCheck() string { return s.Hasher.Tag("the secret of weir") }

// CheckSecret returns an [ErrKeySecret] if the latest override or block was written with another secret, or with none
// while s has one.
func (s *Redis) CheckSecret(ctx context.Context) error {
	texts, err := ask(ctx, func(ctx context.Context) ([]any, error) { return s.Client.MGet(ctx, s.secretKey()).Result() })
	if err == nil && len(texts) == 1 && texts[0] != nil && texts[0] != s.SecretCheck() {
		err = ErrKeySecret
	}
	return err
}
