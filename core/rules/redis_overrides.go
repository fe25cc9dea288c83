package rules

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A kind is an override or a block, and names the sorted set of the keys that have one. A block hides
// the override while it lasts.
type kind string

const (
	overrideKind kind = "overrides"
	blockKind    kind = "blocks"
)

// setKey returns the key of a sorted set of members. The scores are the ends in Unix milliseconds,
// or +inf. A block is nothing but its member. An override has a text, too, and is a member before
// the text exists.
func (s *RedisSource) setKey(k kind) string { return s.sharedKey(string(k)) }

// changesKey returns the key of a stream with the changes of these sets. It is in the hash slot of
// both, so that a transaction changes a set and the stream together.
func (s *RedisSource) changesKey() string { return s.sharedKey("changes") }

// sharedKey returns a key in the hash slot of the overrides and blocks of the application.
func (s *RedisSource) sharedKey(name string) string { return s.prefix + "{rules:" + s.app + "}" + name }

// textKey returns the key of the text of an override. It is in the hash slot of the states of
// redisstore.
func (s *RedisSource) textKey(tag, policy string) string {
	return s.prefix + "{" + tag + "}override:" + policy
}

// memberOf returns the member for a key of a policy: see hashOfMember.
func memberOf(policy, tag string) string { return tag + ":" + policy }

// read reads the overrides of keys for the cache. A text that is no override leaves the old one in
// force.
func (s *RedisSource) read(ctx context.Context, all []*fetch) error {
	members, texts := make([]string, len(all)), make([]*redis.SliceCmd, len(all))
	pipe := s.rdb.Pipeline()
	for i, k := range all {
		members[i] = memberOf(k.policy, k.tag)
		texts[i] = pipe.MGet(ctx, s.textKey(k.tag, k.policy)) // nil for a value of another type
	}
	blocks := pipe.ZMScore(ctx, s.setKey(blockKind), members...)
	_, failed := pipe.Exec(ctx) // the first of the errors of the commands
	ends, err := blocks.Result()
	if err == nil && len(ends) != len(all) {
		err = cmp.Or(failed, fmt.Errorf("Redis replies with %d scores for %d members", len(ends), len(all)))
	}
	if err != nil {
		return err
	}
	for i, k := range all {
		k.block = s.cache.block(endOf(ends[i]))
		switch values, err := texts[i].Result(); {
		case err != nil:
			k.err = err
		case len(values) != 1:
			k.err = fmt.Errorf("Redis replies with %d values for a key", len(values))
		default:
			s.setOverride(k, values[0])
		}
	}
	return nil
}

