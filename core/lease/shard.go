package lease

import (
	"strings"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// A shard holds a part of the accounts, guarded by one lock. It has the size of a cache line.
type shard struct {
	mu       sync.Mutex
	last     int64               // the latest time of a holder of the lock (ns)
	accounts map[uint64]*account // by hash: the first account of each list
	open     map[uint64]int64    // by the hash of a ban: until when it counts as open (ns)
	size     int                 // the number of accounts
	limit    int                 // of size, and of open
	closed   bool

	hits, leased uint64 // see Stats
}

// lock locks sh, and returns the time. It reads the clock first, so that the lock is held for less
// time. Callers may lock sh in another order, so see forward.
func (sh *shard) lock(s *Store) (now int64) {
	now = s.clock()
	sh.mu.Lock()
	return sh.forward(now)
}

// forward returns now, or the latest time of an earlier holder of the lock if that is later. The time
// therefore never decreases within a shard, and no token is spent at a time before its lease.
func (sh *shard) forward(now int64) int64 {
	sh.last = max(sh.last, now)
	return sh.last
}

// all iterates over the accounts, in random order of their hashes. The loop may evict its account.
func (sh *shard) all(yield func(*account) bool) {
	for _, a := range sh.accounts {
		for ; a != nil; a = a.next {
			if !yield(a) {
				return
			}
		}
	}
}

// find returns the account for the rule, key and plan of c, whose hash is hash, or nil.
func (sh *shard) find(hash uint64, c *driver.Charge) *account {
	a := sh.accounts[hash]
	for a != nil && !(a.is(c) && a.u.rule.Plan == c.Rule.Plan) {
		a = a.next
	}
	return a
}

// account returns the account of c, whose hash is hash, or nil if its rule is not leased or the Store is
// closed. It makes a new account if there is none or if the limit of the plan has changed. A new account
// may evict other accounts.
func (sh *shard) account(s *Store, hash uint64, c *driver.Charge, now int64) *account {
	a := sh.find(hash, c)
	if a != nil {
		if a.u.rule.Constants == c.Rule.Constants {
			a.usedAt = now
			return a
		}
		sh.evict(a)
	}
	u, ok := newUnits(c.Rule, s.config.lifetime)
	if !ok || sh.closed {
		return nil
	}
	for range 2 { // calls under way may have kept the shard above its limit
		if sh.size >= sh.limit {
			sh.evictOld()
		}
	}
	a = &account{hash: hash, u: u, shard: sh, usedAt: now, next: sh.accounts[hash]}
	if a.next != nil && a.next.key == c.Key {
		a.key = a.next.key
	} else {
		a.key = strings.Clone(c.Key)
	}
	sh.accounts[hash] = a
	sh.size++
	return a
}

// evictSample is the number of accounts of which the least recently used one is evicted.
const evictSample = 8

// evictOld evicts the least recently used of evictSample accounts, which the map chooses at
// random. An account with a call under way stays. Otherwise its key might get a second call.
func (sh *shard) evictOld() {
	var oldest *account
	sampled := 0
	for a := range sh.all {
		if !a.fetching && (oldest == nil || a.usedAt < oldest.usedAt) {
			oldest = a
		}
		if sampled++; sampled == evictSample {
			break
		}
	}
	if oldest != nil {
		sh.evict(oldest)
	}
}

// evict removes a from the shard. From then on charges do not find it, so its tokens are lost, and
// so are the tokens that a running call or a denied decision adds to it later. a.next is unchanged.
func (sh *shard) evict(a *account) {
	a.evicted = true
	sh.size--
	switch first := sh.accounts[a.hash]; {
	case first != a:
		for first.next != a {
			first = first.next
		}
		first.next = a.next
	case a.next != nil:
		sh.accounts[a.hash] = a.next
	default:
		delete(sh.accounts, a.hash)
	}
}
