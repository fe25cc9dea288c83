// Command weir checks, compares and explains configuration files of rate limits, and changes limits
// in Redis. Package github.com/weir-go/weir/core/rules describes the format.
//
//	weir check FILE...                         report the errors of files
//	weir diff A B                              list the changes from file A to file B
//	weir explain FILE POLICY|ROUTE KEY [PLAN]  list the limits of a key
//	weir init                                  print an example file
//	weir playground [-addr ADDRESS]            serve a page that compares the algorithms
//	weir rules get                             print the configuration in Redis
//	weir rules get POLICY KEY                  print the override of a key
//	weir rules explain POLICY KEY [PLAN]       list the limits of a key, with its override
//	weir rules usage POLICY KEY                print how much of its limits a key has used
//	weir rules reset POLICY KEY                forget the events of a key
//	weir rules credit POLICY KEY N             free N events of a key
//	weir rules put FILE                        write a configuration, and list the changes
//	weir rules override POLICY KEY OVERRIDE    give a key other limits
//	weir rules block POLICY KEY [UNTIL]        deny the events of a key in a policy
//	weir rules unblock POLICY KEY              end the block of a key
//	weir rules remove POLICY KEY               remove the override and the block of a key
//
// A ROUTE is a request such as "POST /login". The commands weir explain and weir rules explain accept
// it in place of a policy, and print which policy applies to it.
//
// A KEY is the text that the key function of the program returns, such as user:ann or 203.0.113.7
// (package keyfunc); a command cannot know whether the program uses it. A block is for one policy.
// An OVERRIDE is written as in a file, and UNTIL is a time or a duration such as 24h or 7d:
//
//	weir rules override --redis redis://redis.internal:6379 api user:99 '{plan: gold, until: 2027-01-01T00:00:00Z}'
//	weir rules block --redis redis://redis.internal:6379 api user:7 24h
//
// The commands that change a key print the override that is then in force, which is the block if
// there is one, or {} if there is none. A running program applies the change if its rules.Set has
// the option rules.Overrides, and a configuration if Set.Watch watches a rules.RedisSource.
//
// The commands usage, reset and credit concern the states of a program whose store is in Redis, and
// print them as they then are: NEXT is the time until the next event is admitted, and UNUSED that
// until nothing is in use. For a quota, both are the end of its period in its time zone. A reset takes
// the places of running events of an in_flight rule away, and a credit of such a rule is an error. The
// commands need the prefix and the secret of the store, which are those of the rules. A program notices
// a reset or a credit at its next decision; with package denycache, which package resilient contains, at
// most a second later; with package lease when its tokens are spent.
//
// # Flags of weir rules
//
// Flags are accepted before and after the name of the command, but not after its arguments.
//
//	-redis URL      default: the environment variable WEIR_REDIS_URL, or redis://127.0.0.1:6379
//	-cluster        Redis is a Cluster
//	-prefix PREFIX  as of the option rules.Prefix; default: weir:
//	-config FILE    the policies are in a file, and only the overrides in Redis
//	-rule NAME      usage, reset and credit: only this rule of the policy
//	-plan NAME      usage and credit: the plan of the key; without it, that of its override or none
//
// A URL is redis://USER:PASSWORD@HOST:PORT/DB, or rediss:// for TLS. With parameters ?addr=HOST:PORT,
// it is that of a Cluster with several nodes, and with ?master_name=NAME that of a Sentinel. Other
// users of the machine can read arguments, so a URL with a password belongs into WEIR_REDIS_URL. The
// bytes of the option rules.KeySecret are read from the environment variable WEIR_KEY_SECRET. If the
// prefix or the secret is not that of the programs, they do not find the overrides.
//
// # Exit status
//
// The exit status is 0, 2 if flags or the number of arguments are wrong, or 1 after any other error:
// a file or an argument is invalid, Redis does not reply within 10 seconds, or no program opens a
// named pipe for writing within 10 seconds.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // of timezones in files, for systems without zoneinfo

	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core/rules"
)

