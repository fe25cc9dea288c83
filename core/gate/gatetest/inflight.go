package gatetest

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
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
)

// An inFlight counts what is under way now, and what ever was.
type inFlight struct {
	mu          sync.Mutex
	now, served int
}

func (c *inFlight) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.served++
}

func (c *inFlight) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

func (c *inFlight) counts() (now, served int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.served
}

func (s *suite) testInFlight(t *testing.T) {
	for _, c := range []struct {
		name   string
		store  *script
		key    keyfunc.Func
		opts   []gate.Option
		served int
	}{
		{"allowed", &script{states: states{"burst": allowed(1, 0, 0)}}, constant("k"), nil, 1},
		{"refunded", &script{states: states{"burst": allowed(1, 0, 0)}}, constant("k"), []gate.Option{new(judge).option()}, 1},
		{"denied", &script{states: states{"burst": denied(time.Second)}}, constant("k"), nil, 0},
		{"skipped", &script{}, constant("k"), []gate.Option{gate.Skip(func(*http.Request) bool { return true })}, 0},
		{"undecided", &script{err: errSecret}, constant("k"), []gate.Option{quiet}, 1},
		{"undecided, closed", &script{err: errSecret}, constant("k"), []gate.Option{quiet, gate.FailClosed()}, 0},
		{"no key", &script{}, noKey(keyfunc.ErrNoKey), nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			count, during := new(inFlight), 0
			opts := append(c.opts, gate.CountInFlight(count))
			h := s.build(core.Must(core.New(c.store, burst)), c.key, opts, func(http.ResponseWriter, *http.Request) {
				during, _ = count.counts()
			})
			exchange(t, h, request("GET", "/"))
			now, served := count.counts()
			if now != 0 || served != c.served {
				t.Errorf("%d are in flight and %d were, want 0 and %d", now, served, c.served)
			}
			if c.served == 1 && during != 1 {
				t.Errorf("the handler is not in flight: %d", during)
			}
		})
	}
	t.Run("panics", func(t *testing.T) {
		for name, opts := range map[string][]gate.Option{"": nil, "refunded": {new(judge).option()}} {
			count := new(inFlight)
			h := s.build(hundred(memstore.New()), constant("k"), append(opts, gate.CountInFlight(count)),
				func(http.ResponseWriter, *http.Request) { panic("boom") })
			if got := caught(func() { h.ServeHTTP(httptest.NewRecorder(), request("GET", "/")) }); got != "boom" {
				t.Errorf("%s: panicked with %v", name, got)
			}
			if now, served := count.counts(); now != 0 || served != 1 {
				t.Errorf("%s: %d are in flight and %d were, want 0 and 1", name, now, served)
			}
		}
	})
	t.Run("held", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			count := new(inFlight)
			l := core.Must(core.New(memstore.New(), core.LeakyBucket("q", core.PerSecond(1).WithBurst(2))))
			h := s.build(l, constant("k"), []gate.Option{gate.CountInFlight(count)}, new(probe).ServeHTTP)
			record(t, h, request("GET", "/"))
			done := make(chan struct{})
			go func() {
				defer close(done)
				record(t, h, request("GET", "/"))
			}()
			synctest.Wait()
			if now, served := count.counts(); now != 0 || served != 1 {
				t.Errorf("%d are in flight and %d were, want 0 and 1: a request that is held is not served yet", now, served)
			}
			<-done
			if _, served := count.counts(); served != 2 {
				t.Errorf("%d were in flight, want 2", served)
			}
		})
	})
	t.Run("before the refund", func(t *testing.T) {
		count := new(inFlight)
		store := onUndo(func(context.Context) error {
			if now, _ := count.counts(); now != 0 {
				t.Error("a request is in flight although its handler is done")
			}
			return nil
		})
		j := new(judge)
		exchange(t, s.build(hundred(store), constant("k"), []gate.Option{j.option(), gate.CountInFlight(count)}, new(probe).ServeHTTP), request("GET", "/"))
		if _, served := count.counts(); served != 1 || j.asked() != "[200]" {
			t.Errorf("%d were in flight, asked about %s", served, j.asked())
		}
	})
}
