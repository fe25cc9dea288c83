package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
)

// pauses knows which keys are paused: in Redis exactly, and in the backups as far as the calls of their processes
// show.
type pauses struct {
	s    *simulation
	mu   sync.Mutex
	keys []*pausedKey
}

// A pausedKey is a key with a pause. Its fields are guarded by the mutex of pauses.
type pausedKey struct {
	name, tag string
	redis     timeline
	end       int64                // of the pause in Redis, by its clock (us)
	reset     time.Time            // when Redis has ended a pause for the last time
	calls     map[int64]*pauseCall // by their lengths in microseconds, which all differ
	backups   map[int]*pausedBackup
}

// A pauseCall is a call of Limiter.Pause with a length.
type pauseCall struct {
	executed bool // by Redis
	away     bool // Redis was away during the whole call
}

// A pausedBackup is the knowledge about a key in the backup of one process.
type pausedBackup struct {
	least, most   timeline  // the shortest and the longest pause that is possible
	pauses, ends  int       // calls under way that set or end a pause
	paused, ended time.Time // when the last of these calls has returned
	forgot        time.Time // when the last call that has ended a pause has returned: the process forgets denials
}

const (
	pausedKeys   = 2
	longestPause = 6 * time.Second // that clients ask for
	pauseEvery   = 3 * time.Second // between the calls of Limiter.Pause of a process, on average
	pauseWait    = 5 * time.Second // of a caller that waits for the end of a pause
	pauseNoticed = time.Second     // a caller that waits asks again after a second: another process may end the pause
	pauseUnclear = 30 * time.Second
)

func newPauses(s *simulation) *pauses {
	p := &pauses{s: s}
	for i := range pausedKeys {
		name := fmt.Sprint("paused", i)
		k := &pausedKey{name: name, tag: keyhash.New(nil).Tag(name), calls: map[int64]*pauseCall{}}
		k.backups = map[int]*pausedBackup{}
		for process := range s.scenario.processes {
			k.backups[process] = &pausedBackup{}
		}
		p.keys = append(p.keys, k)
	}
	return p
}

// pausedLimiters have one pause, and other rules beside it.
type pausedLimiters struct{ open, places *core.Limiter }

func pauseRule() core.Rule { return core.Pause("paused") }

// pausedBucket is never used up.
func pausedBucket() core.Rule {
	return core.TokenBucket("paused bucket", core.Limit{Events: 3000, Per: 10 * time.Second, Burst: 3000})
}

func pausedLog() core.Rule {
	return core.SlidingLog("paused log", core.Limit{Events: 40, Per: 10 * time.Second})
}

// of returns the key of a state in Redis.
func (p *pauses) of(c *charge) *pausedKey {
	for _, k := range p.keys {
		if k.tag == tagOf(c.key) {
			return k
		}
	}
	panic("sim: a pause of the unknown key " + c.key)
}

// unclear reports whether a server may have lost a pause, or its clock may have stepped during one. The rest of a
// pause is only corrected when it is read, which may take 20 s while the server is away.
func (p *pauses) unclear() bool { return p.s.lossesWithin(pauseUnclear) > 0 }

// adjusted notes that Redis has executed a charge at a time of its clock, and that left microseconds are left of the
// pause afterwards.
func (p *pauses) adjusted(c *charge, now, left int64) {
	if isCheck(c.key) || isBan(c.key) {
		return
	}
	unclear := p.unclear()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.of(c)
	switch {
	case c.Op == driver.Reset:
		k.end, k.reset = 0, time.Now()
		k.redis.set(time.Time{})
	case c.Op != driver.Debit || c.Pause == 0: // of Limiter.Debit, Credit and refunds
		if want := max(0, k.end-now); left != want && !unclear {
			p.s.violate(pauseUnchanged, "%s is paused for %d us after op %d, want %d us", k.name, left, c.Op, want)
		}
	default:
		call := k.calls[c.Pause.Microseconds()]
		switch {
		case call == nil:
			p.s.violate(pauseLength, "Redis has paused %s for %v, which nobody asked for", k.name, c.Pause)
			return
		case call.executed:
			p.s.violate(pauseLength, "Redis has paused %s twice for one call, for %v", k.name, c.Pause)
		case call.away:
			p.s.violate(pauseInOutage, "Redis has paused %s for %v after a call while it was away", k.name, c.Pause)
		}
		call.executed = true
		k.end = max(min(k.end, now+longestPause.Microseconds()), now+c.Pause.Microseconds())
		k.redis.set(later(k.redis.end(), time.Now().Add(c.Pause)))
	}
}

