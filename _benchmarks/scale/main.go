// Scale computes how many Redis processes and how much memory a load needs. It measures
// the CPU time of a decision and the memory of a key in Redis. The tables of
// docs/redis.md under Scaling are parts of its output.
//
//	go run -C _benchmarks ./scale                    # starts a Redis; ten minutes
//	go run -C _benchmarks ./scale -quick             # the same with less precision
//	go run -C _benchmarks ./scale -users 50000 -rate 2 -limit 1 -nodes 4
//	go run -C _benchmarks ./scale -redis host:6379   # an empty server elsewhere
//
// The CPU time is that of INFO cpu, so the speed of the callers does not matter unless
// Redis waits for each of them.
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

// A config holds the values of the flags.
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
	f.StringVar(&c.addr, "redis", "", "`address` of an empty Redis, which is emptied at the end; default: start a server")
	f.IntVar(&c.users, "users", 1_000_000, "users of the estimate")
	f.Float64Var(&c.rate, "rate", 15, "requests a second of each user")
	f.Float64Var(&c.limit, "limit", 10, "limit of each user in events a second, for the rows with a denycache")
	f.IntVar(&c.nodes, "nodes", 10, "application processes over which the requests of a user are spread")
	f.Float64Var(&c.busy, "busy", 0.7, "planned CPU utilization of a Redis process, 0 to 1")
	f.Float64Var(&c.lease, "lease", 0.01, "calls of Redis per decision about a leased key, 0 to 1")
	f.Float64Var(&c.hot, "hot", 0.5, "part of the decisions that are about leased keys, 0 to 1")
	f.IntVar(&c.decisions, "decisions", 100_000, "decisions of each measurement")
	f.IntVar(&c.runs, "runs", 3, "measurements of each figure, which is their median")
	f.IntVar(&c.callers, "callers", 64, "goroutines that call Redis")
	f.IntVar(&c.keys, "keys", 100_000, "keys of a measurement")
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
		err = fmt.Errorf("-busy, -hot and -lease must be between 0 and 1, and -busy above 0")
	case c.users < 1 || c.rate <= 0 || c.limit <= 0 || c.nodes < 1:
		err = fmt.Errorf("-users, -rate, -limit and -nodes must be positive")
	case c.decisions < 100 || c.runs < 1 || c.callers < 1 || c.keys < 100 || c.mostKeys < c.keys:
		err = fmt.Errorf("-decisions and -keys must be at least 100, -runs and -callers at least 1, -most-keys at least -keys")
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
	alone, err := growth(ctx, c, s)
	if err != nil {
		return err
	}
	calls, err := denials(ctx, c)
	if err != nil {
		return err
	}
	if err := leases(ctx); err != nil {
		return err
	}
	estimate(c, m, alone, calls)
	return nil
}

// table prints rows as a Markdown table, whose first row is the heading.
func table(title string, rows ...[]string) {
	fmt.Printf("\n## %s\n\n", title)
	for i, row := range rows {
		fmt.Println("|", strings.Join(row, " | "), "|")
		if i == 0 {
			fmt.Println("|" + strings.Repeat("---|", len(row)))
		}
	}
}
