package sim

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// A process has the stores and the limiters of a real one.
type process struct {
	index    int
	links    map[string]*link // by the address of the server
	rdb      redis.UniversalClient
	failover *resilient.Store // nil without failover
	places   *core.Limiter
	users    *core.Limiter
	rates    []*core.Limiter
	refunds  *core.Limiter
	joint    [2]*core.Limiter
	heavy    *core.Limiter
	hot      *core.Limiter
	paused   pausedLimiters
	banned   *core.Limiter
	crowd    [2]*core.Limiter // by the indexes of crowdRules
	set      *rules.Set
	dead     atomic.Bool
	changed  atomic.Int64 // when the store that decides has changed for the last time (ns)
	outage   span         // in which Redis is away, without its first second; guarded by the mutex of the world
}

// start starts a process, whose rules the servers learn.
func (s *simulation) start(t *testing.T, index int) *process {
	p := &process{index: index, links: map[string]*link{}}
	for _, n := range s.servers {
		p.links[n.addr] = &link{
			w: s.world, process: index, server: n, conns: map[*conn]struct{}{},
			base: 200*time.Microsecond + time.Duration(s.rand(int64(2*time.Millisecond), "base", index, n.index)),
		}
	}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return p.links[addr].dial(ctx) }
	noNotes := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if s.scenario.cluster {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{s.servers[0].addr, s.servers[1].addr}, Dialer: dial, PoolSize: s.scenario.pool, DisableIdentity: true, MaintNotificationsConfig: noNotes,
		})
		// go-redis holds a mutex while it asks for COMMAND, and a goroutine that waits for a mutex stops the
		// time of the bubble.
		_ = rdb.Do(context.Background(), "get", "a").Err()
		p.rdb = rdb
	} else {
		p.rdb = redis.NewClient(&redis.Options{
			Addr: s.servers[0].addr, Dialer: dial, PoolSize: s.scenario.pool, DisableIdentity: true, MaintNotificationsConfig: noNotes,
		})
	}
	var store, fast driver.Store
	switch s.scenario.stores {
	case withBackup:
		for _, r := range checkRules() {
			s.rules.add(testkit.Compiled(r))
		}
		p.failover = resilient.New(p.rdb, "test", resilient.Instances(s.scenario.processes), resilient.OnChange(func(from, to failover.State, _ error) {
			s.logf("p%d is %v, was %v", index, to, from)
			p.changed.Store(time.Now().UnixNano())
			healthy := 0
			for _, n := range s.servers {
				if time.Since(p.links[n.addr].healthySince()) > 2*time.Second {
					healthy++
				}
			}
			if s.scenario.cluster && to == failover.Backup && healthy >= 2 {
				s.violate(partInUse, "p%d does not use Redis, although %d of %d servers have been healthy for two seconds", index, healthy, len(s.servers))
			}
		}))
		store, fast = p.failover, lease.New(p.failover)
	case leased:
		store = denycache.New(redisstore.New(p.rdb, "test"))
		fast = lease.New(store)
	default:
		store = redisstore.New(p.rdb, "test")
		fast = store
	}
	limiter := func(store driver.Store, all ...core.Rule) *core.Limiter {
		for _, r := range all {
			s.rules.add(testkit.Compiled(r))
		}
		return testkit.Limiter(t, store, all...)
	}
	p.places = limiter(store, placeRule("places", places, s.scenario.hold))
	p.users = limiter(store, placeRule("users", usersPlaces, s.scenario.hold))
	for _, r := range rates {
		p.rates = append(p.rates, limiter(fast, r.rules(s.scenario.scale)...))
	}
	p.refunds = limiter(store, refundRules()...)
	p.joint = [2]*core.Limiter{limiter(store, jointRules[0]), limiter(store, jointRules[1])}
	p.heavy = limiter(store, core.SlidingLog("heavy", core.PerSecond(1_000_000)))
	p.hot = limiter(fast, bucket(s.scenario.scale))
	s.rules.add(testkit.Compiled(core.Pause(banRule().Name() + banName)))
	p.banned = limiter(fast, banRule())
	p.paused.open = limiter(fast, pauseRule(), pausedBucket())
	p.paused.places = limiter(store, pauseRule(), pausedLog(), placeRule("paused places", places, s.scenario.hold))
	for i, r := range crowdRules(s.scenario.hold) {
		p.crowd[i] = limiter(store, r)
	}
	if s.scenario.load.overrides > 0 {
		s.watch(t, p, store)
	}
	var warm sync.WaitGroup
	for range s.scenario.warm {
		warm.Go(func() { _ = p.rdb.Do(context.Background(), "ping").Err() })
	}
	warm.Wait()
	return p
}

func (p *process) close() {
	if p.failover != nil {
		_ = p.failover.Close()
	}
	_ = p.rdb.Close()
}

func (p *process) String() string { return fmt.Sprint("p", p.index) }

// healthyFor reports whether nothing was wrong for d between p and the server of a key, or all servers while slots
// are migrated: the key may be on two of them.
func (s *simulation) healthyFor(p *process, key string, d time.Duration) bool {
	s.mu.Lock()
	all := s.migrates()
	s.mu.Unlock()
	since := p.links[s.serverOf(key).addr].healthySince()
	for _, n := range s.servers {
		if other := p.links[n.addr].healthySince(); all && other.After(since) {
			since = other
		}
	}
	return time.Since(since) >= d
}

// migrates reports whether a slot is migrated, or was until a moment ago. It is called with mu.
func (s *simulation) migrates() bool { return s.moving > 0 || time.Since(s.moved) < 2*timeout }

// inOutage reports whether the backup decides.
func (p *process) inOutage() bool { return p.failover != nil && p.failover.State() == failover.Backup }

// primary reports whether no backup decides.
func (p *process) primary() bool { return p.failover == nil || p.failover.State() == failover.Primary }
