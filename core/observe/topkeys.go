package observe

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// Period is the time that the keys of a [Snapshot] are about: that of the last five to six minutes.
const Period = 5 * time.Minute

const (
	minutes   = int64(Period/time.Minute) + 1 // windows, of which the present one is not complete
	sampledOf = 64                            // one of this number of decisions is counted for the active keys
	maxKey    = 256                           // bytes of a key that are kept
)

// A Key is one of the keys with the highest counts.
type Key struct {
	Key   string // see Store.Tag
	Rule  string // of denials: the rule
	Count uint64 // at most Error too high
	Error uint64
}

// topKeys finds the keys with the most denials, and with the most decisions.
type topKeys struct{ denied, active ranking }

func newTopKeys(n int, c *clock) *topKeys {
	t, seed := new(topKeys), maphash.MakeSeed()
	for _, r := range []*ranking{&t.denied, &t.active} {
		r.clock, r.seed = c, seed
		for i := range r.windows {
			r.windows[i].counts.room = 4 * n // the error of a count is at most the sum divided by room
		}
	}
	return t
}

// A ranking counts keys in windows of a minute.
type ranking struct {
	clock *clock
	seed  maphash.Seed

	mu      sync.Mutex
	windows [minutes]window
	minute  int64 // of the latest window
}

type window struct {
	minute int64
	counts sketch
}

func (r *ranking) hash(text string) uint64 { return maphash.String(r.seed, text) }

// add adds n to the count of a key and a rule. salt is the hash of the rule, or zero if it does not matter.
func (r *ranking) add(key, rule string, salt, n uint64) {
	hash, now := r.hash(key)^salt, r.clock.now()
	r.mu.Lock()
	r.turn(now)
	r.windows[r.minute%minutes].counts.add(hash, key, rule, n)
	r.mu.Unlock()
}

// find returns a key for which is returns true.
func (r *ranking) find(is func(key string) bool) (key string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.windows {
		for _, k := range r.windows[i].counts.keys {
			if key = string(k.key); len(key) < maxKey && is(key) { // the rest of a longer one is not known
				return key, true
			}
		}
	}
	return "", false
}

// turn begins a new window if it is time. now may be older than that of an earlier call.
func (r *ranking) turn(now time.Duration) {
	minute := int64(now / time.Minute)
	if minute <= r.minute {
		return
	}
	r.minute = minute
	w := &r.windows[minute%minutes]
	w.minute = minute
	w.counts.clear()
}

// top returns the n keys with the highest counts of all windows.
func (r *ranking) top(n int, tag func(string) string) []Key {
	keys, _ := r.between(-1, n, true, tag)
	return keys
}

// between returns the n keys with the highest counts of the windows after a minute, with that of the present one or without
// it, and the last complete minute.
func (r *ranking) between(after int64, n int, present bool, tag func(string) string) (keys []Key, complete int64) {
	now := r.clock.read()
	r.mu.Lock()
	r.turn(now)
	sums := make(map[uint64]Key)
	for i := range r.windows {
		w := &r.windows[i]
		if w.minute <= max(after, r.minute-minutes) || w.minute == r.minute && !present {
			continue
		}
		for _, k := range w.counts.keys {
			sum := sums[k.hash]
			sum.Key, sum.Rule, sum.Count, sum.Error = string(k.key), k.rule, sum.Count+k.count, sum.Error+k.error
			sums[k.hash] = sum
		}
	}
	complete = r.minute - 1
	r.mu.Unlock()
	keys = make([]Key, 0, len(sums))
	for _, k := range sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Key, b.Key))
	})
	keys = keys[:min(n, len(keys))]
	for i := range keys {
		keys[i].Key = tag(keys[i].Key)
	}
	return keys, complete
}
