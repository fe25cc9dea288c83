package keyfunc_test

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

// counting returns a cached JWTSubject and the number of its verifications.
func counting(n int, opts ...keyfunc.JWTOption) (keyfunc.Func, *atomic.Int64) {
	var verified atomic.Int64
	f := keyfunc.JWTSubject(func(*jwt.Token) (any, error) {
		verified.Add(1)
		return secret, nil
	}, []string{"HS256"}, append(opts, keyfunc.Cache(n))...)
	return f, &verified
}

// expiring returns a request with a token that expires after so many seconds.
func expiring(sub string, seconds int64) *http.Request {
	return bearer(hs256(secret, goodHeader, fmt.Sprintf(`{"sub":%q,"exp":%d}`, sub, time.Now().Unix()+seconds)))
}

func TestCache(t *testing.T) {
	type step struct {
		wait     time.Duration
		tokens   string // each is a letter
		verified int64  // so far
	}
	for _, c := range []struct {
		name   string
		size   int
		leeway time.Duration
		exp    map[rune]int64 // in seconds; one day for others
		steps  []step
	}{
		{"expiry", 10, 0, map[rune]int64{'a': 60}, []step{{0, "aaaa", 1}, {60*time.Second - 1, "a", 1}}},
		{"greatest age", 10, 0, nil, []step{{0, "aaaa", 1}, {5*time.Minute - 1, "a", 1}, {1, "aa", 2}}},
		{"renewal in its place", 3, 0, nil, []step{{0, "abc", 3}, {5 * time.Minute, "cab", 6}, {0, "abc", 6}}},
		{"no leeway after exp", 10, time.Minute, map[rune]int64{'a': 10}, []step{{10 * time.Second, "aaa", 3}}},
		{"expired token takes no place", 1, time.Minute, map[rune]int64{'b': 10}, []step{{10 * time.Second, "aba", 2}}},
		{"eviction", 3, 0, nil, []step{
			{0, "abcabc", 3},
			{0, "dbcd", 4}, // in the place of a
			{0, "acda", 5}, // in the place of b
			{0, "edae", 6}, // in the place of c
			{0, "baeb", 7}, // in the place of d, the first again
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, verified := counting(c.size, keyfunc.Leeway(c.leeway))
				requests := map[rune]*http.Request{}
				for _, id := range "abcde" {
					requests[id] = expiring(string(id), cmp.Or(c.exp[id], 86400))
				}
				for _, step := range c.steps {
					time.Sleep(step.wait)
					for _, id := range step.tokens {
						wantKey(t, f, requests[id], "user:"+string(id))
					}
					if n := verified.Load(); n != step.verified {
						t.Fatalf("verified %d times after %q, want %d", n, step.tokens, step.verified)
					}
				}
				if c.exp != nil && c.leeway == 0 {
					time.Sleep(time.Nanosecond)
					wantError(t, f, requests['a'], jwt.ErrTokenExpired)
				}
			})
		})
	}
}

// A token that differs from a cached token only in its signature is still invalid.
func TestCache_WholeToken(t *testing.T) {
	f, verified := counting(10)
	r := expiring("alice", 3600)
	wantKey(t, f, r, "user:alice")
	text := r.Header.Get("Authorization")
	other := hs256([]byte("another key"), goodHeader, `{"sub":"x","exp":4000000000}`)
	forged := request("", "Authorization: "+text[:len(text)-43]+other[len(other)-43:])
	for range 2 { // an error is not cached either
		wantError(t, f, forged, keyfunc.ErrNoToken)
	}
	if n := verified.Load(); n != 3 {
		t.Errorf("verified %d times, want 3", n)
	}
}

// Invalid tokens are not cached, and valid ones replace older ones in a full cache.
func TestCache_Bounded(t *testing.T) {
	const size = 100
	f, _ := counting(size)
	flood := func(n, from int) {
		for i := range n {
			_, _ = ask(f, expiring(fmt.Sprint(from+i), 3600))
			_, _ = ask(f, bearer(hs256([]byte("another key"), goodHeader, fmt.Sprintf(`{"sub":"%d","exp":4000000000}`, from+i))))
		}
	}
	flood(2*size, 0)
	before := testkit.Heap()
	flood(20*size, 1_000_000)
	if after := testkit.Heap(); after > before+size*1024 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	runtime.KeepAlive(f)
}

func TestCache_ConcurrentUse(t *testing.T) {
	f, _ := counting(8)
	requests := make([]*http.Request, 32)
	for i := range requests {
		requests[i] = expiring(fmt.Sprint(i), 3600)
	}
	testkit.Concurrently(8, func(g int) {
		for i := range 500 {
			n := (i*7 + g) % len(requests)
			wantKey(t, f, requests[n], fmt.Sprintf("user:%d", n))
		}
	})
}