func main() {
	logging.Disable() // go-redis logs its attempts; the last error is reported
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

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
	{"playground", "[-addr ADDRESS]", "serve a page that compares the algorithms", 0, 2, playground},
	{"rules", "COMMAND", "read and change limits in Redis", 0, 0, nil}, // see runRules
}

const (
	exitError = 1
	exitUsage = 2
)

var (
	errReported = errors.New("reported") // of a command that has printed its errors
	errUsage    = errors.New("usage")    // of a command that does not have a flag
)

// run runs the command with args, and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	return dispatch(flag.NewFlagSet("weir", flag.ContinueOnError), commands, "", args, stdout, stderr)
}

// dispatch runs the command of all that args name without a prefix of its name, and returns the exit
// status. Commands of one name differ in the number of arguments.
func dispatch(flags *flag.FlagSet, all []command, prefix string, args []string, stdout, stderr io.Writer) int {
	args, status, ok := parse(flags, args, stderr, all...)
	if !ok {
		return status
	}
	used := all
	if len(args) > 0 {
		named := slices.DeleteFunc(slices.Clone(all), func(c command) bool { return c.name != prefix+args[0] })
		if len(named) > 0 {
			used = named
			if used[0].run == nil {
				return runRules(args[1:], stdout, stderr)
			}
			if used[0].name == "playground" { // it has a flag
				if err := playground(args[1:], stdout, stderr); err != errUsage {
					return exitStatus(err, stderr)
				}
				return exitUsage
			}
			if args, status, ok = parse(flags, args[1:], stderr, used...); !ok {
				return status
			}
			i := slices.IndexFunc(used, func(c command) bool { return c.min <= len(args) && len(args) <= c.max })
			if i >= 0 {
				if err := used[i].run(args, stdout, stderr); err != errUsage {
					return exitStatus(err, stderr)
				}
			}
		}
	}
	usage(stderr, flags, used...)
	return exitUsage
}

// exitStatus returns the exit status for the result of a command, and prints an error that is not
// yet printed.
func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	if err != errReported {
		report(stderr, err)
	}
	return exitError
}

// parse returns args without the flags at their beginning. It reports false if the command ends with
// a status, because args contain -help or an unknown flag.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer, used ...command) (rest []string, status int, ok bool) {
	flags.SetOutput(stderr)
	flags.Usage = func() { usage(stderr, flags, used...) }
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, 0, false
	case err != nil:
		return nil, exitUsage, false
	}
	return flags.Args(), 0, true
}

func usage(w io.Writer, flags *flag.FlagSet, used ...command) {
	fmt.Fprintln(w, "usage:")
	for _, c := range used {
		fmt.Fprintf(w, "  weir %-36s  %s\n", c.name+" "+c.args, c.help)
	}
	flags.PrintDefaults()
}

// report prints an error, and the excerpts of errors in a file.
func report(w io.Writer, err error) {
	var all rules.Errors
	if !errors.As(err, &all) {
		fmt.Fprintln(w, "weir:", strings.TrimPrefix(err.Error(), "weir: "))
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
	data, err := read(name)
	if err != nil {
		return nil, err
	}
	return rules.Parse(name, data)
}

// read reads a file, or a pipe such as /dev/stdin or that of the shell for <(COMMAND). Opening a
// named pipe waits for a writer, for the time of timeout.
func read(name string) ([]byte, error) {
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		f, err := os.Open(name)
		opened <- result{f, err}
	}()
	select {
	case r := <-opened:
		if r.err != nil {
			return nil, r.err
		}
		defer r.file.Close()
		return io.ReadAll(io.LimitReader(r.file, rules.MaxSize+1)) // rules.Parse rejects it
	case <-time.After(timeout):
		return nil, fmt.Errorf("open %s: no program writes to the pipe", name)
	}
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
