package gatetest

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// An inFlight counts the requests that are being served now, and all that were.
type inFlight struct {
	mu          sync.Mutex
	now, served int
}

func (c *inFlight) Begin() { c.add(1, 1) }
func (c *inFlight) End()   { c.add(-1, 0) }

func (c *inFlight) add(now, served int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += now
	c.served += served
}

func (c *inFlight) check(t *testing.T, now, served int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != now || c.served != served {
		t.Errorf("%d requests are in flight and %d were served, want %d and %d", c.now, c.served, now, served)
	}
}

func (s *suite) testInFlight(t *testing.T) {
	count := new(inFlight)
	inside := func(http.ResponseWriter, *http.Request) { count.check(t, 1, 1) }
	panics := func(http.ResponseWriter, *http.Request) { panic("boom") }
	over := states{"hundred": denied(time.Second)}
	for _, c := range []struct {
		name string
		setup
		served int
	}{
		{"allowed", setup{}, 1},
		{"refunded", setup{refund: true}, 1},
		{"denied", setup{states: over}, 0},
		{"skipped", setup{opts: []gate.Option{skipped}}, 0},
		{"undecided", setup{err: errSecret, opts: []gate.Option{quiet}}, 1},
		{"undecided, closed", setup{err: errSecret, opts: []gate.Option{quiet, gate.FailClosed()}}, 0},
		{"no key", setup{key: noKey(keyfunc.ErrNoKey)}, 0},
		{"panics", setup{handler: panics}, 1},
		{"panics, refunded", setup{handler: panics, refund: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			*count = inFlight{}
			if c.handler == nil && c.served == 1 {
				c.handler = inside
			}
			c.opts = append(c.opts, gate.CountInFlight(count))
			a := s.start(c.setup)
			if got := caught(func() { a.get(t) }); got != nil && got != "boom" {
				t.Errorf("panicked with %v, want boom or no panic", got)
			}
			count.check(t, 0, c.served)
		})
	}
	t.Run("held", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			count := new(inFlight)
			a := s.start(setup{
				rules: []core.Rule{core.LeakyBucket("q", core.PerSecond(1).WithBurst(2))},
				opts:  []gate.Option{gate.CountInFlight(count)},
			})
			a.get(t)
			var wg sync.WaitGroup
			wg.Go(func() { a.get(t) })
			synctest.Wait()
			count.check(t, 0, 1) // a held request is not in flight
			wg.Wait()
			count.check(t, 0, 2)
		})
	})
	t.Run("ended before the refund", func(t *testing.T) {
		count := new(inFlight)
		store := onUndo(func(context.Context) error { count.check(t, 0, 1); return nil })
		a := s.start(setup{store: store, refund: true, opts: []gate.Option{gate.CountInFlight(count)}})
		exchange(t, a, request("GET", "/"))
		a.checkRefund(t, "[200]", 0)
	})
}
