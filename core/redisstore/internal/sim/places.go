package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
)

// A book knows which events have places, as their processes see it.
type book struct {
	s       *simulation
	mu      sync.Mutex
	taken   map[string]int       // places that may be taken, except for those of calls without a reply
	unknown map[string]time.Time // of the last call without a reply
	freed   map[string]time.Time // when the last place was freed
	held    map[string]int       // events that believe that they have a place
	lost    int
}

func newBook(s *simulation) *book {
	return &book{s: s, taken: map[string]int{}, unknown: map[string]time.Time{}, freed: map[string]time.Time{}, held: map[string]int{}}
}

// placeKeys returns the keys of places.
func (s *simulation) placeKeys() (keys []string) {
	for i := range max(2, s.scenario.load.keys) {
		keys = append(keys, fmt.Sprint("key", i))
	}
	if s.scenario.load.keys == 1 {
		keys = keys[:1]
	}
	return keys
}

// unknownUntil notes that places of all keys may be taken without an event until a time.
func (b *book) unknownUntil(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range b.s.placeKeys() {
		b.unknown[key] = at
	}
}

func (b *book) asks(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken[key]++
}

// ended notes that an event has ended, and that its place is free if err is nil.
func (b *book) ended(key string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken[key]--
	b.freed[key] = time.Now()
	if err != nil {
		b.unknown[key] = time.Now()
	}
}

// denied checks that an event is denied only if its places may be taken. free is the time after which a place
// whose release had no reply is free.
func (b *book) denied(p *process, key string, begun time.Time, n int, free time.Duration, healthy bool) {
	b.mu.Lock()
	b.taken[key]--
	// Places of other calls under way count, too, as do those of calls without a reply.
	wrong := b.freed[key].Before(begun) && b.taken[key] < n && time.Since(b.unknown[key]) > free && time.Since(b.s.begin) > free
	taken := b.taken[key]
	b.mu.Unlock()
	if wrong && healthy && b.s.scenario.stores != withBackup && b.s.lossesWithin(3*b.s.scenario.hold) == 0 {
		b.s.violate(deniedRightly, "%v: an event of %s was denied although at most %d of %d places were taken", p, key, taken, n)
	}
}

// withdraw notes that a call has taken no place for another reason than that all are taken.
func (b *book) withdraw(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken[key]--
}

// failed notes that a call for a place had no reply.
func (b *book) failed(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken[key]--
	b.unknown[key] = time.Now()
}

// holds counts the places of events that run, and believe that they have them. limit is that of the key.
func (b *book) holds(key string, n, limit int) {
	losses := b.s.lossesWithin(3 * b.s.scenario.hold)
	b.mu.Lock()
	b.held[key] += n
	got := b.held[key]
	b.mu.Unlock()
	most := limit * (1 + losses)
	if b.s.scenario.stores == withBackup {
		most += limit
	}
	if n > 0 && got > most {
		b.s.violate(placesHeld, "events with %d places of %s run, at most %d may", got, key, most)
	}
}

// takePlaces takes places and frees them.
func (c *client) takePlaces() {
	b, keys := c.simulation.places, c.placeKeys()
	free := 2 * c.scenario.hold
	if slices.Contains(c.scenario.faults, "freezeLong") {
		free += 3 * c.scenario.hold // in which a call without a reply waits in the server
	}
	idle := c.scenario.idle
	for c.rest(idle) {
		idle = c.scenario.idle
		key := keys[c.random.IntN(len(keys))]
		begun := time.Now()
		b.asks(key)
		outage := c.process.inOutage()
		r, err := c.process.places.Reserve(context.Background(), key, 1)
		outage = outage && c.process.inOutage()
		c.called("Reserve", key, begun, timeout, err)
		if err != nil {
			b.failed(key)
			continue
		}
		if d := r.Decision(); !d.Allowed {
			b.denied(c.process, key, begun, places, free, true)
			if c.random.IntN(2) == 0 && d.RetryAfter < 3*c.scenario.hold && c.sleep(d.RetryAfter-3*time.Millisecond) {
				idle = time.Millisecond // it asks again around the moment in which a place may lapse
			}
			continue
		}
		b.holds(key, 1, places)
		timer := time.NewTimer(time.Duration(c.random.ExpFloat64() * float64(c.scenario.hold)))
		if c.scenario.chargeTime > 0 {
			timer.Reset(time.Duration(c.random.Int64N(int64(100 * time.Millisecond))))
		}
		select {
		case <-timer.C:
			b.holds(key, -1, places)
		case <-r.Lost():
			b.holds(key, -1, places)
			c.hasLost(key, outage)
		case <-c.ctx.Done():
			b.holds(key, -1, places)
		}
		timer.Stop()
		for try := range 3 {
			// In an overload, each of these may take too long.
			if err = c.release(r, key, try == 0 && c.scenario.chargeTime == 0 || try == 2); err == nil {
				break
			}
		}
		b.ended(key, err)
	}
}

