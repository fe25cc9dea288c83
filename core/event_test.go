package core_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
)

// A Reservation returns the Decision of Allow, whatever the Store answers.
func TestReservation_Decision_OneRule(t *testing.T) {
	half := func(r core.Rule) *driver.Compiled { return testkit.Compiled(r).Divide(2) }
	bucket := core.TokenBucket("bucket", core.PerMinute(10))
	for name, v := range map[string]driver.Verdict{
		"allowed":         {Allowed: true, Remaining: 9, ResetAfter: 6 * time.Second, Window: 54 * time.Second},
		"soft":            {Allowed: true, Soft: true, ResetAfter: 66 * time.Second},
		"delayed":         {Allowed: true, Delay: time.Second},
		"denied":          {RetryAfter: 6 * time.Second, ResetAfter: time.Minute, Window: 6 * time.Second},
		"never":           {RetryAfter: core.Never, Window: core.Never},
		"unknown":         {Allowed: true, Unknown: true},
		"delay and retry": {Allowed: true, Delay: time.Second, RetryAfter: 2 * time.Second},
		"half the limit":  {Allowed: true, Rule: half(bucket), Remaining: 4},
		"half, denied":    {Rule: half(bucket), RetryAfter: time.Second},
	} {
		for _, rule := range []core.Rule{bucket, bucket.Shadow(), core.TokenBucket("bucket", core.Unlimited), core.TokenBucket("bucket", core.Blocked)} {
			store := new(storetest.Fake).Set(func(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
				charges[0].Verdict = v
				return nil
			})
			l := core.Must(core.New(store, rule))
			want, err := l.Allow(t.Context(), "key")
			testkit.Must(t, err)
			r := testkit.Reserve(t, l, "key", 1)
			for i := range 2 {
				if got := r.Decision(); !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %v, %d: the decision is %+v, want %+v", name, rule, i, got, want)
				}
				_ = r.Refund(t.Context()) // changes the form in which r is stored
			}
		}
	}
}

// A refund undoes the charge under the rule of the charge, with the receipt of the rule that the
// Store has applied.
func TestReservation_Refund_AppliedRule(t *testing.T) {
	rule := core.TokenBucket("bucket", core.PerMinute(10))
	for name, applied := range map[string]*driver.Compiled{"the same": testkit.Compiled(rule), "none": nil, "half": testkit.Compiled(rule).Divide(2)} {
		var undone []driver.Charge
		store := new(storetest.Fake).Set(func(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
			c := &charges[0]
			if c.Op == driver.Undo {
				undone = append(undone, *c)
				return nil
			}
			c.Receipt = driver.Receipt{At: 7, Used: driver.Span{Micros: 1}}
			c.Verdict = driver.Verdict{Allowed: true, Rule: applied}
			return nil
		})
		r, err := core.Must(core.New(store, rule)).Reserve(t.Context(), "key", 3)
		testkit.Must(t, err)
		testkit.Must(t, r.Settle(t.Context(), 1))
		k := applied
		if k == nil {
			k = testkit.Compiled(rule)
		}
		want := k.Keep(driver.Receipt{At: 7, Used: driver.Span{Micros: 1}}, 1)
		if len(undone) != 1 || undone[0].Cost != 2 || undone[0].Rule.Definition != testkit.Compiled(rule).Definition || undone[0].Receipt != want {
			t.Errorf("%s: undone is %+v, want the receipt %+v", name, undone, want)
		}
	}
}

// A denial has no Delay, although another rule would admit the event later.
func TestDecision_DeniedWithoutDelay(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.LeakyBucket("queue", core.PerHour(60)), core.FixedWindow("window", core.PerHour(1)))
	testkit.Admit(t, l, "k", 1)
	d := testkit.Ask(t, l, "k", 1)
	if queue, _ := d.StateOf("queue"); d.Allowed || d.Delay != 0 || queue.Delay == 0 {
		t.Errorf("got allowed %t, a Delay of %v, and one of %v for the queue, want a denial without Delay", d.Allowed, d.Delay, queue.Delay)
	}
}
