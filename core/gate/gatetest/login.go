package gatetest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
)

// testFailuresOnly is a login that admits five failures.
func (s *suite) testFailuresOnly(t *testing.T) {
	succeeded := gate.RefundIf(func(status int) bool { return status < 400 })
	five := func() *core.Limiter {
		return core.Must(core.New(memstore.New(), core.SlidingLog("five", core.PerHour(5)), core.TokenBucket("bucket", core.PerHour(5))))
	}
	t.Run("500 failures at once", func(t *testing.T) {
		var mu sync.Mutex
		ran, denied := 0, 0
		h := s.build(five(), constant("k"), []gate.Option{succeeded}, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			ran++
			mu.Unlock()
			fails(401)(w, r)
		})
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, request("POST", "/login"))
				mu.Lock()
				defer mu.Unlock()
				if w.Code == http.StatusTooManyRequests {
					denied++
				}
			})
		}
		wg.Wait()
		if ran != 5 || denied != 495 {
			t.Errorf("the handler ran %d times and %d were denied, want 5 and 495", ran, denied)
		}
	})
	t.Run("100 successes in a row", func(t *testing.T) {
		l := five()
		server := httptest.NewServer(s.build(l, constant("k"), []gate.Option{succeeded}, new(probe).ServeHTTP))
		defer server.Close()
		for i := range 100 {
			if got := send(t, server, request("POST", "/login")); got.status != http.StatusOK {
				t.Fatalf("success %d has status %d: the one before had not come back when its answer was here", i, got.status)
			}
		}
		if n := taken(t, l, "k"); n != 0 {
			t.Errorf("%d are taken", n)
		}
	})
	t.Run("in turns", func(t *testing.T) {
		status := 0
		h := s.build(five(), constant("k"), []gate.Option{succeeded}, func(w http.ResponseWriter, r *http.Request) { fails(status)(w, r) })
		for i, want := range []int{403, 204, 403, 204, 403, 204, 403, 204, 403, 429, 429} {
			status = want
			if got := record(t, h, request("POST", "/login")); got.status != want {
				t.Errorf("request %d has status %d, want %d", i, got.status, want)
			}
		}
	})
}
