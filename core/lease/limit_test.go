package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/storetest"
)

// A simulation runs random processes over one Store behind, and records the events that they
// admit, in a bubble of testing/synctest.
type simulation struct {
	t      *testing.T
	rule   core.Rule
	plans  []*driver.Compiled // rule, and its limits in each plan
	start  time.Time
	phases []time.Duration // in which the load is low, high, low, ...
	trip   time.Duration   // the longest one way to the Store behind
	flaky  bool            // the Store behind fails now and then, before or after it decides

	mu     sync.Mutex
	rng    *rand.Rand
	events []lease.Event
	total  lease.Stats
	denied int // decisions, by besideRule
}

var besideRule = core.SlidingLog("beside", core.Per(3, 100*time.Millisecond))

var errCut = errors.New("the connection is cut")

func newSimulation(t *testing.T, seed uint64, rule core.Rule) *simulation {
	m := &simulation{t: t, rule: rule, start: time.Now(), rng: rand.New(rand.NewPCG(seed, 17)), flaky: seed%3 == 2}
	m.plans = plansOf(t, rule)
	m.trip = time.Duration(1) << m.random(22)
	for range 8 {
		m.phases = append(m.phases, time.Duration(1+m.random(int64(2*m.full()))), time.Duration(1+m.random(30))*time.Millisecond)
	}
	return m
}

func (m *simulation) random(n int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rng.Int64N(n)
}

// pause sleeps for less than most.
func (m *simulation) pause(most time.Duration) {
	if most > 0 {
		time.Sleep(time.Duration(m.random(int64(most))))
	}
}

// full is the time in which all of the limit comes back.
func (m *simulation) full() time.Duration {
	l := m.rule.Limit()
	return l.Per * time.Duration(m.rule.Capacity()) / time.Duration(l.Events)
}

// high reports whether the load is high. The phases are the same for all processes.
func (m *simulation) high() bool {
	now := time.Since(m.start)
	for i := 0; ; i++ {
		d := m.phases[i%len(m.phases)]
		if now < d {
			return i%2 == 1
		}
		now -= d
	}
}

// connect returns the Store behind for one process, and a function that cuts the connection.
// It reports an error if there are two fetches of key "k" under one limit at a time.
func (m *simulation) connect(behind driver.Store) (_ driver.Store, cut *atomic.Bool) {
	cut = new(atomic.Bool)
	fetches := make(map[*driver.Compiled]*atomic.Int64)
	for _, p := range m.plans {
		fetches[p] = new(atomic.Int64)
	}
	fails := func() bool { return cut.Load() || m.flaky && m.random(20) == 0 }
	f := &storetest.Fake{Store: behind}
	f.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		if _, ok := ctx.Deadline(); ok && charges[0].Key == "k" { // callers set no deadline, fetches do
			running := fetches[charges[0].Rule]
			if n := running.Add(1); n > 1 {
				m.t.Errorf("expected one fetch at a time, got %d", n)
			}
			defer running.Add(-1)
		}
		m.pause(m.trip)
		if fails() {
			return errCut
		}
		err := next(ctx, charges)
		m.pause(m.trip)
		if err == nil && fails() {
			return errCut
		}
		return err
	})
	return f, cut
}

