package overrides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/keyhash"
)

const (
	// maxIndex is the size of the largest index, which takes up to 150 MB, and twice as much while it
	// is read again.
	maxIndex = 1 << 22
	// maxPage is the number of changes, or about that of members, that are read at once.
	maxPage = 1000
	// noChange is the ID before the first change.
	noChange = "0-0"
)

// errSize means that a set has changed without a notice, for example by an eviction.
var errSize = errors.New("the set of overrides or blocks has changed without a notice: it was evicted, removed or written by another program")

// Changes returns the ID of the latest change that is in force in this process, or an empty text if that is not known.
func (s *Redis) Changes() string { return *s.known.Load() }

// LostAt returns the time when Redis was found to have lost all overrides and blocks, in Unix milliseconds, or 0 if it has
// not, or there was a change since then.
func (s *Redis) LostAt() int64 { return s.lostAt.Load() }

// LastChange returns the ID of the latest change in Redis.
func (s *Redis) LastChange(ctx context.Context) (string, error) {
	latest, err := ask(ctx, func(ctx context.Context) ([]redis.XMessage, error) {
		return s.Client.XRevRangeN(ctx, s.changesKey(), "+", "-", 1).Result()
	})
	if err != nil || len(latest) == 0 {
		return noChange, err
	}
	return latest[0].ID, nil
}

// errLost is the error of a Redis that has lost its data.
var errLost = errors.New("weir: Redis has lost all overrides and blocks, as after a restart without appendonly or a FLUSHALL: write them again")

// lock waits until no other goroutine polls.
func (s *Redis) lock(ctx context.Context) error {
	select {
	case s.polling <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Redis) unlock() { <-s.polling }

// Follow brings the indexes up to date. It reads the sets if it does not know all changes.
func (s *Redis) Follow(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	for range 2 {
		if s.last == "" {
			if err := s.readSets(ctx); err != nil {
				return err
			}
		}
		if err := s.readChanges(ctx); err != nil || s.last != "" {
			return err
		}
	}
	return nil // the next call reads the sets again
}

// catchUp applies the changes after a write of this process, unless the sets have to be read.
// Concurrent writes share a poll.
func (s *Redis) catchUp(ctx context.Context, hash uint64) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	if s.lock(ctx) != nil {
		return
	}
	defer s.unlock()
	if s.last != "" && !s.valid(hash, s.indexes.Load().confirmed) {
		_ = s.readChanges(ctx)
	}
}

// lost notes that changes are missing, so that the sets have to be read.
func (s *Redis) lost() {
	s.last = ""
	s.known.Store(new(string))
	s.allChanged()
}

// readChanges applies the changes since the last one, and calls lost if one is missing.
func (s *Redis) readChanges(ctx context.Context) error {
	for polls := 0; polls < 2; {
		now := s.now()
		s.forget()
		last, from := s.last, s.from // not of a later call, if this one leaves its goroutine behind
		r, err := ask(ctx, func(ctx context.Context) (pollReply, error) { return s.poll(ctx, last, from) })
		if err != nil {
			return err
		}
		changes := r.changes
		switch {
		case len(changes) > 0 && changes[0].ID == last:
			changes = changes[1:]
		case len(changes) > 0 || last != noChange: // earlier changes may be lost
			s.lost()
			return nil
		}
		for _, c := range changes {
			if s.last = c.ID; !s.apply(c.Values) {
				s.lost()
				return nil
			}
		}
		if len(r.changes) == maxPage {
			continue
		}
		x := *s.indexes.Load()
		if (counts{x.overrides.len(), x.blocks.len()}) != r.sizes {
			s.callbacks.Invalid(fmt.Errorf("weir: overrides in Redis: %w", errSize))
			s.lost()
			return nil
		}
		x.confirmed, x.counts = now, r.counts
		s.indexes.Store(&x)
		if s.last != noChange {
			s.latest = s.last
			s.lostAt.Store(0)
		}
		if id := s.last; id != s.Changes() {
			s.known.Store(&id)
			s.callbacks.Changed()
		}
		if len(changes) == 0 {
			return nil
		}
		polls++ // the second one confirms the changed keys
	}
	return nil
}

// A pollReply has the changes since the last one, and that one, and the sizes of the sets and the numbers of members
// that have not ended after these changes, if these are all.
type pollReply struct {
	changes       []redis.XMessage
	sizes, counts counts
}

// poll asks Redis for changes, and for the numbers of members that do not end before end, or have not ended.
func (s *Redis) poll(ctx context.Context, last string, end int64) (r pollReply, err error) {
	var changes *redis.XMessageSliceCmd
	var sizes, counted [2]*redis.IntCmd
	from, now := strconv.FormatInt(end, 10), strconv.FormatInt(time.Now().UnixMilli()+1, 10)
	err = s.Transact(ctx, func(tx redis.Pipeliner) {
		changes = tx.XRangeN(ctx, s.changesKey(), last, "+", maxPage)
		for i, k := range []Kind{Overrides, Blocks} {
			sizes[i] = tx.ZCount(ctx, s.setKey(k), from, "+inf")
			counted[i] = tx.ZCount(ctx, s.setKey(k), now, "+inf")
		}
	})
	return pollReply{changes.Val(), counts{sizeOf(sizes[0]), sizeOf(sizes[1])}, counts{sizeOf(counted[0]), sizeOf(counted[1])}}, err
}

