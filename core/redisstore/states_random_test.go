package redisstore_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// bucketText returns the state of a bucket, as lua/bucket.lua describes it.
func bucketText(_ *driver.Compiled, s driver.State) string {
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

// bytesOf returns pairs of a number and its width in bytes as big-endian text.
func bytesOf(pairs ...int64) string {
	var out []byte
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, binary.BigEndian.AppendUint64(nil, uint64(pairs[i]))[8-pairs[i+1]:]...)
	}
	return string(out)
}

// windowText returns the state of a quota or a fixed window, as lua/quota.lua describes it.
func windowText(end, length, count int64) string { return bytesOf(end, 7, length, 7, count, 6) }

// quotaText returns such a state, also as lua/rollover.lua describes it. Package driver keeps the start of a fixed window that does not begin with the first event.
func quotaText(r *driver.Compiled, s driver.State) string {
	if s == (driver.State{}) {
		return ""
	}
	if r.Algorithm == driver.FixedWindow && !r.FromFirst {
		s.Time, s.Debt = s.Time+r.Constants.Period, s.Time
	}
	if b, _ := s.MarshalBinary(); s.Time < 0 {
		rest, _ := binary.Uvarint(b[1:])
		return windowText(-s.Time, -s.Time-s.Debt, s.Amount) + bytesOf(int64(rest), 6)
	}
	return windowText(s.Time, s.Time-s.Debt, s.Amount)
}

// pauseText returns the state of a pause, as lua/pause.lua describes it.
func pauseText(_ *driver.Compiled, s driver.State) string {
	if s == (driver.State{}) {
		return ""
	}
	return bytesOf(s.Time, 7, s.Debt, 7)
}

func bucketRules(a driver.Algorithm) (all []driver.Definition) {
	for _, d := range []driver.Definition{
		{Events: 10, Per: time.Second}, {Events: 7, Per: time.Second}, {Events: 60, Per: time.Minute, Burst: 5, Soft: 40},
		{Events: 999_983, Per: time.Hour, Burst: 100}, {Events: 3_000_000, Per: time.Second, Burst: 2}, {Events: 1, Per: time.Minute},
	} {
		for _, headroom := range []float64{0, 20, 99} {
			d.Algorithm, d.Headroom = a, headroom
			all = append(all, d)
		}
	}
	return all
}

func quotaRules(rollover int) (all []driver.Definition) {
	for _, unit := range []driver.Calendar{driver.Day, driver.Week, driver.Month} {
		for _, soft := range []float64{0, 50} {
			all = append(all, driver.Definition{Algorithm: driver.Quota, Events: 5, Calendar: unit, Soft: soft, Rollover: rollover})
		}
	}
	return all
}

func windowRules(fromFirst bool) (all []driver.Definition) {
	for _, per := range []time.Duration{7 * time.Microsecond, time.Second, day} {
		all = append(all, driver.Definition{Algorithm: driver.FixedWindow, Events: 5, Per: per, FromFirst: fromFirst, Soft: 50, Headroom: 20})
	}
	return all
}

// randomRollover is randomWindow for a quota with a rollover. Most states are those of such a rule, with a rest or without.
func randomRollover(rng *rand.Rand, r *driver.Compiled, now int64) (driver.State, driver.Charge) {
	in, c := randomWindow(rng, r, now)
	if in == (driver.State{}) || rng.IntN(4) == 0 {
		return in, c
	}
	rest := rng.Int64N(5)
	b := binary.AppendUvarint([]byte{5}, uint64(rest))
	for _, n := range [...]int64{in.Time, pick(rng, in.Amount, min(in.Amount, 1-min(rest, 1))), in.Debt} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if err := in.UnmarshalBinary(b); err != nil {
		panic(err)
	}
	return in, c
}

// pick returns one of all.
func pick(rng *rand.Rand, all ...int64) int64 { return all[rng.IntN(len(all))] }

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

