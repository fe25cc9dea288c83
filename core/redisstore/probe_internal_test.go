package redisstore

import (
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// Each algorithm has a rule of probes, except for one without a name.
func TestProbeRule(t *testing.T) {
	for _, a := range testkit.Algorithms {
		d := testkit.Compiled(a.Rule("r", hourly)).Definition
		if c, err := probeRule(&driver.Compiled{Definition: d}); err != nil || c.Constants.Capacity < 100_000 || c.Kind.Holds || c.Kind.Closes {
			t.Errorf("%s: got the rule %v of probes, %v", a.Name, c, err)
		}
		d.Name = ""
		if c, err := probeRule(&driver.Compiled{Definition: d}); err == nil || c != nil {
			t.Errorf("%s: got a rule without a name", a.Name)
		}
	}
}
