// Scale works out what a load takes: it measures what a decision costs a Redis and
// what a key takes there, and does the sums. core/redisstore/SCALING.md is made of
// its tables.
//
//	go run -C _benchmarks ./scale                    # a Redis of its own, ten minutes
//	go run -C _benchmarks ./scale -quick             # the same, roughly
//	go run -C _benchmarks ./scale -users 50000 -rate 2 -limit 1 -nodes 4
//	go run -C _benchmarks ./scale -redis host:6379   # an empty server elsewhere
//
// What Redis uses is read from it (INFO cpu), so that it does not matter how fast
// the callers are, unless they are so slow that Redis waits for every one of them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
)

// A config is what the flags say.
type config struct {
	addr      string
	users     int
	rate      float64
	limit     float64
	nodes     int
	busy      float64
	lease     float64
	hot       float64
	decisions int
	runs      int
	callers   int
	keys      int
	mostKeys  int
}

func parse(args []string) (c config, err error) {
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.StringVar(&c.addr, "redis", "", "address of an empty Redis, which is emptied again; default: one of its own")
	f.IntVar(&c.users, "users", 1_000_000, "how many users the plan is for")
	f.Float64Var(&c.rate, "rate", 15, "requests a second of every user")
	f.Float64Var(&c.limit, "limit", 10, "events a second that every user is limited to, for the rows with a denycache")
	f.IntVar(&c.nodes, "nodes", 10, "application processes that a user's requests are spread over")
	f.Float64Var(&c.busy, "busy", 0.7, "how busy a Redis process is meant to be, 0 to 1")
	f.Float64Var(&c.lease, "lease", 0.01, "calls of Redis a decision, of the keys that are leased")
	f.Float64Var(&c.hot, "hot", 0.5, "share of the decisions that are about leased keys, 0 to 1")
	f.IntVar(&c.decisions, "decisions", 100_000, "decisions that are measured for a figure")
	f.IntVar(&c.runs, "runs", 3, "how often that is done: a figure is the median")
	f.IntVar(&c.callers, "callers", 64, "goroutines that ask")
	f.IntVar(&c.keys, "keys", 100_000, "keys that they ask for")
	f.IntVar(&c.mostKeys, "most-keys", 1_000_000, "keys of the largest measurement")
	quick := f.Bool("quick", false, "a tenth of the decisions and of the keys")
	if err = f.Parse(args); err != nil {
		return c, err
	}
	if *quick {
		c.decisions, c.keys, c.mostKeys = c.decisions/10, c.keys/10, c.mostKeys/10
	}
	switch {
	case c.busy <= 0 || c.busy > 1 || c.hot < 0 || c.hot > 1 || c.lease < 0 || c.lease > 1:
		err = fmt.Errorf("busy, hot and lease are between 0 and 1")
	case c.users < 1 || c.rate <= 0 || c.limit <= 0 || c.nodes < 1:
		err = fmt.Errorf("users, rate, limit and nodes are positive")
	case c.decisions < 100 || c.runs < 1 || c.callers < 1 || c.keys < 100 || c.mostKeys < c.keys:
		err = fmt.Errorf("too few decisions, runs, callers or keys to measure anything")
	}
	return c, err
}

func main() {
	c, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	s, err := connect(ctx, c.addr)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Printf("Redis %s, %s, %d cores, %d callers, %d keys; medians of %d runs of %d decisions\n",
		s.version(ctx), runtime.Version(), runtime.NumCPU(), c.callers, c.keys, c.runs, c.decisions)
	m, err := measure(ctx, c, s)
	if err != nil {
		return err
	}
	if err := growth(ctx, c, s); err != nil {
		return err
	}
	calls, err := denials(ctx, c)
	if err != nil {
		return err
	}
	if err := leases(ctx); err != nil {
		return err
	}
	plan(c, m, calls)
	return nil
}

// table prints rows as Markdown; the first is the heading.
func table(title string, rows ...[]string) {
	fmt.Printf("\n## %s\n\n", title)
	for i, row := range rows {
		fmt.Println("|", strings.Join(row, " | "), "|")
		if i == 0 {
			fmt.Println("|" + strings.Repeat("---|", len(row)))
		}
	}
}
