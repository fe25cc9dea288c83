package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// A bound checks the events that one rule admitted for one key against the limit, however the
// clock of the Store steps back.
type bound struct {
	limit  core.Limit
	real   time.Duration // the time of a clock that never steps
	events []event       // in the order of their times
}

// An event is an admitted event, whose charge may be undone.
type event struct {
	at      time.Duration // the time of the clock that never steps
	window  int64         // the number of the window in which the event counts; only for a fixed window
	cost    int           // the part of the cost that is not undone
	receipt driver.Receipt
}

// span returns an error if the events of any span of time exceed the limit: capacity and the
// refill of the span for a rule that refills, otherwise capacity for a span of the period.
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
				return fmt.Errorf("got %d events in %v under the limit %v", sum, length, b.limit)
			}
		}
	}
	return nil
}

// count returns an error if the fixed window of now holds more events than the limit. After a step
// back of the clock, the events of the newest window count in the window of now.
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
		return fmt.Errorf("got %d events in one window under the limit %v", sum, b.limit)
	}
	return nil
}

// A planBound checks the events that the plans of one length have admitted together.
type planBound struct {
	per     time.Duration
	largest int // the largest limit
	events  []planEvent
	denied  int
}

type planEvent struct {
	at    time.Time
	limit core.Limit // without a Burst
	cost  int
}

// check returns an error if the events of any span that ends with the last event exceed the bound:
// for a bucket, each event takes the part of the bucket that its cost is of the limit of its plan,
// except for a microsecond, because a rate rounds a state that another rate has written. For other
// algorithms, a window or period has at most the events of the largest limit.
func (b *planBound) check(a algorithm) error {
	last := b.events[len(b.events)-1].at
	sum, used, allowed := 0, 0.0, b.per
	for _, e := range slices.Backward(b.events) {
		sum += e.cost
		used += float64(e.cost) / float64(e.limit.Events) * float64(b.per)
		allowed += time.Microsecond
		span, counts, most := last.Sub(e.at), true, b.largest
		switch {
		case isBucket(a):
			if used > float64(allowed+span) {
				return fmt.Errorf("%d events in %v took %v of a bucket that refills in %v", sum, span, time.Duration(used), b.per)
			}
			continue
		case a.Name == "fixed_window":
			counts = e.at.UnixMicro()/b.per.Microseconds() == last.UnixMicro()/b.per.Microseconds()
		case a.Name == fromFirst:
			counts, most = span < b.per, 2*b.largest
		default:
			counts = span < b.per
		}
		if counts && sum > most {
			return fmt.Errorf("got %d events in %v, want at most %d per %v", sum, span, most, b.per)
		}
	}
	return nil
}

// undoAfterClockSteps undoes charges after steps back of any length, before and after other
// charges. In every second walk at most one charge waits for its undo. In the other walks several
// charges wait, and a bucket may then admit up to one more burst.
func undoAfterClockSteps(s *subject, a algorithm) {
	const walks, steps = 32, 60
	undone := 0
	for seed := range uint64(walks) {
		rng := rand.New(rand.NewPCG(seed, 18))
		limit := core.Per(3, 900*time.Millisecond)
		if isBucket(a) && seed%4 > 1 {
			limit.Burst = 5
		}
		rule := a.Rule(fmt.Sprint(a.Name, limit.Burst), limit)
		if a.Name == "sliding_window" {
			rule = rule.SubWindows(3) // few, so that charges share a sub-window with other events
		}
		overlap, capacity := seed%2 == 1, rule.Capacity()
		if overlap && isBucket(a) {
			capacity *= 2
		}
		b, key := &bound{limit: limit}, fmt.Sprint("k", seed)
		var open []int
		var trace []string
		take := func(c driver.Charge) driver.Charge {
			charges := []driver.Charge{c}
			if err := Do(context.Background(), s.Store, charges); err != nil {
				s.fail("Take: %v", err)
			}
			return charges[0]
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
				take(driver.Charge{Key: key, Rule: testkit.Compiled(rule), Op: driver.Peek, Cost: limit.Events})
			case 4:
				if len(open) == 0 {
					break
				}
				at := rng.IntN(len(open))
				e := &b.events[open[at]]
				open = append(open[:at], open[at+1:]...)
				e.receipt.Age = (b.real - e.at).Microseconds()
				take(driver.Charge{Key: key, Rule: testkit.Compiled(rule), Op: driver.Undo, Cost: e.cost, Receipt: e.receipt})
				trace = append(trace, fmt.Sprintf("undo %d of %v", e.cost, e.at))
				e.cost = 0
				undone++
			default:
				e := event{at: b.real, window: s.Now().UnixMicro() / limit.Per.Microseconds(), cost: 1 + rng.IntN(3)}
				took := take(driver.Charge{Key: key, Rule: testkit.Compiled(rule), Op: driver.Spend, Cost: e.cost})
				if e.receipt = took.Receipt; !took.Verdict.Allowed {
					break
				}
				trace = append(trace, fmt.Sprintf("take %d at %v", e.cost, e.at))
				b.events = append(b.events, e)
				if rng.IntN(2) == 0 && (overlap || len(open) == 0) {
					open = append(open, len(b.events)-1)
				}
			}
			var err error
			switch a.Name {
			case "fixed_window":
				err = b.count(s.Now())
			case fromFirst: // a window may end after the first of these events, and another before the last
				err = b.span(2*capacity, false)
			default:
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
		s.fail("only %d charges were undone, want at least %d", undone, walks)
	}
}
