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

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/diagnose"
	"github.com/weir-go/weir/core/rules"
)

// A doctor checks whether programs can use a Redis or Postgres. The fields are flags.
type doctor struct {
	connection
	timeout time.Duration
	rules   bool
	json    bool

	postgres, table string
	logged          bool
}

// defineDoctor defines the flags of weir doctor, and returns the command.
func defineDoctor(flags *flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
	d := new(doctor)
	d.define(flags)
	flags.DurationVar(&d.timeout, "timeout", redisstore.DefaultTimeout, "the `DURATION` that a decision may take, as of the option resilient.Timeout")
	flags.BoolVar(&d.rules, "rules", false, "also check the permissions of programs that read limits, overrides and blocks from Redis")
	flags.BoolVar(&d.json, "json", false, "print JSON")
	flags.StringVar(&d.postgres, "postgres", "", "check the Postgres of a `URL` in place of Redis")
	flags.StringVar(&d.table, "table", pgstore.DefaultTable, "with -postgres, the `NAME` of the table")
	flags.BoolVar(&d.logged, "logged", false, "with -postgres, the table is to be logged, as of the option pgstore.Logged")
	return d.run
}

// run prints the findings. It returns an error if something will not work.
func (d *doctor) run(_ []string, stdout, _ io.Writer) error {
	if d.timeout <= 0 {
		return errors.New("the flag -timeout is not positive")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*timeout) // for a hundred round trips to a distant Redis
	defer cancel()
	check := d.checkRedis
	if d.postgres != "" {
		check = d.checkPostgres
	}
	findings, err := check(ctx)
	if err != nil {
		return err
	}
	if d.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(findings); err != nil {
			return err
		}
	} else {
		printFindings(stdout, findings)
	}
	if slices.ContainsFunc(findings, func(f diagnose.Finding) bool { return f.Result == diagnose.ResultFailed }) {
		return errReported
	}
	return nil
}

// checkRedis checks whether programs can use the Redis of the flags.
func (d *doctor) checkRedis(ctx context.Context) ([]diagnose.Finding, error) {
	if d.app == "" {
		return nil, errNoApp
	}
	if err := d.open(); err != nil {
		return nil, err
	}
	defer d.rdb.Close()
	findings := diagnose.Diagnose(ctx, d.rdb, d.app, append(d.storeOptions(), redisstore.Timeout(d.timeout))...)
	if slices.ContainsFunc(findings, func(f diagnose.Finding) bool { return f.Check == "processes" && f.Result == diagnose.ResultOK }) {
		findings = append(findings, d.checkApplication(ctx))
	}
	if d.rules && findings[0].Result == diagnose.ResultOK {
		findings = append(findings, d.checkRules(ctx))
	}
	return findings, nil
}

// checkRules checks whether a program can read limits, overrides and blocks.
func (d *doctor) checkRules(ctx context.Context) diagnose.Finding {
	f := diagnose.Finding{Check: "rules", Result: diagnose.ResultOK, Detail: "limits, overrides and blocks can be read"}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	source := rules.Redis(d.rdb, d.app, rules.Prefix(d.prefix), rules.Timeout(timeout), rules.FailClosed())
	_, err := source.Load(ctx)
	if err == nil || errors.Is(err, rules.ErrNoConfig) {
		err = watch(ctx, source)
	}
	var info string
	if err == nil {
		info, _ = d.rdb.Info(ctx, "persistence").Result()
	}
	switch {
	case strings.Contains(info, "aof_enabled:0"):
		f.Result, f.Detail = diagnose.ResultWarning, f.Detail+"; without appendonly, a restart of Redis loses those since its last snapshot, or all if it makes none"
		f.Change = "set appendonly to yes"
	case err == nil:
	case strings.Contains(err.Error(), "NOPERM"): // also that of a command in a transaction
		f.Result, f.Detail = diagnose.ResultFailed, err.Error()
		f.Change = "allow the user the commands of package rules, in the documentation of that package, under Permissions"
	default:
		f.Result, f.Detail, f.Change = diagnose.ResultUnknown, err.Error(), "repeat the check"
	}
	return f
}

// watch reads the overrides and blocks of source once, and the override of a key.
func watch(ctx context.Context, source *rules.RedisSource) error {
	failed := make(chan error, 1)
	config, err := rules.Parse("check", []byte("policies: {check: {rules: [{name: r, algorithm: fixed_window, limit: 1/s}]}}"))
	if err != nil {
		return err
	}
	set, err := rules.New(memstore.New(), config, rules.Overrides(source), rules.OnError(func(err error) {
		select {
		case failed <- err:
		default:
		}
	}))
	if err != nil {
		return err
	}
	if _, err := set.OverrideOf(ctx, "check", "check"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = set.Watch(ctx, source) }()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for source.Stats().Age < 0 {
		select {
		case err := <-failed:
			if !errors.Is(err, rules.ErrNoConfig) {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// verdicts are the results that need a change, with their meanings, from the worst one.
var verdicts = []struct {
	result  diagnose.Result
	meaning string
}{
	{diagnose.ResultFailed, "will not work"},
	{diagnose.ResultWarning, "works, with a disadvantage"},
	{diagnose.ResultUnknown, "not checked"},
}

// printFindings prints a table, and each change once, with the checks that need it.
func printFindings(stdout io.Writer, findings []diagnose.Finding) {
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
