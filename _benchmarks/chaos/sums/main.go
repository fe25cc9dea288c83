// Sums proves that Redis charges each operation once, under faults of Redis and of the network. Two stores
// share a Redis, each through a proxy, as two processes would. Callers make random operations on them, and an
// account for each rule and key holds the costs that were acknowledged. An operation that returned an error may
// have been applied or not: the account holds all sums that are possible then. After some thousand operations,
// all connections are closed, and the program compares the accounts with the states that Redis holds:
//
//   - A state outside the possible sums means that an operation was charged twice or lost.
//   - A count above the limit of a rule that admits no debit is a violation, too.
//   - A Peek must report the count of the state, each key must have a TTL, and Redis must hold no other keys.
//
// The exit status is 1 after a violation. For example:
//
//	go run -C _benchmarks ./chaos/sums -operations 500000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// A config holds the values of the flags, and settings of tests.
type config struct {
	operations int // of all callers
	callers    int
	seed       uint64

	calm bool // without faults and without contexts that end
	// meddle is called before each check, while no operation runs. Tests change states with it.
	meddle func(context.Context, *audit) error
}

func main() {
	logging.Disable() // go-redis logs every attempt to connect
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sums:", err)
		os.Exit(2)
	}
	if err := run(ctx, os.Stdout, c); err != nil {
		fmt.Fprintln(os.Stderr, "sums:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (c config, err error) {
	flags := flag.NewFlagSet("sums", flag.ContinueOnError)
	flags.IntVar(&c.operations, "operations", 50_000, "operations of all callers")
	flags.IntVar(&c.callers, "callers", 32, "concurrent callers")
	flags.Uint64Var(&c.seed, "seed", 1, "seed of the random operations and faults")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if c.operations < 1 || c.callers < 1 {
		return c, errors.New("-operations and -callers must be positive")
	}
	return c, nil
}

// run makes all operations, prints the table, and returns the violations.
func run(ctx context.Context, w io.Writer, c config) error {
	s, err := startSystem()
	if err != nil {
		return err
	}
	defer s.close()
	a, err := newAudit(ctx, c, s)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := a.run(ctx); err != nil {
		return errors.Join(a.violations.err(), err)
	}
	a.writeTable(w, time.Since(begun))
	return a.violations.err()
}
