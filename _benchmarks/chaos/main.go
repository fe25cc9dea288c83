// Chaos puts an application of three instances under load, and causes faults of its Redis,
// of the network between them, and of one instance. It prints a table of the effects on
// users, and fails if a guarantee of package failover is violated:
//
//   - No request of a default route fails because of Redis.
//   - No user is admitted more often than the stated bound, and a route that fails closed
//     admits no request while Redis is away.
//   - Redis decides again soon after it has returned. While one master of a Cluster is away, it stays in use.
//   - A user who never has more requests at a time than the limit is not denied a place, from two seconds on after
//     Redis decides again.
//   - The processes keep no goroutines of a fault.
//
// It runs for a short time on one Redis, or for a long time on one Redis and then on a
// Cluster:
//
//	go run -C _benchmarks ./chaos
//	go run -C _benchmarks ./chaos -long
//
// All processes run on this machine, on free ports, and end with this one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	if os.Getenv(appEnv) != "" {
		appMain()
		return
	}
	logging.Disable() // go-redis logs every attempt to connect
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

var pacings = map[form]pacing{
	short:   {calm: 700 * time.Millisecond, fault: 1500 * time.Millisecond, after: 500 * time.Millisecond},
	long:    {calm: 3 * time.Second, fault: 6 * time.Second, after: 2 * time.Second},
	cluster: {calm: 3 * time.Second, fault: 6 * time.Second, after: 2 * time.Second},
}

// A selection has the trials of a run.
type selection struct {
	forms []form
	rate  int
	only  *regexp.Regexp
	wrong string // appConfig.Fault
}

func run(ctx context.Context, w io.Writer, args []string) error {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	isLong := flags.Bool("long", false, "run for some minutes, also on a Cluster")
	rate := flags.Int("rate", 0, "requests a second; default 600, or 1500 with -long")
	only := flags.String("only", "", "run only faults that match this regular `expression`")
	wrong := flags.String("break", "", `break the application, as a test of the checks: "share" or "failover"`)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rate == 0 {
		*rate = 600
		if *isLong {
			*rate = 1500
		}
	}
	if *rate < 400 || *rate > 5000 {
		return errors.New("-rate must be from 400 to 5000")
	}
	if *wrong != "" && *wrong != noShare && *wrong != noFailover {
		return fmt.Errorf("-break must be %s or %s", noShare, noFailover)
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	p := selection{forms: []form{short}, rate: *rate, only: match, wrong: *wrong}
	if *isLong {
		p.forms = []form{long, cluster}
	}
	if !slices.ContainsFunc(p.forms, p.has) {
		return fmt.Errorf("no fault matches %q", match)
	}
	return p.run(ctx, w)
}

// has reports whether the selection includes a fault of the form.
func (p selection) has(f form) bool {
	return slices.ContainsFunc(faults, func(ft fault) bool { return p.includes(&ft, f) })
}

func (p selection) includes(ft *fault, f form) bool {
	return ft.forms&f != 0 && p.only.MatchString(ft.name)
}

// run runs all forms, and then returns all violations.
func (p selection) run(ctx context.Context, w io.Writer) error {
	var broken []error
	for _, f := range p.forms {
		if !p.has(f) {
			continue
		}
		if len(p.forms) > 1 {
			title := "One Redis"
			if f == cluster {
				title = "A Cluster of three masters"
			}
			fmt.Fprintf(w, "\n## %s\n\n", title)
		}
		found, err := p.runForm(ctx, w, f)
		for _, b := range found {
			broken = append(broken, errors.New(b))
		}
		if err != nil {
			return errors.Join(append(broken, err)...)
		}
	}
	return errors.Join(broken...)
}

// warmUp is the time for connections and scripts before the first trial.
const warmUp = 500 * time.Millisecond

func (p selection) runForm(ctx context.Context, w io.Writer, f form) (broken []string, err error) {
	fl, err := startFleet(f == cluster, p.wrong)
	if err != nil {
		return nil, err
	}
	defer fl.close()
	pace := pacings[f]
	pace.rate = p.rate
	l := drive(fl, "warm up", p.rate)
	time.Sleep(warmUp)
	l.stop()
	idle := newResidue(fl)
	fmt.Fprint(w, head)
	for i := range faults {
		ft := &faults[i]
		if !p.includes(ft, f) {
			continue
		}
		if ctx.Err() != nil {
			return broken, ctx.Err()
		}
		t, err := try(fl, ft, pace, fmt.Sprint("trial ", i))
		if err != nil {
			return broken, err
		}
		busiest, found := t.judge()
		t.writeRow(w, busiest)
		broken = append(broken, found...)
	}
	report, err := idle.compare(fl)
	if err != nil {
		broken = append(broken, err.Error())
	}
	fmt.Fprintf(w, "\n%s\n", report)
	return broken, nil
}