// read checks the time until the end of a pause (us), which Redis has read at a time of its clock.
func (p *pauses) read(c *charge, now, left int64) {
	if isCheck(c.key) || isBan(c.key) {
		return
	}
	unclear := p.unclear()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.of(c)
	switch want := max(0, k.end-now); {
	case unclear && left > longestPause.Microseconds():
		p.s.violate(pauseAfterStep, "%s is paused for %d us, and nobody asked for more than %v", k.name, left, longestPause)
	case !unclear && left != want:
		p.s.violate(pauseLength, "%s is paused for %d us, want %d us", k.name, left, want)
	}
}

// onlyRedis reports whether no backup can have decided about a key since a time.
func (c *client) onlyRedis(key string, since time.Time) bool {
	p := c.process
	return p.failover == nil ||
		p.primary() && time.Unix(0, p.changed.Load()).Before(since) && c.healthyFor(p, key, time.Since(since)+healed)
}

// onlyBackup reports whether only the backup can have decided since a time.
func (c *client) onlyBackup(since time.Time) bool {
	return c.process.inOutage() && time.Unix(0, c.process.changed.Load()).Before(since)
}

// cached is the age of the oldest decision that a process may repeat.
func (s *simulation) cached() time.Duration {
	if s.scenario.stores == alone {
		return 0
	}
	return denycache.DefaultMaxAge + 2*timeout
}

func (c *client) pausedKey() *pausedKey { return c.pauses.keys[c.random.IntN(pausedKeys)] }

// pauseKeys pauses keys, and ends pauses.
func (c *client) pauseKeys() {
	for c.rest(pauseEvery) {
		k := c.pausedKey()
		switch c.random.IntN(8) {
		case 0, 1:
			c.endPause(k, func(l *core.Limiter) error { return l.Pause(context.Background(), k.name, 0) })
		case 2:
			c.endPause(k, func(l *core.Limiter) error {
				_, err := c.process.paused.open.Reset(context.Background(), k.name)
				return err
			})
		case 3, 4:
			c.pauseKey(k, c.random.Int64N(500_000))
		default:
			c.pauseKey(k, c.random.Int64N(longestPause.Microseconds()))
		}
	}
}

