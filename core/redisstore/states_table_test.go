package redisstore_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// bucketText returns the state of a bucket in Redis, as lua/bucket.lua describes it.
func bucketText(s driver.State) string {
	switch {
	case s == driver.State{}:
		return ""
	case s.Debt != 0:
		return fmt.Sprintf("%d %d %d", s.Time, s.Amount, s.Debt)
	case s.Amount != 0:
		return fmt.Sprintf("%d %d", s.Time, s.Amount)
	}
	return fmt.Sprint(s.Time)
}

// quotaText returns the state of a quota in Redis, as lua/quota.lua describes it.
func quotaText(s driver.State) string {
	if s == (driver.State{}) {
		return ""
	}
	integer := func(n int64, width int) string {
		return string(binary.BigEndian.AppendUint64(nil, uint64(n))[8-width:])
	}
	return integer(s.Time, 7) + integer(s.Time-s.Debt, 7) + integer(s.Amount, 6)
}

// pauseText returns the state of a pause in Redis, as lua/pause.lua describes it.
func pauseText(s driver.State) string {
	if s == (driver.State{}) {
		return ""
	}
	integer := func(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))[1:]) }
	return integer(s.Time) + integer(s.Debt)
}

// apply applies c to s in this process.
func apply(c *driver.Charge, s driver.State, now int64) driver.State {
	r := c.Read(s, now)
	if !c.Op.Asks() {
		s = c.Apply(s, &r, now)
		c.Answer(&r, false)
		return s
	}
	if c.AtMost {
		one := []driver.Charge{*c}
		driver.Reduce(one, func(int) driver.Reading { return r })
		c.Cost = one[0].Cost
		r = c.Read(s, now)
	}
	admitted := c.Fits(&r)
	s, _ = c.Commit(s, &r, now, admitted)
	c.Answer(&r, admitted)
	return s
}

// checkRow writes the state in to Redis and applies c there and in this process. Both must give one state,
// Verdict, Receipt and Cost.
func checkRow(t *testing.T, rdb *redis.Client, h *storetest.Harness, in driver.State, c driver.Charge, text func(driver.State) string) {
	t.Helper()
	key := h.Store.(*redisstore.Store).StateKey("k", c.Rule)
	c.Key = "k"
	write := rdb.Del(t.Context(), key).Err()
	if value := text(in); value != "" {
		write = rdb.Set(t.Context(), key, value, 0).Err()
	}
	testkit.Must(t, write)
	charges, want, now := []driver.Charge{c}, c, h.Now().UnixMicro()
	out := apply(&want, in, now)
	testkit.Must(t, storetest.Do(t.Context(), h.Store, charges))
	got, state := charges[0], rdb.Get(t.Context(), key).Val()
	if got != want || state != text(out) {
		t.Fatalf("op %d, at most %t, cost %d of %v, receipt %v, in the state %+v at %d:\n\tgot  %+v, cost %d, %v, state %q\n\twant %+v, cost %d, %v, state %q",
			c.Op, c.AtMost, c.Cost, c.Rule, c.Receipt, in, now, got.Verdict, got.Cost, got.Receipt, state, want.Verdict, want.Cost, want.Receipt, text(out))
	}
}

// randomCharge returns a charge of r with any op.
func randomCharge(rng *rand.Rand, r *driver.Compiled, now int64) driver.Charge {
	c := driver.Charge{Rule: r, Cost: 1 + rng.IntN(int(r.Constants.Capacity)+3)}
	switch rng.IntN(10) {
	case 0:
		c.Op = driver.Peek
	case 1:
		c.Op = driver.Reset
	case 2:
		c.Op = driver.Credit
	case 3:
		c.Op = driver.Debit
	case 4:
		c.Op = driver.Undo
		c.Receipt = driver.Receipt{At: now - rng.Int64N(5_000_000), Age: rng.Int64N(2) * rng.Int64N(5_000_000)}
		if r.Kind.Refills {
			c.Receipt.Used = driver.Span{Micros: rng.Int64N(r.Constants.Full.Micros + 1), Frac: rng.Int64N(r.Constants.Denominator)}
		}
	case 5, 6, 7:
		c.AtMost = true
	}
	if r.Algorithm == driver.LeakyBucket && c.Op.Asks() && !c.AtMost {
		c.MaxDelay = time.Duration(rng.IntN(3)) * time.Duration(rng.Int64N(r.Constants.Full.Micros+1)) * time.Microsecond
	}
	return c
}

