package gatetest

import (
	"net/http"
	"sync"
	"testing"
	"time"

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
		{"refunded", setup{Refund: true}, 1},
		{"denied", setup{States: over}, 0},
		{"skipped", setup{Opts: []gate.Option{skipped}}, 0},
		{"undecided", setup{Err: errSecret, Opts: []gate.Option{quiet}}, 1},
		{"undecided, FailClosed", setup{Err: errSecret, Opts: []gate.Option{quiet, gate.FailClosed()}}, 0},
		{"no key", setup{Key: noKey(keyfunc.ErrNoKey)}, 0},
		{"panics", setup{Handler: panics}, 1},
		{"panics, refunded", setup{Handler: panics, Refund: true}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			*count = inFlight{}
			if c.Handler == nil && c.served == 1 {
				c.Handler = inside
			}
			c.Opts = append(c.Opts, gate.CountInFlight(count))
			a := s.start(c.setup)
			if got := caught(func() { a.Get(t) }); got != nil && got != "boom" {
				t.Errorf("panicked with %v, want boom or no panic", got)
			}
			count.check(t, 0, c.served)
		})
	}
}
