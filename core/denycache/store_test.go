package denycache_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
)

// A failing store does what it is asked, and returns *err.
type failing struct {
	driver.Store
	err *error
}

func (f *failing) Take(ctx context.Context, charges []driver.Charge) error {
	return errors.Join(f.Store.Take(ctx, charges), *f.err)
}

func (f *failing) Adjust(ctx context.Context, charges []driver.Charge) error {
	return errors.Join(f.Store.Adjust(ctx, charges), *f.err)
}

// An error is passed on and teaches nothing.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	b := newBench(t)
	var fail error
	s := denycache.New(&failing{b.behind, &fail})
	l := limiter(t, s, core.TokenBucket("r", core.PerHour(1)))
	b.elsewhere(l, "k", 1)
	fail = broken
	for range 3 {
		if d, err := l.Allow(t.Context(), "k"); !errors.Is(err, broken) || d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	}
	fail = nil
	ask(t, l, "k", 1)
	fail = broken
	if d := ask(t, l, "k", 1); d.Allowed {
		t.Error("admitted")
	}
	if _, err := l.Reset(t.Context(), "k"); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	fail = nil
	if !ask(t, l, "k", 1).Allowed {
		t.Error("a Reset that may have happened is not believed to have happened")
	}
}

// What is denied here is denied under the contract of a Store.
func TestContractOfWhatIsDeniedHere(t *testing.T) {
	b := newBench(t)
	l, key := b.spent(10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Allow(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if _, err := core.New(b.cache, core.TokenBucket("hour", core.PerHour(11))); err != nil {
		t.Errorf("a Store that does not declare: %v", err)
	}
	if d := b.here(l, key, math.MaxInt); d.RetryAfter != core.Never {
		t.Errorf("more than it holds: %+v", d)
	}
}

func TestDeclarePassesOn(t *testing.T) {
	s := denycache.New(memstore.New())
	limiter(t, s, core.TokenBucket("r", core.PerHour(1)))
	if _, err := core.New(s, core.TokenBucket("r", core.PerHour(2))); !errors.Is(err, core.ErrRuleConflict) {
		t.Errorf("the same name with another limit: %v", err)
	}
}

func TestPanics(t *testing.T) {
	for want, f := range map[string]func(){
		"denycache: New: next is nil":          func() { denycache.New(nil) },
		"denycache: MaxKeys: n is less than 1": func() { denycache.MaxKeys(0) },
		"denycache: MaxAge: not positive":      func() { denycache.MaxAge(0) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %v", got, want)
				}
			}()
			f()
		}()
	}
}
