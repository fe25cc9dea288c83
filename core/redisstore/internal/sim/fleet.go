package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

// A fleet is the processes of an application, which begin, end and are cut off while Redis fails. It knows which
// heartbeats Redis has executed, and checks the numbers that the processes have read.
type fleet struct {
	*world
	t       *testing.T
	random  *rand.Rand
	members []*member
	cleared []time.Time // when Redis has lost the heartbeats, or its clock has stepped
	changed time.Time   // when something happened for the last time, or its end
	checked int         // outages
	changes int         // of switches
	off     bool        // the limits of api are off in Redis
	offAt   time.Time   // since when off has its value
	told    uint64      // decisions in Redis
}

// A member is a process of a fleet.
type member struct {
	*link
	rules  map[string]*core.Limiter
	store  *resilient.Store
	number func(rule string) int
	rdb    *redis.Client
	alive  atomic.Bool
	stop   context.CancelFunc

	beats []beat // that Redis has executed
}

// A beat is a heartbeat.
type beat struct {
	at    time.Time
	rules string // JSON
	read  bool   // the reply has certainly arrived
}

const (
	fleetLimit = 1000 // an hour
	// settled is the time after which each process has the right numbers: a process without a heartbeat is forgotten after
	// 30 s and a heartbeat of its group, and a reading counts for two heartbeats and a window of 15 s.
	settled = 90 * time.Second
	// readingWindow is a little less than that of package processes.
	readingWindow = 14 * time.Second
)

// fleetRules are the rules of processes of two kinds.
var fleetRules = [][]string{{"api", "login"}, {"api"}}

func newFleet(t *testing.T, seed uint64) *fleet {
	f := &fleet{world: newWorld(seed), t: t, random: rand.New(rand.NewPCG(seed, 2)), changed: time.Now()}
	s := newServer(f.world, 0)
	s.heard = f.heard
	f.servers = []*server{s}
	for _, r := range checkRules() {
		f.rules.add(testkit.Compiled(r))
	}
	return f
}

