package storetest

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
)

// limits returns up to four limits of a name, and variants of them. They have the same algorithm, which is no
// pause, and different rates, bursts, soft limits and lengths.
func (w *walk) limits(name string) (all []*oracle.Rule) {
	first := oracle.Rule{
		Name:      name,
		Algorithm: pick(w, append(limitNames(), "fixed_window")...), // half of its windows begin with the first event
		Events:    most(pick[int64](w, 1, 2, 3, 7, 10, 13, 25, 60, 100, 997, 1_000_003, 1<<47+1, oracle.MaxCount-1)),
		Per: pick(w, 1, 3, 1000, 7000, 1_000_000, 11_000_000, 60_000_000, 3_600_000_000, 86_400_000_000,
			365*86_400_000_000, oracle.Horizon),
		Shadow: w.one(5),
	}
	inFlight := w.places || isInFlightRule(&first)
	switch {
	case inFlight:
		first.Algorithm, first.Per = "in_flight", pick[int64](w, 1_000_000, 1_000_001, 30_000_000, 3_600_000_000, 86_400_000_000)
		first.ByCost = w.one(2)
	case isQuotaRule(&first):
		w.setUnit(&first)
	}
	n := 1 + w.rng.IntN(4)
	if w.waits {
		n = 1
	}
	for i := range n {
		r := first
		switch {
		case inFlight:
			if r.Events = pick[int64](w, 1, 2, 3, 5, 10, 1000); first.ByCost {
				r.Events = pick[int64](w, 1, 3, 10, 40, 1000, 90_000, 1_000_000)
			}
			if w.waits {
				r.Events = pick[int64](w, 1, 2, 3, 10)
			}
			r.Per = min(r.Per*pick[int64](w, 1, 1, 2), 86_400_000_000)
		case isQuotaRule(&first):
			if r.Events = most(pick[int64](w, 1, 2, 5, 10, 100, 1_000_003, oracle.MaxCount-1)); w.one(4) {
				w.setUnit(&r)
			}
			if w.rests {
				r.Rollover = most([...]int64{2, 0, 5, 100, 1, 0, oracle.MaxCount - 1}[(w.seed+uint64(i))%7]) // without a draw, which would change all histories
			}
		case w.fine:
			r.Events, r.Per = 1+w.rng.Int64N(12), 1+w.rng.Int64N(100)
		case i > 0:
			r.Events = most(min(max(1, r.Events*pick[int64](w, 1, 2, 3)/pick[int64](w, 1, 1, 2, 3)), oracle.MaxCount-1))
			r.Per = min(max(1, r.Per/pick[int64](w, 1, 1, 2, 3, 100)*pick[int64](w, 1, 1, 2)), oracle.Horizon)
		}
		if isBucketRule(&r) && w.one(2) {
			r.Burst = pick(w, 1, 2, 5, 20, 1000, r.Events)
		}
		if r.Algorithm == "fixed_window" && w.one(2) {
			r.FromFirst = true
		}
		if r.Algorithm == "sliding_window" {
			r.SubWindows = pick[int64](w, 1, 2, 3, 7, 10, 60, 120)
		}
		if len(all) > 0 && (i > 1 || w.one(2)) { // often the length of an earlier limit
			times := pick[int64](w, 1, 2, 3, 7)
			r = *pick(w, all...)
			for r.Base != nil {
				r = *r.Base
			}
			r.Events, r.Burst = most(r.Events*times), most(r.Burst*times)
		}
		plan := ""
		if w.plans {
			plan = fmt.Sprint("plan", i)
		}
		all = append(all, w.variants(r, plan)...)
	}
	return all
}

// limitNames returns the algorithms that have limits.
func limitNames() []string {
	return slices.DeleteFunc(slices.Clone(algorithmNames), func(name string) bool { return name == "pause" })
}

// pause returns the only limit of a pause.
func (w *walk) pause(name string) []*oracle.Rule {
	r := &oracle.Rule{Name: name, Algorithm: "pause", Per: w.rules[0][0].Per, Shadow: w.one(5)}
	if !w.compile(r, "", 0, 0) {
		panic("storetest: not a pause")
	}
	return []*oracle.Rule{r}
}

