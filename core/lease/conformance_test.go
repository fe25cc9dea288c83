package lease_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core/internal/reference"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/storetest"
)

// The limits of the suite are too small to be leased: their charges are passed through.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		var us, passed atomic.Int64
		us.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		s := lease.New(reference.New(us.Load))
		s.SetClock(func() int64 { return passed.Load() * 1000 })
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return &storetest.Harness{
			Store: s,
			Now:   func() time.Time { return time.UnixMicro(us.Load()) },
			Advance: func(d time.Duration) {
				s.ReturnAll(t) // the model knows of no tokens that expire or are dropped
				us.Add(d.Microseconds())
				if d < 0 {
					d = time.Hour // known denials are over: they keep the Store from noticing its step back
				}
				passed.Add(d.Microseconds())
			},
		}
	})
}
