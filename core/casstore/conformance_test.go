package casstore_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func newDatabase(clock *storetest.Clock) *mapDatabase {
	return &mapDatabase{rows: make(map[casstore.Key]casstore.Row), clock: clock.Micros}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		var clock storetest.Clock
		return clock.Harness(casstore.New(newDatabase(&clock), casstore.Timeout(10*time.Second)))
	})
}
