package gate

import (
	"hash/maphash"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
)

// exhaustedKeys is a set of keys that were denied lately, or that a request without a later key has left
// exhausted. A gate charges a key of this set before it calls the next key function. The set denies nothing: a
// needless key costs a request up to two more calls of the Store.
//
// The set holds 42 bits of the hashes of at most 8192 keys, in 64 KiB that are allocated with the first
// key. If a bucket has eight keys, a new key replaces the key that ends
// first. A replaced key is added again at its next denial, after needless calls of the next key
// functions, which may verify a token. A key is added only if its limit has denied it or is
// exhausted, so an attacker can fill the set only by using up the limit of each address.
//
// Before the first key, the method has does only one atomic load. The set is safe for concurrent
// use. If two keys are added to the same bucket at once, one key may be lost.
type exhaustedKeys struct {
	body  bool // the body is read after the last key function
	seed  maphash.Seed
	begin time.Time
	table atomic.Pointer[[1024][8]atomic.Uint64] // the upper half of the hash, and the end in seconds since begin
}

// Bounds of the time that a key stays. The lower bound is for limits that recover within a
// moment, and for requests denied because their cost exceeds the capacity, whose keys may have a
// reset time of zero. Without the upper bound, the keys of a limit of a year would fill the set.
const (
	minExhausted = 10 * time.Second
	maxExhausted = time.Hour
)

func newExhaustedKeys(body bool) *exhaustedKeys {
	return &exhaustedKeys{body: body, seed: maphash.MakeSeed(), begin: time.Now()}
}

// The method has reports whether the set contains key for l.
func (s *exhaustedKeys) has(l *core.Limiter, key string) bool {
	table := s.table.Load()
	if table == nil {
		return false
	}
	hash := s.hash(l, key)
	for i := range table[hash%1024] {
		if e := table[hash%1024][i].Load(); e>>32 == hash>>32 {
			return e&math.MaxUint32 > uint64(time.Since(s.begin)/time.Second)
		}
	}
	return false
}

// add puts key into the set for l, for the duration d.
func (s *exhaustedKeys) add(l *core.Limiter, key string, d time.Duration) {
	if s.table.Load() == nil {
		s.table.CompareAndSwap(nil, new([1024][8]atomic.Uint64))
	}
	hash := s.hash(l, key)
	bucket := &s.table.Load()[hash%1024]
	replaced := &bucket[0]
	for i := range bucket {
		e := bucket[i].Load()
		if e>>32 == hash>>32 {
			replaced = &bucket[i]
			break
		}
		if e&math.MaxUint32 < replaced.Load()&math.MaxUint32 {
			replaced = &bucket[i]
		}
	}
	end := time.Since(s.begin) + min(max(d, minExhausted), maxExhausted) + time.Second
	added := hash&^math.MaxUint32 | uint64(end/time.Second)
	if was := replaced.Load(); was>>32 != hash>>32 || was < added {
		replaced.Store(added)
	}
}

func (s *exhaustedKeys) hash(l *core.Limiter, key string) uint64 {
	return maphash.String(s.seed, key) + maphash.Comparable(s.seed, l)
}

// addFrom adds the denied keys of known, the asks of a gate whose asks are asks, and all as in decide. A nil set
// stays empty. After a request without a key it also adds keys whose remaining capacity is below the cost. It does
// not add such keys after an admitted request: with a limit of one per second, every request would add its key,
// and the next request would take two calls of the Store.
func (s *exhaustedKeys) addFrom(asks []ask, all *core.Limiter, known []core.Ask, d *core.Decision, withoutKey bool) {
	if s == nil || d.Allowed && !withoutKey {
		return
	}
	reset := make([]time.Duration, len(known)) // of the exhausted keys; else zero
	for _, s := range d.States() {
		if s.Ask == len(known) { // a partial key
			break
		}
		least := max(known[s.Ask].Cost, 1)
		if !s.Rule.IsShadow() && !s.Unknown && (!s.Allowed || withoutKey && s.Remaining < least) {
			reset[s.Ask] = max(reset[s.Ask], s.ResetAfter, 1)
		}
	}
	before, last := asks[:len(asks)-1], asks[len(asks)-1].limiter
	for i := range known {
		if !s.body && i > 0 && known[i].Limiter == last && last != all && !slices.ContainsFunc(before, func(a ask) bool { return a.limiter == last }) {
			continue // no key function follows
		}
		if reset[i] > 0 {
			s.add(known[i].Limiter, known[i].Key, reset[i])
		}
	}
}
