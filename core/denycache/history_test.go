package denycache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
)

var algorithms = []func(string, core.Limit) core.Rule{
	core.TokenBucket, core.LeakyBucket, core.FixedWindow, core.SlidingLog, core.SlidingWindow,
}

// Whatever is asked, in whatever order, what is denied here would be denied behind,
// and who waits as long as told finds room. The way to the Store takes its time, so
// that the two clocks never agree about when it decided.
func TestHistories(t *testing.T) {
	for _, there := range []time.Duration{0, 3 * time.Microsecond, 2 * time.Millisecond} {
		t.Run(there.String(), func(t *testing.T) {
			hits, told, waited := 0, 0, 0
			for seed := range uint64(60) {
				w := newWitness(t, there)
				h := &walk{witness: w, rng: rand.New(rand.NewPCG(seed, 11))}
				for i := range 3 {
					h.rules = append(h.rules, h.rule(i))
				}
				for range 400 {
					h.step()
				}
				if t.Failed() {
					t.Fatalf("seed %d, rules %v", seed, h.rules)
				}
				hits, told, waited = hits+w.hits, told+w.told, waited+h.waited
			}
			t.Logf("%d denied here, %d states told, %d waits", hits, told, waited)
			if hits < 1200 || told < 1000 || waited < 300 {
				t.Error("too few to have seen anything")
			}
		})
	}
}

// A walk is a random history.
type walk struct {
	*witness
	rng    *rand.Rand
	rules  []core.Rule
	waited int
}

func (h *walk) rule(i int) core.Rule {
	limit := core.Limit{Events: 1 + h.rng.IntN(9), Per: []time.Duration{time.Millisecond, 130 * time.Millisecond, time.Second, time.Minute}[h.rng.IntN(4)]}
	r := algorithms[h.rng.IntN(len(algorithms))](fmt.Sprint("r", i), limit)
	if h.rng.IntN(4) == 0 {
		r = r.Soft(50)
	}
	if h.rng.IntN(6) == 0 {
		r = r.Shadow()
	}
	return r
}

func (h *walk) charge(i int) driver.Charge {
	c := driver.Charge{Key: fmt.Sprint("k", h.rng.IntN(2)), Rule: h.rules[i].Compiled(), Cost: 1}
	if h.rng.IntN(3) == 0 {
		c.Cost = 1 + h.rng.IntN(h.rules[i].Capacity()+1)
	}
	if h.rng.IntN(5) == 0 {
		c.Op = driver.Peek
	}
	if h.rng.IntN(4) == 0 {
		c.MaxDelay = time.Duration(h.rng.Int64N(int64(h.rules[i].Limit().Per))).Truncate(time.Microsecond) + time.Microsecond
	}
	return c
}

func (h *walk) step() {
	ctx := context.Background()
	first := h.rng.IntN(len(h.rules))
	charges := []driver.Charge{h.charge(first)}
	if h.rng.IntN(3) == 0 {
		charges = append(charges, h.charge((first+1)%len(h.rules)))
	}
	if h.rng.IntN(25) == 0 {
		for i := range charges {
			charges[i].Op = []driver.Op{driver.Reset, driver.Credit, driver.Debit}[h.rng.IntN(3)]
			charges[i].MaxDelay = 0
		}
	}
	if err := storetest.Do(ctx, h, charges); err != nil {
		h.t.Fatal(err)
	}
	switch retry := charges[0].Verdict.RetryAfter; {
	case h.rng.IntN(8) == 0:
		h.clocks.pass(time.Duration(h.rng.Int64N(int64(h.rules[0].Limit().Per))).Truncate(time.Microsecond))
	case h.rng.IntN(3) > 0 || retry == 0 || retry == core.Never || !charges[0].Op.Asks():
	case h.rng.IntN(2) == 0:
		h.clocks.pass(retry - time.Microsecond)
	default:
		h.honest(charges[0])
	}
}

// honest asks what is told about one charge, waits for so long, and asks again.
func (h *walk) honest(c driver.Charge) {
	ask := func() driver.Verdict {
		charges := []driver.Charge{c}
		if err := h.cache.Take(context.Background(), charges); err != nil {
			h.t.Fatal(err)
		}
		return charges[0].Verdict
	}
	st := ask()
	if st.Allowed || st.RetryAfter == core.Never {
		return
	}
	h.waited++
	h.clocks.pass(st.RetryAfter)
	if again := ask(); !again.Allowed {
		h.t.Errorf("%v, cost %d: told to wait for %v, and then for %v", c.Rule, c.Cost, st.RetryAfter, again.RetryAfter)
	}
}
