package wire

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/internal/testkit"
)

// The price of n events is exactly n events divided by the rate, up to more than any bucket holds.
func TestPrice(t *testing.T) {
	most := int(min(int64(maxCount), math.MaxInt)) // also on systems of 32 bits
	for _, d := range []driver.Definition{
		{Events: 10, Per: time.Second},
		{Events: 3, Per: time.Second},
		{Events: 7, Per: time.Hour, Burst: 1000},
		{Events: most, Per: time.Microsecond},
		{Events: most, Per: 7 * time.Microsecond, Burst: 1},
		{Events: 1, Per: horizon * time.Microsecond},
	} {
		d.Name, d.Algorithm = "r", driver.TokenBucket
		c, err := d.Compile()
		testkit.Must(t, err)
		k := &c.Constants
		for _, n := range []int64{0, 1, 2, 3, 10, k.Capacity, k.Capacity + 1, 1_000_000, maxCount, maxCount + 1} {
			want := new(big.Rat).SetFrac64(d.Per.Microseconds(), int64(d.Events))
			if want.Mul(want, new(big.Rat).SetInt64(n)); want.Cmp(new(big.Rat).SetInt64(horizon+1)) >= 0 {
				want.SetInt64(horizon + 1)
			}
			s := price(k, n)
			got := new(big.Rat).SetFrac64(s.Frac, k.Denominator)
			if got.Add(got, new(big.Rat).SetInt64(s.Micros)); got.Cmp(want) != 0 {
				t.Errorf("%+v: got %v for %d events, expected %v", d, got, n, want)
			}
		}
	}
}

// The longest span of package driver is horizon.
func TestHorizon(t *testing.T) {
	d := driver.Definition{Name: "r", Algorithm: driver.TokenBucket, Events: 1, Per: horizon * time.Microsecond}
	if _, err := d.Compile(); err != nil {
		t.Error(err)
	}
	d.Per += time.Microsecond
	if _, err := d.Compile(); err == nil {
		t.Errorf("got no error for %v, more than horizon", d.Per)
	}
}

// Each row has times, and a version of its own.
func TestAlgorithms(t *testing.T) {
	versions := map[string]bool{}
	for i, a := range append(algorithms[1:len(algorithms):len(algorithms)], fromFirst) {
		if a.light <= 0 || a.heavy < a.light || versions[a.version] {
			t.Errorf("%d: the times are %v and %v, and the version %q, want times above 0 and another version", i+1, a.light, a.heavy, a.version)
		}
		versions[a.version] = true
	}
}

// Each library has an algorithm.
func TestLibraries(t *testing.T) {
	n := 0
	for name, a := range Libraries() {
		if n++; fmt.Sprint(libraries[algorithms[a].library]) != name {
			t.Errorf("%v is not an algorithm of the library %s", a, name)
		}
	}
	if n != len(libraries)-1 {
		t.Errorf("got %d libraries, want %d", n, len(libraries)-1)
	}
}

// The scripts of buckets have five arguments, or eight with fractions.
func TestBucketArguments(t *testing.T) {
	for _, c := range []struct {
		algorithm driver.Algorithm
		events    int
		headroom  float64
		want      string
	}{
		{driver.TokenBucket, 10, 0, "[100000 1000000 0 9007199254740991 1]"},
		{driver.LeakyBucket, 10, 0, "[100000 1000000 0 9007199254740991 1]"},
		{driver.TokenBucket, 7, 0, "[142857 1000000 0 9007199254740991 7 1 0 0]"},
		{driver.TokenBucket, 10, 20, "[100000 1000000 200000 9007199254740991 1]"},
		{driver.LeakyBucket, 10, 99, "[100000 1000000 900000 9007199254740991 1]"},
		{driver.TokenBucket, 7, 50, "[142857 1000000 571428 9007199254740991 7 1 0 4]"},
	} {
		d := driver.Definition{Name: "r", Algorithm: c.algorithm, Events: c.events, Per: time.Second, Headroom: c.headroom}
		rule, err := d.Compile()
		testkit.Must(t, err)
		if got := fmt.Sprint(arguments(rule, 1)); got != c.want {
			t.Errorf("%v of %d, %v%%: the arguments are %s, want %s", c.algorithm, c.events, c.headroom, got, c.want)
		}
	}
}

// A debit of a pause has its length as the only argument, and another charge has a 1, whatever it costs.
func TestPauseArguments(t *testing.T) {
	e := NewEncoder("test:", keyhash.Hasher{})
	rule := testkit.Compiled(core.Pause("rule"))
	for _, c := range []struct {
		charge driver.Charge
		want   string
	}{
		{driver.Charge{Cost: 1}, "[1]"},
		{driver.Charge{Cost: math.MaxInt}, "[1]"},
		{driver.Charge{Cost: 1000, AtMost: true}, "[1]"},
		{driver.Charge{Op: driver.Peek, Cost: 1000, MaxDelay: time.Minute}, "[1]"},
		{driver.Charge{Op: driver.Credit, Cost: 1000}, "[1]"},
		{driver.Charge{Op: driver.Undo, Cost: 1000}, "[1]"},
		{driver.Charge{Op: driver.Reset}, "[1]"},
		{driver.Charge{Op: driver.Debit, Cost: 1000}, "[0]"},
		{driver.Charge{Op: driver.Debit, Cost: 1, Pause: time.Microsecond}, "[1]"},
		{driver.Charge{Op: driver.Debit, Cost: 1, Pause: 2 * time.Microsecond}, "[2]"},
		{driver.Charge{Op: driver.Debit, Cost: 1, Pause: 90*time.Second + 999}, "[90000000]"},
		{driver.Charge{Op: driver.Debit, Cost: 1, Pause: 366 * 24 * time.Hour}, "[31622400000000]"},
		{driver.Charge{Op: driver.Debit, Cost: 1, Pause: math.MaxInt64}, "[31622400000000]"},
	} {
		c.charge.Key, c.charge.Rule = "k", rule
		if got := fmt.Sprint(e.arguments(&c.charge)); got != c.want {
			t.Errorf("op %d of %d for %v: the arguments are %s, want %s", c.charge.Op, c.charge.Cost, c.charge.MaxDelay, got, c.want)
		}
	}
}

// The largest limit of a rule is maxCount.
func TestAlgorithm_maxCount(t *testing.T) {
	for events, valid := range map[int64]bool{maxCount: true, maxCount + 1: false} {
		d := driver.Definition{Name: "rule", Algorithm: driver.FixedWindow, Events: int(events), Per: time.Hour}
		if _, err := d.Compile(); (err == nil) != valid {
			t.Errorf("the error of a limit of %d is %v, want valid %t", events, err, valid)
		}
	}
}

// The reading of a pause is at most the longest pause.
func TestReadPause(t *testing.T) {
	for n, want := range map[int64]bool{0: true, 1: true, maxPause: true, maxPause + 1: false, maxInteger: false} {
		if r, ok := readPause(driver.Constants{}, [maxReadings]int64{n}); ok != want || r.Left != n {
			t.Errorf("%d: got %+v and %t, want %t", n, r, ok, want)
		}
	}
}
