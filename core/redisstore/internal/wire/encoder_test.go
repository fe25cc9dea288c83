package wire

import (
	"fmt"
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
	batches := NewBatches(requests[:64], false)
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
