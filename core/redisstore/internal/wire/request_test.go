package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/internal/testkit"
)

// FuzzReply decodes replies with any integers or with other values, for every algorithm and op. A
// reply is an error or describes states that the rules can have.
func FuzzReply(f *testing.F) {
	var rules []*driver.Compiled
	for a := range algorithms {
		if algorithms[a].readings == 0 {
			continue
		}
		d := driver.Definition{Name: "rule", Algorithm: driver.Algorithm(a), Events: 7, Per: time.Hour}
		switch d.Algorithm {
		case driver.SlidingWindow:
			d.SubWindows = 60
		case driver.InFlight:
			d.Per, d.Hold = 0, time.Hour
		case driver.Quota:
			d.Per, d.Calendar = 0, driver.Day
		case driver.Pause:
			d.Events, d.Per = 0, 0
		}
		rule, err := d.Compile()
		testkit.Must(f, err)
		if d.Algorithm == driver.Quota {
			const day = 86_400_000_000
			rule = rule.During(driver.Periods{Start: 19_675 * day, Boundary: 19_676 * day, End: 19_677 * day})
		}
		rules = append(rules, rule)
	}
	byCost, err := driver.Definition{Name: "rule", Algorithm: driver.InFlight, Events: 90_000, Hold: time.Hour, ByCost: true}.Compile()
	testkit.Must(f, err)
	rules = append(rules, byCost)
	integers := func(ns ...int64) (data []byte) {
		for _, n := range ns {
			data = binary.BigEndian.AppendUint64(data, uint64(n))
		}
		return data
	}
	for i, reading := range [][]int64{{5, 0}, {2, 10, 20, 0}, {5, 0}, {3, 100}, {10, 3, 60, 70, 0}, {7, 60, 70, 60, 1}, {7, 60, 86_400_000_000}, {60}, {70_000, 60, 50, 2}} {
		for op := range uint8(driver.Renew + 1) {
			f.Add(uint8(i), op, uint8(0), integers(append([]int64{1_700_000_000_000_000, 0, 1}, reading...)...))
		}
	}
	f.Add(uint8(0), uint8(0), uint8(0), integers(1_700_000_000_000_000, 1, 0, 3_600_000_000, 0))
	encoder := NewEncoder("test:", keyhash.Hasher{})
	f.Fuzz(func(t *testing.T, rule, op, form uint8, data []byte) {
		charge := driver.Charge{Key: "k", Rule: rules[int(rule)%len(rules)], Op: driver.Op(op % uint8(driver.Renew+1)), Cost: 1}
		r := &Request{Charges: []driver.Charge{charge}, Keys: []string{"k"}}
		if form&2 != 0 {
			r.Charges, r.Keys = append(r.Charges, charge), append(r.Keys, "k")
		}
		var all []any
		for len(data) >= 8 {
			all = append(all, int64(binary.BigEndian.Uint64(data)))
			data = data[8:]
		}
		var reply any = all
		switch {
		case form&1 != 0 && len(all) > 0:
			reply = all[0]
		case form&4 != 0 && len(all) > 0:
			all[int(op)%len(all)] = "text"
		}
		encoder.Encode(r)
		(&Batch{requests: []*Request{r}}).SetOutcomes(reply, nil)
		if r.Err != nil || r.Decode() != nil || r.Answer(r.Admitted) != nil {
			return
		}
		for i := range r.Charges {
			v, most := r.Charges[i].Verdict, int(min(charge.Rule.Constants.Capacity, math.MaxInt))
			if v.Remaining < 0 || v.Remaining > most || v.RetryAfter < 0 || v.ResetAfter < 0 || charge.Rule.Algorithm == driver.Pause && v.ResetAfter > maxPause*time.Microsecond {
				t.Errorf("%v: the verdict of op %d is %+v, want possible values", reply, charge.Op, v)
			}
			if form&4 != 0 && form&1 == 0 && len(all) > 0 {
				t.Errorf("%v: decoded, want an error", reply)
			}
		}
	})
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
