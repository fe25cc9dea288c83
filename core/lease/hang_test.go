package lease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
)

// hangDeadline is the deadline that a hangingStore keeps by itself.
const hangDeadline = 100 * time.Millisecond

var errHangs = errors.New("no answer within the deadline")

// hangingStore answers at once until hangs is set. Then each call lasts until its context
// ends or for hangDeadline, and fails.
type hangingStore struct {
	driver.Store
	hangs atomic.Bool
}

func (s *hangingStore) Take(ctx context.Context, charges []driver.Charge) error {
	if !s.hangs.Load() {
		return s.Store.Take(ctx, charges)
	}
	return s.hang(ctx)
}

func (s *hangingStore) Adjust(ctx context.Context, charges []driver.Charge) error {
	if !s.hangs.Load() {
		return s.Store.Adjust(ctx, charges)
	}
	return s.hang(ctx)
}

func (s *hangingStore) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(hangDeadline):
		return errHangs
	}
}

const hangKeys = 500

// leaseMany makes s hold a block of the same size for each of some keys, k0, k1 and so on,
// by that many decisions about each. It returns the size.
func leaseMany(t *testing.T, s *lease.Store, rule core.Rule, keys, decisions int) (each int) {
	t.Helper()
	l := core.Must(core.New(s, rule))
	for i := range keys {
		for range decisions {
			if _, err := l.Allow(t.Context(), fmt.Sprint("k", i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
	}
	if each = int(s.Stats().Held) / keys; each == 0 {
		t.Fatalf("expected a block for each of %d keys, got %d tokens in all", keys, s.Stats().Held)
	}
	return each
}

var hangRules = []core.Rule{
	core.TokenBucket("bucket", core.PerHour(100_000)), core.FixedWindow("window", core.PerDay(100_000)),
}

func TestStore_Take_StoreHangs(t *testing.T) {
	for _, hot := range hangRules {
		log := core.SlidingLog("log", core.PerHour(1000))
		for _, tt := range []struct {
			name    string
			rules   []core.Rule
			patient time.Duration // of the caller; zero is for ever
			longest time.Duration
		}{
			{"one rule", []core.Rule{hot}, 0, hangDeadline},
			{"two rules", []core.Rule{hot, log}, 0, hangDeadline},
			{"three rules", []core.Rule{log, hot, core.FixedWindow("other", core.PerDay(100_000))}, 0, hangDeadline},
			{"two rules, context of 10ms", []core.Rule{hot, log}, 10 * time.Millisecond, 10 * time.Millisecond},
		} {
			t.Run(hot.Name()+", "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					behind := &hangingStore{Store: memstore.New()}
					s := lease.New(behind)
					leaseMany(t, s, hot, hangKeys, 40)
					l := core.Must(core.New(s, tt.rules...))
					behind.hangs.Store(true)
					var longest atomic.Int64
					var wg sync.WaitGroup
					for g := range 64 {
						wg.Go(func() {
							for i := range 60 {
								ctx, cancel := t.Context(), context.CancelFunc(func() {})
								if tt.patient > 0 {
									ctx, cancel = context.WithTimeout(ctx, tt.patient)
								}
								begun := time.Now()
								_, _ = l.Allow(ctx, fmt.Sprint("k", (i*64+g)%hangKeys))
								took := int64(time.Since(begun))
								cancel()
								for seen := longest.Load(); took > seen && !longest.CompareAndSwap(seen, took); seen = longest.Load() {
								}
								time.Sleep(20 * time.Millisecond)
							}
						})
					}
					wg.Wait()
					if got := time.Duration(longest.Load()); got > tt.longest {
						t.Errorf("expected decisions of %v at most, got one of %v", tt.longest, got)
					}
					_ = s.Close()
				})
			})
		}
	}
}

