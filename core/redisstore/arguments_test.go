package redisstore

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
	e := new(executor)
	e.arguments.rules.Max = maxCached
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
		if got := fmt.Sprint(e.arguments.of(&c.charge)); got != c.want {
			t.Errorf("op %d of %d for %v: the arguments are %s, want %s", c.charge.Op, c.charge.Cost, c.charge.MaxDelay, got, c.want)
		}
	}
}

// Quotas with anchors have a new rule in each decision, and are not cached. Decisions of one batch share
// their arguments nevertheless.
func TestArgumentCache_quotas(t *testing.T) {
	e := new(executor)
	e.arguments.rules.Max = maxCached
	base := testkit.Compiled(core.Quota("rule", core.Monthly(5)))
	bucket := testkit.Compiled(core.TokenBucket("rule", hourly))
	cached := &e.arguments.of(&driver.Charge{Rule: bucket, Cost: 1})[0]
	var requests []*request
	for i := range 2 * maxCached {
		periods := driver.Periods{Start: 1, Boundary: 2, End: 3 + int64(i%2)}
		requests = append(requests, e.newRequest(spend(fmt.Sprint("k", i), base.During(periods))))
	}
	if &e.arguments.of(&driver.Charge{Rule: bucket, Cost: 1})[0] != cached {
		t.Error("the arguments of a bucket are no longer cached after many quotas")
	}
	batches := newBatches(requests[:64])
	// EVALSHA, the script, the keys and their number, and the clock; then 11 arguments for each quota.
	if got := len(batches[0].args) - 4 - 64; len(batches) != 1 || got != 2*11 {
		t.Errorf("%d batches, with %d arguments of quotas, want 22", len(batches), got)
	}
}
