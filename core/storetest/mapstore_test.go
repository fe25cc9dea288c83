package storetest_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core/storetest"
)

func TestRun_MapStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) *storetest.Harness {
		var now atomic.Int64
		now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		return &storetest.Harness{
			Store:   &MapStore{rows: make(map[string][]byte), clock: now.Load},
			Now:     func() time.Time { return time.UnixMicro(now.Load()) },
			Advance: func(d time.Duration) { now.Add(d.Microseconds()) },
		}
	})
}
