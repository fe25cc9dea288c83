package lease_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/reference"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/storetest"
)

// The limits of most cases are too small to be leased: their charges are passed through.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		var us, passed atomic.Int64 // a clock that is set back leaves the one here alone
		us.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		s := lease.New(reference.New(us.Load))
		s.SetClock(func() int64 { return passed.Load() * 1000 })
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		h := &storetest.Harness{
			Store: s,
			Now:   func() time.Time { return time.UnixMicro(us.Load()) },
			Advance: func(d time.Duration) {
				s.ReturnAll(t) // the model knows of no tokens that expire or are dropped
				us.Add(d.Microseconds())
				passed.Add(max(0, d.Microseconds()))
			},
		}
		if strings.HasSuffix(t.Name(), "/Histories") {
			h.Store = longKeys{s}
		}
		return h
	})
}

// A longKeys store makes all keys too long to be leased. The histories have large limits, and a
// leased rule is denied with a RetryAfter that may be later than that of the Store behind.
type longKeys struct{ *lease.Store }

func (l longKeys) Take(ctx context.Context, charges []driver.Charge) error {
	return withLongKeys(charges, func(charges []driver.Charge) error { return l.Store.Take(ctx, charges) })
}

func (l longKeys) Adjust(ctx context.Context, charges []driver.Charge) error {
	return withLongKeys(charges, func(charges []driver.Charge) error { return l.Store.Adjust(ctx, charges) })
}

func withLongKeys(charges []driver.Charge, call func([]driver.Charge) error) error {
	own := slices.Clone(charges)
	for i := range own {
		own[i].Key += strings.Repeat("-", 256)
	}
	err := call(own)
	for i := range own {
		charges[i].Verdict = own[i].Verdict
	}
	return err
}
