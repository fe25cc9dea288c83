package lease_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// The limits of most cases are too small to be leased: their charges are passed through.
func TestStore_Conformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		var clock storetest.Clock
		var passed atomic.Int64 // a clock that is set back leaves the one of this process alone
		s := lease.New(&storetest.Fake{Clock: clock.Micros})
		s.SetClock(func() int64 { return passed.Load() * 1000 })
		t.Cleanup(func() { testkit.Must(t, s.Close()) })
		outer := (&storetest.Fake{Store: s}).Set(afterFetches(s))
		h := clock.Harness(outer)
		h.Advance = func(d time.Duration) {
			s.ReturnAll(t) // the model knows of no tokens that expire or are dropped
			clock.Advance(d)
			passed.Add(max(0, d.Microseconds()))
		}
		if strings.HasSuffix(t.Name(), "Histories") {
			// The histories have large limits, and a leased rule is denied with a RetryAfter that
			// may be later than that of the Store behind: these keys are too long to be leased.
			outer.Set(withLongKeys)
		}
		return h
	})
}

// afterFetches returns a Hook that makes calls that only peek wait for the fetches of s. The Store behind has
// charged the tokens of a fetch that is under way, and s does not hold them yet. The Verdict of a Peek is then
// without them, while the model knows of no fetches.
func afterFetches(s *lease.Store) storetest.Hook {
	return func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		if !slices.ContainsFunc(charges, func(c driver.Charge) bool { return c.Op != driver.Peek }) {
			s.AwaitFetches()
		}
		return next(ctx, charges)
	}
}

// withLongKeys is a Hook that makes all keys too long to be leased.
func withLongKeys(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
	own := slices.Clone(charges)
	for i := range own {
		own[i].Key += strings.Repeat("-", 256)
	}
	err := next(ctx, own)
	for i := range own {
		charges[i].Verdict, charges[i].Receipt, charges[i].Cost = own[i].Verdict, own[i].Receipt, own[i].Cost
	}
	return err
}

func TestStore_Over(t *testing.T) {
	hits := uint64(0)
	storetest.RunOver(t, func(t *testing.T, primary, _ *storetest.Fake) (driver.Store, bool) {
		s := lease.New(primary)
		t.Cleanup(func() { hits += s.Stats().Hits })
		return s, true
	})
	if hits < 2000 {
		t.Errorf("got %d hits, want 2000", hits)
	}
}
