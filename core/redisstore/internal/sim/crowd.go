package sim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
)

// A crowd knows the callers who wait for places, as their processes see them, and the places that the servers have.
type crowd struct {
	s       *simulation
	mu      sync.Mutex
	byRule  [2]*crowded
	tag     string    // in keys of Redis, of crowdKey
	faulted time.Time // the end of the last fault, except for cuts
	cut     time.Time // of a subscription
	outage  time.Time // the end of the last one that is not only one of messages or late replies
}

// A crowded is the key of a rule.
type crowded struct {
	name    string
	most    int
	byCost  bool
	inUse   []usage   // of a short time
	waiting []*caller // in the order of arrival
	idle    idle
}

// A usage is the number of places that a server has from a time on.
type usage struct {
	at time.Time
	n  int
}

// A caller waits for places.
type caller struct {
	process *process
	cost    int
	came    time.Time
	first   time.Time // when it was the first one of its process
}

// An idle is a time in which places are free for the first caller.
type idle struct {
	first *caller
	since time.Time
}

const (
	crowdKey = "crowd"
	// learned is the time after which a server knows a caller.
	learned = 60 * time.Millisecond
	// The times after which places that are free have to be taken: without faults, if a subscription was cut, if a message
	// was lost or a reply came late, and if the process of the first caller has died.
	swift, afterCut, afterLoss, afterDeath = 150 * time.Millisecond, 600 * time.Millisecond, 1200 * time.Millisecond, 3100 * time.Millisecond
	// calm is the time after a fault of which it has no effect on callers who wait.
	calm = 5 * time.Second
)

func crowdRules(hold time.Duration) [2]core.Rule {
	return [2]core.Rule{core.InFlight("crowd", 3).Hold(hold), core.InFlight("heavy crowd", 10).Hold(hold).ByCost()}
}

func newCrowd(s *simulation) *crowd {
	h := keyhash.New(nil)
	w := &crowd{s: s, tag: h.Tag(crowdKey)}
	for i, r := range crowdRules(time.Minute) {
		w.byRule[i] = &crowded{name: r.Name(), most: r.Limit().Events, byCost: i == 1, inUse: make([]usage, 1)}
	}
	return w
}

// taken notes the places of a key that are taken at the server, of which granted were free until now: others may have
// lapsed before.
func (w *crowd) taken(key, rule string, n, granted int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.byRule {
		if k.name == rule && tagOf(key) == w.tag {
			k.inUse = append(k.inUse, usage{time.Now(), n - granted}, usage{time.Now(), n})
			for len(k.inUse) > 1 && time.Since(k.inUse[1].at) > learned {
				k.inUse = k.inUse[1:]
			}
			w.update(k)
		}
	}
}

// update notes a change of k, and checks how long places were idle before. It is called with mu.
func (w *crowd) update(k *crowded) {
	var first *caller
	if len(k.waiting) > 0 {
		first = k.waiting[0]
		for _, c := range k.waiting { // a server may know them in another order
			if c.came.Sub(first.came) <= learned && k.inUse[len(k.inUse)-1].n+c.cost > k.most {
				first = nil
				break
			}
		}
	}
	was := k.idle
	if first == was.first {
		return
	}
	if k.idle = (idle{first, time.Now()}); was.first != nil && time.Since(was.since) > swift {
		now := time.Now()
		time.AfterFunc(0, func() { w.check(k, was.first, was.since, now) }) // not with the mutex of a server
	}
}

// check checks that a caller did not wait without a reason for too long.
func (w *crowd) check(k *crowded, c *caller, from, to time.Time) {
	hears := from.After(w.s.messages.since(c.process.index))
	w.mu.Lock()
	most := afterDeath
	switch {
	case k.byCost:
	case from.Sub(w.faulted) > calm && to.Sub(w.cut) <= calm:
		most = afterCut
	case from.Sub(w.faulted) > calm && hears:
		most = swift
	case from.Sub(w.outage) > calm:
		most = afterLoss
	}
	w.mu.Unlock()
	if d := to.Sub(from); d > most && c.process.primary() && w.s.healthyFor(c.process, crowdKey, time.Since(from)+w.s.scenario.healed) {
		w.s.violate(crowdServed, "the places for %v, which has waited for %d of %s for %v, were free for %v, at most %v are allowed",
			c.process, c.cost, k.name, to.Sub(c.came), d, most)
	}
}

// fault notes a fault.
func (w *crowd) fault(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.kind == "cut" {
		w.cut = time.Now()
		return
	}
	w.faulted = later(w.faulted, time.Now().Add(f.lasts))
	if f.kind != "mute" && f.kind != "late" {
		w.outage = w.faulted
	}
}

// first returns the process of the first caller for a rule, or nil.
func (w *crowd) first(rule int64) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.byRule[rule]; len(k.waiting) > 0 {
		return k.waiting[0].process
	}
	return nil
}

// come adds a caller.
func (w *crowd) come(k *crowded, c *caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.waiting = append(k.waiting, c)
	k.promote()
	w.update(k)
}

// promote notes the first callers of the processes.
func (k *crowded) promote() {
	seen := map[*process]bool{}
	for _, c := range k.waiting {
		if !seen[c.process] && c.first.IsZero() {
			c.first = time.Now()
		}
		seen[c.process] = true
	}
}

// leave removes a caller.
func (w *crowd) leave(k *crowded, c *caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.waiting = slices.DeleteFunc(k.waiting, func(o *caller) bool { return o == c })
	k.promote()
	w.update(k)
}