// The scripts of buckets and package driver agree about every charge of every state, with headroom and
// without it, also in debt, after a step of the clock and after a change of the rate.
func TestBucket_states(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, a := range []driver.Algorithm{driver.TokenBucket, driver.LeakyBucket} {
		for _, limit := range []driver.Definition{
			{Events: 10, Per: time.Second}, {Events: 7, Per: time.Second}, {Events: 60, Per: time.Minute, Burst: 5, Soft: 40},
			{Events: 999_983, Per: time.Hour, Burst: 100}, {Events: 3_000_000, Per: time.Second, Burst: 2}, {Events: 1, Per: time.Minute},
		} {
			for _, headroom := range []float64{0, 20, 99} {
				d := limit
				d.Name, d.Algorithm, d.Headroom = "states", a, headroom
				rule, err := d.Compile()
				testkit.Must(t, err)
				t.Run(fmt.Sprintf("%v %d in %v, %v%%", a, d.Events, d.Per, headroom), func(t *testing.T) {
					t.Parallel()
					h, rng, k := harness(rdb), rand.New(rand.NewPCG(uint64(d.Events), uint64(headroom))), rule.Constants
					for range 250 {
						h.Advance(time.Duration(rng.IntN(1000)) * time.Microsecond)
						now := h.Now().UnixMicro()
						in := driver.State{Time: now + rng.Int64N(k.Full.Micros+k.Unit.Micros+3) - k.Unit.Micros, Amount: rng.Int64N(k.Denominator)}
						if rng.IntN(3) == 0 { // exactly a number of events, on either side of the limits
							in = driver.State{Time: now, Amount: 0}
							for range rng.IntN(int(k.Capacity) + 3) {
								in.Time, in.Amount = in.Time+k.Unit.Micros, in.Amount+k.Unit.Frac
								if in.Amount >= k.Denominator {
									in.Time, in.Amount = in.Time+1, in.Amount-k.Denominator
								}
							}
						}
						switch rng.IntN(8) {
						case 0:
							in = driver.State{}
						case 1:
							in.Amount += k.Denominator
						case 2:
							in.Time += k.Full.Micros // beyond the limit without a debt
						case 3:
							in.Debt = now - rng.Int64N(1000) + rng.Int64N(2000)
							in.Time = max(in.Time, in.Debt) + k.Full.Micros + 1
						}
						checkRow(t, rdb, h, in, randomCharge(rng, rule, now), bucketText)
					}
				})
			}
		}
	}
}

// The scripts of quotas and package driver agree about every charge of every state, in any calendar.
func TestQuota_states(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, unit := range []driver.Calendar{driver.Day, driver.Week, driver.Month} {
		for _, soft := range []float64{0, 50} {
			rule := quota(t, unit, 5, soft)
			t.Run(fmt.Sprintf("%v, %v%%", unit, soft), func(t *testing.T) {
				t.Parallel()
				h, rng, longest := harness(rdb), rand.New(rand.NewPCG(uint64(unit), uint64(soft))), rule.Constants.Period
				for range 1000 {
					h.Advance(time.Duration(rng.IntN(1000)) * time.Microsecond)
					now := h.Now().UnixMicro()
					length := func() int64 { return []int64{1, 2, longest / 2, longest, 1 + rng.Int64N(longest)}[rng.IntN(5)] }
					edge := func(n int64) int64 { return []int64{-n, -1, 0, 1, n, rng.Int64N(n) - n/2}[rng.IntN(6)] }
					p := driver.Periods{Boundary: now + edge(3*longest)}
					p.Start, p.End = p.Boundary-length(), p.Boundary+length()
					in := driver.State{Time: now + edge(longest) + rng.Int64N(2), Amount: 1 + rng.Int64N(9)}
					in.Debt = in.Time - length()
					switch rng.IntN(12) {
					case 0:
						in = driver.State{}
					case 1:
						in.Amount = 1<<48 - 1 - rng.Int64N(3)
					}
					c := randomCharge(rng, rule.During(p), now)
					if c.Op == driver.Undo && rng.IntN(2) == 0 {
						c.Receipt.At = in.Debt + rng.Int64N(3) - 1
					}
					checkRow(t, rdb, h, in, c, quotaText)
				}
			})
		}
	}
}

