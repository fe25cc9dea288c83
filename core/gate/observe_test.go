package gate_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/internal/testkit"
)

// figures returns the numbers of decisions and of attempts.
func figures(s *observe.Store) (total observe.Counts, attempts float64) {
	n := s.Snapshot()
	i := slices.IndexFunc(n.Measures, func(m observe.Measure) bool { return m.Name == "weir.attempts" })
	return n.Total(), n.Measures[i].Value
}

// Each request of a gate with several keys is one decision, also if a key is charged early.
func TestAnd_Observer(t *testing.T) {
	s := observe.New(memstore.New())
	ip := testkit.Limiter(t, s, core.SlidingLog("ip", core.PerHour(2)))
	user := testkit.Limiter(t, s, core.SlidingLog("user", core.PerHour(9)))
	h := build(ip, constant("a"), []gate.Option{gate.And(user, header("X-User"))}, func(http.ResponseWriter, *http.Request) {})
	for range 4 { // the third one is denied by both keys, the fourth by the early charge
		record(t, h, with("X-User", "ann"))
	}
	if total, attempts := figures(s); total.Total() != 4 || total[driver.Allowed] != 2 || total[driver.Denied] != 2 || attempts != 0 {
		t.Errorf("got %v and %v attempts, want 2 allowed and 2 denied", total, attempts)
	}
	reset(t, ip, "a")
	record(t, h, with("X-User", "ann")) // is charged early, refunded, and decided
	if total, attempts := figures(s); total.Total() != 5 || total[driver.Allowed] != 3 || attempts != 1 {
		t.Errorf("after Reset: got %v and %v attempts, want one more allowed, and one attempt", total, attempts)
	}
	record(t, h, with()) // has no second key: the early charge stays, and is an attempt without a decision
	if total, attempts := figures(s); total.Total() != 5 || attempts != 2 {
		t.Errorf("without a key: got %v and %v attempts, want one attempt more", total, attempts)
	}
}
