package overrides

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Record has the parts of an entry that decisions do not need.
type Record struct {
	At   int64  `json:"at"` // in Unix milliseconds
	Note string `json:"note,omitempty"`
	Key  string `json:"key,omitempty"`
}

// Block denies all events of a key until a time, or for ever if it is zero.
func (s *Redis) Block(ctx context.Context, policy, key string, until time.Time, r Record) error {
	score := scoreOf(until)
	return s.write(ctx, policy, key, func(member, _ string) error {
		return s.change(ctx, member, score, r, true, Blocks)
	}, func(known *stored) { known.block = s.block(endOf(score)) })
}

// Put writes the override of a key: its text, which ends at a time, or never if it is zero.
//
// The key is a member of the set before the text exists, so no process misses the text. A remove
// that is executed at the same time removes the member before the text. The member is therefore
// added again, in case that only the text was written after that remove. The first time, an earlier
// end does not replace a later one, which belongs to the old text. The second time it does, unless
// the text is then that of a concurrent put, whose end may be later.
func (s *Redis) Put(ctx context.Context, policy, key, text string, until time.Time, r Record) error {
	args := redis.SetArgs{}
	if !until.IsZero() {
		args.ExpireAt = until.Add(time.Hour) // the clock of Redis may differ
	}
	return s.write(ctx, policy, key, func(member, textKey string) error {
		add := func(end float64, exact bool) error { return s.change(ctx, member, end, r, exact, Overrides) }
		end := scoreOf(until)
		if err := add(end, false); err != nil {
			return err
		}
		if err := s.Client.SetArgs(ctx, textKey, text, args).Err(); err != nil {
			return err
		}
		if err := add(end, true); err != nil || endOf(end) == forever {
			return err
		}
		texts, err := s.Client.MGet(ctx, textKey).Result()
		if err == nil && len(texts) == 1 && texts[0] != nil && texts[0] != text {
			err = add(math.Inf(1), false)
		}
		return err
	}, func(known *stored) { known.override = s.parse(text).Override })
}

// Remove removes the block of a key, or its override, or both.
func (s *Redis) Remove(ctx context.Context, policy, key string, kinds ...Kind) error {
	return s.write(ctx, policy, key, func(member, textKey string) error {
		err := s.change(ctx, member, 0, Record{}, true, kinds...)
		if err == nil && slices.Contains(kinds, Overrides) {
			if err = s.Client.Del(ctx, textKey).Err(); err == nil {
				err = s.change(ctx, member, 0, Record{}, true) // processes may have read the text since
			}
		}
		return err
	}, func(known *stored) {
		if known.block = (Override{}); slices.Contains(kinds, Overrides) {
			known.override = Override{}
		}
	})
}

// write calls f to change the override or the block of a key, and then known with the knowledge of
// this process.
func (s *Redis) write(ctx context.Context, policy, key string, f func(member, textKey string) error, known func(*stored)) error {
	tag := s.Hasher.Tag(key)
	hash := hashOfMember(policy, tag)
	_, err := Await(ctx, func() (struct{}, error) {
		// Without the permission for MULTI, Redis executes each command for itself, and EXEC fails: the first
		// transaction reads.
		if err := s.Transact(ctx, func(tx redis.Pipeliner) { tx.MGet(ctx, s.secretKey()) }); err != nil {
			return struct{}{}, err
		}
		defer s.changed(hash) // after an error, too: Redis may have executed the command
		return struct{}{}, f(memberOf(policy, tag), s.textKey(tag, policy))
	})
	if err != nil {
		return fmt.Errorf("weir: override in Redis: %w", err)
	}
	s.written(hash, known)
	s.succeed(s.partOf(tag)) // the next decision reads the override, also after an outage
	s.catchUp(ctx, hash)     // else the key is read until the next poll
	return nil
}

// maxChanges is the number of changes that are kept for processes that have not read them. A
// process that has missed more reads the sets again.
const maxChanges = 10_000

// ended is the time after its end for which a member stays in a set, because clocks differ.
const ended = 2 * time.Hour

// change adds a member with its record to the sets of kinds, or removes both if the score is zero, and writes the
// change. If exact is false, a later score stays. Without kinds, change only writes a change of the text.
func (s *Redis) change(ctx context.Context, member string, score float64, r Record, exact bool, kinds ...Kind) error {
	return s.Transact(ctx, func(tx redis.Pipeliner) {
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
				text, _ := json.Marshal(r)
				tx.SetArgs(ctx, s.recordKey(k, member), text, args)
				tx.Set(ctx, s.secretKey(), s.SecretCheck(), 0)
				tx.ZAddArgs(ctx, s.setKey(k), redis.ZAddArgs{
					GT: !exact, Members: []redis.Z{{Score: score, Member: member}},
				})
			}
			tx.ZRemRangeByScore(ctx, s.setKey(k), "-inf", strconv.FormatInt(time.Now().Add(-ended).UnixMilli(), 10))
			values := []string{"set", string(k), "end", strconv.FormatFloat(score, 'f', -1, 64)}
			if exact && k == Overrides {
				values = append(values, "exact", "1")
			}
			notify(values...)
		}
		if len(kinds) == 0 {
			notify()
		}
	})
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