// start starts a process.
func (f *fleet) start() {
	m := &member{rules: map[string]*core.Limiter{}}
	m.link = &link{w: f.world, process: len(f.members), server: f.servers[0], conns: map[*conn]struct{}{}, base: time.Millisecond}
	m.rdb = redis.NewClient(&redis.Options{
		Addr: m.server.addr, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return m.dial(ctx) },
		PoolSize: 5, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	m.store = resilient.New(m.rdb, "test")
	m.number = numberOf(m.store)
	for _, name := range fleetRules[f.random.IntN(len(fleetRules))] {
		r := core.SlidingLog(name, core.PerHour(fleetLimit))
		f.rules.add(testkit.Compiled(r))
		m.rules[name] = testkit.Limiter(f.t, m.store, r)
	}
	m.alive.Store(true)
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	go func() { // the breaker needs calls
		for key := range 1 << 30 {
			if !sleep(ctx, 300*time.Millisecond) {
				return
			}
			_, _ = m.rules["api"].Allow(ctx, fmt.Sprint("call ", m.process, key%100))
		}
	}()
	f.members = append(f.members, m)
	f.logf("p%d has begun", m.process)
}

// declare gives a process a rule more.
func (m *member) declare(f *fleet, name string) {
	if m.rules[name] == nil && m.alive.Load() {
		r := core.SlidingLog(name, core.PerHour(fleetLimit))
		f.rules.add(testkit.Compiled(r))
		l := testkit.Limiter(f.t, m.store, r)
		f.servers[0].mu.Lock()
		m.rules[name] = l
		f.servers[0].mu.Unlock()
	}
}

// numberOf returns the function with the numbers of the primary of s.
func numberOf(s driver.Store) func(rule string) int {
	d := driver.Describe(s)
	for _, behind := range d.Behind {
		if f := numberOf(behind); f != nil {
			return f
		}
	}
	return d.Processes
}

// heard notes a heartbeat that Redis executes. It is called with the mutex of the server.
func (f *fleet) heard(argv []string) {
	m := f.members[f.servers[0].client.l.process]
	if argv[0] == "check" || argv[1] == "" || !m.alive.Load() { // of package diagnose, or an end
		return
	}
	now := time.Now()
	m.beats = append(m.beats, beat{now, argv[1], !f.servers[0].badUntil.After(now) && !m.badUntil.After(now)})
}

// happen makes something happen.
func (f *fleet) happen() {
	s, d := f.servers[0], time.Duration(f.random.Int64N(int64(70*time.Second)))
	alive := f.alive()
	m := alive[f.random.IntN(len(alive))]
	kind := [...]string{"begin", "begin", "three begin", "end", "kill", "cut", "lose replies", "freeze", "crash", "slow", "flush", "step on", "step back", "full", "loading", "read-only", "declare", "all declare", "off", "off", "on"}[f.random.IntN(21)]
	f.logf("p%d: %s, %v", m.process, kind, d)
	until := time.Now().Add(d)
	cut := func(change func()) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.bad(until.Add(processes.Deadline))
		change()
	}
	fails := func(change func(on bool)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		change(true)
		s.bad(until.Add(processes.Deadline))
		time.AfterFunc(d, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			change(false)
		})
	}
	switch kind {
	case "begin":
		f.start()
	case "three begin":
		for range 3 {
			f.start()
		}
	case "end":
		if len(alive) > 1 {
			m.end()
		}
	case "kill":
		if len(alive) > 1 {
			m.alive.Store(false)
			m.stop()
			m.mu.Lock()
			m.gone = true
			m.mu.Unlock()
			m.each((*conn).reset)
		}
	case "cut":
		cut(func() { m.dropsOut, m.dropsBk, m.silent = until, until, until })
	case "lose replies":
		cut(func() { m.dropsBk = until })
	case "freeze":
		s.mu.Lock()
		s.frozen = until
		s.bad(until.Add(processes.Deadline))
		s.mu.Unlock()
	case "crash":
		s.mu.Lock()
		s.down, s.queue = until, nil
		clear(s.scripts)
		s.mu.Unlock()
		for _, m := range alive {
			m.each((*conn).reset)
		}
	case "slow":
		fails(func(on bool) {
			if s.scriptTime = scriptTime; on {
				s.scriptTime = 200 * time.Millisecond
			}
		})
	case "flush":
		s.mu.Lock()
		s.flush()
		f.cleared = append(f.cleared, time.Now())
		s.mu.Unlock()
		until = time.Now()
	case "step on", "step back":
		s.mu.Lock()
		if d *= time.Duration(1 + f.random.IntN(100)); kind == "step back" {
			d = -d
		}
		s.clock += d
		f.cleared = append(f.cleared, time.Now())
		s.mu.Unlock()
	case "off", "on":
		text := ""
		if f.changes++; kind == "off" {
			text = `,"off":[{"rule":"api"}]`
		}
		s.mu.Lock()
		s.keyspace.execute("hset", []string{switches, "all", fmt.Sprintf(`{"change":%d%s}`, f.changes, text)}, s.now())
		s.mu.Unlock()
		until = time.Time{}
	case "declare":
		for range 1 + f.random.IntN(3) { // soon after each other
			m.declare(f, fmt.Sprint("rule ", f.random.IntN(5)))
			time.Sleep(1200 * time.Millisecond)
		}
	case "all declare":
		for _, m := range alive {
			m.declare(f, "common")
		}
	case "full":
		fails(func(on bool) { s.noMemory = on })
	case "loading", "read-only":
		fails(func(on bool) {
			if s.failure = ""; on {
				s.failure = map[string]string{"loading": "LOADING Redis is loading", "read-only": "READONLY You can't write"}[kind]
			}
		})
	}
	if until.After(f.changed) {
		f.changed = until
	}
}

// end ends a process in order.
func (m *member) end() {
	m.alive.Store(false)
	m.stop()
	_ = m.store.Close()
}

func (f *fleet) alive() (all []*member) {
	for _, m := range f.members {
		if m.alive.Load() {
			all = append(all, m)
		}
	}
	return all
}

// counted returns the processes with the rule that m has counted: those of the one of its readings of a window that shows
// most of them.
func (f *fleet) counted(m *member, rule string) (most []*member) {
	for i, reading := range m.beats {
		if i+1 < len(m.beats) && m.beats[len(m.beats)-1].at.Sub(m.beats[i+1].at) > readingWindow {
			continue
		}
		var seen []*member
		for _, o := range f.alive() {
			i := len(o.beats) - 1
			for i >= 0 && o.beats[i].at.After(reading.at) {
				i--
			}
			if i < 0 || o.rules[rule] == nil || reading.at.Sub(o.beats[i].at) >= processes.Lifetime-time.Second ||
				slices.ContainsFunc(f.cleared, func(c time.Time) bool { return !c.Before(o.beats[i].at) && !c.After(reading.at) }) {
				continue
			}
			if name := strconv.Quote(rule); strings.Contains(o.beats[i].rules, name) || !strings.Contains(reading.rules, name) {
				seen = append(seen, o)
			}
		}
		if reading.read && len(seen) > len(most) {
			most = seen
		}
	}
	return most
}

