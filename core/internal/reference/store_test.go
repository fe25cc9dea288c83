package reference_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/internal/reference"
	"github.com/weir-go/weir/core/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) *storetest.Harness {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		return &storetest.Harness{
			Store:   reference.New(func() int64 { return now }),
			Advance: func(d time.Duration) { now += d.Microseconds() },
			Now:     func() time.Time { return time.UnixMicro(now) },
		}
	})
}
