package denycache_test

import (
	"crypto/sha256"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/internal/testkit"
)

// A flood of denied keys stays within MaxKeys, and does not evict a frequently used key.
func TestMaxKeys_flood(t *testing.T) {
	const maxKeys, flood = 1000, 10_000
	f := newFixture(t, denycache.MaxKeys(maxKeys))
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	for range 20 {
		f.ask(l, "hot", 1)
	}
	misses, most := 0, 0
	for i := range flood {
		key := strconv.Itoa(i)
		f.ask(l, key, 1)
		f.ask(l, key, 1)
		if i%10 == 0 {
			if _, hit := f.ask(l, "hot", 1); !hit {
				misses++
			}
		}
		most = max(most, f.cache.Stats().Keys)
	}
	if most > maxKeys+maxKeys/10 {
		t.Errorf("got %d keys, want %d", most, maxKeys)
	}
	if misses > flood/10/100 {
		t.Errorf("got %d misses of %d for the hot key, want 1 in 100", misses, flood/10)
	}
}

// Denials keep no long key, and no string of which a key is a part.
func TestStore_longKeys(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, key := range map[string]func(i int) string{
		"long key":         func(i int) string { return long + strconv.Itoa(i) },
		"part of a string": func(i int) string { return (long + strconv.Itoa(i))[1<<20:] },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
			before := testkit.Heap()
			for i := range 30 {
				k := key(i)
				f.miss(l, k, 1)
				f.hit(l, k, 1)
				f.behind.Forget(k) // it keeps the string
			}
			if grown := testkit.Heap() - before; grown > 3<<20 {
				t.Errorf("30 keys take %d bytes, want 3 MB at most", grown)
			}
			if n := f.cache.Stats().Keys; n != 30 {
				t.Errorf("got %d keys, want 30", n)
			}
			runtime.KeepAlive(f.cache)
		})
	}
}

// The digest of a long key is not the key of the same bytes.
func TestStore_keysAreDistinct(t *testing.T) {
	f := newFixture(t)
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	long := strings.Repeat("a", 1000)
	digest := sha256.Sum256([]byte(long))
	for _, key := range []string{long, long[1:], long[:128], long[:129], string(digest[:])} {
		if d := f.miss(l, key, 1); !d.Allowed {
			t.Errorf("a key of %d bytes: got %v, want it admitted", len(key), d)
		}
		f.hit(l, key, 1)
	}
}