// reads reports whether m may not have got the latest reply yet, or the rules of other groups after it.
func (m *member) reads() bool {
	return len(m.beats) > 0 && time.Since(m.beats[len(m.beats)-1].at) < 3*processes.Deadline
}

// check checks the numbers of all processes.
func (f *fleet) check() {
	s := f.servers[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := f.alive()
	if off := strings.Contains(s.keyspace.hashes[switches]["all"], "api"); off != f.off {
		f.off, f.offAt = off, time.Now()
	}
	for _, m := range alive {
		if d := driver.Describe(m.store); d.Off("api") != f.off && time.Since(f.offAt) > 3*time.Second && time.Since(f.changed) > afterFailure {
			f.violate(fleetOff, "p%d: api is off: %t, %v after %t, and %v after the last failure", m.process, !f.off, time.Since(f.offAt), f.off, time.Since(f.changed))
		}
		for rule := range m.rules {
			with := 0
			for _, o := range alive {
				if o.rules[rule] != nil {
					with++
				}
			}
			n, counted := m.number(rule), len(f.counted(m, rule))
			if n < counted && !m.reads() {
				f.violate(fleetCounted, "p%d divides %s by %d, and has read %d", m.process, rule, n, counted)
			}
			if time.Since(f.changed) > settled && n != with {
				f.violate(fleetSettled, "p%d divides %s by %d of %d processes, %v after the last change", m.process, rule, n, with, time.Since(f.changed))
			}
		}
	}
}

// switches is the key of the switches, and afterFailure the time after which a client without timeouts has noticed the end
// of a failure.
const (
	switches     = "weir:test:{test}processes:switches"
	afterFailure = 10 * time.Second
)

// checkFigures checks the decisions in Redis.
func (f *fleet) checkFigures() {
	told, made := map[string]uint64{}, map[string]uint64{}
	s := f.servers[0]
	s.mu.Lock()
	for key, fields := range s.keyspace.hashes {
		if strings.Contains(key, ":figures:") {
			for rule, text := range fields {
				for n := range strings.FieldsSeq(text) {
					told[rule] += uint64(integer(n))
				}
			}
		}
	}
	s.mu.Unlock()
	for _, m := range f.members {
		for _, of := range m.store.Observer().Snapshot().Series {
			made[of.Rule] += of.Decisions.Total()
			made[""] += of.Requests.Total()
		}
	}
	for rule, n := range told {
		if n > made[rule] {
			f.violate(fleetFigures, "%d decisions of %q are in Redis, and %d were made", n, rule, made[rule])
		}
		f.told = max(f.told, n)
	}
}

// checkOutage makes events in all processes whose memory decides, until it denies them.
func (f *fleet) checkOutage() {
	if slices.ContainsFunc(f.alive(), (*member).reads) {
		return
	}
	f.checked++
	key := fmt.Sprint("outage ", f.checked)
	var mu sync.Mutex
	for _, rule := range fleetRules[0] {
		admitted, most := 0, float64(fleetLimit)
		var all sync.WaitGroup
		for _, m := range f.alive() {
			if m.rules[rule] == nil || m.store.State() != failover.Backup || driver.Describe(m.store).Off(rule) {
				continue
			}
			n := max(1, m.number(rule))
			for _, o := range f.alive() { // a process that another one has not counted adds its part
				if o != m && o.rules[rule] != nil && o.store.State() == failover.Backup && !slices.Contains(f.counted(o, rule), m) {
					most += float64(fleetLimit / n)
					break
				}
			}
			all.Go(func() {
				for {
					d, err := m.rules[rule].Allow(context.Background(), key)
					if err != nil || !d.Allowed {
						return
					}
					mu.Lock()
					admitted++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if float64(admitted) > most {
			f.violate(fleetBound, "%d events of %s are admitted in an outage, %v at most", admitted, rule, most)
		}
	}
}

// run makes things happen for a time.
func (f *fleet) run(length time.Duration) {
	for range 1 + f.random.IntN(8) {
		f.start()
	}
	quiet := false
	for begun := time.Now(); time.Since(begun) < length && !f.over(); {
		f.happen()
		pause := time.Duration(f.random.ExpFloat64() * float64(12*time.Second))
		if quiet = !quiet && f.random.IntN(6) == 0; quiet {
			pause = settled + 100*time.Second
		}
		for until := time.Now().Add(pause); time.Now().Before(until) && !f.over(); time.Sleep(time.Second) {
			f.check()
		}
		f.checkOutage()
		f.checkFigures()
	}
	for _, m := range f.members {
		if m.alive.Load() {
			m.end()
		} else {
			_ = m.store.Close()
		}
		_ = m.rdb.Close()
	}
	time.Sleep(80 * time.Second)
}
