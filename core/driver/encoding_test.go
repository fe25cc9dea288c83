package driver_test

import (
	"encoding"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

var (
	_ encoding.BinaryAppender    = driver.State{}
	_ encoding.BinaryMarshaler   = driver.State{}
	_ encoding.BinaryUnmarshaler = (*driver.State)(nil)
)

// marshal encodes s.
func marshal(t testing.TB, s driver.State) []byte {
	t.Helper()
	b, err := s.MarshalBinary()
	if err != nil {
		t.Fatalf("MarshalBinary: %v", err)
	}
	if more, err := s.AppendBinary([]byte("x")); err != nil || string(more) != "x"+string(b) {
		t.Fatalf("AppendBinary: got %x, %v, expected %x", more, err, b)
	}
	if (s == driver.State{}) != (len(b) == 0) {
		t.Fatalf("got %x for a State with IsZero %v", b, s == (driver.State{}))
	}
	return b
}

// decoded returns s after an encoding and a decoding.
func decoded(t testing.TB, s driver.State) (d driver.State) {
	t.Helper()
	b := marshal(t, s)
	if err := d.UnmarshalBinary(b); err != nil {
		t.Fatalf("UnmarshalBinary of %x: %v", b, err)
	}
	if again := marshal(t, d); string(again) != string(b) {
		t.Fatalf("got %x, expected %x", again, b)
	}
	return d
}

// A State that is encoded and decoded after every charge has the same verdicts as the State itself,
// at all times that a store may have.
func TestState_UnmarshalBinary_RoundTrip(t *testing.T) {
	for _, c := range rules(t) {
		used := 0
		for seed := range uint64(60) {
			s := newSequence(seed, c)
			if seed%4 == 0 {
				s.now = 1<<53 - 1
			}
			plain, coded := key{rule: c}, key{rule: c}
			for range 100 {
				charge := s.next()
				same := charge
				want, got := plain.charge(&charge, s.now), coded.charge(&same, s.now)
				if got != want || same.Receipt != charge.Receipt {
					t.Fatalf("%v, sequence %d, op %d of %d at %d:\n got %+v, %+v\nwant %+v, %+v", c, seed, charge.Op, charge.Cost, s.now, got, same.Receipt, want, charge.Receipt)
				}
				s.remember(charge)
				if s.rng.IntN(20) == 0 {
					plain.state, coded.state = plain.state.Coarsen(), coded.state.Coarsen()
				}
				if coded.state = decoded(t, coded.state); coded.state != (driver.State{}) {
					used++
				}
			}
		}
		if used < 1000 {
			t.Errorf("%v: got %d States that are not zero of 6000, expected at least 1000", c, used)
		}
	}
}

// words, runs and places return encodings of States that may be invalid.
func words(n ...uint64) []byte  { return varints(1, n) }
func runs(n ...uint64) []byte   { return varints(2, n) }
func places(n ...uint64) []byte { return varints(3, n) }

func varints(version byte, numbers []uint64) []byte {
	b := []byte{version}
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// manyPlaces returns the encoding of n places.
func manyPlaces(n uint64) []byte {
	var numbers []uint64
	for i := range n {
		numbers = append(numbers, 1, 1+i)
	}
	return places(numbers...)
}

const latest = 1<<53 - 1 + uint64(driver.Horizon) // the latest time of a State

var corrupt = map[string][]byte{
	"no version":                  {0},
	"unknown version":             {4, 1, 1, 1},
	"no words":                    words(),
	"two words":                   words(1, 1),
	"four words":                  words(1, 1, 0, 0),
	"half a varint":               {1, 1, 1, 0x80},
	"a varint too long":           append(words(1, 1), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
	"a late time":                 words(latest+1, 0, 0),
	"a negative time":             words(math.MaxUint64, 0, 0),
	"a large amount":              words(1, 1<<48, 0),
	"a debt from after its end":   words(1000, 0, 1001),
	"a debt without anything":     words(1000, 0, 1000),
	"a debt for too long":         words(uint64(driver.Horizon)+6, 0, 5),
	"words of nothing":            words(0, 0, 0),
	"no runs":                     runs(),
	"half a run":                  runs(1, 1, 1),
	"a run of nothing":            runs(1, 0),
	"two runs at one time":        runs(1, 1, 0, 1),
	"a run that is late":          runs(latest+1, 1),
	"a run that becomes late":     runs(latest, 1, 1, 1),
	"a time that overflows":       runs(latest, 1, math.MaxInt64, 1),
	"too many events":             runs(1, 1<<48),
	"too many events together":    runs(1, 1<<48-1, 1, 1),
	"a number longer than needed": {1, 0x81, 0, 1, 0},
	"a step longer than needed":   {2, 1, 0x81, 0},
	"no places":                   places(),
	"half a place":                places(1, 1, 1),
	"a place without a number":    places(1, 0),
	"two places of one number":    places(1, 7, 1, 7),
	"a late renewal":              places(latest+1, 7),
	"a renewal that becomes late": places(latest, 7, 1, 8),
	"a number of 64 bits":         places(1, 1<<63),
	"too many places":             manyPlaces(1001),
}

func TestState_UnmarshalBinary_Corrupt(t *testing.T) {
	c := rule(t, driver.SlidingLog, 10, 1000)
	for name, b := range corrupt {
		k := key{rule: c}
		k.spend(3, start)
		before := k.state
		if err := k.state.UnmarshalBinary(b); err == nil || k.state != before {
			t.Errorf("%s, %x: got %v and %+v, expected an error and the State unchanged", name, b, err, k.state)
		}
	}
	k := key{rule: c}
	k.spend(3, start)
	if err := k.state.UnmarshalBinary(nil); err != nil || k.state != (driver.State{}) {
		t.Errorf("no bytes: got %+v, %v, expected the zero State", k.state, err)
	}
}

// For all bytes that UnmarshalBinary accepts, no op at any time panics, overflows or makes a State
// that cannot be encoded, and the verdicts stay within the limit of the rule.
func FuzzState_UnmarshalBinary(f *testing.F) {
	for _, b := range corrupt {
		f.Add(b, int64(1), int64(1))
	}
	for i, c := range rules(f) {
		k, s := key{rule: c}, newSequence(uint64(i), c)
		for range 10 {
			charge := s.next()
			k.do(charge, s.now)
			s.remember(charge)
			b, _ := k.state.MarshalBinary()
			f.Add(b, s.now, int64(charge.Cost))
		}
	}
	f.Add(words(latest, 1<<48-1, 0), int64(1), int64(math.MaxInt64))
	f.Add(words(latest, 0, 1<<53-1), int64(1), int64(1<<47))
	f.Add(runs(latest, 1<<48-1), int64(1<<53-1), int64(1<<48))
	f.Add(places(latest, latest, 0, 1), int64(1<<53-1), int64(1))
	f.Add(manyPlaces(1000), int64(500), int64(1))
	f.Add(manyPlaces(999), int64(500), int64(4))
	f.Add(places(1000, math.MaxInt64, 0, 1<<63-1<<20, 5, 7<<20|3), int64(1003), int64(2)) // costs of 2^20-1, 0 and 3
	all := rules(f)
	f.Fuzz(func(t *testing.T, b []byte, now, cost int64) {
		var s driver.State
		if err := s.UnmarshalBinary(b); err != nil {
			if err == nil || s != (driver.State{}) {
				t.Fatalf("got %v and %+v, expected an error and an unchanged State", err, s)
			}
			return
		}
		if again := marshal(t, s); string(again) != string(b) {
			t.Fatalf("got %x, expected %x", again, b)
		}
		now, cost = max(1, now&(1<<53-1)), max(1, cost&math.MaxInt)
		for _, c := range all {
			hold(t, c, b, now, int(cost))
		}
	})
}

// hold checks the contract of the package for a State that is decoded from b.
func hold(t *testing.T, c *driver.Compiled, b []byte, now int64, cost int) {
	var s driver.State
	_ = s.UnmarshalBinary(b)
	if takesOne(c) {
		cost = 1
	}
	end := c.ExpiresAt(s)
	for _, at := range []int64{1, now - 1, now, now + 1, end - 1, end, 1<<53 - 1} {
		if at < 1 || at > 1<<53-1 {
			continue
		}
		r := read(c, s, at, int64(cost))
		if r.Used.Micros < 0 || r.Used.Frac < 0 || r.Count < 0 || r.First < 0 || r.Last < r.First || r.Retry < 0 || r.Phase < 0 || at >= end && inUse(c, r) {
			t.Fatalf("%v: got %+v of %+v at %d", c, r, s, at)
		}
		for op := driver.Spend; op <= driver.Renew; op++ {
			if !hasOp(c, op) {
				continue
			}
			k := key{rule: c}
			_ = k.state.UnmarshalBinary(b) // once more: an op may change the memory of a State
			charge := driver.Charge{Op: op, Cost: cost, Receipt: driver.Receipt{At: max(1, at-now%7), Used: r.Used}}
			if op == driver.Debit {
				charge.Pause = time.Duration(min(int64(cost), driver.Horizon)) * time.Microsecond // the length of a pause, which may be too long
			}
			v := k.do(charge, at)
			limit, longest := c.Constants.Capacity-c.Constants.Extra, 2*time.Duration(driver.Horizon)*time.Microsecond
			if v.Remaining < 0 || int64(v.Remaining) > limit || v.Allowed != (v.RetryAfter == 0) || v.RetryAfter != driver.Never && v.RetryAfter > longest ||
				min(v.RetryAfter, v.ResetAfter, v.Window, v.Delay) < 0 || max(v.ResetAfter, v.Window, v.Delay) > longest {
				t.Fatalf("%v, op %d of %d of %+v at %d: got %+v", c, op, cost, s, at, v)
			}
			after := decoded(t, k.state)
			if got, want := read(c, after, at, 1), read(c, k.state, at, 1); got != want {
				t.Fatalf("%v, op %d of %d of %+v at %d: got %+v of a State that was decoded, expected %+v", c, op, cost, s, at, got, want)
			}
		}
	}
}
