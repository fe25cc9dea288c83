package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// refunds knows when the events were charged that may be refunded, and when clocks have stepped back.
type refunds struct {
	s       *simulation
	mu      sync.Mutex
	charged map[string]time.Time // by key and receipt
	steps   []step
}

type step struct {
	at time.Time
	by time.Duration
}

func newRefunds(s *simulation) *refunds { return &refunds{s: s, charged: map[string]time.Time{}} }

func refundRules() []core.Rule {
	return []core.Rule{
		core.FixedWindow("refund window", core.PerMinute(400)), core.SlidingLog("refund log", core.PerMinute(400)),
		core.SlidingWindow("refund sliding", core.PerMinute(400)), core.TokenBucket("refund bucket", core.PerMinute(400)),
	}
}

const refundKeys = 2

// refund makes events whose cost turns out to be lower.
func (c *client) refund() {
	for c.rest(c.scenario.idle) {
		key := fmt.Sprint("refund", c.random.IntN(refundKeys))
		begun, cost := time.Now(), 1+c.random.IntN(5)
		r, err := c.process.refunds.Reserve(context.Background(), key, cost)
		c.called("Reserve", key, begun, timeout, err)
		if err != nil || !r.Decision().Allowed {
			continue
		}
		c.rest(3 * time.Second)
		if begun = time.Now(); c.random.IntN(2) == 0 {
			err = r.Refund(context.Background())
		} else {
			err = r.Settle(context.Background(), c.random.IntN(cost+3))
		}
		c.called("Settle", key, begun, timeout, err)
	}
}

func refundID(s *server, c *charge, at int64) string { return fmt.Sprint(s.index, c.key, at) }

// granted notes a charge.
func (r *refunds) granted(s *server, c *charge) {
	if r.s.scenario.load.refunds == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.charged[refundID(s, c, c.Receipt.At)] = time.Now()
}

// stepped notes that a clock has stepped.
func (r *refunds) stepped(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, step{time.Now(), by})
}

// undone checks that an Undo frees nothing after the clock has stepped back since the charge. Package core
// tolerates a second, and a thousandth of the age. A bucket refills by the age of the charge instead.
func (r *refunds) undone(s *server, c *charge, before, after int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	charged, ok := r.charged[refundID(s, c, c.Receipt.At)]
	if !ok || c.Rule.Algorithm == driver.InFlight || c.Rule.Kind.Refills {
		return
	}
	var back time.Duration
	for _, step := range r.steps {
		if step.at.After(charged) {
			back -= step.by
		}
	}
	if back > 2*time.Second && after < before {
		r.s.violate(refundAfterStep, "an undo of %s has freed %d although the clock has stepped back by %v since the charge", c.key, before-after, back)
	}
}

// checkFree checks at the end that nothing is in use.
func (r *refunds) checkFree(p *process) {
	for i := range refundKeys {
		key := fmt.Sprint("refund", i)
		d, err := p.refunds.Peek(context.Background(), key)
		for i := range refundRules() {
			if err != nil || d.State(i).Remaining != 400 {
				r.s.violate(capacityBack, "at the end, %d events of %s are left, want 400: %v", d.State(i).Remaining, key, err)
				break
			}
		}
	}
}
