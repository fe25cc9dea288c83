package wire

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/internal/testkit"
)

// Quotas with anchors have a new rule in each decision, and are not cached. Decisions of one batch share
// their arguments nevertheless.
func TestEncoder_quotas(t *testing.T) {
	e := NewEncoder("test:", keyhash.Hasher{})
	base := testkit.Compiled(core.Quota("rule", core.Monthly(5)))
	bucket := testkit.Compiled(core.TokenBucket("rule", hourly))
	cached := &e.arguments(&driver.Charge{Rule: bucket, Cost: 1})[0]
	var requests []*Request
	for i := range 2 * maxCached {
		periods := driver.Periods{Start: 1, Boundary: 2, End: 3 + int64(i%2)}
		requests = append(requests, encoded(e, spend(fmt.Sprint("k", i), base.During(periods))))
	}
	if &e.arguments(&driver.Charge{Rule: bucket, Cost: 1})[0] != cached {
		t.Error("the arguments of a bucket are no longer cached after many quotas")
	}
	batches := NewBatches(requests[:64])
	// EVALSHA, the script, the keys and their number, and the clock; then 11 arguments for each quota.
	if got := len(batches[0].Args) - 4 - 64; len(batches) != 1 || got != 2*11 {
		t.Errorf("%d batches, with %d arguments of quotas, want 22", len(batches), got)
	}
}

// A request with a renewal or an undo is urgent. Its work is that of every charge.
func TestEncoder_renewal(t *testing.T) {
	rule, err := driver.Definition{Name: "rule", Algorithm: driver.InFlight, Events: 9, Hold: time.Minute}.Compile()
	testkit.Must(t, err)
	a := algorithmOf(&rule.Definition)
	for op, work := range map[driver.Op]time.Duration{
		driver.Spend: 2 * a.light, driver.Peek: 2 * a.light, driver.Undo: 2 * a.heavy, driver.Reset: 2 * a.heavy, driver.Renew: 2 * a.heavy,
	} {
		r := encoded(NewEncoder("test:", keyhash.Hasher{}), &Request{
			Keys: []string{"a", "b"}, Charges: []driver.Charge{{Key: "a", Rule: rule, Op: op, Cost: 1}, {Key: "b", Rule: rule, Op: op, Cost: 1}},
		})
		if r.Work != work || r.Urgent != (op == driver.Renew || op == driver.Undo) || r.Takes != (op == driver.Spend) {
			t.Errorf("op %d: the work is %v, urgent %t, takes %t, want %v, %t, %t", op, r.Work, r.Urgent, r.Takes,
				work, op == driver.Renew || op == driver.Undo, op == driver.Spend)
		}
	}
}

// An event has waited a part of its MaxDelay when its request is sent. A request that is sent twice,
// because its slot has moved, loses the time that it has waited once.
func TestRequest_Wait(t *testing.T) {
	for _, c := range []struct {
		maxDelay, waited time.Duration
		want             [3]string // when it is sent, and again, each after waited
	}{
		{0, time.Second, [3]string{"9007199254740991", "9007199254740991", "9007199254740991"}},
		{time.Second, 0, [3]string{"1000000", "1000000", "1000000"}},
		{time.Hour, 20 * time.Minute, [3]string{"2400000000", "1200000000", "0"}},
		{time.Second, time.Minute, [3]string{"0", "0", "0"}},
		{time.Millisecond, 100 * time.Microsecond, [3]string{"900", "800", "700"}},
	} {
		r := spend("k", testkit.Compiled(core.LeakyBucket("rule", hourly)))
		r.Charges[0].MaxDelay = c.maxDelay
		NewEncoder("test:", keyhash.Hasher{}).Encode(r)
		for i, want := range c.want {
			r.Wait(time.Duration(i+1) * c.waited)
			if got := r.args[4+bucketDelay]; got != want { // after two numbers, the library and the op
				t.Errorf("a MaxDelay of %v after %d times %v is the argument %v, want %s", c.maxDelay, i+1, c.waited, got, want)
			}
		}
	}
}

// An undo that has waited is older when it is sent, so that a clock that stepped back meanwhile is noticed.
func TestRequest_Wait_age(t *testing.T) {
	rule := testkit.Compiled(core.FixedWindow("r", core.PerMinute(10)))
	for age, want := range map[int64]any{0: "0", 5: "2000005", maxInteger: fmt.Sprint(int64(maxInteger))} {
		r := encoded(NewEncoder("test:", keyhash.Hasher{}), &Request{
			Keys: []string{"k"}, Charges: []driver.Charge{{Key: "k", Rule: rule, Op: driver.Undo, Cost: 1, Receipt: driver.Receipt{At: 1, Age: age}}},
		})
		for range 2 {
			if r.Wait(2 * time.Second); r.args[len(r.args)-1] != want { // the age is the last one
				t.Errorf("an undo of age %d us has the age %v after two seconds, want %v", age, r.args[len(r.args)-1], want)
			}
		}
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
