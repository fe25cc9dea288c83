package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/core/redisstore"
)

// A doctor checks whether programs can use a Redis. The fields are flags.
type doctor struct {
	connection
	timeout time.Duration
	json    bool
}

// defineDoctor defines the flags of weir doctor, and returns the command.
func defineDoctor(flags *flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
	d := new(doctor)
	d.define(flags)
	flags.DurationVar(&d.timeout, "timeout", redisstore.DefaultTimeout, "the `DURATION` that a decision may take, as of the option resilient.Timeout")
	flags.BoolVar(&d.json, "json", false, "print JSON")
	return d.run
}

// run prints the findings. It returns an error if something will not work.
func (d *doctor) run(_ []string, stdout, _ io.Writer) error {
	if d.timeout <= 0 {
		return errors.New("the flag -timeout is not positive")
	}
	if err := d.open(); err != nil {
		return err
	}
	defer d.rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*timeout) // for a hundred round trips to a distant Redis
	defer cancel()
	findings := redisstore.Diagnose(ctx, d.rdb, append(d.storeOptions(), redisstore.Timeout(d.timeout))...)
	if d.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(findings); err != nil {
			return err
		}
	} else {
		printFindings(stdout, findings)
	}
	if slices.ContainsFunc(findings, func(f redisstore.Finding) bool { return f.Result == redisstore.ResultFailed }) {
		return errReported
	}
	return nil
}

// verdicts are the results that need a change, with their meanings, from the worst one.
var verdicts = []struct {
	result  redisstore.Result
	meaning string
}{
	{redisstore.ResultFailed, "will not work"},
	{redisstore.ResultWarning, "works, with a disadvantage"},
	{redisstore.ResultUnknown, "not checked"},
}

// printFindings prints a table, and each change once, with the checks that need it.
func printFindings(stdout io.Writer, findings []redisstore.Finding) {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tRESULT\tDETAIL")
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Check, f.Result, f.Detail)
	}
	_ = w.Flush() // stdout remembers an error
	var changes []string
	checks := make(map[string][]string) // by change and meaning
	for _, v := range verdicts {
		for _, f := range findings {
			if f.Result != v.result {
				continue
			}
			if !slices.Contains(changes, f.Change) {
				changes = append(changes, f.Change)
			}
			checks[f.Change+v.meaning] = append(checks[f.Change+v.meaning], f.Check)
		}
	}
	for _, change := range changes {
		fmt.Fprintln(stdout)
		for _, v := range verdicts {
			if names := checks[change+v.meaning]; names != nil {
				fmt.Fprintf(stdout, "%s: %s\n", v.meaning, strings.Join(names, ", "))
			}
		}
		fmt.Fprintf(stdout, "  %s\n", change)
	}
}
