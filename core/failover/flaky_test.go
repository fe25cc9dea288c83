package failover_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

// A mood is how a flaky store answers.
type mood int

const (
	well   mood = iota
	slow        // answers after 10 ms, or when its context ends
	refuse      // fails at once
	hang        // fails when its context ends
	deaf        // returns when it is well again, and not before
	lose        // decides, and then hangs
	panics
)

// A flaky store is a memstore with moods.
type flaky struct {
	*memstore.Store
	calls  atomic.Int64 // in all
	spends atomic.Int64

	mu      sync.Mutex
	mood    mood
	changed chan struct{}
	inside  int // calls that have not returned
}

func newFlaky(m mood) *flaky {
	return &flaky{Store: memstore.New(), mood: m, changed: make(chan struct{})}
}

func (f *flaky) set(m mood) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mood = m
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *flaky) within() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inside
}

func (f *flaky) enter(n int) (mood, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inside += n
	return f.mood, f.changed
}

func (f *flaky) Take(ctx context.Context, charges []driver.Charge) error {
	if charges[0].Op == driver.Spend {
		f.spends.Add(1)
	}
	return f.do(ctx, f.Store.Take, charges)
}

func (f *flaky) Adjust(ctx context.Context, charges []driver.Charge) error {
	return f.do(ctx, f.Store.Adjust, charges)
}

func (f *flaky) do(ctx context.Context, verb func(context.Context, []driver.Charge) error, charges []driver.Charge) error {
	f.calls.Add(1)
	m, changed := f.enter(1)
	defer f.enter(-1)
	switch m {
	case slow:
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	case refuse:
		return fmt.Errorf("%w: refused", core.ErrUnavailable)
	case hang:
		<-ctx.Done()
		return fmt.Errorf("%w: %w", core.ErrUnavailable, ctx.Err())
	case deaf:
		<-changed
	case panics:
		panic("no such thing")
	case lose:
		if err := verb(ctx, charges); err != nil {
			return err
		}
		<-ctx.Done()
		return fmt.Errorf("%w: %w", core.ErrUnavailable, ctx.Err())
	}
	return verb(ctx, charges)
}

// A punctual store is a flaky one that keeps a deadline.
type punctual struct {
	*flaky
	deadline time.Duration
}

func (p *punctual) Deadline() time.Duration { return p.deadline }

func (p *punctual) Take(ctx context.Context, charges []driver.Charge) error {
	inTime, cancel := context.WithTimeout(ctx, p.deadline)
	defer cancel()
	return p.flaky.Take(inTime, charges)
}

func (p *punctual) Adjust(ctx context.Context, charges []driver.Charge) error {
	inTime, cancel := context.WithTimeout(ctx, p.deadline)
	defer cancel()
	return p.flaky.Adjust(inTime, charges)
}

var perHour = core.TokenBucket("hour", core.PerHour(1000))

func limiter(t testing.TB, s core.Store, rules ...core.Rule) *core.Limiter {
	t.Helper()
	l, err := core.New(s, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// allow asks for one event of key; that nobody can decide fails the test.
func allow(t testing.TB, l *core.Limiter, key string) core.Decision {
	t.Helper()
	d, err := l.Allow(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// until makes decisions until the Store is in the state, which it has to be within
// a minute, and returns how many.
func until(t testing.TB, s *failover.Store, want failover.State) int {
	t.Helper()
	l := limiter(t, s, core.TokenBucket("until", core.PerSecond(1_000_000)))
	for n, end := 0, time.Now().Add(time.Minute); ; n++ {
		if s.State() == want {
			return n
		}
		if time.Now().After(end) {
			t.Fatalf("the state is %v for a minute, want %v", s.State(), want)
		}
		allow(t, l, "until")
		time.Sleep(time.Millisecond) // of a bubble
	}
}

// left is what remains of key.
func left(t testing.TB, s core.Store, r core.Rule, key string) int {
	t.Helper()
	d, err := limiter(t, s, r).Peek(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return d.State(0).Remaining
}
