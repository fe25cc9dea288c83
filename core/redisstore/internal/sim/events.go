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
	"github.com/weir-go/weir/internal/testkit"
)

// A ledger knows which events were admitted, as their callers see it.
type ledger struct {
	s       *simulation
	mu      sync.Mutex
	events  map[string][]event // admitted, by rule and key
	maybe   map[string][]event // charged, perhaps: calls that ended without a reply
	asking  map[string]int     // the cost of calls under way
	failed  map[string]int     // the cost of calls that ended without a reply
	granted map[string]int     // the cost of admitted calls
	once    []string           // keys with one call
}

// An event was admitted between two times.
type event struct {
	from, to time.Time
	cost     int
}

func newLedger(s *simulation) *ledger {
	return &ledger{
		s: s, events: map[string][]event{}, maybe: map[string][]event{}, asking: map[string]int{}, failed: map[string]int{}, granted: map[string]int{},
	}
}

// useRate makes events of a rate, of which some come in bursts.
func (c *client) useRate(i int) {
	l, rules := c.process.rates[i], rates[i].rules(c.scenario.scale)
	for c.rest(c.scenario.idle) {
		n := 1
		if c.random.IntN(20) == 0 {
			n = 40
		}
		for range n {
			key := fmt.Sprint("key", c.random.IntN(rateKeys))
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
			begun, most := time.Now(), 1
			if rates[i].atMost {
				most = 1 + c.random.IntN(8)
			}
			c.events.ask(rules, key, most)
			allowed, cost, err := c.ask(ctx, l, key, most, rates[i].atMost)
			cancel()
			c.events.ask(rules, key, -most)
			c.called(rules[0].Name(), key, begun, 2*timeout, err)
			for _, r := range rules {
				if !testkit.Compiled(r).Shadow {
					c.events.note(r, key, begun, allowed, cost, err)
				}
			}
			if err == nil && !allowed && i != jointRate {
				c.events.denied(c.process, rules[0], key)
			}
			if err != nil {
				c.rest(5 * time.Millisecond)
			}
		}
	}
}

// ask makes a decision, and returns its cost.
func (c *client) ask(ctx context.Context, l *core.Limiter, key string, most int, atMost bool) (bool, int, error) {
	if !atMost {
		d, err := l.Allow(ctx, key)
		return d.Allowed, 1, err
	}
	r, err := l.ReserveAtMost(ctx, key, most)
	if err != nil {
		return false, most, err
	}
	return r.Decision().Allowed, r.Cost(), nil
}

// ask notes that calls of a cost begin or, if it is negative, end.
func (l *ledger) ask(rules []core.Rule, key string, cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rules {
		l.asking[r.Name()+" "+key] += cost
	}
}

// note notes the result of a call about a rule.
func (l *ledger) note(r core.Rule, key string, begun time.Time, allowed bool, cost int, err error) {
	id := r.Name() + " " + key
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed[id] += cost
		l.maybe[id] = append(l.maybe[id], event{begun, time.Now(), cost})
	case allowed:
		l.granted[id] += cost
		l.admitted(r, id, event{begun, time.Now(), cost})
	}
}

