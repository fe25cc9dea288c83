package sim

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
)

// A simulation is a run of a scenario with a seed.
type simulation struct {
	*world
	scenario  scenario
	faults    []fault
	processes []*process
	places    *book
	events    *ledger
	refunds   *refunds
	pauses    *pauses
	bans      bans
	blocks    *blocks
	crowd     *crowd
	slowest   time.Duration
	watching  []func() // end the goroutines that watch rules
}

// healed is the time after a fault from which on nothing may fail: the ReadTimeout of go-redis of connections
// that have died, pauses before it dials again, and the return of a breaker.
const healed = 7 * time.Second

// emptyPools empties all pools of the process. Timers and channels of a bubble may not be used in another one
// or outside.
func emptyPools() {
	for range 2 {
		runtime.GC()
	}
}

// run runs a scenario with a seed, without the faults in drop.
func run(t *testing.T, p scenario, seed uint64, drop []int, verbose bool) (s *simulation) {
	emptyPools()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would change the order of goroutines
	synctest.Test(t, func(t *testing.T) {
		for range seed % 4096 {
			_ = rand.Uint64() // with the runtime of .ci/exact, random numbers then depend on the seed
		}
		p.scale, p.hold, p.healed = max(1, p.scale), max(p.hold, time.Second), cmp.Or(p.healed, healed)
		s = &simulation{world: newWorld(seed), scenario: p}
		s.verbose = verbose
		s.places, s.events, s.refunds, s.pauses, s.blocks = newBook(s), newLedger(s), newRefunds(s), newPauses(s), newBlocks()
		s.crowd = newCrowd(s)
		for i, f := range schedule(p, seed) {
			if !slices.Contains(drop, i) {
				s.faults = append(s.faults, f)
			}
		}
		s.run(t)
	})
	return s
}

func (s *simulation) run(t *testing.T) {
	for i := range s.scenario.servers {
		n := newServer(s.world, i)
		n.chargeTime, n.oneSlotOnly, n.granted, n.undone = s.scenario.chargeTime, s.scenario.oneSlot, s.refunds.granted, s.refunds.undone
		n.paused = s.pauses
		if s.scenario.load.waits > 0 {
			n.crowd = s.crowd
		}
		if s.scenario.apart {
			n.clock = time.Duration(s.rand(int64(20*time.Minute), "apart", i)) - 10*time.Minute
		}
		s.servers = append(s.servers, n)
	}
	if s.scenario.cluster {
		all := newSlots(s.servers)
		for _, n := range s.servers {
			n.slots = all
		}
	}
	for i := range s.scenario.processes {
		s.processes = append(s.processes, s.start(t, i))
	}
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for _, p := range s.processes {
		s.clients(ctx, &clients, p)
	}
	var checks []*time.Timer
	for i, f := range s.faults {
		time.Sleep(time.Until(s.begin.Add(f.at)))
		if s.over() {
			break
		}
		s.logf("fault %d: %v", i, f)
		s.happen(f)
		checks = append(checks, s.watchBreakers(f)...)
	}
	for !s.over() && time.Since(s.begin) < s.scenario.length {
		time.Sleep(s.scenario.length / 300)
	}
	for _, c := range checks {
		c.Stop()
	}
	stop()
	clients.Wait()
	s.stopWatching()
	if !s.over() {
		s.end(t)
	}
	for _, p := range s.processes {
		p.close()
	}
	time.Sleep(80 * time.Second) // package testing/synctest fails if a goroutine is left then; a Store listens for a minute
}

// clients starts the clients of a process.
func (s *simulation) clients(ctx context.Context, all *sync.WaitGroup, p *process) {
	number := uint64(0)
	start := func(n int, f func(c *client)) {
		for i := range n {
			number++
			c := &client{simulation: s, ctx: ctx, process: p, index: i, random: rand.New(rand.NewPCG(s.seed, 1000*uint64(p.index)+number))}
			all.Go(func() { f(c) })
		}
	}
	l := &s.scenario.load
	start(l.places, (*client).takePlaces)
	for i := range 2 * l.users {
		start(1, func(c *client) { c.useOwnPlaces(i / 2) })
	}
	for i := range rates {
		if len(l.only) == 0 || slices.Contains(l.only, i) {
			start(l.rates, func(c *client) { c.useRate(i) })
		}
	}
	start(l.refunds, (*client).refund)
	start(l.joint, (*client).decideTogether)
	start(l.heavy, (*client).useMuch)
	start(l.hot, (*client).useHotKey)
	start(l.waits, (*client).waitForPlaces)
	if l.pauses > 0 {
		start(1, (*client).pauseKeys)
		start(l.pauses, (*client).askPausedKey)
		start(l.pauses, (*client).reservePausedKey)
		start(l.pauses, (*client).waitForPausedKey)
		start(l.joint, (*client).decidePausedTogether)
	}
	if l.bans > 0 {
		start(l.bans, (*client).useGreedily)
		if p.index == 0 {
			start(1, (*client).useModestly)
		}
	}
	if l.overrides > 0 {
		start(l.overrides, (*client).useBlockedKey)
		if p.index == 0 {
			start(1, (*client).block)
		}
	}
}

