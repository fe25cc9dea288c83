package core_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// A decision takes a place and charges the minute, or does neither. A place is free when its event has
// ended; the minute is not.
func ExampleInFlight() {
	exports := core.Must(core.New(memstore.New(),
		core.InFlight("running", 2),
		core.SlidingLog("minute", core.PerMinute(10))))
	ctx := context.Background()

	var running []*core.Reservation
	for range 3 {
		r, err := exports.Reserve(ctx, "ann", 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		running = append(running, r)
		fmt.Println(r.Decision())
	}
	fmt.Println("an estimate:", running[2].Decision().State(0).Estimate) // an event may end sooner

	err := running[0].Release(ctx)
	d, _ := exports.Peek(ctx, "ann")
	fmt.Println(d, err)
	// Output:
	// allowed: "running" 1 of 2 left, "minute" 9 of 10 left
	// allowed: "running" 0 of 2 left, "minute" 8 of 10 left
	// denied, retry after about 30s: "running" 0 of 2 left, "minute" 8 of 10 left
	// an estimate: true
	// allowed: "running" 1 of 2 left, "minute" 8 of 10 left <nil>
}

// Twenty jobs of a customer run, three at the same time. With a Redis store, these are three in all
// processes together.
func ExampleLimiter_Acquire() {
	jobs := core.Must(core.New(memstore.New(), core.InFlight("jobs", 3)))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // of all jobs
	defer cancel()

	work := func(job func()) error {
		r, err := jobs.Acquire(ctx, "customer:7") // waits for a place
		if err != nil {
			return err
		}
		defer r.Release(ctx) // also after ctx has ended
		job()
		return nil
	}

	var mu sync.Mutex
	running, most, done := 0, 0, 0
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			err := work(func() {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				running--
				done++
				mu.Unlock()
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	fmt.Println(done, "jobs done, at most", most, "at the same time")
	// Output: 20 jobs done, at most 3 at the same time
}

// The batches of a customer have at most 90 000 tokens in a queue at the same time.
func ExampleRule_ByCost() {
	queue := core.Must(core.New(memstore.New(), core.InFlight("queue", 90_000).ByCost().Unit("tokens")))
	ctx := context.Background()

	first, err := queue.AcquireN(ctx, "customer:7", 60_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := queue.Reserve(ctx, "customer:7", 40_000) // does not wait
	fmt.Println(second.Decision(), err)
	part, err := queue.ReserveAtMost(ctx, "customer:7", 40_000)
	fmt.Println(part.Cost(), "tokens are sent now", err)

	_, err = queue.AcquireN(ctx, "customer:7", 100_000)
	fmt.Println(err)

	fmt.Println(first.Release(ctx), part.Release(ctx))
	d, err := queue.Peek(ctx, "customer:7")
	fmt.Println(d, err)
	// Output:
	// denied, retry after about 30s: "queue" 30000 of 90000 left <nil>
	// 30000 tokens are sent now <nil>
	// weir: costs more than a rule can ever admit
	// <nil> <nil>
	// allowed: "queue" 90000 of 90000 left <nil>
}

// Release frees the place, and the requests stay charged. Refund frees both.
func ExampleReservation_Release() {
	limiter := core.Must(core.New(memstore.New(),
		core.InFlight("concurrent", 5),
		core.SlidingLog("requests", core.PerHour(100))))
	ctx := context.Background()
	for _, end := range []func(*core.Reservation, context.Context) error{
		(*core.Reservation).Release,
		(*core.Reservation).Refund,
	} {
		r, err := limiter.Reserve(ctx, "ann", 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Decision())
		if err := end(r, ctx); err != nil {
			fmt.Println(err) // the place is free at the end of its hold
		}
	}
	d, _ := limiter.Peek(ctx, "ann")
	fmt.Println(d)
	// Output:
	// allowed: "concurrent" 4 of 5 left, "requests" 99 of 100 left
	// allowed: "concurrent" 4 of 5 left, "requests" 98 of 100 left
	// allowed: "concurrent" 5 of 5 left, "requests" 99 of 100 left
}

// A job that must not run beside another one ends when its place is lost. Here an operator has reset the
// key. In Redis, an outage that is longer than the hold does the same.
func ExampleReservation_Lost() {
	limiter := core.Must(core.New(memstore.New(), core.InFlight("report", 1)))
	ctx := context.Background()
	r, err := limiter.Acquire(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Release(ctx)

	job, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.Lost():
			cancel(fmt.Errorf("the place is lost"))
		case <-job.Done():
		}
	}()

	_, err = limiter.Reset(ctx, "nightly")
	<-job.Done() // the job passes its context to all calls that it makes
	fmt.Println(context.Cause(job), err)
	// Output: the place is lost <nil>
}

// The places of a process that has crashed are free after ten seconds, and no export keeps its place for
// much longer than an hour.
func ExampleRule_Hold() {
	exports := core.InFlight("exports", 5).Hold(10 * time.Second).MaxHold(time.Hour)
	fmt.Println(exports)
	fmt.Println(exports.Spec().Hold, exports.Spec().MaxHold)
	// Output:
	// in_flight "exports" 5 hold 10s max hold 1h
	// 10s 1h0m0s
}
