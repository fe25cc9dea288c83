package failover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const aliveFor = 50 * time.Millisecond

var errDown = errors.New("down")

// A clocked breaker has a clock, and remembers its changes.
type clocked struct {
	*breaker
	now     time.Duration
	changes []string
}

func newClocked() *clocked {
	c := &clocked{now: time.Hour}
	c.breaker = newBreaker(aliveFor, func(to State, cause error) {
		c.changes = append(c.changes, fmt.Sprintf("%v %v", to, cause))
	})
	return c
}

// fails records n calls that fail one after the other, each after took.
func (c *clocked) fails(n int, took time.Duration) {
	for range n {
		c.now += took
		c.fail(c.now-took, c.now, errDown)
	}
}

// succeeds records n calls that succeed one after the other, each after took.
func (c *clocked) succeeds(n int, took time.Duration) {
	for range n {
		c.now += took
		c.succeed(c.now - took)
	}
}

func (c *clocked) opens() {
	for c.State() != open {
		c.fails(1, aliveFor)
	}
}

// probes makes probes succeed until the breaker is half-open, and returns their number.
func (c *clocked) probes() (n int) {
	for ; c.State() == open; n++ {
		c.now += c.untilProbe()
		c.probed(c.now, true)
	}
	return n
}

// closes makes a half-open breaker close.
func (c *clocked) closes() {
	c.now += c.untilRampedUp(c.now)
	c.rampedUp(c.now)
}

func (c *clocked) is(t *testing.T, want State) {
	t.Helper()
	if got := c.State(); got != want {
		t.Fatalf("the state: got %v, expected %v; changes %q", got, want, c.changes)
	}
}

// The calls of each case begin one after the other in a closed breaker.
func TestBreaker_Fail(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		run  func(c *clocked)
		want State
	}{
		{"one less than enough in a row", func(c *clocked) { c.succeeds(100, ms); c.fails(maxConsecutive-1, 100*ms) }, closed},
		{"enough in a row", func(c *clocked) { c.succeeds(100, ms); c.confirm(c.now, false); c.fails(maxConsecutive, ms) }, closed},
		{"enough in a row, and no answer for a while", func(c *clocked) {
			c.succeeds(100, ms)
			c.fails(maxConsecutive-1, 20*ms)
			c.confirm(c.now, false)
			c.fails(1, ms)
		}, open},
		{"enough in a row without a probe", func(c *clocked) { c.succeeds(100, ms); c.fails(maxUnprobed-1, 100*ms) }, closed},
		{"very many in a row without a probe", func(c *clocked) { c.succeeds(100, ms); c.fails(maxUnprobed, 100*ms) }, open},
		{"enough in a row after a probe that succeeded", func(c *clocked) {
			c.succeeds(100, ms)
			c.confirm(c.now, false)
			c.confirm(c.now, true)
			c.fails(maxUnprobed-1, 20*ms)
		}, closed},
		{"enough in a row after a probe that failed long ago", func(c *clocked) {
			c.succeeds(1, ms)
			c.confirm(c.now, false)
			c.now += 5 * aliveFor
			c.fails(maxUnprobed-1, ms)
		}, closed},
		{"enough in a row, and no success for long", func(c *clocked) {
			c.succeeds(100, ms)
			c.now += relapsePeriod
			c.fails(maxConsecutive, ms)
		}, open},
		{"a success in between", func(c *clocked) {
			c.fails(maxConsecutive-1, 100*ms)
			c.succeeds(1, ms)
			c.now += time.Second
			c.fails(maxConsecutive-1, 100*ms)
		}, closed},
		// Many callers may fail at once because of one slow answer.
		{"many in the moment after an answer", func(c *clocked) { c.succeeds(1, ms); c.fails(50, 0) }, closed},
		{"one more when no answer has come for a while", func(c *clocked) {
			c.succeeds(1, ms)
			c.fails(50, 0)
			c.now += aliveFor + aliveFor/8
			c.fails(1, 0)
		}, open},
		// A third of the keys may be on a node that is down.
		{"a third", func(c *clocked) {
			for range 10_000 {
				c.fails(1, ms/10)
				c.succeeds(2, ms/10)
			}
		}, closed},
		{"half of too few calls", func(c *clocked) {
			for range minCalls/2 - 1 {
				c.fails(1, ms/10)
				c.succeeds(1, ms/10)
			}
		}, closed},
		{"half of enough calls", func(c *clocked) {
			c.confirm(c.now, false)
			for range minCalls {
				c.fails(1, ms/10)
				c.succeeds(1, ms/10)
			}
		}, open},
		{"half of enough calls, while probes succeed", func(c *clocked) {
			for range 100 * minCalls {
				c.fails(1, ms/10)
				c.succeeds(1, ms/10)
			}
		}, closed},
		{"half of enough calls, spread out", func(c *clocked) {
			for range 1000 {
				c.fails(1, ms)
				c.succeeds(1, ms)
				c.now += countWindow
			}
		}, closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newClocked()
			c.run(b)
			b.is(t, c.want)
			if want := map[State]string{closed: "[]", open: "[backup down]"}[c.want]; fmt.Sprint(b.changes) != want {
				t.Errorf("the changes: got %q, expected %s", b.changes, want)
			}
		})
	}
}

// Successes are counted, which takes a lock, only for a while after a failure.
func TestBreaker_Succeed_Counting(t *testing.T) {
	c := newClocked()
	c.fails(1, time.Millisecond)
	c.succeeds(200, time.Millisecond)
	if !c.counting.Load() {
		t.Error("after a failure: got no counting, expected it")
	}
	c.now += countWindow
	c.succeeds(1, time.Millisecond)
	if c.counting.Load() {
		t.Error("after a second without failures: got counting, expected none")
	}
}