// pauseKey pauses a key for about that number of microseconds.
func (c *client) pauseKey(k *pausedKey, length int64) {
	p, l, begun := c.pauses, c.pausedLimiter(), time.Now()
	p.mu.Lock()
	for length = max(1, length); k.calls[length] != nil; length-- {
	}
	d := time.Duration(length) * time.Microsecond
	call, b := &pauseCall{}, k.backups[c.process.index]
	k.calls[length] = call
	b.pauses++
	b.most.set(later(b.most.end(), begun.Add(d+2*timeout)))
	p.mu.Unlock()
	err := l.Pause(context.Background(), k.name, d-time.Duration(c.random.IntN(1000))) // which is rounded up
	c.called("Pause", k.name, begun, 2*timeout, err)
	onlyRedis, away := c.onlyRedis(k.name, begun), c.onlyBackup(begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	b.pauses--
	b.paused = time.Now()
	if err == nil && b.ends == 0 && b.ended.Before(begun) {
		b.least.set(later(b.least.end(), begun.Add(d)))
	}
	switch call.away = away; {
	case away && call.executed:
		c.violate(pauseInOutage, "Redis has executed a pause of %s by %v while it was away", k.name, c.process)
	case err == nil && onlyRedis && !call.executed:
		c.violate(pauseHolds, "%v has paused %s, but Redis has not", c.process, k.name)
	}
}

// endPause ends the pause of a key.
func (c *client) endPause(k *pausedKey, end func(l *core.Limiter) error) {
	p, begun := c.pauses, time.Now()
	p.mu.Lock()
	b := k.backups[c.process.index]
	b.ends++
	b.least.set(time.Time{})
	p.mu.Unlock()
	err := end(c.pausedLimiter())
	c.called("the end of a pause", k.name, begun, 2*timeout, err)
	onlyRedis := c.onlyRedis(k.name, begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	b.ends--
	b.ended = time.Now()
	if err == nil {
		b.forgot = b.ended
	}
	if err == nil && b.pauses == 0 && b.paused.Before(begun) {
		b.most.set(time.Time{})
	}
	if err == nil && onlyRedis && k.reset.Before(begun) {
		c.violate(pauseEnded, "%v has ended the pause of %s, but Redis has not", c.process, k.name)
	}
}

// pausedLimiter returns one of the limiters, which share the pause.
func (c *client) pausedLimiter() *core.Limiter {
	if c.random.IntN(2) == 0 {
		return c.process.paused.open
	}
	return c.process.paused.places
}

// askPausedKey makes decisions of all kinds about a key with a pause.
func (c *client) askPausedKey() {
	l := c.process.paused.open
	for c.rest(c.scenario.idle) {
		k, begun := c.pausedKey(), time.Now()
		var d core.Decision
		var err error
		switch c.random.IntN(9) {
		case 0:
			d, err = l.Peek(context.Background(), k.name)
		case 1:
			d, err = l.AllowN(context.Background(), k.name, 0)
		case 2:
			d, err = l.AllowN(context.Background(), k.name, 5)
		case 3:
			var r *core.Reservation
			if r, err = l.ReserveAtMost(context.Background(), k.name, 8); err == nil {
				d = r.Decision()
			}
		case 4:
			c.adjustPausedKey(k)
			continue
		default:
			d, err = l.Allow(context.Background(), k.name)
		}
		c.called("a decision", k.name, begun, 2*timeout, err)
		if err == nil {
			c.decided(k, begun, d)
		}
	}
}

// adjustPausedKey changes the charges of the rule beside the pause.
func (c *client) adjustPausedKey(k *pausedKey) {
	l, begun := c.process.paused.open, time.Now()
	var err error
	switch c.random.IntN(3) {
	case 0:
		err = l.Debit(context.Background(), k.name, 3)
	case 1:
		err = l.Credit(context.Background(), k.name, 3)
	default:
		var r *core.Reservation
		r, err = l.Reserve(context.Background(), k.name, 5)
		if c.called("Reserve", k.name, begun, 2*timeout, err); err != nil {
			return
		}
		c.decided(k, begun, r.Decision())
		c.sleep(time.Duration(c.random.Int64N(int64(time.Second))))
		begun = time.Now()
		err = r.Settle(context.Background(), c.random.IntN(10))
	}
	c.called("a change of the charges", k.name, begun, 2*timeout, err)
}

// decided checks a decision that was made since a time.
func (c *client) decided(k *pausedKey, since time.Time, d core.Decision) {
	switch s, _ := d.StateOf(pauseRule().Name()); {
	case s.Unknown:
	case s.Allowed:
		if s.Limit() != core.Unlimited {
			c.violate(pauseState, "%v: %s is not paused, and has the limit %v", c.process, k.name, s.Limit())
		}
		c.admitted(k, since)
	case s.Limit() != core.Blocked || s.ResetAfter != s.RetryAfter || s.Window != s.RetryAfter,
		d.RetryAfter < s.RetryAfter, d.Allowed:
		c.violate(pauseState, "%v: %s is paused, with the limit %v, RetryAfter %v, ResetAfter %v and Window %v: %v",
			c.process, k.name, s.Limit(), s.RetryAfter, s.ResetAfter, s.Window, d)
	default:
		c.denied(k, since, s.RetryAfter)
	}
}

// admitted checks an event that no pause has denied.
func (c *client) admitted(k *pausedKey, since time.Time) {
	p, now, unclear := c.pauses, time.Now(), c.pauses.unclear()
	onlyRedis, onlyBackup := c.onlyRedis(k.name, since), c.onlyBackup(since)
	p.mu.Lock()
	defer p.mu.Unlock()
	inRedis, here := k.redis.always(since, now), k.backups[c.process.index].least.always(since, now)
	switch {
	case inRedis && onlyRedis && !unclear:
		c.violate(pauseHolds, "%v: an event of %s was admitted, which is paused until %v",
			c.process, k.name, k.redis.end().Sub(c.begin))
	case here && (onlyBackup || inRedis && !unclear):
		c.violate(pauseAtBackup, "%v: an event of %s was admitted, which this process has paused until %v",
			c.process, k.name, k.backups[c.process.index].least.end().Sub(c.begin))
	}
}

// denied checks an event that a pause has denied.
func (c *client) denied(k *pausedKey, since time.Time, retryAfter time.Duration) {
	p, now, unclear, from := c.pauses, time.Now(), c.pauses.unclear(), since.Add(-c.cached())
	onlyRedis := c.onlyRedis(k.name, from)
	p.mu.Lock()
	defer p.mu.Unlock()
	b := k.backups[c.process.index]
	if from.Before(b.forgot) {
		from = earlier(b.forgot, since)
	}
	latest, earliest := k.redis.latest(from, now), k.redis.earliest(from, now)
	if !onlyRedis {
		latest = later(latest, b.most.latest(from, now))
	}
	late := time.Microsecond // the clock of a server counts whole microseconds
	if c.cached() > 0 {
		late = timeout // the verdict took as long to arrive
	}
	switch {
	case unclear && retryAfter > longestPause:
		c.violate(pauseAfterStep, "%v: %s is paused for %v, and nobody asked for more than %v",
			c.process, k.name, retryAfter, longestPause)
	case unclear:
	case latest.IsZero():
		c.violate(pauseEnded, "%v: an event of %s was denied, which is not paused", c.process, k.name)
	case retryAfter > latest.Sub(since)+late:
		c.violate(pauseExact, "%v: %s is paused for %v, want %v at most", c.process, k.name, retryAfter, latest.Sub(since))
	case onlyRedis && retryAfter < earliest.Sub(now)-time.Microsecond:
		c.violate(pauseExact, "%v: %s is paused for %v, want %v at least", c.process, k.name, retryAfter, earliest.Sub(now))
	}
}

// decidePausedTogether decides about a key with a pause and another key together, which a Cluster has on different
// servers.
func (c *client) decidePausedTogether() {
	for c.rest(c.scenario.idle) {
		k, begun, address := c.pausedKey(), time.Now(), pausedAddress(c.random.IntN(jointKeys))
		d, err := core.AllowTogether(context.Background(),
			core.Ask{Limiter: c.process.joint[0], Key: address}, core.Ask{Limiter: c.process.paused.open, Key: k.name})
		c.called("AllowTogether", k.name, begun, timeout, err)
		c.events.note(jointRules[0], address, begun, d.Allowed, 1, err)
		if err == nil {
			c.decided(k, begun, d)
		}
	}
}

func pausedAddress(i int) string { return fmt.Sprint("paused address", i) }

// reservePausedKey takes places of a key with a pause.
func (c *client) reservePausedKey() {
	for c.rest(c.scenario.idle) {
		k, begun := c.pausedKey(), time.Now()
		c.places.asks(k.name)
		c.events.ask([]core.Rule{pausedLog()}, k.name, 1)
		outage := c.process.inOutage()
		r, err := c.process.paused.places.Reserve(context.Background(), k.name, 1)
		outage = outage && c.process.inOutage()
		c.events.ask([]core.Rule{pausedLog()}, k.name, -1)
		c.called("Reserve", k.name, begun, timeout, err)
		c.events.note(pausedLog(), k.name, begun, err == nil && r.Decision().Allowed, 1, err)
		if err != nil {
			c.places.failed(k.name)
			continue
		}
		d := r.Decision()
		c.decided(k, begun, d)
		if d.Allowed {
			c.hold(k, r, outage)
			continue
		}
		if s := d.State(1); !s.Allowed && !s.Unknown {
			c.events.denied(c.process, pausedLog(), k.name)
		}
		if s := d.State(2); !s.Allowed && !s.Unknown {
			c.places.denied(c.process, k.name, begun, places, 2*c.scenario.hold, true)
		} else {
			c.places.withdraw(k.name)
		}
	}
}

// hold is an event with a place. outage says whether the backup has granted it.
func (c *client) hold(k *pausedKey, r *core.Reservation, outage bool) {
	c.places.holds(k.name, 1, places)
	timer := time.NewTimer(time.Duration(c.random.Int64N(int64(300 * time.Millisecond))))
	lost := false
	select {
	case <-timer.C:
	case <-r.Lost():
		lost = true
	case <-c.ctx.Done():
	}
	timer.Stop()
	c.places.holds(k.name, -1, places)
	if lost {
		c.hasLost(k.name, outage)
	}
	c.places.ended(k.name, c.release(r, k.name, true))
}

// waitForPausedKey waits for the end of pauses.
func (c *client) waitForPausedKey() {
	for c.rest(c.scenario.idle) {
		if c.random.IntN(2) == 0 {
			c.acquirePausedKey(c.pausedKey())
			continue
		}
		k, begun := c.pausedKey(), time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), pauseWait)
		err := c.process.paused.open.Wait(ctx, k.name)
		cancel()
		c.took("Wait", k.name, begun, pauseWait+2*timeout, err)
		if err == nil {
			c.admitted(k, later(begun, time.Now().Add(-2*timeout-10*time.Millisecond)))
		}
		c.waited(k, begun, err)
	}
}

