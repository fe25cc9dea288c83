package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/internal/testkit"
)

// A ledger knows which events were admitted, as their callers see it.
type ledger struct {
	s       *simulation
	mu      sync.Mutex
	events  map[string][]event // admitted, by rule and key
	failed  map[string]int     // the cost of calls that ended without an answer
	granted map[string]int     // the cost of admitted calls
	denials map[string]time.Time
	once    []string // keys with one call
}

// An event was admitted between two times.
type event struct {
	from, to time.Time
	cost     int
}

func newLedger(s *simulation) *ledger {
	return &ledger{s: s, events: map[string][]event{}, failed: map[string]int{}, granted: map[string]int{}}
}

// useRate makes events of a rate, of which some come in bursts.
func (c *client) useRate(i int) {
	l, rules := c.process.rates[i], rates[i].rules(c.plan.scale)
	for c.pause(c.plan.idle) {
		n := 1
		if c.random.IntN(20) == 0 {
			n = 40
		}
		for range n {
			key := fmt.Sprint("key", c.random.IntN(2))
			if i == 1 && c.random.IntN(3) == 0 { // a key with one call shows whether it is charged twice
				key = fmt.Sprintf("once %d %d %d", c.process.index, c.index, c.random.Int64())
				c.events.mu.Lock()
				c.events.once = append(c.events.once, key)
				c.events.mu.Unlock()
			}
			ctx, cancel := context.Background(), func() {}
			if c.hurries = c.random.IntN(10) == 0; c.hurries {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(c.random.Int64N(int64(50*time.Millisecond))))
			}
			begun := time.Now()
			allowed, cost, err := c.ask(ctx, l, key, rates[i].atMost)
			cancel()
			c.called(rules[0].Name(), key, begun, 2*timeout, err)
			for _, r := range rules {
				if !testkit.Compiled(r).Shadow {
					c.events.note(c.process, r, key, begun, allowed, cost, err)
				}
			}
			if err != nil {
				c.pause(5 * time.Millisecond)
			}
		}
	}
}

// ask makes a decision, and returns its cost.
func (c *client) ask(ctx context.Context, l *core.Limiter, key string, atMost bool) (bool, int, error) {
	if !atMost {
		d, err := l.Allow(ctx, key)
		return d.Allowed, 1, err
	}
	most := 1 + c.random.IntN(8)
	r, err := l.ReserveAtMost(ctx, key, most)
	if err != nil {
		return false, most, err
	}
	return r.Decision().Allowed, r.Cost(), nil
}

// note notes the result of a call about a rule.
func (l *ledger) note(p *process, r core.Rule, key string, begun time.Time, allowed bool, cost int, err error) {
	id := r.Name() + " " + key
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed[id] += cost
	case allowed:
		l.granted[id] += cost
		l.admitted(r, id, event{begun, time.Now(), cost})
	}
}

// admitted checks that no span of time that ends now has more events than documented.
func (l *ledger) admitted(r core.Rule, id string, e event) {
	limit, now := r.Limit(), time.Now()
	all, period := append(l.events[id], e), limit.Per
	if period < 0 {
		period = day
	}
	for len(all) > 0 && now.Sub(all[0].to) > 4*period {
		all = all[1:]
	}
	l.events[id] = all
	const many = 500
	if len(all) > many && len(all)%16 > 0 {
		return
	}
	count, from := 0, now
	for i := len(all) - 1; i >= 0; i-- {
		count += all[i].cost
		if all[i].from.Before(from) {
			from = all[i].from // all counted events have begun since
		}
		if len(all) > many && i%16 > 0 {
			continue
		}
		if most := l.most(r, from, now, period); float64(count) > most+1e-6 {
			l.s.violate(eventsInSpan, "%s: %d events in %v, at most %.1f may be admitted", id, count, now.Sub(from), most)
			return
		}
	}
}

