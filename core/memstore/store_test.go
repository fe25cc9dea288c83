package memstore_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		s := memstore.New()
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		s.SetClock(func() int64 { return now })
		return &storetest.Harness{
			Store:   s,
			Now:     func() time.Time { return time.UnixMicro(now) },
			Advance: func(d time.Duration) { now += d.Microseconds() },
		}
	})
}
