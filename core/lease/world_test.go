package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"

	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
)

// A world is some processes that share one Store, and what they admit. It lives in a
// bubble.
type world struct {
	t       *testing.T
	rule    core.Rule
	start   time.Time
	ahead   int64 // of the Store's clock (us)
	store   *memstore.Store
	trip    time.Duration // how long one way to the Store takes at most
	flaky   bool
	weather []time.Duration // calm, storm, calm ...

	mu     sync.Mutex
	rng    *rand.Rand
	events []lease.Event
	calls  map[string]int // that take something, under way, by process and key
	total  lease.Stats
	denied int // decisions, by besideRule
}

var besideRule = core.SlidingLog("beside", core.Per(3, 100*time.Millisecond))

func newWorld(t *testing.T, seed uint64, rule core.Rule) *world {
	w := &world{
		t: t, rule: rule, start: time.Now(), store: memstore.New(),
		rng: rand.New(rand.NewPCG(seed, 17)), calls: make(map[string]int),
	}
	var receipt driver.Receipt
	probe := core.TokenBucket("probe", core.PerSecond(1))
	if err := w.store.Take(context.Background(), []driver.Charge{{Key: "k", Rule: probe.Compiled(), Cost: 1, Receipt: &receipt}}); err != nil {
		t.Fatal(err)
	}
	w.ahead = receipt.At
	for range 8 {
		w.weather = append(w.weather, time.Duration(1+w.rand(int64(2*w.full()))), time.Duration(1+w.rand(30))*time.Millisecond)
	}
	return w
}

func (w *world) us() int64 { return w.ahead + time.Since(w.start).Microseconds() }

func (w *world) rand(n int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Int64N(n)
}

func (w *world) pass(most time.Duration) {
	if most > 0 {
		time.Sleep(time.Duration(w.rand(int64(most))))
	}
}

// A link is how a process reaches the Store.
type link struct {
	driver.Store // the processes adjust nothing

	w    *world
	name string
	cut  atomic.Bool
}

var errCut = errors.New("the link is cut")

func (l *link) Take(ctx context.Context, charges []driver.Charge) error {
	w := l.w
	if charges[0].Op == driver.Spend && charges[0].Key == "k" && len(charges) == 1 {
		place := l.name + " " + charges[0].Key
		w.mu.Lock()
		w.calls[place]++
		if w.calls[place] > 1 {
			w.t.Errorf("%d calls for one key at a time", w.calls[place])
		}
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			w.calls[place]--
			w.mu.Unlock()
		}()
	}
	w.pass(w.trip)
	if l.cut.Load() || w.flaky && w.rand(20) == 0 {
		return errCut
	}
	if err := w.store.Take(ctx, charges); err != nil {
		return err
	}
	w.pass(w.trip)
	if l.cut.Load() || w.flaky && w.rand(20) == 0 {
		return errCut
	}
	return nil
}

// take asks s for cost events, and notes when they were admitted: when the Store gave
// them, if that was for this very call, or else when it returned.
func (w *world) take(s driver.Store, cost int) (admitted bool) {
	var receipt driver.Receipt
	charges := []driver.Charge{{Key: "k", Rule: w.rule.Compiled(), Cost: cost, Receipt: &receipt}}
	if w.rand(3) == 0 { // beside a rule that denies now and then, before or after this one is asked
		charges = append(charges, driver.Charge{Key: fmt.Sprint("beside", w.rand(10)), Rule: besideRule.Compiled(), Cost: 1})
	}
	asked := w.us()
	err := s.Take(context.Background(), charges)
	at := w.us()
	switch {
	case errors.Is(err, errCut):
		return false
	case err != nil:
		w.t.Error(err)
		return false
	case len(charges) > 1 && !charges[1].Verdict.Allowed:
		w.mu.Lock()
		w.denied++
		w.mu.Unlock()
		return false
	case !charges[0].Verdict.Allowed:
		return false
	}
	if receipt.At >= asked && receipt.At < at {
		at = receipt.At
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, lease.Event{US: at, Cost: int64(cost)})
	return true
}