// admitted checks that an event of a caller was not admitted before those of callers who came earlier and still wait,
// unless there were places for all of them. The servers know the first caller of each process only.
func (w *crowd) admitted(k *crowded, c *caller) {
	w.mu.Lock()
	need, taken, behind, ahead := c.cost, k.least(), map[*process]bool{}, []*caller(nil)
	for _, o := range k.waiting {
		if !behind[o.process] && c.came.Sub(o.came) > learned && time.Since(o.first) > learned {
			ahead = append(ahead, o)
		}
		behind[o.process] = true
	}
	w.mu.Unlock()
	got := time.Now()
	time.AfterFunc(learned, func() { // the replies to callers who have places are here
		for _, o := range ahead {
			if !w.waits(k, o) || !w.sure(o.process) || !w.sure(c.process) {
				continue
			}
			if need += o.cost; taken+need > k.most {
				w.s.violate(crowdOrder, "%v got %d places of %s after %v, when %v had waited for %d places for %v: of %d places, %d were taken",
					c.process, c.cost, k.name, got.Sub(c.came), o.process, o.cost, got.Sub(o.came), k.most, taken)
			}
		}
	})
}

func (w *crowd) waits(k *crowded, c *caller) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(k.waiting, c)
}

// sure reports whether the server has decided for p for a while, and knows its first caller.
func (w *crowd) sure(p *process) bool {
	return p.primary() && time.Since(time.Unix(0, p.changed.Load())) > calm && w.s.healthyFor(p, crowdKey, afterDeath)
}

// least returns the smallest number of places that were taken a short time ago. It is called with mu.
func (k *crowded) least() int {
	n := k.inUse[0].n
	for _, u := range k.inUse {
		n = min(n, u.n)
	}
	return n
}

// waitForPlaces takes places and frees them. Most of the time, it waits for them.
func (c *client) waitForPlaces() {
	w := c.crowd
	for c.rest(c.scenario.idle) {
		i := c.random.IntN(2)
		k, me := w.byRule[i], &caller{process: c.process, cost: 1, came: time.Now()}
		if k.byCost {
			me.cost = 1 + c.random.IntN(k.most)*c.random.IntN(2)
		}
		outage := c.process.inOutage()
		var r *core.Reservation
		if c.random.IntN(4) > 0 {
			r = c.acquirePlaces(k, c.process.crowd[i], me)
		} else {
			r = c.reservePlaces(k, c.process.crowd[i], me)
		}
		if r == nil {
			continue
		}
		outage = outage && c.process.inOutage()
		w.admitted(k, me)
		c.holdPlaces(k, r, outage)
	}
}

// acquirePlaces waits for places. It returns nil if it leaves before, or if the server does not reply.
func (c *client) acquirePlaces(k *crowded, l *core.Limiter, me *caller) *core.Reservation {
	ctx, cancel := context.WithCancel(context.Background())
	patience := time.Hour
	if c.random.IntN(5) == 0 {
		patience = time.Duration(c.random.ExpFloat64() * float64(time.Second))
	}
	ends, late := context.AfterFunc(c.ctx, cancel), time.AfterFunc(patience, cancel)
	c.crowd.come(k, me)
	r, err := l.AcquireN(ctx, crowdKey, me.cost)
	c.crowd.leave(k, me)
	ends()
	late.Stop()
	left := earlier(me.came.Add(patience), time.Now())
	c.took("Acquire", k.name, left, 2*timeout, err)
	if err != nil && !errors.Is(err, context.Canceled) && !c.mayFail(err) && c.healthyFor(c.process, crowdKey, c.scenario.healed) {
		c.violate(available, "%v: Acquire of %s failed although its server is healthy: %v", c.process, k.name, err)
	}
	return r
}

// reservePlaces takes places if no caller waits for them, some of them as many as are free.
func (c *client) reservePlaces(k *crowded, l *core.Limiter, me *caller) *core.Reservation {
	reserve := l.Reserve
	if k.byCost && c.random.IntN(2) == 0 {
		reserve = l.ReserveAtMost
	}
	r, err := reserve(context.Background(), crowdKey, me.cost)
	if c.called("Reserve", crowdKey, me.came, timeout, err); err != nil || !r.Decision().Allowed {
		return nil
	}
	me.cost = r.Cost()
	return r
}

// holdPlaces holds the places of r for a while.
func (c *client) holdPlaces(k *crowded, r *core.Reservation, outage bool) {
	n := r.Cost()
	c.places.holds(k.name, n, k.most)
	length := 300 * time.Millisecond
	if c.random.IntN(50) == 0 {
		length = c.scenario.hold
	}
	timer := time.NewTimer(time.Duration(c.random.ExpFloat64() * float64(length)))
	defer timer.Stop()
	select {
	case <-timer.C:
		c.places.holds(k.name, -n, k.most)
	case <-r.Lost():
		c.places.holds(k.name, -n, k.most)
		c.hasLost(crowdKey, outage)
	case <-c.ctx.Done():
		c.places.holds(k.name, -n, k.most)
	}
	for range 3 {
		if c.release(r, crowdKey, true) == nil {
			return
		}
	}
}

// checkFree checks at the end that all places are free, for a new process, and that no caller waits.
func (w *crowd) checkFree(p *process) {
	for i, k := range w.byRule {
		w.mu.Lock()
		waiting := len(k.waiting)
		w.mu.Unlock()
		d, err := p.crowd[i].Peek(context.Background(), crowdKey)
		if waiting > 0 || err != nil || d.State(0).Remaining != k.most {
			w.s.violate(placesBack, "at the end, %d callers of %s wait, and %d of %d places are free: %v", waiting, k.name, d.State(0).Remaining, k.most, err)
		}
	}
}
