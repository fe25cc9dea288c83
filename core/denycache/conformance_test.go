package denycache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// A checked store is a denycache that compares every hit with the answer of the Store behind, to
// which each way takes up to delay.
type checked struct {
	*fixture
	delay       time.Duration
	rng         *rand.Rand
	hits, known int
}

func newChecked(t *testing.T, delay time.Duration) *checked {
	s := &checked{fixture: newFixture(t, denycache.MaxAge(age)), delay: delay, rng: rand.New(rand.NewPCG(3, 3))}
	s.behind.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		s.pause()
		defer s.pause()
		return next(ctx, charges)
	})
	return s
}

func (s *checked) pause() {
	if s.delay > 0 {
		s.advance(time.Duration(s.rng.Int64N(int64(s.delay))))
	}
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
	delay := s.delay
	s.delay = 0
	err := s.behind.Take(ctx, charges)
	s.delay = delay
	if err != nil {
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
		if err := s.compare(got, want); err != nil {
			s.Errorf("%v, cost %d: %v", hit[i].Rule, hit[i].Cost, err)
		}
	}
	return nil
}

// compare returns an error if the Verdict got of a hit and the Verdict want of the Store behind
// contradict the package documentation.
func (s *checked) compare(got, want driver.Verdict) error {
	late := 2*s.delay + time.Microsecond
	between := func(got, least time.Duration) bool { return got >= least && got <= least+late }
	switch {
	case got.Rule != want.Rule || got.Allowed || got.Soft || got.Delay != 0:
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
		s := newChecked(t, 0)
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

// Hits are as the package documentation says, in random histories. Each way to the Store takes a
// random time, so the two clocks never agree about the time of a decision.
func TestStore_Take_histories(t *testing.T) {
	for _, delay := range []time.Duration{3 * time.Microsecond, 2 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			hits, known := 0, 0
			for seed := range uint64(40) {
				h := &history{checked: newChecked(t, delay), rng: rand.New(rand.NewPCG(seed, 11))}
				for i := range 3 {
					h.rules = append(h.rules, h.limits(i))
				}
				for range 400 {
					h.step()
				}
				if t.Failed() {
					t.Fatalf("seed %d, rules %v", seed, h.rules)
				}
				hits, known = hits+h.hits, known+h.known
			}
			if hits < 1000 || known < 1000 {
				t.Errorf("got %d hits with %d verdicts, want 1000 of both", hits, known)
			}
		})
	}
}

// A history draws random calls.
type history struct {
	*checked
	rng   *rand.Rand
	rules [][]core.Rule // each with its limits, of which two have the same length
}

// limits returns the i-th rule with one to three limits, as those of plans.
func (h *history) limits(i int) (limits []core.Rule) {
	period := []time.Duration{time.Millisecond, 130 * time.Millisecond, time.Second, time.Minute}[h.rng.IntN(4)]
	algorithm := testkit.Algorithms[h.rng.IntN(len(testkit.Algorithms))]
	soft, shadow := h.rng.IntN(4) == 0, h.rng.IntN(6) == 0
	for plan := range 1 + h.rng.IntN(3) {
		limit := core.Per(1+h.rng.IntN(9), period)
		if plan == 2 {
			limit.Per *= 2
		}
		r := algorithm.Rule(fmt.Sprint("r", i), limit)
		if soft {
			r = r.Soft(50)
		}
		if shadow {
			r = r.Shadow()
		}
		limits = append(limits, r)
	}
	return limits
}

func (h *history) charge(i int) driver.Charge {
	rule := h.rules[i][h.rng.IntN(len(h.rules[i]))]
	c := driver.Charge{Key: fmt.Sprint("k", h.rng.IntN(2)), Rule: testkit.Compiled(rule), Cost: 1}
	if h.rng.IntN(3) == 0 {
		c.Cost = 1 + h.rng.IntN(rule.Capacity()+1)
	}
	if h.rng.IntN(5) == 0 {
		c.Op = driver.Peek
	}
	if h.rng.IntN(4) == 0 {
		c.MaxDelay = h.upTo(rule.Limit().Per) + time.Microsecond
	}
	return c
}

func (h *history) upTo(d time.Duration) time.Duration {
	return time.Duration(h.rng.Int64N(int64(d))).Truncate(time.Microsecond)
}

func (h *history) step() {
	first := h.rng.IntN(len(h.rules))
	charges := []driver.Charge{h.charge(first)}
	if h.rng.IntN(3) == 0 {
		charges = append(charges, h.charge((first+1)%len(h.rules)))
	}
	if first := charges[0]; h.rng.IntN(6) == 0 {
		for i := range charges {
			c := &charges[i]
			c.Key, c.Op, c.Cost, c.MaxDelay, c.AtMost = first.Key, driver.Spend, first.Cost, 0, true
		}
	} else if h.rng.IntN(25) == 0 {
		for i := range charges {
			charges[i].Op = []driver.Op{driver.Reset, driver.Credit, driver.Debit}[h.rng.IntN(3)]
			charges[i].MaxDelay = 0
		}
	}
	testkit.Must(h, storetest.Do(h.Context(), h, charges))
	switch retry := charges[0].Verdict.RetryAfter; {
	case h.rng.IntN(8) == 0:
		h.advance(h.upTo(h.rules[0][0].Limit().Per))
	case h.rng.IntN(3) > 0 || retry == 0 || retry == core.Never || !charges[0].Op.Asks():
	case h.rng.IntN(2) == 0:
		h.advance(retry - time.Microsecond)
	default:
		h.advance(retry)
	}
}
