package wire

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
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
		if err != nil {
			t.Fatal(err)
		}
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
	if n != len(libraries) {
		t.Errorf("got %d libraries, want %d", n, len(libraries))
	}
}