// pauses returns a charge of Adjust for r, a pause. The lengths are as the periods of the other rules, by which
// the clock moves.
func (w *walk) pauses(r *oracle.Rule) oracle.Charge {
	c := oracle.Charge{Key: pick(w, "a", "b"), Rule: r, Cost: most(w.cost(oracle.MaxCount))}
	per := pick(w, w.rules...)[0].Per
	us := pick(w, 0, 1, w.wait-1, w.wait, w.wait+1, w.rng.Int64N(per), w.rng.Int64N(per), w.rng.Int64N(per), w.rng.Int64N(2*per), longestPause.Microseconds())
	switch c.Op = pick(w, oracle.Credit, oracle.Debit, oracle.Debit, oracle.Debit, oracle.Debit, oracle.Reset, oracle.Undo); c.Op {
	case oracle.Debit:
		c.Pause = time.Duration(min(max(0, us), longestPause.Microseconds())) * time.Microsecond
		c.Ban = w.one(2)
	case oracle.Undo:
		c.Receipt = &oracle.Receipt{At: pick(w, 0, w.now, w.now-1)}
	}
	return c
}

// setUnit gives r, a quota, another period.
func (w *walk) setUnit(r *oracle.Rule) {
	r.Unit = pick(w, unitNames...)
	if r.Per = unitLengths[r.Unit]; w.fine {
		r.Per = 1 + w.rng.Int64N(100)
	}
}

// variants returns r with a soft limit or not, and sometimes with headroom, as an elastic rule and as the
// part of a process. It returns nothing if no store can run r.
func (w *walk) variants(r oracle.Rule, plan string) (all []*oracle.Rule) {
	soft := pick(w, 0, 0, 0, 0, 7.5, 10, 33.3, 50, 300)
	for _, headroom := range []float64{0, pick(w, 0, 0, 1, 20, 33.3, 50, 90, 99)} {
		limited := r
		setLimit(&limited, driver.Definition{Events: int(r.Events), Burst: int(r.Burst), Rollover: int(r.Rollover), Soft: soft, Headroom: headroom})
		if len(all) > 0 && headroom == 0 || !w.compile(&limited, plan, soft, headroom) {
			continue
		}
		if all = append(all, &limited); w.one(4) {
			enlarged := w.enlarge(&limited, pick(w, 1.5, 2, 3.7, 10))
			w.occurred["elastic"] += len(enlarged)
			all = append(all, enlarged...)
		}
		if w.one(4) {
			parts := w.divide(&limited, pick(w, 2, 3, 10))
			w.occurred["divided"] += len(parts)
			all = append(all, parts...)
		}
	}
	return all
}

// percent returns soft percent of n, rounded down.
func percent(n int64, soft float64) int64 {
	exact := exactly(soft)
	exact.Mul(exact, big.NewRat(n, 100))
	return new(big.Int).Quo(exact.Num(), exact.Denom()).Int64()
}

// exactly returns the decimal number that f stands for.
func exactly(f float64) *big.Rat {
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'f', -1, 64))
	if !ok {
		panic("storetest: not a number")
	}
	return exact
}

// most returns n, or the largest int on a 32-bit platform.
func most(n int64) int64 { return min(n, math.MaxInt) }

// calendar returns the calendar of r if it is a quota. The clock of the caller is wrong by up to a third
// of a period, or by any time if all periods have the same length.
func (w *walk) calendar(r *oracle.Rule) oracle.Calendar {
	if !isQuotaRule(r) {
		return nil
	}
	c := calendar{length: r.Per, offset: w.zones[w.nameOf(r)] % r.Per, jitter: r.Per / 24}
	if w.seed%2 == 0 {
		c.jitter = 0
	}
	if c.ahead = pick(w, 0, 0, 0, 1, w.rng.Int64N(1+r.Per/3)); c.jitter == 0 && w.one(4) {
		c.ahead = w.rng.Int64N(100 * r.Per)
	}
	if w.one(2) {
		c.ahead = max(-c.ahead, c.offset+2*r.Per-w.now)
	}
	return c
}

// nameOf returns the index of the name of r.
func (w *walk) nameOf(r *oracle.Rule) int {
	return slices.IndexFunc(w.rules, func(limits []*oracle.Rule) bool { return slices.Contains(limits, r) })
}
