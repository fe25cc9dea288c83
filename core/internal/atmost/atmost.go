// Package atmost is for stores over stores, which change the cost of a Take with AtMost.
package atmost

import "github.com/weir-go/weir/core/driver"

// SetCost sets the Cost of charges with AtMost to cost.
func SetCost(charges []driver.Charge, cost int) {
	for i := range charges {
		if c := &charges[i]; c.AtMost {
			c.Cost = cost
		}
	}
}
