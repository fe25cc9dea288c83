package failover_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// busy is how much slower than promised a busy machine may be.
const busy = 4 * time.Second

// A load is decisions by many callers, and how long they took.
type load struct {
	mu       sync.Mutex
	took     []time.Duration
	failed   []error
	stop     chan struct{}
	callers  sync.WaitGroup
	limiters []*core.Limiter
}

// drive asks from n goroutines for each limiter until the load is ended.
func drive(n int, limiters ...*core.Limiter) *load {
	o := &load{stop: make(chan struct{}), limiters: limiters}
	for i := range n * len(limiters) {
		o.callers.Go(func() { o.call(limiters[i%len(limiters)], fmt.Sprint("key ", i%7)) })
	}
	return o
}

func (o *load) call(l *core.Limiter, key string) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		begun := time.Now()
		d, err := l.Allow(context.Background(), key)
		took := time.Since(begun)
		if err == nil && !d.Allowed {
			err = fmt.Errorf("denied: %+v", d)
		}
		o.mu.Lock()
		o.took = append(o.took, took)
		if err != nil {
			o.failed = append(o.failed, err)
		}
		o.mu.Unlock()
		select {
		case <-o.stop:
			return
		case <-tick.C:
		}
	}
}

// phase returns what the decisions since the last phase took: 99 percent of them,
// and the slowest. That one failed fails the test.
func (o *load) phase(t *testing.T) (n int, p99, most time.Duration) {
	t.Helper()
	o.mu.Lock()
	took, failed := o.took, o.failed
	o.took, o.failed = nil, nil
	o.mu.Unlock()
	if len(failed) > 0 {
		t.Errorf("%d decisions failed, for example: %v", len(failed), failed[0])
	}
	if len(took) == 0 {
		t.Fatal("nobody asked")
	}
	slices.Sort(took)
	return len(took), took[len(took)*99/100], took[len(took)-1]
}

func (o *load) end() {
	close(o.stop)
	o.callers.Wait()
}

// becomes waits until all stores are in the state, and returns how long that took.
func becomes(t *testing.T, want failover.State, stores ...*failover.Store) time.Duration {
	t.Helper()
	begun := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if !slices.ContainsFunc(stores, func(s *failover.Store) bool { return s.State() != want }) {
			return time.Since(begun)
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("not %v for 30 s: %v, %+v", want, stores[0].State(), stores[0].Stats())
		}
		<-tick.C
	}
}

// A Redis that is killed or frozen under load fails no decision and holds up few,
// and is in use again soon after it returns.
func TestRedis(t *testing.T) {
	for _, way := range []struct {
		name          string
		away, return_ func(*redistest.Server) error
	}{
		{"killed", (*redistest.Server).Stop, (*redistest.Server).Start},
		{"frozen", (*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		for _, mode := range []struct {
			name string
			opts []redisstore.Option
		}{
			{"direct", nil},
			{"pipelined", []redisstore.Option{redisstore.Pipelined()}},
		} {
			t.Run(way.name+" "+mode.name, func(t *testing.T) {
				t.Parallel()
				server := redistest.NewServer(t)
				var stores []*failover.Store
				var limiters []*core.Limiter
				for range 3 { // processes
					rdb := server.Client(func(o *redis.Options) { o.PoolSize = 10 })
					s := failover.New(redisstore.New(rdb, mode.opts...), memstore.New())
					defer s.Close()
					stores = append(stores, s)
					limiters = append(limiters, limiter(t, s, core.TokenBucket("wide", core.PerSecond(1_000_000))))
				}
				o := drive(5, limiters...)
				defer o.end()
				report := func(what string) (most time.Duration) {
					n, p99, most := o.phase(t)
					t.Logf("%s: %d decisions, p99 %v, slowest %v", what, n, p99, most)
					return most
				}
				time.Sleep(300 * time.Millisecond) // of load, not to wait for anything
				report("before")
				for range 2 {
					must(t, way.away(server))
					took := becomes(t, failover.Backup, stores...)
					if most := report(fmt.Sprintf("until it was left, after %v", took)); most > failover.DefaultDeadline+busy {
						t.Errorf("a decision took %v", most)
					}
					time.Sleep(500 * time.Millisecond) // of load
					if most := report("without it"); most > busy {
						t.Errorf("a decision took %v", most)
					}
					begun := time.Now()
					must(t, way.return_(server))
					becomes(t, failover.Primary, stores...)
					took = time.Since(begun)
					report(fmt.Sprintf("until it was in use again, after %v", took))
					if took > 2*time.Second+busy {
						t.Errorf("back after %v", took)
					}
				}
				failures := stores[0].Stats().Failures
				time.Sleep(300 * time.Millisecond) // of load
				report("after")
				t.Logf("%+v, and %d failures at the end", stores[0].Stats(), stores[0].Stats().Failures-failures)
			})
		}
	}
}