// All callers of one key share its call, so each has the error of that call when it ends.
func TestStore_Take_StoreHangsOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := &hangingStore{Store: memstore.New()}
		s := lease.New(behind)
		defer s.Close()
		l := core.Must(core.New(s, hangRules[0]))
		behind.hangs.Store(true)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				begun := time.Now()
				if _, err := l.Allow(t.Context(), "k"); !errors.Is(err, errHangs) {
					t.Errorf("expected the error of the store, got %v", err)
				}
				if took := time.Since(begun); took > hangDeadline {
					t.Errorf("expected a decision of %v at most, got %v", hangDeadline, took)
				}
			})
		}
		wg.Wait()
	})
}

func TestStore_Close_StoreHangs(t *testing.T) {
	const timeout = 300 * time.Millisecond
	for _, rule := range hangRules {
		for _, tt := range []struct {
			name    string
			outage  time.Duration // before Close
			callers int           // whose calls are under way
		}{{"at once", 0, 0}, {"when leases have ended", 1200 * time.Millisecond, 0}, {"during calls", 0, 8}} {
			t.Run(rule.Name()+", "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					behind := &hangingStore{Store: memstore.New()}
					s := lease.New(behind, lease.Timeout(timeout))
					leaseMany(t, s, rule, hangKeys, 40)
					behind.hangs.Store(true)
					time.Sleep(tt.outage)
					l := core.Must(core.New(s, rule))
					var wg sync.WaitGroup
					for i := range tt.callers {
						wg.Go(func() { _, _ = l.AllowN(t.Context(), fmt.Sprint("k", i), 500) })
					}
					synctest.Wait()
					begun := time.Now()
					if err := s.Close(); err != nil {
						t.Error(err)
					}
					if took := time.Since(begun); took > timeout {
						t.Errorf("expected Close to return within %v, got %v", timeout, took)
					}
					wg.Wait()
					if held := s.Stats().Held; held != 0 {
						t.Errorf("expected no token after Close, got %d", held)
					}
				})
			})
		}
	}
}

// deafStore does not heed any context.
type deafStore struct{ block chan struct{} }

func (s deafStore) Take(context.Context, []driver.Charge) error   { <-s.block; return errHangs }
func (s deafStore) Adjust(context.Context, []driver.Charge) error { <-s.block; return errHangs }

func TestStore_Close_StoreIgnoresContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := deafStore{make(chan struct{})}
		s := lease.New(behind, lease.Timeout(time.Second))
		l := core.Must(core.New(s, hangRules[0]))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, _ = l.Allow(ctx, "k")
		begun := time.Now()
		for range 2 {
			if err := s.Close(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("expected %v, got %v", context.DeadlineExceeded, err)
			}
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("expected Close to return within 1s each time, got %v for two", took)
		}
		close(behind.block)
	})
}

// Blocks that expire, and blocks that are all but spent, make no crowd of goroutines.
func TestStore_GoroutinesInOutage(t *testing.T) {
	for _, rule := range hangRules {
		t.Run(rule.Name()+", blocks expire", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := &hangingStore{Store: memstore.New()}
				s := lease.New(behind, lease.Lifetime(200*time.Millisecond))
				leaseMany(t, s, rule, hangKeys, 40)
				before, most := runtime.NumGoroutine(), 0
				behind.hangs.Store(true)
				for range 60 {
					time.Sleep(10 * time.Millisecond)
					most = max(most, runtime.NumGoroutine()-before)
				}
				if most > 8 {
					t.Errorf("expected a handful of goroutines, got %d", most)
				}
				_ = s.Close()
			})
		})
		t.Run(rule.Name()+", blocks are spent", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const keys = 300
				behind := &hangingStore{Store: memstore.New()}
				s := lease.New(behind)
				each := leaseMany(t, s, rule, keys, 400)
				before := runtime.NumGoroutine()
				behind.hangs.Store(true)
				l := core.Must(core.New(s, rule))
				begun := time.Now()
				for i := range keys {
					if _, err := l.AllowN(t.Context(), fmt.Sprint("k", i), each*4/5); err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(begun); took > 0 {
					t.Errorf("expected decisions that do not wait, got %v", took)
				}
				if n := runtime.NumGoroutine() - before; n > 72 || n == 0 {
					t.Errorf("expected goroutines for 64 blocks at most, got %d", n)
				}
				_ = s.Close()
			})
		})
	}
}
