package wire

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

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
	e := NewEncoder()
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
