package denycache_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// An answer with an error is not cached.
func TestStore_Take_errors(t *testing.T) {
	broken := errors.New("broken")
	f := newFixture(t)
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	f.elsewhere(l, "k", 1)
	for name, hook := range map[string]storetest.Hook{"fails": storetest.Fail(broken), "answer is lost": storetest.Lose(broken)} {
		f.behind.Set(hook)
		for range 3 {
			if d, err := l.Allow(t.Context(), "k"); !errors.Is(err, broken) || d.Allowed {
				t.Errorf("%s: got %v and the error %v, want %v", name, d, err, broken)
			}
		}
	}
	f.behind.Set()
	f.miss(l, "k", 1)
	f.behind.Set(storetest.Fail(broken))
	f.hit(l, "k", 1)
}

// A hit after the end of the context returns its error, as the Store would.
func TestStore_Take_canceledContext(t *testing.T) {
	f := newFixture(t)
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	f.miss(l, "k", 1)
	f.hit(l, "k", 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := l.Allow(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v and the error %v, want %v", d, err, context.Canceled)
	}
}

func TestStore_Declare(t *testing.T) {
	for _, c := range []struct {
		name   string
		behind core.Store
		want   error
	}{
		{"a Declarer", memstore.New(), core.ErrRuleConflict},
		{"no Declarer", struct{ driver.Store }{memstore.New()}, nil},
	} {
		s := denycache.New(c.behind)
		testkit.Limiter(t, s, core.TokenBucket("r", core.PerHour(1)))
		if _, err := core.New(s, core.TokenBucket("r", core.PerHour(2))); !errors.Is(err, c.want) {
			t.Errorf("%s: a second limit of the name: got the error %v, want %v", c.name, err, c.want)
		}
	}
}

// A cached denial says nothing about the Store behind, so a probe of a denied key reaches it.
func TestStore_Probe_deniedKey(t *testing.T) {
	readOnly := errors.New("read only")
	f := newFixture(t)
	f.behind.OnProbe = func(context.Context, []driver.Charge) error { return readOnly }
	l := f.limiter(core.TokenBucket("r", core.PerHour(1)))
	f.miss(l, "k", 1)
	f.hit(l, "k", 1)
	before := f.cache.Stats()
	c := charge(l, 1)
	c.Op = driver.Peek
	if err := driver.Probe(t.Context(), f.cache, []driver.Charge{c}); err != readOnly {
		t.Errorf("got the error %v, want that of the Store behind, %v", err, readOnly)
	}
	if got := f.cache.Stats(); got != before {
		t.Errorf("Stats after a probe: got %+v, want %+v", got, before)
	}
}

func TestOptions_panics(t *testing.T) {
	for want, f := range map[string]func(){
		"denycache: New: next is nil":          func() { denycache.New(nil) },
		"denycache: MaxKeys: n is less than 1": func() { denycache.MaxKeys(0) },
		"denycache: MaxAge: not positive":      func() { denycache.MaxAge(0) },
	} {
		testkit.Panics(t, want, f)
	}
}
