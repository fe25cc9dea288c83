package storetest_test

import (
	"testing"

	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestRun_MapStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		var clock storetest.Clock
		return clock.Harness(&MapStore{rows: make(map[string][]byte), clock: clock.Micros})
	})
}
