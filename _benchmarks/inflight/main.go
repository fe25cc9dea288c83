// Inflight measures the cost of events that hold places of in-flight limits: some processes hold streams
// for a minute over one Redis. It prints the CPU time that Redis needs for the renewals, the lost places, the
// memory and goroutines of a process, and the time of a Reserve and a Release meanwhile, at several delays
// of the network.
//
//	go run -C _benchmarks ./inflight                              # four minutes
//	go run -C _benchmarks ./inflight -streams 2000 -time 10s -delays 20ms
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A config holds the values of the flags.
type config struct {
	streams   int
	processes int
	perKey    int
	large     int
	lease     time.Duration
	length    time.Duration
	delays    []time.Duration
}

func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("inflight", flag.ContinueOnError)
	f.IntVar(&c.streams, "streams", 10_000, "streams of all processes")
	f.IntVar(&c.processes, "processes", 3, "application processes, which share the keys")
	f.IntVar(&c.perKey, "per-key", 5, "streams of a key")
	f.IntVar(&c.large, "large", 1000, "streams of one more key, of the streams, up to 1000")
	f.DurationVar(&c.lease, "lease", 30*time.Second, "lease of a place")
	f.DurationVar(&c.length, "time", time.Minute, "length of the measurement")
	delays := f.String("delays", "0s,20ms", "delays of the replies of Redis")
	if err = f.Parse(args); err != nil {
		return c, err
	}
	for text := range strings.SplitSeq(*delays, ",") {
		d, err := time.ParseDuration(text)
		if err != nil {
			return c, err
		}
		c.delays = append(c.delays, d)
	}
	if c.streams < 1 || c.processes < 1 || c.perKey < 1 || c.large < 0 || c.large > min(c.streams, 1000) || c.length <= 0 {
		err = fmt.Errorf("-streams, -processes, -per-key and -time must be positive, and -large at most -streams and 1000")
	}
	return c, err
}

func main() {
	if text := os.Getenv(workerEnv); text != "" {
		workerMain(text)
		return
	}
	c, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "inflight:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var results []*result
	for _, d := range c.delays {
		r, err := measure(ctx, c, d)
		if err != nil {
			fmt.Fprintln(os.Stderr, "inflight:", err)
			stop()
			os.Exit(1)
		}
		results = append(results, r)
	}
	fmt.Printf("%d streams in %d processes, %d a key, %d of them of one key, with leases of %v, for %v\n\n",
		c.streams, c.processes, c.perKey, c.large, c.lease, c.length)
	table(results)
}

// measure holds streams of several processes over a Redis whose replies take longer by delay.
func measure(ctx context.Context, c config, delay time.Duration) (*result, error) {
	server, err := redistest.StartServer()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	addr := server.Addr
	if delay > 0 {
		proxy, err := redistest.StartProxy(addr)
		if err != nil {
			return nil, err
		}
		defer proxy.Close()
		proxy.Delay(delay)
		addr = proxy.Addr
	}
	workers := make([]*process, c.processes)
	for i := range workers {
		if workers[i], err = start(share(c, i, addr)); err != nil {
			return nil, err
		}
		defer workers[i].end()
	}
	r := &result{delay: delay}
	rdb := server.Client()
	each := func(command string) error {
		for _, w := range workers { // all at once
			if err := w.send(command); err != nil {
				return err
			}
		}
		for i, w := range workers {
			if err := w.receive(&r.reports[command][i]); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	r.reports = make(map[string][]report)
	for _, command := range []string{alone, idle, hold, renew, beside, release} {
		r.reports[command] = make([]report, len(workers))
		if err := r.cpu(ctx, rdb, command, func() error { return each(command) }); err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
	}
	for _, rule := range []string{smallRule, largeRule} {
		keys, err := rdb.Keys(ctx, "*:"+rule).Result()
		if err != nil {
			return nil, err
		}
		r.left += len(keys)
	}
	return r, nil
}

// share returns the configuration of process i of c.
func share(c config, i int, addr string) workerConfig {
	part := func(n int) int { return n*(i+1)/c.processes - n*i/c.processes }
	w := workerConfig{Addr: addr, Large: part(c.large), MostLarge: max(1, c.large), PerKey: c.perKey, Lease: c.lease, Length: c.length}
	// The streams of a key are in different processes.
	small := c.streams - c.large
	for n := i; n < small; n += c.processes {
		w.Keys = append(w.Keys, n/c.perKey)
	}
	return w
}
