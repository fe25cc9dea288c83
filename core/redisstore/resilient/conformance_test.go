package resilient_test

import (
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

var (
	_ driver.Declarer = (*resilient.Store)(nil)
	_ driver.Prober   = (*resilient.Store)(nil)
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		clock := new(storetest.Clock)
		s := resilient.Over(&storetest.Fake{Clock: clock.Micros})
		t.Cleanup(func() { s.Close() })
		return clock.Harness(s)
	})
}