// A client makes calls, one after the other.
type client struct {
	*simulation
	ctx     context.Context // ends with the load
	process *process
	index   int
	random  *rand.Rand
	hurries bool // the present call has a deadline of its own
}

// rest sleeps for mean on average, and reports whether the load goes on.
func (c *client) rest(mean time.Duration) bool {
	return c.sleep(time.Duration(c.random.ExpFloat64() * float64(mean)))
}

func (c *client) sleep(d time.Duration) bool {
	return sleep(c.ctx, d) && c.ctx.Err() == nil && !c.process.dead.Load() && !c.over()
}

// took notes a call, checks how long it took, and returns that.
func (c *client) took(what, key string, begun time.Time, most time.Duration, err error) time.Duration {
	d := time.Since(begun)
	c.mu.Lock()
	c.calls++
	c.slowest = max(c.slowest, d)
	c.mu.Unlock()
	c.logf("%v.%d %s of %s: %v", c.process, c.index, what, key, err)
	if d > most+10*time.Millisecond {
		c.violate(inTime, "%v: %s took %v", c.process, what, d)
	}
	return d
}

// called is took for a call that may not fail without a reason, such as a deadline of its caller.
func (c *client) called(what, key string, begun time.Time, most time.Duration, err error) {
	d := c.took(what, key, begun, most, err)
	c.mu.Lock()
	away := c.process.outage
	c.mu.Unlock()
	if away.from.Before(begun) && time.Now().Before(away.to) && d > timeout/2 {
		c.violate(breakerOpens, "%v: %s took %v although Redis has been away for a second", c.process, what, d)
	}
	if err != nil && !c.mayFail(err) && c.healthyFor(c.process, key, c.scenario.healed) {
		c.violate(available, "%v: %s of %s failed although its server is healthy: %v", c.process, what, key, err)
	}
}

// mayFail reports whether a call may fail although its server is healthy: if that is too slow, if the caller
// has a deadline of its own, and if keys of the call are on two nodes because their slot is migrated, which
// go-redis waits for.
func (c *client) mayFail(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scenario.chargeTime > 0 || c.hurries && (errors.Is(err, driver.ErrOverloaded) || errors.Is(err, context.DeadlineExceeded)) ||
		c.migrates() && (strings.Contains(err.Error(), "TRYAGAIN") || errors.Is(err, context.DeadlineExceeded))
}

// watchBreakers checks after a fault that the breaker opens and closes in time.
func (s *simulation) watchBreakers(f fault) (checks []*time.Timer) {
	if s.scenario.stores != withBackup || s.scenario.cluster {
		return nil
	}
	checks = append(checks, time.AfterFunc(f.lasts+6*time.Second, func() {
		for _, p := range s.processes {
			// A dial may wait two seconds for the next packet, and after relapses four probes have to succeed.
			since := p.links[s.servers[0].addr].healthySince()
			if d := time.Since(since); d > 5*time.Second && p.failover.State() == failover.Backup {
				s.violate(breakerCloses, "%v has not returned to Redis %v after the outage", p, d)
			}
		}
	}))
	if f.lasts < 2*time.Second || s.scenario.idle > timeout || s.scenario.load.rates == 0 {
		return checks // too few calls
	}
	for _, p := range s.processes {
		if f.kind == "partition" && (f.process < 0 || f.process == p.index) || f.kind == "freeze" || f.kind == "crash" {
			checks = append(checks, time.AfterFunc(time.Second, func() {
				if p.failover.State() == failover.Primary {
					s.violate(breakerOpens, "%v still uses Redis a second after %v", p, f)
				}
			}))
			s.mu.Lock()
			p.outage = span{time.Now().Add(time.Second), time.Now().Add(f.lasts)}
			s.mu.Unlock()
		}
	}
	return checks
}

// end checks that the whole capacity comes back when all events have ended.
func (s *simulation) end(t *testing.T) {
	for _, n := range s.servers {
		n.mu.Lock()
		n.frozen, n.down, n.failure, n.noMemory, n.scriptTime, n.chargeTime = time.Time{}, time.Time{}, "", false, scriptTime, 0
		n.mu.Unlock()
	}
	time.Sleep(3*s.scenario.hold + 75*time.Second) // the longest period is a minute, except for quotas
	fresh := s.start(t, len(s.processes))
	s.processes = append(s.processes, fresh)
	s.places.checkFree(fresh)
	s.crowd.checkFree(fresh)
	s.refunds.checkFree(fresh)
	s.pauses.checkEnded()
	s.events.check(fresh)
	s.events.checkDenials()
	s.stopWatching()
	for _, p := range s.processes {
		if p.failover != nil {
			_ = p.failover.Close() // a day of heartbeats takes a second; the Store still decides
		}
	}
	time.Sleep(day) // quotas begin again
	s.events.checkLeft(fresh, quotaRate)
	if s.scenario.stores == withBackup && !s.scenario.cluster {
		s.places.checkBackups()
	}
}
