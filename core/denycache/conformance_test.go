package denycache_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A checked store is a denycache that compares every hit with the answer of the Store behind.
type checked struct {
	*fixture
	hits, known int
}

func (s *checked) Declare(changes ...driver.Change) error { return s.cache.Declare(changes...) }

func (s *checked) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.cache.Adjust(ctx, charges)
}

// Take gives charges the Verdicts of the Store behind after a hit, because the model of the suite
// has no Unknown ones.
func (s *checked) Take(ctx context.Context, charges []driver.Charge) error {
	s.Helper()
	calls := s.behind.Calls()
	if err := s.cache.Take(ctx, charges); err != nil || s.behind.Calls() != calls {
		return err
	}
	s.hits++
	hit := slices.Clone(charges)
	if err := s.behind.Take(ctx, charges); err != nil {
		return err
	}
	if admitted(charges) || admitted(hit) {
		s.Errorf("got the hit %+v, want a denial as by the Store: %+v", hit, charges)
	}
	for i := range hit {
		got, want := hit[i].Verdict, charges[i].Verdict
		if got.Unknown {
			if want := (driver.Verdict{Rule: hit[i].Rule, Allowed: true, Unknown: true}); got != want {
				s.Errorf("%v: got the unknown verdict %+v, want %+v", hit[i].Rule, got, want)
			}
			continue
		}
		s.known++
		if err := compare(got, want); err != nil {
			s.Errorf("%v, cost %d: %v", hit[i].Rule, hit[i].Cost, err)
		}
	}
	return nil
}

// compare returns an error if the Verdict got of a hit and the Verdict want of the Store behind
// contradict the package documentation.
func compare(got, want driver.Verdict) error {
	const late = time.Microsecond
	between := func(got, least time.Duration) bool { return got >= least && got <= least+late }
	switch {
	case !testkit.SameRule(got.Rule, want.Rule) || got.Allowed || got.Soft || got.Delay != 0:
		return fmt.Errorf("got %+v, want a denial by %v", got, want.Rule)
	case !between(got.RetryAfter, want.RetryAfter) && got.RetryAfter != want.RetryAfter:
		return fmt.Errorf("RetryAfter: got %v, want %v and at most %v more", got.RetryAfter, want.RetryAfter, late)
	case !between(got.ResetAfter, want.ResetAfter):
		return fmt.Errorf("ResetAfter: got %v, want %v and at most %v more", got.ResetAfter, want.ResetAfter, late)
	case got.Remaining > want.Remaining:
		return fmt.Errorf("Remaining: got %d, want %d at most", got.Remaining, want.Remaining)
	case got.RetryAfter != core.Never && got.Window != got.RetryAfter:
		return fmt.Errorf("Window: got %v, want RetryAfter, %v", got.Window, got.RetryAfter)
	}
	return nil
}

// admitted reports whether every charge of a rule that is no shadow is allowed.
func admitted(charges []driver.Charge) bool {
	return !slices.ContainsFunc(charges, func(c driver.Charge) bool { return !c.Verdict.Allowed && !c.Rule.Shadow })
}

func TestConformance(t *testing.T) {
	histories, hits, known := 0, 0, 0
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		s := &checked{fixture: newFixture(t, denycache.MaxAge(age))}
		h := &storetest.Harness{
			Store:   s.cache,
			Now:     func() time.Time { return time.UnixMicro(s.storeMicros()) },
			Advance: s.advance,
		}
		if strings.HasSuffix(t.Name(), "Histories") {
			h.Store = s
			histories++
			t.Cleanup(func() { hits, known = hits+s.hits, known+s.known })
		}
		return h
	})
	if histories > 0 && !testing.Short() && (hits < 50 || known < 50) { // -run and -skip may leave these out
		t.Errorf("the histories have %d hits with %d verdicts, want 50 of both", hits, known)
	}
}

func TestStore_Over(t *testing.T) {
	hits := uint64(0)
	storetest.RunOver(t, func(t *testing.T, primary, _ *storetest.Fake) (driver.Store, bool) {
		s := denycache.New(primary)
		t.Cleanup(func() { hits += s.Stats().Hits })
		return s, false
	})
	if hits < 85 {
		t.Errorf("got %d hits, want 85", hits)
	}
}