// process lives until the deadline: it leases, spends, rests, and now and then it
// stops, in order or not, and another takes its place.
func (w *world) process(name string, until time.Time, opts ...lease.Option) {
	for life := 0; time.Now().Before(until); life++ {
		l := &link{Store: w.store, w: w, name: fmt.Sprint(name, life)}
		s := lease.New(l, opts...)
		end := time.Now().Add(time.Duration(w.rand(int64(time.Until(until)) + 1)))
		if w.rand(3) == 0 {
			end = until
		}
		var wg sync.WaitGroup
		for range 1 + w.rand(4) {
			wg.Go(func() {
				for time.Now().Before(end) {
					w.spend(s)
				}
			})
		}
		wg.Wait()
		l.cut.Store(w.rand(2) == 0)
		_ = s.Close()
		w.add(s.Stats())
	}
}

// spend is a moment of a process: in the calm it asks for a part of what refills, and in
// a storm it takes all that there is.
func (w *world) spend(s driver.Store) {
	if w.storm() {
		for denied := 0; denied < 2 && w.storm(); {
			if !w.take(s, 1) {
				denied++
			}
		}
		w.pass(20 * time.Millisecond)
		return
	}
	n := 1 + w.rand(30)
	for range n {
		w.take(s, []int{1, 1, 1, 1, 2, 7}[w.rand(6)])
	}
	each := w.rule.Limit().Per / time.Duration(w.rule.Limit().Events)
	w.pass(time.Duration(n) * each * time.Duration(1+w.rand(100)))
}

// full is how long all of the limit takes to come back.
func (w *world) full() time.Duration {
	l := w.rule.Limit()
	return l.Per * time.Duration(w.rule.Capacity()) / time.Duration(l.Events)
}

// storm says whether everybody wants everything. It comes and goes at times that are
// the same for all.
func (w *world) storm() bool {
	now := time.Since(w.start)
	for i := 0; now >= 0; i++ {
		d := w.weather[i%len(w.weather)]
		if now < d {
			return i%2 == 1
		}
		now -= d
	}
	return false
}

func (w *world) add(s lease.Stats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total.Hits += s.Hits
	w.total.Calls += s.Calls
	w.total.Leased += s.Leased
	if s.Held != 0 {
		w.t.Errorf("%d tokens are held after Close", s.Held)
	}
}

// over is by how many tokens the events are over the limit somewhere.
func (w *world) over() (most int64) {
	k := w.rule.Compiled().Constants()
	if k.Algorithm != driver.FixedWindow {
		return lease.Overflow(w.rule.Compiled(), w.events)
	}
	counts := make(map[int64]int64)
	for _, e := range w.events {
		counts[e.US/k.Period] += e.Cost
		most = max(most, counts[e.US/k.Period]-k.Capacity)
	}
	return most
}

var worldRules = []core.Rule{
	core.TokenBucket("r", core.PerSecond(1000)),
	core.TokenBucket("r", core.PerSecond(300).WithBurst(280)),
	core.TokenBucket("r", core.Per(7001, 3*time.Second).WithBurst(900)),
	core.TokenBucket("r", core.PerMinute(1500)),
	core.TokenBucket("r", core.PerSecond(3000)),
	core.FixedWindow("r", core.PerSecond(500)),
	core.FixedWindow("r", core.PerMinute(1500)),
}

// Never over the limit in any span, whatever several processes do at the same time:
// lease, spend, deny together, crash, go past the leases, lose what is said.
func TestNeverOverTheLimit(t *testing.T) {
	for i, rule := range worldRules {
		t.Run(fmt.Sprint(i, " ", rule.Limit()), func(t *testing.T) {
			var sum lease.Stats
			denied := 0
			for seed := range uint64(20) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed, rule)
					w.trip = time.Duration(1) << w.rand(22)
					w.flaky = seed%3 == 2
					until := time.Now().Add(12 * w.full())
					var wg sync.WaitGroup
					for i := range 2 + w.rand(3) {
						life := lease.Lifetime(time.Millisecond << w.rand(10))
						wg.Go(func() { w.process(fmt.Sprint(i), until, life) })
					}
					wg.Go(func() { // somebody who does not lease
						for time.Now().Before(until) {
							w.spend(w.store)
						}
					})
					wg.Wait()
					if over := w.over(); over > 0 {
						t.Errorf("seed %d: %d tokens over the limit", seed, over)
					}
					sum.Hits += w.total.Hits
					sum.Calls += w.total.Calls
					sum.Leased += w.total.Leased
					denied += w.denied
				})
			}
			t.Logf("%+v, %d denied by another rule", sum, denied)
			if sum.Leased == 0 || denied == 0 {
				t.Error("nothing was leased, or no decision was denied after it had taken tokens: the test shows nothing")
			}
		})
	}
}
