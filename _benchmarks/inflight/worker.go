package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
)

// A workerConfig configures a process. The parent passes it in the environment.
type workerConfig struct {
	Addr      string
	Keys      []int // the key of each stream with a small limit
	PerKey    int   // that limit
	Large     int   // streams of the key with a large limit
	MostLarge int   // that limit
	Lease     time.Duration
	Length    time.Duration
}

const workerEnv = "WEIR_IN_FLIGHT_BENCHMARK"

// The names of the rules.
const (
	smallRule = "streams"
	largeRule = "large"
)

// The commands that a process reads, one a line. It answers each with a report in JSON.
const (
	alone   = "alone"   // without streams, takes and frees a place now and then
	idle    = "idle"    // waits, connected to Redis
	hold    = "hold"    // takes the places
	renew   = "renew"   // holds them
	beside  = "beside"  // holds them, and takes and frees another place now and then
	release = "release" // frees them
)

// A report is the answer of a process to a command. The counts are those since the command before.
type report struct {
	Took       time.Duration
	Calls      int64 // of Adjust with renewals
	Renewals   int64
	Failed     int64           // such calls
	Slowest    time.Duration   // of these calls
	Pairs      []time.Duration // the time of a Reserve and a Release
	Lost       int             // streams that have lost their place
	Streams    int
	Goroutines int
	Heap       uint64 // bytes of live objects
	Error      string
}

// A counting Store counts renewals.
type counting struct {
	*redisstore.Store
	calls, renewals, failed, slowest atomic.Int64
}

func (s *counting) Adjust(ctx context.Context, charges []driver.Charge) error {
	if charges[0].Op != driver.Renew {
		return s.Store.Adjust(ctx, charges)
	}
	begin := time.Now()
	err := s.Store.Adjust(ctx, charges)
	s.calls.Add(1)
	s.renewals.Add(int64(len(charges)))
	if err != nil {
		s.failed.Add(1)
	}
	for took := int64(time.Since(begin)); ; {
		if most := s.slowest.Load(); took <= most || s.slowest.CompareAndSwap(most, took) {
			return err
		}
	}
}

// A worker is an application process with streams.
type worker struct {
	config       workerConfig
	store        *counting
	small, large *core.Limiter
	held         []*core.Reservation
}

// workerMain is the main function of a process, which ends with its parent.
func workerMain(config string) {
	w := new(worker)
	if err := json.Unmarshal([]byte(config), &w.config); err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: w.config.Addr})
	w.store = &counting{Store: redisstore.New(rdb, "bench", redisstore.Timeout(time.Second))}
	w.small = core.Must(core.New(w.store, core.InFlight(smallRule, w.config.PerKey).Hold(w.config.Lease)))
	w.large = core.Must(core.New(w.store, core.InFlight(largeRule, w.config.MostLarge).Hold(w.config.Lease)))
	answers := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var r report
		begin := time.Now()
		if err := w.do(context.Background(), strings.TrimSpace(lines.Text()), &r); err != nil {
			r.Error = err.Error()
		}
		r.Took = time.Since(begin)
		w.fill(&r)
		_ = answers.Encode(r)
	}
}

func (w *worker) do(ctx context.Context, command string, r *report) error {
	switch command {
	case idle:
		time.Sleep(w.config.Length / 4)
	case hold:
		return w.hold(ctx)
	case renew:
		time.Sleep(w.config.Length)
	case alone, beside:
		for end := time.Now().Add(w.config.Length / 4); time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
			if err := w.pair(ctx, r); err != nil {
				return err
			}
		}
	case release:
		return w.concurrently(len(w.held), func(i int) error { return w.held[i].Release(ctx) })
	}
	return nil
}

// pair takes and frees a place of a key of its own.
func (w *worker) pair(ctx context.Context, r *report) error {
	begin := time.Now()
	held, err := w.small.Reserve(ctx, fmt.Sprint("pair", os.Getpid()), 1)
	if err == nil {
		err = held.Release(ctx)
	}
	r.Pairs = append(r.Pairs, time.Since(begin))
	return err
}

// hold takes the places of all streams. Each has a context, as that of a request.
func (w *worker) hold(ctx context.Context) error {
	w.held = make([]*core.Reservation, len(w.config.Keys)+w.config.Large)
	return w.concurrently(len(w.held), func(i int) (err error) {
		own, cancel := context.WithCancel(ctx)
		_ = cancel // the streams are held until the process ends
		if i < len(w.config.Keys) {
			w.held[i], err = w.small.Reserve(own, fmt.Sprint("user", w.config.Keys[i]), 1)
		} else {
			w.held[i], err = w.large.Reserve(own, "all", 1)
		}
		if err == nil && !w.held[i].Decision().Allowed {
			err = fmt.Errorf("stream %d was denied", i)
		}
		return err
	})
}

// concurrently calls f with the numbers up to n from several goroutines.
func (w *worker) concurrently(n int, f func(i int) error) error {
	var next atomic.Int64
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return first
}

// fill sets the rest of r.
func (w *worker) fill(r *report) {
	r.Calls, r.Renewals, r.Failed = w.store.calls.Swap(0), w.store.renewals.Swap(0), w.store.failed.Swap(0)
	r.Slowest = time.Duration(w.store.slowest.Swap(0))
	for _, held := range w.held {
		select {
		case <-held.Lost():
			r.Lost++
		default:
		}
	}
	r.Streams = len(w.held)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Goroutines, r.Heap = runtime.NumGoroutine(), m.HeapAlloc
}
