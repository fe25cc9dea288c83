package adapter_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
)

// admit is what an adapter does with a request.
func admit(g *adapter.Gate, ctx context.Context) *gate.Rejection {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	_, _, rejection := g.Admit(ctx, make(http.Header), r)
	return rejection
}

// Requests of a leaky bucket are held until their turn, at the rate, and those
// for whom there is no room are denied at once.
func TestLeakyBucketHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.LeakyBucket("q", core.PerSecond(10).WithBurst(4))))
		g, _ := adapter.New[func()]("test", l, keyfunc.Constant("all"))
		begin := time.Now()
		var mu sync.Mutex
		served := make(map[time.Duration]int)
		var denied []time.Duration
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				no := admit(g, t.Context())
				mu.Lock()
				defer mu.Unlock()
				if no != nil {
					denied = append(denied, time.Since(begin))
				} else {
					served[time.Since(begin)]++
				}
			})
		}
		wg.Wait()
		for i := range 4 {
			if at := time.Duration(i) * 100 * time.Millisecond; served[at] != 1 {
				t.Errorf("%d requests went at %v, want 1: %v", served[at], at, served)
			}
		}
		if len(denied) != 2 || denied[0] != 0 || denied[1] != 0 {
			t.Errorf("denied at %v, want two at once", denied)
		}
	})
}

// A client that hangs up is not served, and its turn, the last, goes to the next.
func TestLeakyBucketLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.LeakyBucket("q", core.PerSecond(10).WithBurst(4))))
		g, _ := adapter.New[func()]("test", l, keyfunc.Constant("all"))
		if no := admit(g, t.Context()); no != nil {
			t.Fatal(no)
		}
		begin := time.Now()
		ctx, hangUp := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer hangUp()
		no := admit(g, ctx)
		if no == nil || no.Denied() || no.Problem.Status != http.StatusServiceUnavailable {
			t.Errorf("the request of a client that has gone: %v", no)
		}
		if took := time.Since(begin); took != 30*time.Millisecond {
			t.Errorf("it was held for %v", took)
		}
		if no := admit(g, t.Context()); no != nil || time.Since(begin) != 100*time.Millisecond {
			t.Errorf("the next went after %v: %v", time.Since(begin), no)
		}
	})
}