// setOverride sets the override of k to the value of its text in Redis.
func (s *RedisSource) setOverride(k *fetch, value any) {
	var parsed parsedOverride // none, for a value that is absent or of another type
	text, ok := value.(string)
	if k.hasText = ok; ok {
		parsed = s.parse(text)
	}
	if parsed.err != nil {
		s.invalid(fmt.Errorf("weir: an override in %v is invalid: %s: %w", s, s.textKey(k.tag, k.policy), parsed.err), s.failed)
		return
	}
	k.override = parsed.override
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
func (s *RedisSource) parse(text string) parsedOverride {
	if len(text) > maxParsed {
		return s.parseNew(text)
	}
	return s.parsed.Get(text, s.parseNew)
}

func (s *RedisSource) parseNew(text string) (p parsedOverride) {
	var o Override
	if o, p.err = ParseOverride(s.String(), []byte(text)); p.err == nil {
		p.until = o.Until
		p.selections = s.known.Get(o.id(), func(string) *selections { return newSelections(o) })
	}
	return p
}

// block writes a block of a key.
func (s *RedisSource) block(ctx context.Context, policy, tag string, until time.Time, record string) error {
	score := scoreOf(until)
	return s.write(ctx, policy, tag, func(member string) error {
		return s.change(ctx, member, score, record, true, blockKind)
	}, func(known *stored) { known.block = s.cache.block(endOf(score)) })
}

// put writes the override of a key.
//
// The key is a member of the set before the text exists, so no process misses the text. A remove
// that is executed at the same time removes the member before the text. The member is therefore
// added again, in case that only the text was written after that remove. The first time, an earlier
// end does not replace a later one, which belongs to the old text. The second time it does, unless
// the text is then that of a concurrent put, whose end may be later.
func (s *RedisSource) put(ctx context.Context, policy, tag string, o Override, record string) error {
	text, err := o.Format()
	if err != nil {
		return err
	}
	args := redis.SetArgs{}
	if !o.Until.IsZero() {
		args.ExpireAt = o.Until.Add(time.Hour) // the clock of Redis may differ
	}
	return s.write(ctx, policy, tag, func(member string) error {
		add := func(end float64, exact bool) error {
			return s.change(ctx, member, end, record, exact, overrideKind)
		}
		end := scoreOf(o.Until)
		if err := add(end, false); err != nil {
			return err
		}
		if err := s.rdb.SetArgs(ctx, s.textKey(tag, policy), text, args).Err(); err != nil {
			return err
		}
		if err := add(end, true); err != nil || endOf(end) == forever {
			return err
		}
		texts, err := s.rdb.MGet(ctx, s.textKey(tag, policy)).Result()
		if err == nil && len(texts) == 1 && texts[0] != nil && texts[0] != string(text) {
			err = add(math.Inf(1), false)
		}
		return err
	}, func(known *stored) { known.override = s.parse(string(text)).override })
}

// remove removes the block of a key, or its override and its block.
func (s *RedisSource) remove(ctx context.Context, policy, tag string, kinds ...kind) error {
	return s.write(ctx, policy, tag, func(member string) error {
		err := s.change(ctx, member, 0, "", true, kinds...)
		if err == nil && slices.Contains(kinds, overrideKind) {
			if err = s.rdb.Del(ctx, s.textKey(tag, policy)).Err(); err == nil {
				err = s.change(ctx, member, 0, "", true) // processes may have read the text since
			}
		}
		return err
	}, func(known *stored) {
		if known.block = (override{}); slices.Contains(kinds, overrideKind) {
			known.override = override{}
		}
	})
}

// write calls f to change the override or the block of a key, and then known with the knowledge of
// this process.
func (s *RedisSource) write(ctx context.Context, policy, tag string, f func(member string) error, known func(*stored)) error {
	hash := hashOfMember(policy, tag)
	_, err := await(ctx, func() (struct{}, error) {
		// Without the permission for MULTI, Redis executes each command for itself, and EXEC fails: the first transaction reads.
		if err := s.transact(ctx, func(tx redis.Pipeliner) { tx.MGet(ctx, s.secretKey()) }); err != nil {
			return struct{}{}, err
		}
		defer s.cache.changed(hash) // after an error, too: Redis may have executed the command
		return struct{}{}, f(memberOf(policy, tag))
	})
	if err != nil {
		return fmt.Errorf("weir: override in %v: %w", s, err)
	}
	s.cache.written(hash, known)
	s.cache.succeed(s.cache.partOf(tag)) // the next decision reads the override, also after an outage
	s.catchUp(ctx, hash)                 // else the key is read until the next poll
	return nil
}

// maxChanges is the number of changes that are kept for processes that have not read them. A
// process that has missed more reads the sets again.
const maxChanges = 10_000

// ended is the time after its end for which a member stays in a set, because clocks differ.
const ended = 2 * time.Hour

// change adds a member with its record to the sets of kinds, or removes both if the score is zero, and writes the
// change. If exact is false, a later score stays. Without kinds, change only writes a change of the text.
func (s *RedisSource) change(ctx context.Context, member string, score float64, record string, exact bool, kinds ...kind) error {
	return s.transact(ctx, func(tx redis.Pipeliner) {
		notify := func(values ...string) {
			tx.XAdd(ctx, &redis.XAddArgs{
				Stream: s.changesKey(), MaxLen: maxChanges, Approx: true, Values: append([]string{"member", member}, values...),
			})
		}
		for _, k := range kinds {
			if score == 0 {
				tx.ZRem(ctx, s.setKey(k), member)
				tx.Del(ctx, s.recordKey(k, member))
			} else {
				args := redis.SetArgs{}
				if end := endOf(score); end != forever {
					args.ExpireAt = time.UnixMilli(end).Add(ended)
				}
				tx.SetArgs(ctx, s.recordKey(k, member), record, args)
				tx.Set(ctx, s.secretKey(), s.secretCheck(), 0)
				tx.ZAddArgs(ctx, s.setKey(k), redis.ZAddArgs{
					GT: !exact, Members: []redis.Z{{Score: score, Member: member}},
				})
			}
			tx.ZRemRangeByScore(ctx, s.setKey(k), "-inf", strconv.FormatInt(time.Now().Add(-ended).UnixMilli(), 10))
			values := []string{"set", string(k), "end", strconv.FormatFloat(score, 'f', -1, 64)}
			if exact && k == overrideKind {
				values = append(values, "exact", "1")
			}
			notify(values...)
		}
		if len(kinds) == 0 {
			notify()
		}
	})
}

// transact executes the commands of f in one transaction. Its error is that of the first command
// that fails.
func (s *RedisSource) transact(ctx context.Context, f func(redis.Pipeliner)) error {
	commands, err := s.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error { f(tx); return nil })
	for _, c := range commands {
		if err != nil && c.Err() != nil {
			return c.Err() // err tells only that the transaction was discarded
		}
	}
	return err
}

// scoreOf returns the score of a member that ends at a time, or never if it is zero or after the year
// 9999.
func scoreOf(until time.Time) float64 {
	if until.IsZero() || until.UTC().Year() > 9999 {
		return math.Inf(1)
	}
	return float64(until.Add(time.Millisecond - 1).UnixMilli())
}

// endOf returns the end in an index for a score. An absent member has the score 0.
func endOf(score float64) int64 {
	if score >= 1<<53 {
		return forever
	}
	return max(0, int64(score))
}
