package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// A bound tells how much may be admitted under one rule of one key, however the clock of the
// Store steps back. It is a list of the events that were admitted and not undone, on a clock
// that never steps.
type bound struct {
	limit  core.Limit
	real   time.Duration // by a clock that never steps
	events []event
}

// An event was admitted and may be undone.
type event struct {
	at      time.Duration // by the clock that never steps
	window  int64         // of a fixed window: the window that it counts in
	cost    int           // what has not been undone
	receipt driver.Receipt
}

// span returns an error if some span holds more than capacity events and the rate times
// its length, or, without a rate, if some span of the period holds more than capacity.
func (b *bound) span(capacity int, refills bool) error {
	for i := range b.events {
		var sum int64
		for _, e := range b.events[i:] {
			length := e.at - b.events[i].at
			if !refills && length >= b.limit.Per {
				break
			}
			sum += int64(e.cost)
			allowed := int64(capacity) * int64(b.limit.Per)
			if refills {
				allowed += int64(b.limit.Events) * int64(length)
			}
			if sum*int64(b.limit.Per) > allowed {
				return fmt.Errorf("%d events in %v, of %v", sum, length, b.limit)
			}
		}
	}
	return nil
}

// count returns an error if the fixed window of now holds more than the limit. A clock that
// steps back takes the events of the newest window along.
func (b *bound) count(now time.Time) error {
	window, newest, sum := now.UnixMicro()/b.limit.Per.Microseconds(), int64(0), 0
	for i := range b.events {
		newest = max(newest, b.events[i].window)
	}
	for i := range b.events {
		e := &b.events[i]
		switch {
		case e.window < newest:
			e.window = 0
		case e.window > window:
			e.window = window
		}
		if e.window == window {
			sum += e.cost
		}
	}
	if sum > b.limit.Events {
		return fmt.Errorf("%d events in one window, of %v", sum, b.limit)
	}
	return nil
}

// undoAfterClockSteps undoes charges after steps back, of any length, before and after
// other charges. Every second walk holds one charge open at a time; in the others charges
// that are undone overlap, and a bucket may then admit up to another burst.
func undoAfterClockSteps(s *subject, a algorithm) {
	const walks, steps = 60, 60
	undone := 0
	for seed := range uint64(walks) {
		rng := rand.New(rand.NewPCG(seed, 18))
		limit := core.Per(3, 900*time.Millisecond)
		if isBucket(a) && seed%4 > 1 {
			limit.Burst = 5
		}
		rule := a.Rule(fmt.Sprint(a.Name, limit.Burst), limit)
		if a.Name == "sliding_window" {
			rule = rule.SubWindows(3) // few, so that other events share that of the charge
		}
		overlap, capacity := seed%2 == 1, rule.Capacity()
		if overlap && isBucket(a) {
			capacity *= 2
		}
		b, key := &bound{limit: limit}, fmt.Sprint("k", seed)
		var open []int
		var trace []string
		take := func(c driver.Charge) driver.Verdict {
			charges := []driver.Charge{c}
			if err := Do(context.Background(), s.Store, charges); err != nil {
				s.fail("Take: %v", err)
			}
			return charges[0].Verdict
		}
		for range steps {
			switch rng.IntN(7) {
			case 0, 1:
				d := time.Duration(rng.Int64N(int64(limit.Per))) / time.Duration(1+rng.IntN(3))
				d = d.Truncate(time.Microsecond)
				s.Advance(d)
				b.real += d
				trace = append(trace, fmt.Sprint("advance ", d))
			case 2:
				if rng.IntN(3) > 0 {
					break
				}
				d := time.Duration(rng.Int64N(4 * int64(limit.Per))).Truncate(time.Microsecond)
				s.Advance(-d)
				trace = append(trace, fmt.Sprint("step back ", d))
			case 3:
				take(driver.Charge{Key: key, Rule: rule.Compiled(), Op: driver.Peek, Cost: limit.Events})
			case 4:
				if len(open) == 0 {
					break
				}
				at := rng.IntN(len(open))
				e := &b.events[open[at]]
				open = append(open[:at], open[at+1:]...)
				e.receipt.Age = (b.real - e.at).Microseconds()
				take(driver.Charge{Key: key, Rule: rule.Compiled(), Op: driver.Undo, Cost: e.cost, Receipt: &e.receipt})
				trace = append(trace, fmt.Sprintf("undo %d of %v", e.cost, e.at))
				e.cost = 0
				undone++
			default:
				e := event{at: b.real, window: s.Now().UnixMicro() / limit.Per.Microseconds(), cost: 1 + rng.IntN(3)}
				if !take(driver.Charge{Key: key, Rule: rule.Compiled(), Op: driver.Spend, Cost: e.cost, Receipt: &e.receipt}).Allowed {
					break
				}
				trace = append(trace, fmt.Sprintf("take %d at %v", e.cost, e.at))
				b.events = append(b.events, e)
				if rng.IntN(2) == 0 && (overlap || len(open) == 0) {
					open = append(open, len(b.events)-1)
				}
			}
			var err error
			if a.Name == "fixed_window" {
				err = b.count(s.Now())
			} else {
				err = b.span(capacity, isBucket(a))
			}
			if err != nil {
				for _, line := range trace {
					s.Log(line)
				}
				s.fail("walk %d: %v", seed, err)
			}
		}
	}
	if undone < walks {
		s.fail("only %d were undone: the case checks nothing", undone)
	}
}
