// Worker does at most 5 jobs a second, in all processes that share a Redis together, such as calls of
// a provider that allows no more. Start it several times.
//
//	REDIS_URL=redis://127.0.0.1:6379/0 go run -C _examples ./worker
//
// During an outage of Redis the workers pause, and try again less and less often. A worker takes a
// job from its queue only once, and does it when the job is admitted.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
)

const (
	workers      = 4 // of each process
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// work does the jobs of a queue, each when limiter admits it, until ctx ends.
func work(ctx context.Context, limiter *core.Limiter, jobs <-chan int, do func(job int)) error {
	for {
		select {
		case job := <-jobs:
			if err := wait(ctx, limiter, "provider"); err != nil {
				return err // mostly, ctx has ended; the job was not done, so a durable queue delivers it again
			}
			do(job)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wait returns when an event of key is admitted, or ctx ends. Wait of core blocks until then, but
// returns at once if Redis cannot decide: without a pause, the loop would spin. The pause doubles, and
// is random so that the workers do not all come back in the same moment.
func wait(ctx context.Context, limiter *core.Limiter, key string) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := limiter.Wait(ctx, key)
		if !errors.Is(err, core.ErrUnavailable) {
			return err
		}
		log.Printf("Redis cannot decide; pausing for up to %v: %v", pause, err)
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func run(ctx context.Context) error {
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379/0"))
	if err != nil {
		return err
	}
	rdb := redis.NewClient(options)
	defer rdb.Close()

	// A leaky bucket spaces the jobs evenly, 200 ms from one to the next in all processes.
	limiter, err := core.New(redisstore.New(rdb, "worker"), core.LeakyBucket("jobs", core.PerSecond(5)))
	if err != nil {
		return err
	}

	jobs := make(chan int)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			err := work(ctx, limiter, jobs, func(job int) {
				fmt.Printf("%d did job %d at %s\n", os.Getpid(), job, time.Now().Format("15:04:05.000000"))
			})
			if !errors.Is(err, context.Canceled) {
				log.Print(err)
			}
		})
	}
	defer all.Wait()
	for job := 1; ; job++ { // stands for your queue
		select {
		case jobs <- job:
		case <-ctx.Done():
			return nil
		}
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
