package gate_test

import (
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
)

// TestCost checks the charge of each ask.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []gate.Option
		op   driver.Op
		cost int
	}{
		{"default", nil, driver.Spend, 1},
		{"five", []gate.Option{costs(5)}, driver.Spend, 5},
		{"zero", []gate.Option{costs(0)}, driver.Peek, 1},
		{"the later of two", []gate.Option{costs(5), costs(6)}, driver.Spend, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []driver.Charge
			record(t, start(setup{Store: memory().Set(recording(&asked)), Opts: c.opts, And: constant("b")}), request("POST", "/"))
			if len(asked) != 2 {
				t.Fatalf("the Store was charged %d times, want 2", len(asked))
			}
			for i, key := range []string{"k", "b"} {
				if got := asked[i]; got.Op != c.op || got.Cost != c.cost || got.Key != key {
					t.Errorf("charge %d is op %v cost %d key %q, want op %v cost %d key %q", i, got.Op, got.Cost, got.Key, c.op, c.cost, key)
				}
			}
		})
	}
}

func TestCost_Negative(t *testing.T) {
	table(t, []row{{
		name: "negative cost: 500, and no charge",
		opts: []gate.Option{costs(-1)}, status: 500, noStore: true, header: noFields, body: problem(500, "Internal Server Error", ""),
	}})
}
