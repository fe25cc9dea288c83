package denycache_test

import (
	"context"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/reference"
)

// A bench is a denycache over a reference, with clocks that stand still.
type bench struct {
	*testing.T
	clocks *pair
	behind *reference.Store
	cache  *denycache.Store
}

func newBench(t *testing.T, opts ...denycache.Option) *bench {
	b := &bench{T: t, clocks: newPair()}
	b.behind = reference.New(b.clocks.now)
	b.cache = denycache.New(b.behind, opts...)
	b.cache.SetClock(b.clocks.localNow)
	return b
}

func limiter(t testing.TB, s core.Store, rules ...core.Rule) *core.Limiter {
	t.Helper()
	l, err := core.New(s, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ask(t testing.TB, l *core.Limiter, key string, n int) core.Decision {
	t.Helper()
	d, err := l.AllowN(t.Context(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// here asks for what has to be denied without the Store behind.
func (b *bench) here(l *core.Limiter, key string, n int) core.Decision {
	b.Helper()
	asked := b.behind.Calls()
	d := ask(b, l, key, n)
	if d.Allowed || b.behind.Calls() != asked {
		b.Fatalf("%d of %.20q: allowed %v, with %d calls", n, key, d.Allowed, b.behind.Calls()-asked)
	}
	return d
}

// there asks for what the Store behind has to be asked about, and says what it said.
func (b *bench) there(l *core.Limiter, key string, n int) core.Decision {
	b.Helper()
	asked := b.behind.Calls()
	d := ask(b, l, key, n)
	if b.behind.Calls() != asked+1 {
		b.Fatalf("%d of %.20q: allowed %v, with %d calls", n, key, d.Allowed, b.behind.Calls()-asked)
	}
	return d
}

// elsewhere lets another process take n.
func (b *bench) elsewhere(l *core.Limiter, key string, n int) {
	b.Helper()
	if !ask(b, limiter(b, b.behind, l.Rules()...), key, n).Allowed {
		b.Fatalf("%d of %.20q were denied elsewhere", n, key)
	}
}

// spent is a limiter of n an hour, and a key that has used all of it.
func (b *bench) spent(n int) (*core.Limiter, string) {
	b.Helper()
	l := limiter(b, b.cache, core.TokenBucket("hour", core.PerHour(n)))
	if !b.there(l, "k", n).Allowed {
		b.Fatal("it does not begin as it should")
	}
	b.here(l, "k", 1)
	return l, "k"
}

// hook is next with another Take.
func hook(next driver.Store, take func(context.Context, []driver.Charge) error) core.Store {
	return &hooked{next, take}
}

type hooked struct {
	driver.Store
	take func(context.Context, []driver.Charge) error
}

func (h *hooked) Take(ctx context.Context, charges []driver.Charge) error {
	return h.take(ctx, charges)
}