// sizeOf returns the size of a set, or -1 if it is too large for an index.
func sizeOf(set *redis.IntCmd) int {
	if set.Val() > maxIndex {
		return -1
	}
	return int(set.Val())
}

// apply applies a change. It returns false for a change that another program has written in a way
// that is not documented.
func (s *Redis) apply(values map[string]any) bool {
	text := func(name string) string {
		t, _ := values[name].(string)
		return t
	}
	member := text("member")
	tag, policy, ok := strings.Cut(member, ":")
	if !ok || len(tag) != keyhash.TagLen {
		return false
	}
	hash := hashOfMember(policy, tag)
	if set := Kind(text("set")); set != "" {
		score, err := strconv.ParseFloat(text("end"), 64)
		if err != nil || set != Overrides && set != Blocks {
			return false
		}
		if x, end := s.indexes.Load().of(set), endOf(score); x != nil {
			if set == Overrides && end != 0 && text("exact") == "" {
				end = max(end, x.end(hash)) // see Put
			}
			x.set(hash, end)
		}
	}
	s.changed(hash)
	return true
}

// forget removes the members from the indexes that have ended an hour ago. Redis keeps them for
// longer, because clocks differ.
func (s *Redis) forget() {
	from := time.Now().Add(-ended / 2).Truncate(time.Minute).UnixMilli()
	if from <= s.from {
		return
	}
	s.from = from
	for _, set := range []Kind{Overrides, Blocks} {
		if x := s.indexes.Load().of(set); x != nil {
			x.removeBefore(from)
		}
	}
}

// readSets reads the indexes. Changes during the read follow the change with the ID s.last.
func (s *Redis) readSets(ctx context.Context) error {
	last, err := s.LastChange(ctx)
	if err != nil {
		return err
	}
	s.allChanged() // changes before the latest one may concern entries
	s.forget()
	x := *s.indexes.Load()
	if x.overrides, err = s.readSet(ctx, Overrides); err != nil {
		return err
	}
	if x.blocks, err = s.readSet(ctx, Blocks); err != nil {
		return err
	}
	s.indexes.Store(&x)
	if err := s.CheckSecret(ctx); errors.Is(err, ErrKeySecret) {
		s.callbacks.Failed(fmt.Errorf("weir: overrides in Redis: %w", err))
	}
	if s.last = last; last == noChange && s.latest != "" {
		s.lostAt.Store(time.Now().UnixMilli())
		s.callbacks.Lost(errLost)
		s.latest = ""
	}
	return nil
}

// readSet reads an index. It returns nil if the set is too large.
func (s *Redis) readSet(ctx context.Context, set Kind) (*index, error) {
	x := newIndex(s.from)
	err := s.scan(ctx, set, func(_ context.Context, page []redis.Z) error {
		for _, z := range page {
			x.set(maphash.String(seed, z.Member.(string)), endOf(z.Score))
		}
		if x.len() > maxIndex {
			return errTooLarge
		}
		return nil
	})
	if err == errTooLarge {
		return nil, nil
	}
	return x, err
}

var errTooLarge = errors.New("the set is too large")

// scan calls f with all members of a set, about maxPage at a time. It ends at the first error of f.
func (s *Redis) scan(ctx context.Context, set Kind, f func(ctx context.Context, page []redis.Z) error) error {
	type page struct {
		members []string // each followed by its score
		cursor  uint64
	}
	for cursor := uint64(0); ; {
		p, err := ask(ctx, func(ctx context.Context) (p page, err error) {
			p.members, p.cursor, err = s.Client.ZScan(ctx, s.setKey(set), cursor, "", maxPage).Result()
			return p, err
		})
		if err != nil {
			return err
		}
		var all []redis.Z
		for pair := range slices.Chunk(p.members, 2) {
			score, err := strconv.ParseFloat(pair[len(pair)-1], 64)
			if err != nil {
				return err
			}
			all = append(all, redis.Z{Score: score, Member: pair[0]})
		}
		if err := f(ctx, all); err != nil {
			return err
		}
		if cursor = p.cursor; cursor == 0 {
			return nil
		}
	}
}

// CompareIDs compares the IDs of two changes, as cmp.Compare does. A text that is no ID is before all IDs.
func CompareIDs(a, b string) int {
	parse := func(id string) (ms, n int64) {
		first, second, ok := strings.Cut(id, "-")
		ms, err := strconv.ParseInt(first, 10, 64)
		n, err2 := strconv.ParseInt(second, 10, 64)
		if !ok || err != nil || err2 != nil {
			return -1, 0
		}
		return ms, n
	}
	ms, n := parse(a)
	ms2, n2 := parse(b)
	return cmp.Or(cmp.Compare(ms, ms2), cmp.Compare(n, n2))
}
