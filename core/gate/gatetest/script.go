package gatetest

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/keyfunc"
)

// A script is a Store that answers what it is told to, and remembers what it was
// asked.
type script struct {
	driver.Namespace
	states map[string]core.State // by the name of the rule, or "name key"
	err    error

	mu    sync.Mutex
	asked []driver.Charge
	calls int
}

func (s *script) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.Take(ctx, charges)
}

func (s *script) Take(_ context.Context, charges []driver.Charge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.asked = append(s.asked, charges...)
	if s.err != nil {
		return s.err
	}
	for i := range charges {
		c := &charges[i]
		state, ok := s.states[c.Rule.Name()+" "+c.Key]
		if !ok {
			state = s.states[c.Rule.Name()]
		}
		c.Verdict = driver.Verdict{
			Rule: c.Rule, Allowed: state.Allowed, Unknown: state.Unknown, Soft: state.Soft, Remaining: state.Remaining,
			RetryAfter: state.RetryAfter, ResetAfter: state.ResetAfter, Window: state.Window, Delay: state.Delay,
		}
	}
	return nil
}

func (s *script) charges() []driver.Charge {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// fail makes the Store fail with err from now on, or not any more.
func (s *script) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *script) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// constant is a key function that always finds key.
func constant(key string) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}

// noKey is a key function that always fails.
func noKey(err error) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return "", err }
}

// header is a key function that takes the key from a header field.
func header(name string) keyfunc.Func {
	return func(_ context.Context, r *http.Request) (string, error) {
		if key := r.Header.Get(name); key != "" {
			return key, nil
		}
		return "", keyfunc.ErrNoKey
	}
}

// onUndo returns a Store in memory that calls f before it undoes a charge, and fails if f does.
func onUndo(f func(ctx context.Context) error) *storetest.Fake {
	return (&storetest.Fake{Store: memstore.New()}).Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		if charges[0].Op == driver.Undo {
			if err := f(ctx); err != nil {
				return err
			}
		}
		return next(ctx, charges)
	})
}

// atOnce calls f n times, each on a goroutine, and waits for all.
func atOnce(n int, f func()) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(f)
	}
	wg.Wait()
}