// hasLost checks that the place was lost for a reason. own says that the backup in this process has granted it.
func (c *client) hasLost(key string, own bool) {
	b := c.simulation.places
	c.logf("%v.%d has lost its place of %s", c.process, c.index, key)
	b.mu.Lock()
	b.lost++
	b.unknown[key] = time.Now()
	b.mu.Unlock()
	if own {
		c.violate(placeKept, "%v has lost a place of %s that it had from its own memory", c.process, key)
	}
	healthy := c.scenario.hold + 2*time.Second
	if (c.healthyFor(c.process, key, healthy) || c.scenario.hold > time.Minute) && c.lossesWithin(3*c.scenario.hold) == 0 {
		c.violate(placeKept, "%v has lost a place of %s although its server was healthy for %v", c.process, key, healthy)
	}
}

// release frees the place of r.
func (c *client) release(r *core.Reservation, key string, strict bool) error {
	begun := time.Now()
	err := r.Release(context.Background())
	if c.took("Release", key, begun, timeout, err); err == nil {
		return nil
	}
	b := c.simulation.places
	b.mu.Lock()
	b.unknown[key] = time.Now()
	b.mu.Unlock()
	if strict && c.process.primary() && c.healthyFor(c.process, key, healed) && c.lossesWithin(3*c.scenario.hold) == 0 {
		c.violate(placeFreed, "%v: the release of %s failed although its server was healthy: %v", c.process, key, err)
	}
	return err
}

// useOwnPlaces takes places of a key that only two clients of this process use, one place each. The user has
// as many places, so no event may be denied, from two seconds after an outage on.
func (c *client) useOwnPlaces(user int) {
	b, key := c.simulation.places, fmt.Sprint("user", c.process.index, "-", user)
	for c.rest(c.scenario.idle) {
		begun := time.Now()
		b.asks(key)
		r, err := c.process.users.Reserve(context.Background(), key, 1)
		c.called("Reserve", key, begun, timeout, err)
		switch {
		case err != nil:
			b.failed(key)
			continue
		case !r.Decision().Allowed:
			b.denied(c.process, key, begun, usersPlaces, 2*time.Second, c.healthyFor(c.process, key, 2*time.Second))
			continue
		}
		c.sleep(20 * time.Millisecond)
		b.ended(key, c.release(r, key, true))
	}
}

// checkFree checks at the end that all places are free, for a new process.
func (b *book) checkFree(p *process) {
	for _, key := range b.s.placeKeys() {
		var all []*core.Reservation
		for range places + 1 {
			r, err := p.places.Reserve(context.Background(), key, 1)
			if err != nil {
				b.s.violate(placesBack, "at the end: %v", err)
				break
			}
			if r.Decision().Allowed {
				all = append(all, r)
			}
		}
		if len(all) != places {
			b.s.violate(placesBack, "at the end, %d places of %s are free, want %d", len(all), key, places)
		}
		for _, r := range all {
			_ = r.Release(context.Background())
		}
	}
}

// checkBackups checks at the end that all places of the backups are free, for which the server goes down. It
// stays down, so that the processes end during an outage.
func (b *book) checkBackups() {
	n := b.s.servers[0]
	n.mu.Lock()
	n.down = time.Now().Add(time.Hour)
	n.mu.Unlock()
	for _, p := range b.s.processes[:b.s.scenario.processes] {
		for _, l := range p.links {
			l.each((*conn).reset)
		}
		for range 100 {
			if p.failover.State() == failover.Backup {
				break
			}
			_, _ = p.rates[1].Allow(context.Background(), "outage")
			time.Sleep(50 * time.Millisecond)
		}
		for _, key := range b.s.placeKeys() {
			r, err := p.places.Reserve(context.Background(), key, 1)
			if err != nil || !r.Decision().Allowed {
				b.s.violate(placesBack, "at the end, %v has no place of %s in its backup, %v: %v", p, key, p.failover.State(), err)
				return
			}
			_ = r.Release(context.Background())
		}
	}
}