// most returns how many events of r may be admitted in a span.
func (l *ledger) most(r core.Rule, from, to time.Time, period time.Duration) float64 {
	limit := float64(r.Limit().Events)
	periods := float64(to.Sub(from)) / float64(period)
	most := limit * (1 + periods) // of a bucket
	switch r.Algorithm() {
	case driver.SlidingLog, driver.SlidingWindow:
		most = limit * float64(int(periods)+1)
	case driver.FixedWindow, driver.Quota:
		most = limit * float64(int(periods)+2)
	}
	if l.s.plan.stores == resilient {
		most *= 2 // the backups of all processes: see Bounds in package failover
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for _, loss := range l.s.losses {
		if !loss.to.Before(from.Add(-2 * period)) {
			most += limit
		}
	}
	return most
}

// decideTogether decides about two keys together.
func (c *client) decideTogether() {
	for c.pause(c.plan.idle) {
		keys := [2]string{fmt.Sprint("address", c.random.IntN(20)), fmt.Sprint("user", c.random.IntN(20))}
		begun := time.Now()
		_, err := core.AllowTogether(context.Background(), core.Ask{Limiter: c.process.joint[0], Key: keys[0]}, core.Ask{Limiter: c.process.joint[1], Key: keys[1]})
		healthy := c.healthyFor(c.process, keys[1], healed)
		if c.called("AllowTogether", keys[0], begun, timeout, nil); err != nil && healthy && c.healthyFor(c.process, keys[0], healed) {
			c.violate(answered, "%v: a decision about %v failed although their servers are healthy: %v", c.process, keys, err)
		}
	}
}

// useMuch makes events with a large cost, which overload a server.
func (c *client) useMuch() {
	for c.pause(c.plan.idle) {
		key := fmt.Sprint("heavy", c.random.IntN(100))
		begun := time.Now()
		_, err := c.process.heavy.AllowN(context.Background(), key, 100)
		if errors.Is(err, driver.ErrOverloaded) || errors.Is(err, core.ErrUnavailable) {
			err = nil
		}
		c.called("AllowN", key, begun, timeout, err)
	}
}

// useHotKey uses one key in cycles: some use, then none until all tokens are back, and then as much as
// possible, in all processes at the same time.
func (c *client) useHotKey() {
	const cycle = 15 * time.Second
	for {
		pause, at := 5*time.Millisecond, time.Since(c.begin)%cycle
		switch {
		case at >= cycle-3*time.Second/2:
			pause = 300 * time.Microsecond
		case at > 3*time.Second/2:
			pause = cycle - 3*time.Second/2 - at
		}
		if !c.sleep(pause) {
			return
		}
		begun := time.Now()
		d, err := c.process.hot.Allow(context.Background(), "hot")
		c.called("Allow", "hot", begun, 2*timeout, err)
		c.events.note(c.process, bucket(c.plan.scale), "hot", begun, d.Allowed, 1, err)
	}
}

// check checks at the end that all events of the rates are forgotten, and that none was charged twice.
func (l *ledger) check(p *process) {
	h := keyhash.New(nil)
	spent := func(r core.Rule, key string) int {
		n := 0
		for _, s := range l.s.servers {
			s.mu.Lock()
			n += s.spends[spendName(h.Tag(key), testkit.Compiled(r).StateName)]
			s.mu.Unlock()
		}
		return n
	}
	if l.s.plan.load.rates == 0 {
		return
	}
	for i, rate := range rates {
		r := rate.rules(l.s.plan.scale)[0]
		for k := range 2 {
			key := fmt.Sprint("key", k)
			d, err := p.rates[i].Peek(context.Background(), key)
			if want := r.Limit().Events; err != nil || d.State(0).Remaining != want {
				l.s.violate(capacityBack, "at the end, %d events of %s %s are left, want %d: %v", d.State(0).Remaining, r.Name(), key, want, err)
			}
			if l.s.plan.stores != plain {
				continue
			}
			// Each charge has a caller who knows of it, or who got an error.
			id := r.Name() + " " + key
			l.mu.Lock()
			got, least, most := spent(r, key), l.granted[id], l.granted[id]+l.failed[id]
			l.mu.Unlock()
			if got < least || got > most {
				l.s.violate(chargedOnce, "%s: %d events were charged; %d were admitted and %d failed", id, got, least, most-least)
			}
		}
	}
	for _, key := range l.once {
		if n := spent(slidingLog(), key); n > 1 {
			l.s.violate(chargedOnce, "an event was charged %d times", n)
		}
	}
}
