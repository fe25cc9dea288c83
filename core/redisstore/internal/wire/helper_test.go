package wire

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// hourly is the limit of all rules.
var hourly = core.PerHour(100)

// spend returns a request that spends an event of each rule, with keys that begin with prefix.
func spend(prefix string, rules ...*driver.Compiled) *Request {
	r := new(Request)
	for i, rule := range rules {
		r.Charges = append(r.Charges, driver.Charge{Key: "k", Rule: rule, Op: driver.Spend, Cost: 1})
		r.Keys = append(r.Keys, fmt.Sprint(prefix, i))
	}
	return r
}

// encoded returns r after it was encoded.
func encoded(e *Encoder, r *Request) *Request {
	e.Encode(r)
	return r
}