// A call that began in an earlier state changes nothing.
func TestBreaker_LateResults(t *testing.T) {
	c := newClocked()
	before := c.now
	c.opens()
	c.probes()
	c.is(t, halfOpen)
	c.now += aliveFor * 2
	for range 200 {
		c.fail(before, c.now, errDown)
	}
	c.is(t, halfOpen)
	c.fails(maxConsecutive, 0)
	c.is(t, open)
	c.succeed(before)
	c.is(t, open)
}

func TestBreaker_Admits(t *testing.T) {
	c := newClocked()
	c.opens()
	for range 100 {
		if c.admits(c.now) {
			t.Fatal("an open breaker: got a call of the primary, expected none")
		}
	}
	c.probed(c.now, true)
	c.is(t, halfOpen)
	from := c.now
	for _, want := range []float64{0, 0.1, 0.5, 0.9, 1} {
		const calls = 20_000
		c.now = from + time.Duration(want*float64(rampUp))
		admitted := 0
		for range calls {
			if c.admits(c.now) {
				admitted++
			}
		}
		if got := float64(admitted) / calls; got < want-0.03 || got > want+0.03 {
			t.Errorf("%v into the ramp-up: got %.2f of the calls, expected %.2f", c.now-from, got, want)
		}
	}
	c.rampedUp(c.now - 1)
	c.is(t, halfOpen)
	c.rampedUp(c.now)
	c.is(t, closed)
}

// A primary that returns is in full use within 1.5 s, also after relapses. A probe that the
// primary does not answer takes 100 ms.
func TestBreaker_ReturnDuration(t *testing.T) {
	const deadline, bound = 100 * time.Millisecond, 1500 * time.Millisecond
	var longest time.Duration
	for seed := range uint64(500) {
		c := newClocked()
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 1 + rng.IntN(8) {
			c.opens()
			returns := c.now + time.Duration(rng.Int64N(int64(5*time.Second)))
			for c.State() == open {
				c.now += c.untilProbe()
				answered := c.now >= returns
				if !answered {
					c.now += deadline
				}
				c.probed(c.now, answered)
			}
			c.closes()
			longest = max(longest, c.now-returns)
		}
	}
	if longest > bound || longest < rampUp+longestInterval/2 {
		t.Errorf("the longest return: got %v, expected %v to %v", longest, rampUp+longestInterval/2, bound)
	}
}

// Each relapse requires one more probe, up to a bound, until the primary has been healthy for
// relapsePeriod.
func TestBreaker_Relapses(t *testing.T) {
	c := newClocked()
	for i, want := range []int{1, 2, 3, 4, 4, 4, 1, 2, 3} {
		if i == 6 {
			c.now += relapsePeriod
		}
		c.opens()
		if got := c.probes(); got != want {
			t.Errorf("outage %d: got %d probes, expected %d", i, got, want)
		}
		c.closes()
	}
	// The probes show most of the times at which the primary is healthy for 200 ms only.
	c.opens()
	before := len(c.changes)
	for end := c.now + time.Minute; c.now < end; {
		c.now += c.untilProbe()
		c.probed(c.now, c.now/(200*time.Millisecond)%2 == 0)
		if c.State() == halfOpen {
			c.opens()
		}
	}
	if got := len(c.changes) - before; got > 60 {
		t.Errorf("changes in a minute: got %d, expected at most 60", got)
	}
}

func TestBreaker_UntilProbe(t *testing.T) {
	c := newClocked()
	c.opens()
	for _, times := range []time.Duration{1, 2, 4, 6, 6} {
		interval := times * firstInterval
		seen := map[time.Duration]bool{}
		for range 100 {
			d := c.untilProbe()
			if d < interval/2 || d >= interval {
				t.Fatalf("the interval: got %v, expected %v to %v", d, interval/2, interval)
			}
			seen[d] = true
		}
		if len(seen) < 90 {
			t.Errorf("different intervals of 100: got %d, expected at least 90", len(seen))
		}
		c.probed(c.now, false)
	}
}

func TestState_String(t *testing.T) {
	got := fmt.Sprint(Primary, Backup, Recovering, State(7))
	if want := "primary backup recovering failover.State(7)"; got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
}

// A sharedFailure is the error of calls in one round trip.
type sharedFailure uint64

func (f sharedFailure) Error() string     { return fmt.Sprint("round trip ", uint64(f), " failed") }
func (f sharedFailure) RoundTrip() uint64 { return uint64(f) }

// Calls that fail with one round trip are one failure.
func TestBreaker_Fail_shared(t *testing.T) {
	for _, c := range []struct {
		name      string
		trips     int // that fail one after the other, for 64 calls each, between which others succeed
		succeeded int
		numbered  bool
		want      State
	}{
		{"idle, one", 1, 0, true, closed},
		{"idle, most", maxConsecutive - 1, 0, true, closed},
		{"idle, too many", maxConsecutive, 0, true, open},
		{"idle, without numbers", 1, 0, false, open},
		{"busy, one", 1, 60, true, closed},
		{"busy, most", maxConsecutive - 1, 60, true, closed},
		{"busy, too many", maxConsecutive, 60, true, open},
		{"busy, few of many", maxConsecutive, 100, true, closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newClocked()
			b.confirm(b.now, false)
			for trip := range c.trips {
				for range 64 {
					var failure error = sharedFailure(0)
					if c.numbered {
						failure = fmt.Errorf("wrapped: %w", sharedFailure(1+trip))
					}
					b.fail(b.now, b.now, failure)
				}
				b.succeeds(c.succeeded, time.Microsecond)
				b.fail(b.now, b.now, sharedFailure(1+trip)) // is not new
			}
			b.is(t, c.want)
		})
	}
}
