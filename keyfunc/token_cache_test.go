package keyfunc_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// expiring is a request with a token that ends so many seconds from now.
func expiring(sub string, seconds int64) *http.Request {
	return bearer(hs256(secret, goodHeader, fmt.Sprintf(`{"sub":%q,"exp":%d}`, sub, time.Now().Unix()+seconds)))
}

func TestCacheEndsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, verified := counting(10)
		r := expiring("alice", 60)
		for range 100 {
			wantKey(t, f, r, "user:alice")
		}
		time.Sleep(60*time.Second - time.Nanosecond)
		wantKey(t, f, r, "user:alice")
		if n := verified.Load(); n != 1 {
			t.Errorf("verified %d times, want once", n)
		}
		time.Sleep(time.Nanosecond)
		wantError(t, f, r, jwt.ErrTokenExpired)
	})
}

// After exp, leeway is a matter for the verification, not for the cache.
func TestCacheDoesNotUseLeeway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, verified := counting(10, keyfunc.Leeway(time.Minute))
		r := expiring("alice", 10)
		time.Sleep(10 * time.Second)
		for range 3 {
			wantKey(t, f, r, "user:alice")
		}
		if n := verified.Load(); n != 3 {
			t.Errorf("verified %d times, want 3", n)
		}
	})
}

// A token accepted by leeway alone would push out one that can be used.
func TestCacheKeepsNothingExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, verified := counting(1, keyfunc.Leeway(time.Minute))
		good, late := expiring("alice", 100), expiring("bob", 10)
		time.Sleep(10 * time.Second)
		wantKey(t, f, good, "user:alice")
		wantKey(t, f, late, "user:bob")
		wantKey(t, f, good, "user:alice")
		if n := verified.Load(); n != 2 {
			t.Errorf("verified %d times, want 2", n)
		}
	})
}

// An entry that has run out is renewed in its place, not beside it.
func TestCacheRenewsInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, verified := counting(3)
		a, b, c := expiring("a", 3600), expiring("b", 3600), expiring("c", 3600)
		for _, r := range []*http.Request{a, b, c} {
			_, _ = ask(f, r)
		}
		time.Sleep(5 * time.Minute)
		for _, r := range []*http.Request{c, a, b} { // each is verified again
			_, _ = ask(f, r)
		}
		for _, r := range []*http.Request{a, b, c} { // each is there
			_, _ = ask(f, r)
		}
		if n := verified.Load(); n != 6 {
			t.Errorf("verified %d times, want 6", n)
		}
	})
}

func TestCacheNoticesWithdrawnKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withdrawn := false
		f := keyfunc.JWTSubject(func(*jwt.Token) (any, error) {
			if withdrawn {
				return nil, errors.New("withdrawn")
			}
			return secret, nil
		}, []string{"HS256"}, keyfunc.Cache(10))
		r := expiring("alice", 86400)
		wantKey(t, f, r, "user:alice")
		withdrawn = true
		time.Sleep(5*time.Minute - time.Nanosecond)
		wantKey(t, f, r, "user:alice")
		time.Sleep(time.Nanosecond)
		wantError(t, f, r, keyfunc.ErrNoToken)
		withdrawn = false
		wantKey(t, f, r, "user:alice") // and takes its old place again
		withdrawn = true
		wantKey(t, f, r, "user:alice")
	})
}

func TestCacheEvictsTheOldest(t *testing.T) {
	f, verified := counting(3)
	requests := make([]*http.Request, 5)
	for i := range requests {
		requests[i] = expiring(fmt.Sprint(i), 3600)
	}
	want := int64(0)
	check := func(i int, hit bool) {
		t.Helper()
		wantKey(t, f, requests[i], fmt.Sprintf("user:%d", i))
		if !hit {
			want++
		}
		if n := verified.Load(); n != want {
			t.Fatalf("token %d: verified %d times in all, want %d", i, n, want)
		}
	}
	check(0, false)
	check(1, false)
	check(2, false)
	check(0, true)
	check(1, true)
	check(2, true)
	check(3, false) // in the place of 0
	check(1, true)
	check(2, true)
	check(3, true)
	check(0, false) // in the place of 1
	check(2, true)
	check(3, true)
	check(4, false) // in the place of 2
	check(3, true)
	check(0, true)
	check(4, true)
	check(1, false) // in the place of 3, the first again
	check(0, true)
	check(4, true)
}

// The whole token counts: one that shares all but the signature with a cached
// one is as invalid as it was.
func TestCacheIsKeyedByTheWholeToken(t *testing.T) {
	f, verified := counting(10)
	r := expiring("alice", 3600)
	wantKey(t, f, r, "user:alice")
	text := r.Header.Get("Authorization")
	other := hs256([]byte("another key"), goodHeader, `{"sub":"x","exp":4000000000}`)
	forged := request("", "Authorization: "+text[:len(text)-43]+other[len(other)-43:])
	for range 2 { // a refusal is not remembered either
		wantError(t, f, forged, keyfunc.ErrNoToken)
	}
	if n := verified.Load(); n != 3 {
		t.Errorf("verified %d times, want 3", n)
	}
}

// Invalid tokens take no place, and valid ones no more than there is.
func TestCacheIsBounded(t *testing.T) {
	const entries = 100
	f, _ := counting(entries)
	flood := func(n, from int) {
		for i := range n {
			_, _ = ask(f, expiring(fmt.Sprint(from+i), 3600))
			_, _ = ask(f, bearer(hs256([]byte("another key"), goodHeader, fmt.Sprintf(`{"sub":"%d","exp":4000000000}`, from+i))))
		}
	}
	flood(2*entries, 0)
	before := heapAfterGC()
	flood(20*entries, 1_000_000)
	if after := heapAfterGC(); after > before+entries*1024 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	runtime.KeepAlive(f)
}

func heapAfterGC() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestCacheIsSafeForConcurrentUse(t *testing.T) {
	f, _ := counting(8)
	requests := make([]*http.Request, 32)
	for i := range requests {
		requests[i] = expiring(fmt.Sprint(i), 3600)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				n := (i*7 + g) % len(requests)
				wantKey(t, f, requests[n], fmt.Sprintf("user:%d", n))
			}
		})
	}
	wg.Wait()
}