// randomBucket returns also states in debt, after a step of the clock, and of another rate.
func randomBucket(rng *rand.Rand, r *driver.Compiled, now int64) (driver.State, driver.Charge) {
	k := r.Constants
	in := driver.State{Time: now + rng.Int64N(k.Full.Micros+k.Unit.Micros+3) - k.Unit.Micros, Amount: rng.Int64N(k.Denominator)}
	if rng.IntN(3) == 0 { // exactly a number of events, on either side of the limits
		in = driver.State{Time: now}
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
	return in, randomCharge(rng, r, now)
}

// randomWindow returns a charge of a fixed window or, in any calendar, of a quota, and a state that may be of another one.
func randomWindow(rng *rand.Rand, r *driver.Compiled, now int64) (driver.State, driver.Charge) {
	longest := r.Constants.Period
	length := func() int64 { return pick(rng, 1, 2, longest/2, longest, 1+rng.Int64N(longest)) }
	edge := func(n int64) int64 { return pick(rng, -n, -1, 0, 1, n, rng.Int64N(n)-n/2) }
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
	start := in.Debt
	switch {
	case r.Kind.Calendar:
		r = r.During(p)
	case !r.FromFirst: // the state has the start, and no end
		start = in.Time - in.Time%longest
		if in.Amount > 0 {
			in.Time, in.Debt = start, 0
		}
	}
	c := randomCharge(rng, r, now)
	if c.Op == driver.Undo && rng.IntN(2) == 0 {
		c.Receipt.At = start + rng.Int64N(3) - 1
	}
	return in, c
}

// randomPause returns a state with the end or the write at the edges of now, or anywhere.
func randomPause(rng *rand.Rand, r *driver.Compiled, now int64) (in driver.State, c driver.Charge) {
	const longest = int64(longestPause / time.Microsecond)
	length := func() int64 {
		return pick(rng, 1, 2, 1000, longest-1, longest, 1+rng.Int64N(longest), 1+rng.Int64N(1e9))
	}
	if rng.IntN(6) > 0 {
		in.Time = now + pick(rng, -length(), -1, 0, 1, length(), length()*2)
		if in.Debt = in.Time - length(); rng.IntN(4) == 0 {
			n := length()
			in.Debt = now + rng.Int64N(3) - 1
			in.Time = in.Debt + n
		}
	}
	c = driver.Charge{Rule: r, Cost: 1 + rng.IntN(1000)}
	switch rng.IntN(8) {
	case 0:
		c.Op = driver.Peek
	case 1:
		c.Op = driver.Reset
	case 2:
		c.Op = driver.Credit
	case 3, 4:
		c.Op = driver.Debit
		us := pick(rng, 0, 1, max(0, in.Time-now), max(1, in.Time-now)-1, max(0, in.Time-now+1), length(), longest, longest+1)
		c.Pause = time.Duration(min(us, longest)) * time.Microsecond
	case 5:
		c.Op, c.Receipt = driver.Undo, driver.Receipt{At: pick(rng, 0, now, in.Debt), Age: rng.Int64N(2) * 5}
	case 6:
		c.AtMost = true
	}
	return in, c
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

// A charge of any state has the same effect in Redis and in package driver: the state, Verdict, Receipt and Cost.
func TestStates_equalDriver(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const rounds = 5000 // of a format
	rdb := redistest.Shared(t).Client()
	for _, f := range formats {
		for i, d := range f.rules {
			d.Name = "states"
			rule := compile(t, d)
			t.Run(fmt.Sprintf("%s/%v, soft %v%%, headroom %v%%, shadow %t", f.name, rule, d.Soft, d.Headroom, d.Shadow), func(t *testing.T) {
				t.Parallel()
				s, rng := newSubject(t, rdb, rule), rand.New(rand.NewPCG(uint64(i), 2))
				for range rounds / len(f.rules) {
					s.Advance(time.Duration(rng.IntN(1000)) * time.Microsecond)
					now := s.Now().UnixMicro()
					in, c := f.random(rng, rule, now)
					write := rdb.Del(t.Context(), s.key).Err()
					if value := f.text(rule, in); value != "" {
						write = rdb.Set(t.Context(), s.key, value, 0).Err()
					}
					testkit.Must(t, write)
					c.Key = "k"
					want := c
					out := f.text(rule, apply(&want, in, now))
					got := s.do(c)
					if testkit.SameRule(got.Verdict.Rule, want.Verdict.Rule) {
						got.Verdict.Rule = want.Verdict.Rule
					}
					if state := rdb.Get(t.Context(), s.key).Val(); got != want || state != out {
						t.Fatalf("%s, receipt %v, in the state %+v at %d:\n\tgot  %+v, cost %d, %v, state %q\n\twant %+v, cost %d, %v, state %q",
							fmt.Sprintf("op %d, at most %t, cost %d of %v", c.Op, c.AtMost, c.Cost, c.Rule), c.Receipt, in, now,
							got.Verdict, got.Cost, got.Receipt, state, want.Verdict, want.Cost, want.Receipt, out)
					}
				}
			})
		}
	}
}

// Callers with and without headroom in turn get the verdicts of package driver, with debts, undos and steps of the clock.
func TestStates_turns(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const step = 200 * time.Millisecond
	rdb := redistest.Shared(t).Client()
	for _, f := range formats {
		if k := f.rule.Kind(); k.Holds || k.Closes {
			continue // in_flight_test.go compares places, and a pause takes nothing
		}
		for _, events := range []int{10, 7} {
			t.Run(fmt.Sprint(f.name, events), func(t *testing.T) {
				t.Parallel()
				h, rng := harness(rdb), rand.New(rand.NewPCG(uint64(f.rule.Algorithm), uint64(events)))
				p := &pair{Harness: h, t: t, ref: &storetest.Fake{Clock: func() int64 { return h.Now().UnixMicro() }}}
				var rules []*driver.Compiled
				for _, headroom := range []float64{0, 40, 90} {
					own := f
					own.rule.Soft, own.rule.Headroom, own.rule.SubWindows = 20, headroom, min(f.rule.SubWindows, 4)
					rules = append(rules, during(own.compile(t, "turns", events, time.Second), h.Now()))
				}
				for range 1500 {
					p.Advance(time.Duration(rng.Int64N(int64(step))).Truncate(time.Microsecond))
					if rng.IntN(50) == 0 {
						p.Advance(-time.Duration(rng.Int64N(int64(5 * step))).Truncate(time.Microsecond))
					}
					if n := len(p.held); n > 0 && rng.IntN(6) == 0 {
						p.undo(max(0, n-1-rng.IntN(3)))
						continue
					}
					c := randomCharge(rng, rules[rng.IntN(len(rules))], h.Now().UnixMicro())
					c.Cost = 1 + (c.Cost-1)%4
					if c.Op == driver.Undo || c.Op == driver.Reset && rng.IntN(4) > 0 {
						c.Op, c.Receipt = driver.Spend, driver.Receipt{}
					}
					p.do(c)
				}
			})
		}
	}
}
