package lease

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// A yard is a token bucket and the blocks that several processes have of it. A lease
// takes a while to arrive, and decisions are open for a while before they are denied.
type yard struct {
	rng     *rand.Rand
	u       *units
	now     int64 // ns
	state   driver.State
	entries []*entry
	pending []func()
	events  []Event
	open    []opened
	back    int64 // tokens that were put back and could be spent again
}

// An opened is a decision that has taken tokens and may be denied yet.
type opened struct {
	t     grant
	event int
}

var yardRules = []core.Rule{
	core.TokenBucket("r", core.PerSecond(1000).WithBurst(400)),
	core.TokenBucket("r", core.Per(7001, 3*time.Second).WithBurst(900)),
	core.TokenBucket("r", core.Per(131, 40*time.Millisecond)),
	core.TokenBucket("r", core.PerSecond(100).WithBurst(1000)),
}

func newYard(seed uint64) *yard {
	y := &yard{rng: rand.New(rand.NewPCG(seed, 11))}
	rule := yardRules[y.rng.IntN(len(yardRules))]
	y.u = newUnits(rule.Compiled(), time.Second)
	for range 2 + y.rng.IntN(2) {
		y.entries = append(y.entries, &entry{u: y.u})
	}
	if y.rng.IntN(2) == 0 {
		n := 1 + y.rng.Int64N(y.u.rule.Capacity())
		y.take(n)
		y.admit(n)
	}
	return y
}

func (y *yard) us() int64 { return 1<<50 + y.now/1000 }

func (y *yard) maxFree() int64 {
	r := y.u.rule.Read(y.state, y.us(), 1)
	return int64(y.u.rule.Verdict(r, 1, driver.Never, false).Remaining)
}

// take takes n tokens from the bucket, which has them.
func (y *yard) take(n int64) (receipt driver.Receipt) {
	c := driver.Charge{Rule: y.u.rule, Cost: int(n), Receipt: &receipt}
	r := c.Read(y.state, y.us())
	y.state, _ = c.Commit(y.state, &r, y.us(), true)
	return receipt
}

func (y *yard) admit(n int64) { y.events = append(y.events, Event{y.us(), n}) }

func (y *yard) step() {
	c := y.entries[y.rng.IntN(len(y.entries))]
	switch y.rng.IntN(12) {
	case 0, 1:
		y.lease(c)
	case 2, 3: // a decision is denied
		if len(y.open) > 0 {
			i := y.rng.IntN(len(y.open))
			o := y.open[i]
			y.open = slices.Delete(y.open, i, i+1)
			y.events[o.event].Cost = 0
			before := o.t.entry.held(y.now)
			o.t.entry.restore(y.now, &o.t)
			y.back += o.t.entry.held(y.now) - before
		}
	case 4: // a decision that went passThrough
		if n := 1 + y.rng.Int64N(5); y.maxFree() >= n {
			y.take(n)
			y.admit(n)
		}
	case 5, 6:
		y.now += y.rng.Int64N(1 << (10 + y.rng.IntN(18)))
	case 7:
		if len(y.pending) > 0 {
			y.land(y.rng.IntN(len(y.pending)))
		}
	case 8: // everybody takes what there is
		if y.rng.IntN(4) == 0 {
			y.storm()
		}
	default:
		for range y.rng.IntN(20) {
			y.spend(c, 1+y.rng.Int64N(5))
		}
	}
}

func (y *yard) block(receipt driver.Receipt, asked, n int64) block {
	first := y.u.count(receipt.Used)
	return block{at: receipt.At, asked: asked, expires: forever, begin: first, end: first + n*y.u.unit}
}

// lease leases for c, and hands out some of it at once.
func (y *yard) lease(c *entry) {
	n := 1 + y.rng.Int64N(1+y.maxFree()/int64(1+y.rng.IntN(8)))
	if c.fetching || y.maxFree() < n {
		return
	}
	c.fetching = true
	asked := y.now - y.rng.Int64N(2_000_000)
	b := y.block(y.take(n), asked, n)
	if fresh := y.rng.Int64N(n + 1); fresh > 0 {
		y.hold(c, b.split(y.u, fresh))
	}
	y.later(func() {
		c.fetching = false
		c.add(b, y.now)
	})
}

func (y *yard) spend(c *entry, n int64) bool {
	if c.held(y.now) < n {
		return false
	}
	y.hold(c, c.spend(y.now, n))
	return true
}

// hold admits what b has taken of c, and leaves it open to a denial now and then.
func (y *yard) hold(c *entry, b block) {
	if y.rng.IntN(3) == 0 {
		y.open = append(y.open, opened{grant{block: b, entry: c}, len(y.events)})
	}
	y.admit(b.tokens(y.u))
}

func (y *yard) storm() {
	for _, c := range y.entries {
		for y.spend(c, 1) {
		}
	}
	if n := y.maxFree(); n > 0 {
		y.take(n)
		y.admit(n)
	}
}

