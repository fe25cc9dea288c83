package resilient_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

// The key in Redis has the prefix, and its name depends on the secret.
func TestPrefix_KeySecret(t *testing.T) {
	server := redistest.NewServer(t)
	rdb := server.Client()
	hour := core.TokenBucket("hour", core.PerHour(3))
	key := func(opts ...resilient.Option) string {
		t.Helper()
		testkit.Must(t, rdb.FlushAll(t.Context()).Err())
		s := newStore(t, rdb, append(opts, resilient.Timeout(unhurried))...)
		testkit.Admit(t, testkit.Limiter(t, s, hour), "k", 1)
		keys, err := rdb.Keys(t.Context(), "*:hour").Result()
		testkit.Must(t, err)
		if len(keys) != 1 {
			t.Fatalf("got the keys %q, want one", keys)
		}
		return keys[0]
	}
	secret := []byte("a secret of 16 bytes or more")
	prefixed := resilient.Prefix("shop:")
	plain, shop, hidden, other := key(), key(prefixed), key(prefixed, resilient.KeySecret(secret)), key(prefixed, resilient.KeySecret(secret[1:]))
	if strings.TrimPrefix(plain, redisstore.DefaultPrefix) != strings.TrimPrefix(shop, "shop:") || shop == plain {
		t.Errorf("got the keys %q and %q, want the same after the prefixes", plain, shop)
	}
	names := []string{shop, hidden, other}
	slices.Sort(names)
	if len(slices.Compact(names)) != 3 || !strings.HasPrefix(hidden, "shop:") {
		t.Errorf("got the keys %q, want another one for each secret", []string{shop, hidden, other})
	}
}

// The timeout is that of redisstore, and failover does not end a call earlier.
func TestTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	testkit.Must(t, server.Pause())
	for _, c := range []struct {
		name string
		opts []resilient.Option
		want time.Duration
	}{
		{"default", nil, redisstore.DefaultTimeout},
		{"shorter", []resilient.Option{resilient.Timeout(30 * time.Millisecond)}, 30 * time.Millisecond},
		{"longer", []resilient.Option{resilient.Timeout(300 * time.Millisecond)}, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, server.Client(), c.opts...)
			l := testkit.Limiter(t, s, wide)
			begun := time.Now()
			testkit.Admit(t, l, "k", 1)
			if took := time.Since(begun); took < c.want {
				t.Errorf("the backup decided after %v, want %v or more", took, c.want)
			}
			until(t, s, l, failover.Backup)
			want := fmt.Sprint("no answer within ", c.want)
			if cause := s.Stats().Failover.Cause; !strings.Contains(cause.Error(), want) {
				t.Errorf("the cause of the outage: got %v, want %q", cause, want)
			}
		})
	}
}

// A backup with little memory is full of keys that a larger one has room for.
func TestMaxMemory(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []resilient.Option
		full bool
	}{
		{"default", nil, false},
		{"40 KB", []resilient.Option{resilient.MaxMemory(40_000)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, absent(t), c.opts...)
			l := testkit.Limiter(t, s, core.SlidingLog("hour", core.PerHour(1)))
			until(t, s, testkit.Limiter(t, s, wide), failover.Backup)
			for i := range 3000 {
				testkit.Ask(t, l, strconv.Itoa(i), 1)
			}
			if got := s.Stats().Memstore; (got.Evicted+got.Overflowed > 0) != c.full {
				t.Errorf("got %+v after 3000 keys, want full %v", got, c.full)
			}
		})
	}
}
