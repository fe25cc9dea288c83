package storetest_test

import (
	"testing"

	"github.com/weir-go/weir/core/storetest"
)

func TestRun_MapStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) *storetest.Harness {
		var clock storetest.Clock
		return clock.Harness(&MapStore{rows: make(map[string][]byte), clock: clock.Micros})
	})
}