// admitted checks that no span of time that ends now has more events than documented.
func (l *ledger) admitted(r core.Rule, id string, e event) {
	limit, now := r.Limit(), time.Now()
	all, period := append(l.events[id], e), limit.Per
	if limit.Calendar == core.Day {
		period = day
	}
	kept := 4 * period
	if l.s.scenario.stores == alone {
		kept = 12 * period // see denied
	}
	for len(all) > 0 && now.Sub(all[0].to) > kept {
		all = all[1:]
	}
	l.events[id] = all
	const many = 500
	if len(all) > many && len(all)%16 > 0 {
		return
	}
	count, from := 0, now
	for i := len(all) - 1; i >= 0 && now.Sub(all[i].to) <= 4*period; i-- {
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

// denied checks that an event is denied only if the limit may be used up.
func (l *ledger) denied(p *process, r core.Rule, key string) {
	if l.s.scenario.stores != alone || l.s.lossesWithin(time.Hour) > 0 {
		return // leases and backups deny for other reasons, too
	}
	id, span := r.Name()+" "+key, r.Limit().Per
	switch r.Algorithm() {
	case driver.SlidingWindow:
		span *= 2 // the oldest sub-window counts in full
	case driver.Quota:
		span = day
	case driver.TokenBucket:
		span *= 10 // it was not used up before, or as many events were admitted since
	}
	l.mu.Lock()
	used := l.asking[id]
	for i, all := range [][]event{l.events[id], l.maybe[id]} {
		for _, e := range all {
			// A call without a reply may have waited in a server that was frozen for up to 20 s.
			if time.Since(e.to) <= span+time.Second+time.Duration(i)*20*time.Second {
				used += e.cost
			}
		}
	}
	l.mu.Unlock()
	if used < r.Limit().Events {
		l.s.violate(deniedRightly, "%v: an event of %s was denied after %d of %d", p, id, used, r.Limit().Events)
	}
}

// most returns how many events of r may be admitted in a span.
func (l *ledger) most(r core.Rule, from, to time.Time, period time.Duration) float64 {
	limit := float64(r.Limit().Events + r.Spec().Rollover)
	periods := float64(to.Sub(from)) / float64(period)
	most := limit * (1 + periods) // of a bucket
	switch r.Algorithm() {
	case driver.SlidingLog, driver.SlidingWindow:
		most = limit * float64(int(periods)+1)
	case driver.FixedWindow, driver.Quota:
		most = limit * float64(int(periods)+2)
	}
	if l.s.scenario.stores == withBackup {
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

// jointRules are two limits that are decided together.
var jointRules = [2]core.Rule{core.SlidingLog("address", core.PerMinute(30)), core.TokenBucket("user", core.PerMinute(30))}

const jointKeys = 20

// decideTogether decides about two keys together.
func (c *client) decideTogether() {
	for c.rest(c.scenario.idle) {
		keys := [2]string{fmt.Sprint("address", c.random.IntN(jointKeys)), fmt.Sprint("user", c.random.IntN(jointKeys))}
		begun := time.Now()
		d, err := core.AllowTogether(context.Background(), core.Ask{Limiter: c.process.joint[0], Key: keys[0]}, core.Ask{Limiter: c.process.joint[1], Key: keys[1]})
		for i, key := range keys {
			c.events.note(jointRules[i], key, begun, d.Allowed, 1, err)
			if c.healthyFor(c.process, keys[1-i], c.scenario.healed) {
				c.called("AllowTogether", key, begun, timeout, err)
			}
		}
	}
}

// checkTogether checks at the end that the charges of denied decisions were undone.
func (l *ledger) checkTogether() {
	if l.s.scenario.load.joint == 0 || len(l.s.scenario.faults) > 0 {
		return
	}
	for i := range 2 * jointKeys {
		r, key := jointRules[i%2], fmt.Sprint([]string{"address", "user"}[i%2], i/2)
		if got, want := l.spent(r, key), l.granted[r.Name()+" "+key]; got != want {
			l.s.violate(deniedRightly, "%s: %d events are charged, and %d were admitted", key, got, want)
		}
	}
}

// useMuch makes events with a large cost, which overload a server.
func (c *client) useMuch() {
	for c.rest(c.scenario.idle) {
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
		c.events.note(bucket(c.scenario.scale), "hot", begun, d.Allowed, 1, err)
	}
}

// check checks at the end that all events of the rates are forgotten, and that none was charged twice.
func (l *ledger) check(p *process) {
	l.checkTogether()
	if l.s.scenario.load.rates == 0 {
		return
	}
	for i, rate := range rates {
		if i != quotaRate {
			l.checkLeft(p, i)
		}
		if l.s.scenario.stores != alone {
			continue
		}
		r := rate.rules(l.s.scenario.scale)[0]
		for k := range rateKeys {
			l.checkCharges(chargedOnce, r, fmt.Sprint("key", k))
		}
	}
	for _, key := range l.once {
		if n := l.spent(slidingLog(), key); n > 1 {
			l.s.violate(chargedOnce, "an event was charged %d times", n)
		}
	}
}

// checkCharges checks that each charge has a caller who knows of it, or who got an error.
func (l *ledger) checkCharges(i *invariant, r core.Rule, key string) {
	id := r.Name() + " " + key
	l.mu.Lock()
	got, least, most := l.spent(r, key), l.granted[id], l.granted[id]+l.failed[id]
	l.mu.Unlock()
	if got < least || got > most {
		l.s.violate(i, "%s: %d events were charged; %d were admitted and %d failed", id, got, least, most-least)
	}
}

// spent returns the events of a key that servers have counted.
func (l *ledger) spent(r core.Rule, key string) (n int) {
	h := keyhash.New(nil)
	for _, s := range l.s.servers {
		s.mu.Lock()
		n += s.spends[spendName(h.Tag(key), testkit.Compiled(r).StateName)]
		s.mu.Unlock()
	}
	return n
}

// checkLeft checks that nothing of a rate is in use.
func (l *ledger) checkLeft(p *process, i int) {
	r := rates[i].rules(l.s.scenario.scale)[0]
	for k := range rateKeys {
		key := fmt.Sprint("key", k)
		d, err := p.rates[i].Peek(context.Background(), key)
		want := r.Limit().Events
		if rest := d.State(0).Rule.Capacity() - want; rest > 0 && rest <= r.Spec().Rollover {
			want += rest
		}
		if err != nil || d.State(0).Remaining != want {
			l.s.violate(capacityBack, "at the end, %d events of %s %s are left, want %d: %v", d.State(0).Remaining, r.Name(), key, want, err)
		}
	}
}

// checkDenials checks at the end that no process goes on to deny.
func (l *ledger) checkDenials() {
	for _, p := range l.s.processes {
		if p.dead.Load() {
			continue
		}
		for i := range rates {
			if i == quotaRate || rates[i].atMost {
				continue
			}
			if d, err := p.rates[i].Allow(context.Background(), "key0"); err != nil || !d.Allowed {
				l.s.violate(capacityBack, "at the end, %v denies %s: %v %v", p, rates[i].rules(1)[0].Name(), d, err)
			}
		}
	}
}
