package core_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
)

// A counted Store embeds a driver.BucketTaker and has a Take of its own.
type counted struct {
	*memstore.Store
	taken int
}

func (s *counted) Take(ctx context.Context, charges []driver.Charge) error {
	s.taken++
	return s.Store.Take(ctx, charges)
}

func TestLimiter_Allow_StoreThatEmbedsBucketTaker(t *testing.T) {
	s := &counted{Store: memstore.New()}
	l := core.Must(core.New(s, core.TokenBucket("r", core.PerHour(2))))
	for name, call := range map[string]func() (core.Decision, error){
		"Allow":  func() (core.Decision, error) { return l.Allow(t.Context(), "k") },
		"AllowN": func() (core.Decision, error) { return l.AllowN(t.Context(), "k", 2) },
		"Peek":   func() (core.Decision, error) { return l.Peek(t.Context(), "k") },
	} {
		s.taken = 0
		if _, err := call(); err != nil || s.taken != 1 {
			t.Errorf("%s: got %d calls of Take and error %v, expected 1", name, s.taken, err)
		}
	}
}

// The function of Choose is called once for an event, whether the Store has a shortcut for it or not.
func TestLimiter_Allow_ChoosesOnce(t *testing.T) {
	for name, rules := range map[string][]core.Rule{
		"one bucket":  {core.TokenBucket("r", core.PerHour(2))},
		"two buckets": {core.TokenBucket("r", core.PerHour(2)), core.TokenBucket("s", core.PerHour(2))},
		"one log":     {core.SlidingLog("r", core.PerHour(2))},
		"unlimited":   {core.TokenBucket("r", core.Unlimited)},
	} {
		calls := 0
		l := core.Must(core.New(memstore.New(), rules...)).Choose(func(context.Context, string) (*core.Limiter, error) {
			calls++
			return nil, nil
		})
		if d, err := l.Allow(t.Context(), "k"); err != nil || !d.Allowed || calls != 1 {
			t.Errorf("%s: got %v, error %v and %d calls, expected 1", name, d, err, calls)
		}
	}
}