// waited checks that a Wait returns soon after the end of a pause.
func (c *client) waited(k *pausedKey, begun time.Time, err error) {
	p, now := c.pauses, time.Now()
	if p.unclear() || !c.onlyRedis(k.name, begun) || !c.healthyFor(c.process, k.name, now.Sub(begun)+healed) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, core.ErrDeadlineTooNear):
		latest, deadline := k.redis.latest(begun.Add(-c.cached()), now), begun.Add(pauseWait)
		if latest.Before(deadline.Add(-2 * timeout)) {
			c.violate(pauseWaits, "%v: Wait of %s: %v, although the pause ended %v before the deadline",
				c.process, k.name, err, deadline.Sub(latest))
		}
	case err == nil || errors.Is(err, context.DeadlineExceeded):
		over := later(begun, k.redis.over(pauseNoticed+c.cached()))
		if d := now.Sub(over); d > 2*timeout {
			c.violate(pauseWaits, "%v: Wait of %s has returned %v after the end of the pause: %v", c.process, k.name, d, err)
		}
	default:
		c.violate(available, "%v: Wait of %s failed although its server is healthy: %v", c.process, k.name, err)
	}
}

// acquirePausedKey waits for a place and for the end of a pause.
func (c *client) acquirePausedKey(k *pausedKey) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := time.AfterFunc(pauseWait, cancel)
	begun := time.Now()
	c.places.asks(k.name)
	c.events.ask([]core.Rule{pausedLog()}, k.name, 1)
	outage := c.process.inOutage()
	r, err := c.process.paused.places.Acquire(ctx, k.name)
	outage = outage && c.process.inOutage()
	late.Stop()
	c.events.ask([]core.Rule{pausedLog()}, k.name, -1)
	c.took("Acquire", k.name, begun, pauseWait+2*timeout, err)
	last := later(begun, time.Now().Add(-2*timeout)) // when the last decision began, or before
	c.events.note(pausedLog(), k.name, last, err == nil, 1, err)
	switch {
	case err == nil:
		c.decided(k, last, r.Decision())
		c.hold(k, r, outage)
	case errors.Is(err, context.Canceled): // while it had no place
		c.places.withdraw(k.name)
	default:
		c.places.failed(k.name)
	}
}

// checkEnded checks at the end that no key is paused in any process, and that denied events were not charged.
func (p *pauses) checkEnded() {
	if p.s.scenario.load.pauses == 0 {
		return
	}
	for _, k := range p.keys {
		for _, process := range p.s.processes {
			d, err := process.paused.open.Allow(context.Background(), k.name)
			if s := d.State(0); err != nil || !d.Allowed || s.Limit() != core.Unlimited {
				p.s.violate(pauseEnded, "at the end, %v has %s paused: %v %v", process, k.name, d, err)
			}
		}
		if p.s.scenario.stores == alone {
			p.s.events.checkCharges(pauseCharges, pausedLog(), k.name)
		}
	}
	for i := range jointKeys {
		p.s.events.checkCharges(pauseCharges, jointRules[0], pausedAddress(i))
	}
}
