package overrides

import (
	"hash/maphash"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// seed makes the hashes of one process differ from those of others, so that no client can choose
// keys with equal hashes.
var seed = maphash.MakeSeed()

// hashOfMember returns a hash of a member of the sets of keys in Redis: see memberOf.
func hashOfMember(policy, tag string) uint64 {
	var buf [128]byte
	return maphash.Bytes(seed, append(append(append(buf[:0], tag...), ':'), policy...))
}

// forever is the end of overrides and blocks without an end.
const forever = math.MaxInt64

// An index is a copy of a sorted set in Redis: the hashes of the keys that have an override, or of
// those that have a block, with the ends in Unix milliseconds. A key takes 17 to 38 bytes. One
// goroutine at a time may change it. All other methods are safe for concurrent use.
type index struct {
	shards [256]shard
	size   atomic.Int64
	from   int64 // entries with an earlier end are not in the index
}

// indexes are the indexes of a process. The value does not change, but the indexes do.
type indexes struct {
	overrides, blocks *index // nil if they are not known
	confirmed         moment // when they were correct
	counts            counts // then
}

// counts are the numbers of keys with an override and with a block that had not ended, or -1 if they are not known.
type counts struct{ overrides, blocks int }

// of returns the index of a set.
func (x *indexes) of(set Kind) *index {
	if set == Blocks {
		return x.blocks
	}
	return x.overrides
}

// unconfirmed is a moment of knowledge that is never valid.
var unconfirmed = moment{sequence: -1}

type shard struct {
	mu   sync.RWMutex
	ends map[uint64]int64
}

func newIndex(from int64) *index {
	x := &index{from: from}
	for i := range x.shards {
		x.shards[i].ends = make(map[uint64]int64)
	}
	return x
}

// len returns the number of entries, or -1 if x is nil.
func (x *index) len() int {
	if x == nil {
		return -1
	}
	return int(x.size.Load())
}

// end returns the end of an entry, or 0 if there is none.
func (x *index) end(hash uint64) int64 {
	s := &x.shards[hash>>56]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ends[hash]
}

// has reports whether x is not nil and has an entry that has not ended.
func (x *index) has(hash uint64) bool {
	if x == nil {
		return false
	}
	end := x.end(hash)
	return end != 0 && end > time.Now().UnixMilli()
}

// set sets the end of an entry. The end 0 removes it.
func (x *index) set(hash uint64, end int64) {
	s := &x.shards[hash>>56]
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.ends)
	if end == 0 || end < x.from {
		delete(s.ends, hash)
	} else {
		s.ends[hash] = end
	}
	x.size.Add(int64(len(s.ends) - before))
}

// removeBefore removes all entries that end before from, at present and later.
func (x *index) removeBefore(from int64) {
	x.from = from
	for i := range x.shards {
		s := &x.shards[i]
		s.mu.Lock()
		before := len(s.ends)
		maps.DeleteFunc(s.ends, func(_ uint64, end int64) bool { return end < from })
		x.size.Add(int64(len(s.ends) - before))
		s.mu.Unlock()
	}
}