// take asks s for cost events of a random plan, and notes when they were admitted: when the Store
// behind admitted them, if it did so in this call, or else when the call returned.
func (m *simulation) take(s driver.Store, cost int) (admitted bool) {
	plan := m.plans[m.random(int64(len(m.plans)))]
	charges := []driver.Charge{{Key: "k", Rule: plan, Cost: cost}}
	if m.random(3) == 0 {
		charges = append(charges, driver.Charge{Key: fmt.Sprint("beside", m.random(10)), Rule: testkit.Compiled(besideRule), Cost: 1})
	}
	begun := time.Now().UnixMicro()
	err := s.Take(context.Background(), charges)
	at := time.Now().UnixMicro()
	if err != nil && !errors.Is(err, errCut) {
		m.t.Errorf("expected no other error than %q, got %v", errCut, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil || !charges[0].Verdict.Allowed:
		return false
	case len(charges) > 1 && !charges[1].Verdict.Allowed:
		m.denied++
		return false
	}
	k := plan.Constants
	switch {
	case charges[0].Receipt.At >= begun && charges[0].Receipt.At < at:
		at = charges[0].Receipt.At
	case k.Algorithm == driver.FixedWindow && charges[0].Receipt.At/k.Period == begun/k.Period:
		at = begun // the tokens are of that window, though the call for the other rule may have ended later
	}
	m.events = append(m.events, lease.Event{Micros: at, Cost: int64(cost), Rule: plan})
	return true
}

// load asks s for a part of the refill of a while, or, while the load is high, for all tokens.
func (m *simulation) load(s driver.Store) {
	if m.high() {
		for denied := 0; denied < 2 && m.high(); {
			if !m.take(s, 1) {
				denied++
			}
		}
		m.pause(20 * time.Millisecond)
		return
	}
	n := 1 + m.random(30)
	for range n {
		m.take(s, []int{1, 1, 1, 1, 2, 7}[m.random(6)])
	}
	each := m.rule.Limit().Per / time.Duration(m.rule.Limit().Events)
	m.pause(time.Duration(n) * each * time.Duration(1+m.random(100)))
}

// process makes a leasing Store, now and then over a denycache, that four callers or fewer load. It
// closes the Store, now and then after its connection was cut, and makes another one, until the
// deadline.
func (m *simulation) process(behind driver.Store, deadline time.Time, opts ...lease.Option) {
	for time.Now().Before(deadline) {
		next, cut := m.connect(behind)
		if m.random(3) == 0 {
			next = denycache.New(next)
		}
		s := lease.New(next, opts...)
		end := time.Now().Add(time.Duration(m.random(int64(time.Until(deadline)) + 1)))
		if m.random(3) == 0 {
			end = deadline
		}
		testkit.Concurrently(int(1+m.random(4)), func(int) {
			for time.Now().Before(end) {
				m.load(s)
			}
		})
		cut.Store(m.random(2) == 0)
		_ = s.Close()
		m.mu.Lock()
		stats := s.Stats()
		m.total.Hits += stats.Hits
		m.total.Leased += stats.Leased
		m.mu.Unlock()
	}
}

// over returns the largest number of events over the limit in any span, for each length by itself.
// A window admits as many events as its largest limit has, in all plans together.
func (m *simulation) over() (most int64) {
	for _, longest := range m.plans {
		events := slices.DeleteFunc(slices.Clone(m.events), func(e lease.Event) bool { return e.Rule.ID != longest.ID })
		k := longest.Constants
		if k.Algorithm != driver.FixedWindow {
			most = max(most, lease.Overflow(longest, events))
			continue
		}
		capacity, counts := int64(0), make(map[int64]int64)
		for _, e := range events {
			capacity = max(capacity, e.Rule.Constants.Capacity)
			counts[e.Micros/k.Period] += e.Cost
		}
		for _, n := range counts {
			most = max(most, n-capacity)
		}
	}
	return most
}

// No span has more events than the limit, while several processes lease, spend, deny
// decisions of two rules, end, call the Store behind without a lease, and lose replies.
func TestStore_Take_NeverOverTheLimit(t *testing.T) {
	t.Parallel()
	const seeds = 3 // for each rule
	for i, rule := range []core.Rule{
		core.TokenBucket("r", core.PerSecond(1000)),
		core.TokenBucket("r", core.PerSecond(300).WithBurst(280)),
		core.TokenBucket("r", core.Per(7001, 3*time.Second).WithBurst(900)),
		core.TokenBucket("r", core.PerMinute(1500)),
		core.TokenBucket("r", core.PerSecond(3000)),
		core.FixedWindow("r", core.PerSecond(500)),
		core.FixedWindow("r", core.PerMinute(1500)),

		// Plans of one length share a bucket: in any span T, the sum over the plans of the admitted
		// part of the capacity is at most 1 + T/length.
		core.TokenBucket("r", core.PerSecond(1000)).Plan("larger", core.PerSecond(4000)).Plan("smaller", core.PerSecond(100)),
		core.TokenBucket("r", core.PerSecond(300).WithBurst(280)).Plan("larger", core.PerSecond(600).WithBurst(560)).
			Plan("longer", core.PerMinute(3000)),
		core.FixedWindow("r", core.PerSecond(500)).Plan("larger", core.PerSecond(1500)).Plan("smaller", core.PerSecond(100)),
		core.FixedWindow("r", core.PerSecond(500)).Plan("larger", core.PerSecond(700)).Plan("longer", core.PerMinute(3000)),
	} {
		t.Run(fmt.Sprint(i, " ", rule.Limit()), func(t *testing.T) {
			t.Parallel()
			var hits, leased, denied int
			for seed := range uint64(seeds) {
				synctest.Test(t, func(t *testing.T) {
					m := newSimulation(t, seed, rule)
					behind := new(storetest.Fake)
					deadline := time.Now().Add(8 * m.full()) // about the length of all phases
					var wg sync.WaitGroup
					for range 2 + m.random(3) {
						life := lease.Lifetime(time.Millisecond << m.random(10))
						wg.Go(func() { m.process(behind, deadline, life) })
					}
					wg.Go(func() { // a process that does not lease
						for time.Now().Before(deadline) {
							m.load(behind)
						}
					})
					wg.Wait()
					if over := m.over(); over > 0 {
						t.Errorf("seed %d: expected no event over the limit, got %d", seed, over)
					}
					hits, leased, denied = hits+int(m.total.Hits), leased+int(m.total.Leased), denied+m.denied
				})
			}
			if hits == 0 || leased == 0 || denied == 0 {
				t.Errorf("expected hits, leased tokens and decisions that another rule denied, got %d, %d and %d", hits, leased, denied)
			}
		})
	}
}
