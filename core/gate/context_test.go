package gate_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

func TestFromContext(t *testing.T) {
	a := start(setup{Rules: []core.Rule{burst, daily}, States: states{"burst": allowed(7, time.Second, 0), "daily": allowed(8, time.Second, 0)}})
	record(t, a, request("GET", "/"))
	d, ok := a.Saw()
	if !ok || !d.Allowed || d.Len() != 2 || d.State(0).Remaining != 7 || d.State(1).Remaining != 8 {
		t.Errorf("the handler sees %+v, %v; want the decision of the gate", d, ok)
	}
}
