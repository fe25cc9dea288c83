package lease

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// What decisions took that are denied goes back in any order, here or to the Store, while
// others spend, lease and give back: never over the limit.
func TestRestore(t *testing.T) {
	const seeds = 30_000
	for name, here := range map[string]bool{"here": true, "to the Store": false} {
		t.Run(name, func(t *testing.T) {
			put := [2]int{} // here, and there
			for seed := range uint64(seeds) {
				y := newRestoring(seed)
				for range 6 + y.rng.IntN(20) {
					y.act(here, &put)
				}
				y.now += y.rng.Int64N(100e6)
				y.storm()
				if over := y.over(); over > 0 {
					t.Fatalf("seed %d: %d tokens over the limit", seed, over)
				}
			}
			if put[1] == 0 || here && put[0] == 0 {
				t.Errorf("%d went back here, and %d to the Store: the test shows nothing", put[0], put[1])
			}
		})
	}
}

// A restoring is a yard where decisions are open for a while.
type restoring struct {
	*yard
	open []opened
}

type opened struct {
	c     *cell
	t     taken
	n     int64
	event int
}

func newRestoring(seed uint64) *restoring {
	y := &restoring{yard: &yard{rng: rand.New(rand.NewPCG(seed, 98))}}
	rule := core.TokenBucket("r", core.PerSecond(1000))
	for range 2 {
		y.m = newMeter(&rule, time.Second)
		y.cells = append(y.cells, &cell{m: y.m})
	}
	if n := y.rng.Int64N(900); n > 0 {
		y.take(n)
		y.admit(n)
	}
	return y
}

func (y *restoring) act(here bool, put *[2]int) {
	c := y.cells[y.rng.IntN(2)]
	switch y.rng.IntN(7) {
	case 0:
		if n := 1 + y.rng.Int64N(100); y.free() >= n {
			c.keep(y.block(c, y.take(n), y.now, n), y.now)
		}
	case 1, 2:
		if held := c.held(y.now); held > 0 {
			n := 1 + y.rng.Int64N(held)
			y.open = append(y.open, opened{c, c.spend(y.now, n), n, len(y.events)})
			y.admit(n)
		}
	case 3, 4:
		if len(y.open) == 0 {
			return
		}
		i := y.rng.IntN(len(y.open))
		o := y.open[i]
		y.open = append(y.open[:i], y.open[i+1:]...)
		d, owed := debt{}, true
		if here {
			d, owed = o.c.restore(y.now, o.n, o.t)
		} else {
			d = o.c.owe(o.n, o.t)
		}
		if owed {
			y.undo(d)
			put[1]++
		} else {
			put[0]++
		}
		y.events[o.event].Cost = 0
	case 5:
		for _, d := range c.end(y.now, true) {
			y.undo(d)
		}
	case 6:
		y.now += y.rng.Int64N(130e6)
	}
}
