package wire

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

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