// The scripts of pauses and package driver agree about every charge of every state, also after a step of the clock.
func TestPause_states(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, shadow := range []bool{false, true} {
		rule, err := driver.Definition{Name: "states", Algorithm: driver.Pause, Shadow: shadow}.Compile()
		testkit.Must(t, err)
		t.Run(fmt.Sprintf("shadow %t", shadow), func(t *testing.T) {
			t.Parallel()
			const longest = int64(366 * 24 * time.Hour / time.Microsecond)
			h, rng := harness(rdb), rand.New(rand.NewPCG(1, 2))
			for range 2000 {
				h.Advance(time.Duration(rng.IntN(1000)) * time.Microsecond)
				now := h.Now().UnixMicro()
				length := func() int64 {
					return []int64{1, 2, 1000, longest - 1, longest, 1 + rng.Int64N(longest), 1 + rng.Int64N(1e9)}[rng.IntN(7)]
				}
				var in driver.State
				if rng.IntN(6) > 0 { // with the end or the write at the edges of now, or anywhere
					in.Time = now + []int64{-length(), -1, 0, 1, length(), length() * 2}[rng.IntN(6)]
					if in.Debt = in.Time - length(); rng.IntN(4) == 0 {
						n := length()
						in.Debt = now + int64(rng.IntN(3)) - 1
						in.Time = in.Debt + n
					}
				}
				c := driver.Charge{Rule: rule, Cost: 1 + rng.IntN(1000)}
				switch rng.IntN(8) {
				case 0:
					c.Op = driver.Peek
				case 1:
					c.Op = driver.Reset
				case 2:
					c.Op = driver.Credit
				case 3, 4:
					c.Op = driver.Debit
					us := []int64{0, 1, max(0, in.Time-now), max(1, in.Time-now) - 1, max(0, in.Time-now+1), length(), longest, longest + 1}[rng.IntN(8)]
					c.MaxDelay = time.Duration(min(us, longest+1)) * time.Microsecond
				case 5:
					c.Op, c.Receipt = driver.Undo, driver.Receipt{At: []int64{0, now, in.Debt}[rng.IntN(3)], Age: rng.Int64N(2) * 5}
				case 6:
					c.AtMost = true
				}
				checkRow(t, rdb, h, in, c, pauseText)
			}
		})
	}
}

// A plan with headroom and the other callers in turn have the verdicts of package driver, with debts, undos
// and steps of the clock.
func TestHeadroom_turns(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, a := range []driver.Algorithm{driver.TokenBucket, driver.LeakyBucket, driver.FixedWindow, driver.SlidingWindow, driver.SlidingLog, driver.Quota} {
		for _, events := range []int{10, 7} {
			t.Run(fmt.Sprint(a, events), func(t *testing.T) {
				t.Parallel()
				const step = int64(200 * time.Millisecond)
				d := driver.Definition{Name: "turns", Algorithm: a, Events: events, Per: time.Second, Soft: 20}
				now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() // as in harness
				periods := driver.Periods{Start: now - 1e6, Boundary: now + 100e6, End: now + 200e6}
				switch a {
				case driver.SlidingWindow:
					d.SubWindows = 4
				case driver.Quota:
					d.Per, d.Calendar = 0, driver.Day
				}
				var rules []*driver.Compiled
				for _, headroom := range []float64{0, 40, 90} {
					d.Headroom = headroom
					rule, err := d.Compile()
					testkit.Must(t, err)
					if a == driver.Quota {
						rule = rule.During(periods)
					}
					rules = append(rules, rule)
				}
				h, rng := harness(rdb), rand.New(rand.NewPCG(uint64(a), uint64(events)))
				p := &pair{Harness: h, t: t, ref: &storetest.Fake{Clock: func() int64 { return h.Now().UnixMicro() }}}
				admitted := make(map[*driver.Compiled]int)
				for range 1500 {
					p.Advance(time.Duration(rng.Int64N(step)).Truncate(time.Microsecond))
					if rng.IntN(50) == 0 {
						p.Advance(-time.Duration(rng.Int64N(5 * step)).Truncate(time.Microsecond))
					}
					if n := len(p.held); n > 0 && rng.IntN(6) == 0 {
						p.undo(n - 1)
						p.held = p.held[:0]
						continue
					}
					c := randomCharge(rng, rules[rng.IntN(len(rules))], h.Now().UnixMicro())
					c.Cost = 1 + (c.Cost-1)%4
					if c.Op == driver.Undo || c.Op == driver.Reset && rng.IntN(4) > 0 {
						c.Op, c.Receipt = driver.Spend, driver.Receipt{}
					}
					if c = p.do(c); c.Op == driver.Spend && c.Verdict.Allowed {
						admitted[c.Rule]++
					}
				}
				for _, rule := range rules {
					if admitted[rule] == 0 {
						t.Errorf("no event of %v was admitted", rule.Headroom)
					}
				}
			})
		}
	}
}
