package rules

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/keyhash"
)

// A kind of override is a part of its key in Redis. A block hides the override while it lasts.
type kind string

const (
	overrideKind kind = "override"
	blockKind    kind = "block"
)

// overrideKeys returns the keys of overrides. All keys for one tag are in the hash slot of the states
// of redisstore.
func (s *RedisSource) overrideKeys(tag, policy string, kinds ...kind) (keys []string) {
	for _, k := range kinds {
		keys = append(keys, s.prefix+"{"+tag+"}"+string(k)+":"+policy)
	}
	return keys
}

// changesKey returns the key of a stream with the changes of overrides.
func (s *RedisSource) changesKey() string { return s.prefix + "rules:changes" }

// read reads the overrides of a key for the cache. A text that is no override leaves the old one in
// force.
func (s *RedisSource) read(ctx context.Context, policy, tag string, old stored) (stored, error) {
	keys := s.overrideKeys(tag, policy, overrideKind, blockKind)
	texts, err := s.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return stored{}, err
	}
	for i, to := range []*override{&old.override, &old.block} {
		text, ok := texts[i].(string)
		if !ok {
			*to = override{}
			continue
		}
		var parsed parsedOverride
		if len(text) <= maxParsed {
			parsed = s.parsed.Get(text, s.parse)
		} else {
			parsed = s.parse(text)
		}
		if parsed.err != nil {
			s.failed(fmt.Errorf("weir: an override in %v is invalid: %s: %w", s, keys[i], parsed.err))
			continue
		}
		*to = parsed.override
	}
	return old, nil
}

// maxParsed is the length of the longest text of which the result of parse is remembered.
const maxParsed = 1024

// A parsedOverride is the result of parse.
type parsedOverride struct {
	override
	err error
}

// parse parses the text of an override. Overrides that differ at most in their ends share their
// selections.
func (s *RedisSource) parse(text string) (p parsedOverride) {
	var o Override
	if o, p.err = ParseOverride(s.String(), []byte(text)); p.err == nil {
		p.until = o.Until
		p.selections = s.known.Get(o.id(), func(string) *selections {
			made := newSelections(o)
			return &made
		})
	}
	return p
}

// maxChanges is the number of changes that are kept for processes that have not read them. A
// process that has missed more invalidates its whole cache.
const maxChanges = 10_000

// write writes the override of a kind, or removes those of kinds if o is nil. It then writes the
// change.
func (s *RedisSource) write(ctx context.Context, policy, tag string, o *Override, kinds ...kind) error {
	keys := s.overrideKeys(tag, policy, kinds...)
	var text []byte
	if o != nil {
		var err error
		if text, err = o.Format(); err != nil {
			return err
		}
	}
	_, err := await(ctx, func() (string, error) {
		defer s.cache.changed(tag) // after an error, too: Redis may have executed the command
		if o == nil {
			if err := s.rdb.Del(ctx, keys...).Err(); err != nil {
				return "", err
			}
		} else {
			args := redis.SetArgs{}
			if !o.Until.IsZero() {
				args.ExpireAt = o.Until.Add(time.Hour) // the clock of Redis may differ
			}
			if err := s.rdb.SetArgs(ctx, keys[0], text, args).Err(); err != nil {
				return "", err
			}
		}
		return s.rdb.XAdd(ctx, &redis.XAddArgs{
			Stream: s.changesKey(), MaxLen: maxChanges, Approx: true, Values: []string{"policy", policy, "key", tag},
		}).Result()
	})
	if err != nil {
		return fmt.Errorf("weir: override in %v: %w", s, err)
	}
	s.cache.outageOf(tag).replied() // the next decision reads the override, also after an outage
	return nil
}

// watch reads the changes of overrides every WatchInterval until ctx ends.
func (s *RedisSource) watch(ctx context.Context) {
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	last, failing := "", false
	for ctx.Err() == nil {
		soon, cancel := context.WithTimeout(ctx, WatchInterval)
		read, err := await(soon, func() (string, error) { return s.poll(soon, last) })
		cancel()
		if err == nil {
			last = read
			s.polled.Store(int64(time.Since(s.cache.start)))
		} else if !failing && ctx.Err() == nil {
			s.failed(fmt.Errorf("weir: changes of overrides in %v: %w", s, err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// poll reads the changes since the one with the ID last, and returns the ID of the latest change.
func (s *RedisSource) poll(ctx context.Context, last string) (string, error) {
	const page = 1000
	for last != "" {
		changes, err := s.rdb.XRangeN(ctx, s.changesKey(), last, "+", page).Result()
		if err != nil {
			return "", err
		}
		switch {
		case len(changes) > 0 && changes[0].ID == last:
			changes = changes[1:]
		case len(changes) > 0 || last != noChange: // earlier changes may be lost
			return s.poll(ctx, "")
		}
		foreign := false // another program has written a change
		for _, c := range changes {
			tag, _ := c.Values["key"].(string)
			if len(tag) == keyhash.TagLen {
				s.cache.changed(tag)
			}
			foreign, last = foreign || len(tag) != keyhash.TagLen, c.ID
		}
		if foreign {
			s.cache.allChanged()
		}
		if len(changes) < page-1 {
			return last, nil
		}
	}
	latest, err := s.rdb.XRevRangeN(ctx, s.changesKey(), "+", "-", 1).Result()
	if err != nil {
		return "", err
	}
	s.cache.allChanged() // changes before the latest one may concern entries
	if len(latest) == 0 {
		return noChange, nil
	}
	return latest[0].ID, nil
}

// The messages of log records about overrides.
const (
	cannotRead    = "weir: overrides of keys cannot be read; those in the cache stay in force"
	cannotEnforce = "weir: a part of an override is not in force"
)

// noChange is the ID before the first change.
const noChange = "0-0"