func (y *yard) later(f func()) {
	y.pending = append(y.pending, f)
	if y.rng.IntN(2) == 0 {
		y.land(len(y.pending) - 1)
	}
}

func (y *yard) land(i int) {
	f := y.pending[i]
	y.pending = slices.Delete(y.pending, i, i+1)
	f()
}

// over is by how many tokens the events are over the limit.
func (y *yard) over() int64 { return Overflow(y.u.rule, y.events) }

// No span T has more than Burst + rate x T events, whatever is leased, spent, put back by
// denied decisions, joined and left to expire, and by which process.
func TestBlock_NeverOverTheLimit(t *testing.T) {
	var back int64
	for seed := range uint64(20_000) {
		y := newYard(seed)
		for range 300 {
			y.step()
		}
		back += y.back
		if over := y.over(); over > 0 {
			t.Fatalf("%v, seed %d: expected no token over the limit, got %d", y.u.rule, seed, over)
		}
	}
	if back == 0 {
		t.Error("expected tokens that were put back, got none: the test shows nothing")
	}
}

// Short schedules with few blocks, all decisions of which may be denied, ended by a storm.
func TestBlock_NeverOverTheLimitAfterDenials(t *testing.T) {
	for seed := range uint64(30_000) {
		y := newYard(seed)
		for range 6 + y.rng.IntN(30) {
			y.step()
		}
		y.now += y.rng.Int64N(100e6)
		y.storm()
		if over := y.over(); over > 0 {
			t.Fatalf("%v, seed %d: expected no token over the limit, got %d", y.u.rule, seed, over)
		}
	}
}

// Tokens that are put back are all there retry, in whatever order, as long as their slots
// have not begun.
func TestBlock_RestoreLosesNothing(t *testing.T) {
	rule := core.TokenBucket("r", core.PerHour(1000))
	u := newUnits(rule.Compiled(), time.Second)
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		y := &yard{rng: rng, u: u, entries: []*entry{{u: u}}}
		c := y.entries[0]
		y.take(500) // slots begin in half an hour
		var open []grant
		const n = 100
		c.add(y.block(y.take(n/2), y.now, n/2), y.now)
		c.add(y.block(y.take(n/2), y.now, n/2), y.now)
		kept := int64(n)
		for range 200 {
			y.now += rng.Int64N(1e9)
			if rng.IntN(10) == 0 {
				k := 1 + rng.Int64N(5)
				c.add(y.block(y.take(k), y.now, k), y.now)
				kept += k
			}
			if rng.IntN(10) == 0 { // what has expired changes nothing
				expired := y.block(driver.Receipt{At: y.us()}, y.now-100e9, 2)
				c.restore(y.now, &grant{block: expired})
			}
			if k := 1 + rng.Int64N(9); rng.IntN(2) == 0 && c.held(y.now) >= k {
				open = append(open, grant{block: c.spend(y.now, k), entry: c})
			} else if len(open) > 0 {
				i := rng.IntN(len(open))
				if rng.IntN(5) > 0 {
					c.restore(y.now, &open[i])
				} else {
					kept -= open[i].tokens(u)
				}
				open = slices.Delete(open, i, i+1)
			}
		}
		for i := range open {
			c.restore(y.now, &open[i])
		}
		if held := c.held(y.now); held != kept {
			t.Fatalf("seed %d: expected %d tokens, got %d", seed, kept, held)
		}
	}
}

// A lease ages a little faster than the clock of the process, for the clock of the store
// may be faster: tokens expire early, never late.
func TestBlock_ClockOfTheStoreIsFaster(t *testing.T) {
	rule := core.TokenBucket("r", core.PerHour(3600))
	y := &yard{rng: rand.New(rand.NewPCG(1, 1))}
	y.u = newUnits(rule.Compiled(), time.Second)
	y.take(1800)
	b := y.block(y.take(100), 0, 100)
	for i := range int64(100) {
		begins := (1800 + i) * int64(time.Second)
		store := begins - begins/2000 // when it begins by a clock that is 0.05 % faster
		if held := b.held(y.u, store); held > 99-i {
			t.Fatalf("expected %d tokens at most after %v, got %d", 99-i, time.Duration(store), held)
		}
	}
	if held := b.held(y.u, 1790*int64(time.Second)); held != 100 {
		t.Errorf("expected 100 tokens before any slot begins, got %d", held)
	}
}

// A block of two leases of a window ends with the lease that ends first.
func TestBlock_JoinEnds(t *testing.T) {
	rule := core.FixedWindow("w", core.PerDay(1000))
	u := newUnits(rule.Compiled(), time.Second)
	for _, ends := range [][2]int64{{100, 200}, {200, 100}} {
		b := block{expires: ends[0], end: 3}
		b.join(u, block{expires: ends[1], end: 4})
		if before, after := b.held(u, 99), b.held(u, 100); before != 7 || after != 0 {
			t.Errorf("ends %v: expected 7 tokens, then 0, got %d and %d", ends, before, after)
		}
	}
}
