// Command weir checks, compares and explains configuration files of rate limits. Package
// github.com/weir-go/weir/core/rules describes the format.
//
//	weir check FILE...                         report the errors of files
//	weir diff A B                              list the changes from file A to file B
//	weir explain FILE POLICY|ROUTE KEY [PLAN]  list the limits of a key
//	weir init                                  print an example file
//
// A ROUTE is a request such as "POST /login": weir explain prints which policy applies to it.
//
// The exit status is 0, 1 if a file cannot be read or is invalid, or 2 if the arguments are invalid.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/weir-go/weir/core/rules"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// A command is a subcommand with min to max arguments.
type command struct {
	name, args, help string
	min, max         int
	run              func(args []string, stdout, stderr io.Writer) error
}

var commands = []command{
	{"check", "FILE...", "report the errors of files", 1, 1 << 30, check},
	{"diff", "A B", "list the changes from file A to file B", 2, 2, diff},
	{"explain", "FILE POLICY|ROUTE KEY [PLAN]", "list the limits of a key", 3, 4, explain},
	{"init", "", "print an example file", 0, 0, printExample},
}

const (
	exitInvalid = 1 // a file cannot be read or is invalid
	exitUsage   = 2
)

// errReported is the error of a command that has printed its errors.
var errReported = errors.New("reported")

// run runs the command with args, and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	args, status, ok := parse(args, stderr, commands...)
	if !ok {
		return status
	}
	for _, c := range commands {
		if len(args) == 0 || c.name != args[0] {
			continue
		}
		args, status, ok := parse(args[1:], stderr, c)
		switch {
		case !ok:
			return status
		case len(args) < c.min || len(args) > c.max:
			usage(stderr, c)
			return exitUsage
		}
		err := c.run(args, stdout, stderr)
		if err != nil && err != errReported {
			report(stderr, err)
		}
		if err != nil {
			return exitInvalid
		}
		return 0
	}
	usage(stderr, commands...)
	return exitUsage
}

// parse returns args without the flags. It reports false if the command ends with a status, because
// args contain -help or another flag.
func parse(args []string, stderr io.Writer, used ...command) (rest []string, status int, ok bool) {
	flags := flag.NewFlagSet("weir", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { usage(stderr, used...) }
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, 0, false
	case err != nil:
		return nil, exitUsage, false
	}
	return flags.Args(), 0, true
}

func usage(w io.Writer, used ...command) {
	fmt.Fprintln(w, "usage:")
	for _, c := range used {
		fmt.Fprintf(w, "  weir %-36s  %s\n", c.name+" "+c.args, c.help)
	}
}

// report prints an error, and the excerpts of errors in a file.
func report(w io.Writer, err error) {
	var all rules.Errors
	if !errors.As(err, &all) {
		fmt.Fprintln(w, "weir:", err)
		return
	}
	for _, e := range all {
		fmt.Fprintln(w, e)
		if e.Excerpt != "" {
			fmt.Fprintln(w, "\t"+strings.ReplaceAll(e.Excerpt, "\n", "\n\t"))
		}
	}
}

// load reads and checks a file.
func load(name string) (*rules.Config, error) {
	data, err := rules.File(name).Load(context.Background())
	if err != nil {
		return nil, err
	}
	return rules.Parse(name, data)
}

// check reports the errors of every file.
func check(files []string, _, stderr io.Writer) (result error) {
	for _, name := range files {
		if _, err := load(name); err != nil {
			report(stderr, err)
			result = errReported
		}
	}
	return result
}

func diff(args []string, stdout, _ io.Writer) error {
	a, err := load(args[0])
	if err != nil {
		return err
	}
	b, err := load(args[1])
	if err != nil {
		return err
	}
	for _, line := range rules.Diff(a, b) {
		fmt.Fprintln(stdout, line)
	}
	return nil
}

//go:embed example.yaml
var example []byte

func printExample(_ []string, stdout, _ io.Writer) error {
	_, err := stdout.Write(example)
	return err
}
