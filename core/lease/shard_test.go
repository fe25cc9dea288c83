package lease

import (
	"slices"
	"testing"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
)

// Keys whose hashes are equal by chance have accounts of their own.
func TestShard_account_EqualHashes(t *testing.T) {
	s := New(memstore.New())
	sh := &s.shards[0]
	rule := testkit.Compiled(core.TokenBucket("r", core.PerMinute(1000)))
	charges := []driver.Charge{{Key: "a", Rule: rule}, {Key: "b", Rule: rule}, {Key: "c", Rule: rule}}
	var accounts []*account
	for i := range charges {
		accounts = append(accounts, sh.account(s, 1, &charges[i], 0))
	}
	for _, evicted := range []int{1, 2, 0} {
		for i := range charges {
			if a := sh.find(1, &charges[i]); a != accounts[i] || a != nil && a.key != charges[i].Key {
				t.Errorf("before the eviction of %q: got account %p for %q, expected %p", charges[evicted].Key, a, charges[i].Key, accounts[i])
			}
		}
		sh.evict(accounts[evicted])
		accounts[evicted] = nil
	}
	if all := slices.Collect(sh.all); len(all) != 0 || sh.size != 0 {
		t.Errorf("expected no accounts, got %v and a size of %d", all, sh.size)
	}
}

// A caller reads the clock before it locks the shard. In between, another caller may have locked the
// shard at a later time. Tokens that had expired then do not come back.
func TestStore_Take_ClockIsReadBeforeTheLock(t *testing.T) {
	s := New(memstore.New())
	now := int64(1e9)
	s.SetClock(func() int64 { return now })
	l := core.Must(core.New(s, core.TokenBucket("r", core.PerSecond(1000))))
	for range 200 {
		if d, err := l.Allow(t.Context(), "k"); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	s.fetches.Wait()
	before := s.Stats().Held
	now += 5e8
	after := s.Stats().Held
	if before == 0 || after >= before {
		t.Fatalf("expected that tokens expire, got %d of %d", after, before)
	}
	now -= 5e8
	if held := s.Stats().Held; held != after {
		t.Errorf("by an earlier clock: expected %d tokens, got %d", after, held)
	}
}
