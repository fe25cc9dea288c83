// Command weir checks, compares and explains configuration files of rate limits, tries them on recorded
// traffic, and changes limits in Redis. Package github.com/weir-go/weir/core/rules describes the format.
//
//	weir why KEY [IN]                          tell why a key is denied or admitted
//	weir usage KEY [IN]                        print how much of its limits a key has used
//	weir reset KEY [IN]                        forget the events of a key
//	weir block KEY [IN] [UNTIL]                deny the events of a key
//	weir unblock KEY [IN]                      end the block of a key
//	weir forget KEY                            remove all that Redis has about a key
//	weir list                                  list the overrides and blocks, newest first
//	weir key KEY                               print the hash of a key
//	weir top                                   print the decisions of all processes, and the most denied keys
//	weir near SHARE [IN]                       list the keys that use more than a share of a limit, such as 80%
//	weir off IN                                turn limits off in all processes
//	weir off                                   print the limits that are off
//	weir on IN                                 turn limits on again
//	weir check FILE...                         report the errors and warnings of files
//	weir diff A B                              list the changes from file A to file B
//	weir doctor                                check whether the programs can use a Redis or Postgres
//	weir explain FILE POLICY|ROUTE KEY [PLAN]  list the limits of a key
//	weir init                                  print an example of a file with limits
//	weir playground                            serve a page that compares the algorithms
//	weir simulate FILE TRACE...                apply a file to recorded or generated traffic
//	weir diff A B -trace TRACE                 list the effects of a change on recorded traffic
//	weir suggest TRACE...                      find limits that deny few keys of recorded traffic
//	weir rules why POLICY|ROUTE KEY            tell why a key is denied or admitted
//	weir rules usage POLICY KEY                print how much of its limits a key has used
//	weir rules reset POLICY KEY                forget the events of a key
//	weir rules credit POLICY KEY N             free N events of a key
//	weir rules list                            list the overrides and blocks, newest first
//	weir rules get POLICY KEY                  print the override of a key
//	weir rules override POLICY KEY OVERRIDE    give a key other limits
//	weir rules block POLICY KEY [UNTIL]        deny the events of a key in a policy
//	weir rules unblock POLICY KEY              end the block of a key
//	weir rules remove POLICY KEY               remove the override and the block of a key
//	weir rules get                             print the configuration in Redis
//	weir rules put FILE                        list the changes that a file makes, and write it
//	weir version                               print the version of this command
//	weir help [COMMAND]                        print this list, or the flags of a command
//
// The commands about keys, off and on know limits in code and in files. IN is a policy, a ROUTE, the name of a rule in code,
// or '*' for all, which a command about a key also takes without IN: policies and rules without an event and an override of
// the key are then left out. Limits in
// code are known from the processes whose store is that of resilient.New, and for a day after the last of them. Limits of
// Choose, Variant and elastic rules, and the time zone of a quota in code, are not known. Only policies of a rules.Set have
// overrides and blocks; a rule in code that is a core.Pause can be blocked for up to 366 days.
//
// A ROUTE is a request such as "POST /login". The commands weir explain and weir rules why accept
// it in place of a policy, and print which policy applies to it, and that of all routes.
//
// A KEY is the text that the key function of the program returns, such as user:ann or 203.0.113.7
// (package keyfunc). A block is for one policy; '*' in place of a POLICY is for all of them, with one line of output for
// each policy that was changed. An OVERRIDE is written as in a file, and UNTIL is a time or a duration such as 24h or 7d:
//
//	weir rules override -app shop --redis redis://redis.internal:6379 api user:99 '{plan: gold, until: 2027-01-01T00:00:00Z}'
//	weir rules block -app shop --redis redis://redis.internal:6379 '*' user:7 24h -note 'ticket 12' -text
//
// The commands that change a key print the override that is then in force, which is the block if
// there is one, or {} if there is none. A running program applies the change if its rules.Set has
// the option rules.Overrides, and a configuration if Set.Watch watches a rules.RedisSource.
//
// The commands override, block, unblock and remove then wait until the change is in force in all processes that have the
// policy, and end with a note such as "in force in 3 of 3 processes". If one of them has not applied it after the time of
// the flag -wait, or no process is known, the exit status is 1, and the error has the processes and the reasons. A process
// is known if its store is that of resilient.New, or if its rules.Set watches overrides. The command why tells the same, and
// whether processes have another configuration than the command.
//
// If no event of a KEY is known, and a key that it can mean is in use, such as user:ann for ann and the /64 of an IPv6
// address, why and usage print that key, and block and unblock write nothing. If the latest override was written with a key
// secret, and WEIR_KEY_SECRET is not set, a command about a key is an error.
//
// A KEY that is # and a hash, as the commands list and top print it, stands for the key with that hash. A shell needs quotes around
// it. The hashes in logs are the same only if the programs have a key secret.
//
// The command why begins with a sentence that says whether the next event is admitted, and otherwise when it is. Then
// come the reasons: overrides, blocks and their notes, plans, and a table of the rules.
//
// The commands why, usage, reset and credit concern the states of a program whose store is in Redis, and print them as
// they then are: NEXT is the time until the next event is admitted, and UNUSED that until nothing is in use. A key
// that a program has paused has the LIMIT paused, and both times are those until the end of the pause; a reset ends
// it at once, and a ban (core.Spec.BlockFor): the key has banned in place of the events. The command weir explain reads no states. For a quota, both are the end of its
// period in its time zone. A reset takes the places of running events of an in_flight rule away, and a credit of such
// a rule is an error. The commands need the name of the application, the prefix and the secret of the store, which are those of the rules. A
// program notices a reset or a credit at its next decision; with package denycache, which package resilient contains,
// at most a second later; with package lease when its tokens are spent.
//
// The command forget is for a person who is to be erased: it resets the states of the key in all policies and limits in code, removes
// its overrides and blocks, their notes and texts, and the hash from the keys with the most denials. The page docs/redis.md
// (Data of a person) has all that is stored. It does not ask. Processes tell denials up to two minutes later, with the hash.
//
// # All processes
//
// The command off turns the limits of a policy, of the policy of a route, also for its other routes, of a rule, or of all
// ('*') off: in an incident, or while a wrong limit is mended. Each process whose store is that of resilient.New then admits all events of these limits within
// two seconds; blocks of operators, blocked plans and pauses stay (see package resilient, Switches). It writes who has done it (-by;
// default: the user and the machine) and -note, prints the limits that are then off, and waits like block until it is in
// force. Without IN, it changes nothing. The command on turns those of the same IN on again, or all for '*'.
//
// The command top prints the decisions that all processes have told Redis in the last minutes (-for), by rule and by the result of the rule, and the hashes of the keys with the most denials in this hour and the one
// before (-n), if the programs have the option observe.TopKeys. Processes tell them once a minute, so the last one or two
// minutes are missing.
//
// The command near looks at the keys of Redis in steps of a thousand, at most a million, and reads the states of at most 100 000
// keys of a policy. It prints hashes, which why takes; a page of package inspect knows the text of some. Its limits are those
// without a plan, or of the flag -plan, except for keys with an override. Places and quotas are used like other limits.
//
// # Notes
//
// A command about a key without any event or override still does its work. It then writes to the standard error
// which similar key has events, such as user:ann for ann, or which causes Redis shows: the secret is not that of the
// latest override or block, the events are those of programs without a secret, of another application or with another prefix, or only other
// prefixes are in use (among some 20 000 keys). Events are found with any of the first 16 plans of the policy. Another
// note says that the limits are those without a plan, and which plans there are.
// Notes need the permissions of the store, and scan for prefixes; without them there are none. They take at most a
// second: a Redis that replies later gets fewer notes, or none.
//
// # Checking a Redis
//
// The command doctor runs each script of one algorithm, and the commands that scripts need, on keys of its own, and
// compares versions, memory, clocks and round trips with the needs of the store (diagnose.Diagnose). It also names rules and
// configurations in which the running processes of the application differ, and rules that one has in code and another in a
// configuration. It prints a table, and each change that is necessary or useful. Run it as the user, with the prefix and
// from the network of the programs. The exit status is 1 if something will not work; a warning or an unknown result does not
// change it. Its flags -app, -redis, -cluster and -prefix are those of weir rules.
//
//	-timeout DURATION  as of the option resilient.Timeout; default: 100ms
//	-rules             also check the commands of programs that read limits, overrides and blocks from Redis, and
//	                   whether a restart of Redis keeps these
//	-json              print an array of objects with the fields check, result, detail and change
//
// With the flag -postgres, doctor checks a Postgres for package pgstore (pgstore.Store.Check), with the role of the programs:
//
//	-postgres URL      such as postgres://limiter@db.example.com/limits; the environment variable PGPASSWORD has the password
//	-table NAME        as of the option pgstore.Table; default: weir_states
//	-logged            as of the option pgstore.Logged
//
// # Simulation
//
// The commands simulate, diff and suggest read requests and apply the limiters of package core to them, in the
// memory of the command, at the times of the requests. The real clients are not concerned, and no Redis is
// necessary. A TRACE is a file, plain or compressed by gzip, or - for the standard input:
//
//	JSON lines             of Caddy, Traefik, Cloudflare, docker, package slog and others
//	logfmt                 such as that of slog.TextHandler
//	an access log          of Apache, nginx, Gin, chi, HAProxy, Envoy, load balancers of AWS; or in a log_format of nginx
//	W3C extended format    of IIS and CloudFront
//	CSV                    columns time, key, cost, plan and route, or others that a header names
//
// or it is a generator with parameters, such as poisson:rate=100/s,clients=20,for=10m:
//
//	steady     each client sends at equal intervals
//	poisson    each client sends at random times (parameter seed)
//	burst      each client sends the requests of an interval at once (parameter every)
//	adversary  each client sends when the rules of the file admit the most
//
// The page docs/trying-limits.md has the formats with an example of each, and the names of their fields.
//
// The key of a request is its field key, client_ip, remote_ip or remote_addr, the first of them that has a text; the flag
// -key names another field, such as user, or user.id for the field id of an object. An address is used as keyfunc.RemoteIP
// does. A list of addresses, as in X-Forwarded-For, is one client: the last address that is not private, or else the first
// one; every sender can write the start of the list. Before a line of a log, of JSON or of logfmt, there may be other words,
// such as the time and the name of a container. A field "request", or "method" and "path", chooses the policy by the routes
// of the file. Other requests have the policy of the flag -policy, or the only policy of the file. All requests have the
// policy of all_routes, too. The flags -time, -cost, -plan, -request, -method, -path and -status name other fields, and
// -format forces a format, or is the log_format of the lines, such as '$remote_addr [$time_local] "$request" $status'.
//
// A report begins with a line "weir: " for each fact because of which its figures are probably wrong: if all of more than
// 20 requests have one time; from 100 requests on, if 90 % of the requests have one key or private addresses, more than
// 90 % of them have keys of their own, or more than 1 % of them came too late; and if more than 1 % of the requests have no
// method where routes have one, or times are before 1973.
//
// Access logs are written at the ends of requests, so the requests of 60 s, at most 524 288, are sorted by their
// times. A request that is later than that has the time of the one before it. A line that cannot be read is
// counted. Requests with the status 429 count as demand, like all others. Simulated clients do not adapt: each
// request comes at the time of the trace, also if a real client would have waited after a denial. In-flight rules
// are left out, because a trace has no ends of requests, and no key is paused. Bans (block_for) begin as in a program; the
// report of simulate counts them, and the requests that would be admitted without block_for. An override with an end has effect if
// it has not ended now.
//
//	weir simulate limits.yaml access.log
//	weir simulate -json limits.yaml - <access.log
//	weir simulate limits.yaml adversary
//	weir diff old.yaml new.yaml -trace access.log -max-new-denied-keys 0.1% -max-new-denied-requests 1%
//	weir suggest access.log -per 1s,1m,1h -deny 0.1%
//
// A suggestion is the smallest limit of a sliding_window that would have denied at most that part of the keys,
// for each period. It follows from the largest count of each key in any window, and does not depend on the
// other limits.
//
// The flag -max-new-denied-keys bounds the keys that B denies and A does not, and -max-new-denied-requests by how much
// B denies more requests than A. Each is a number, or a part of all keys or requests of the trace.
//
// Reports contain hashes of keys, unless there is the flag -keys. The hashes are those of one secret
// for each run, or of WEIR_KEY_SECRET, so that reports can be compared. Flags of these commands are accepted anywhere.
//
// # Flags of weir rules
//
// Flags are accepted before and after the name of the command, and after a KEY and the arguments that a command
// needs. A KEY that begins with a dash is a key, because clients choose keys. An UNTIL after -- is no flag.
//
//	-redis URL      default: the environment variable WEIR_REDIS_URL, or redis://127.0.0.1:6379
//	-cluster        Redis is a Cluster
//	-app NAME       the application, as of resilient.New; default: the environment variable WEIR_APP
//	-prefix PREFIX  as of the option rules.Prefix; default: weir:
//	-config FILE    the policies are in a file, and only the overrides in Redis
//	-rule NAME      usage, near, reset and credit: only this rule of the policy
//	-plan NAME      why, usage, near and credit: the plan of the key; without it, that of its override or none
//	-note TEXT      override, block, off and on: at most 200 bytes for list and why, such as the reason; override
//	                and block add the user and the machine
//	-text           override and block: write the key as text for list, which otherwise shows its hash
//	-wait DURATION  override, block, unblock, remove, off and on: see above; default: 15s; 0 does not wait
//	-by NAME        off and on: the operator; default: the user and the machine
//	-for DURATION   top: the last minutes, from 2m to 2h; default: 5m
//	-n NUMBER       list, near and top: at most so many entries; default: 100, and 20 for top
//	-remove         put: remove the policies that the file does not have
//	-if-version V   put: write only if the configuration has this version, which get and put print; none if there is none
//
// Commands that change something, and doctor, need the name of the application. Without it, the others take the only
// application that has keys among some 20 000 of Redis, and say so, or end with an error that names those that were found.
//
// The command put prints the changes before it writes. It writes nothing if the file does not have a policy that is in
// Redis, without -remove, if it cannot read the configuration in Redis, or if another operator has written meanwhile. On a terminal, it asks.
//
// A URL is redis://USER:PASSWORD@HOST:PORT/DB, or rediss:// for TLS. With parameters ?addr=HOST:PORT,
// it is that of a Cluster with several nodes, and with ?master_name=NAME that of a Sentinel. Other
// users of the machine can read arguments, so a URL with a password belongs into WEIR_REDIS_URL. The
// bytes of the option rules.KeySecret are read from the environment variable WEIR_KEY_SECRET. If the
// prefix or the secret is not that of the programs, they do not find the overrides, and a note says so.
//
// # Output
//
// In all output, characters that control a terminal or the direction of text are written as escapes, such as \x1b
// and \u202e, also in the output of weir rules get.
//
// # Exit status
//
// The exit status is 0, 2 if flags or the number of arguments are wrong, 3 if weir diff finds more than
// -max-new-denied-keys or -max-new-denied-requests, or a trace that is odd without -ignore-warnings, or 1 after any other
// error: a file or an argument is invalid, no request of a trace has a policy, Redis does not reply within 10 seconds
// (for all policies, 0.2 s more for each), weir doctor finds something that will not work, or no program opens a named
// pipe for writing within 10 seconds. All checks of weir doctor end within 30 seconds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // of timezones in files, for systems without zoneinfo

	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core/rules"
)

func main() {
	logging.Disable() // go-redis logs its attempts; the last error is reported
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// A command is a subcommand with min to max arguments.
type command struct {
	name, args, help string
	min, max         int
	run              func(args []string, stdout, stderr io.Writer) error
}

const many = 1 << 30 // arguments

var commands = []command{
	{"why", "KEY [IN]", "tell why a key is denied or admitted", 1, 2, nil},
	{"usage", "KEY [IN]", "print how much of its limits a key has used", 1, 2, nil},
	{"reset", "KEY [IN]", "forget the events of a key", 1, 2, nil},
	{"block", "KEY [IN] [UNTIL]", "deny the events of a key, also until a time or for 24h or 7d", 1, 3, nil},
	{"unblock", "KEY [IN]", "end the block of a key", 1, 2, nil},
	{"forget", "KEY", "remove all that Redis has about a key", 1, 1, nil},
	{"list", "", "list the overrides and blocks, newest first", 0, 0, nil},
	{"key", "KEY", "print the hash of a key", 1, 1, nil},
	{"top", "", "print the decisions of all processes, and the most denied keys", 0, 0, nil},
	{"near", "SHARE [IN]", "list the keys that use more than a share of a limit, such as 80%", 1, 2, nil},
	{"off", "IN", "turn limits off in all processes", 1, 1, nil},
	{"off", "", "print the limits that are off", 0, 0, nil},
	{"on", "IN", "turn limits on again", 1, 1, nil},
	{"doctor", "", "check whether the programs can use a Redis or Postgres", 0, 0, nil},
	{"check", "FILE...", "report the errors and warnings of files", 1, many, check},
	{"diff", "A B [-trace TRACE]", "list the changes from file A to file B", 2, 2, nil},
	{"explain", "FILE POLICY|ROUTE KEY [PLAN]", "list the limits of a key", 3, 4, explain},
	{"init", "", "print an example of a file with limits", 0, 0, printExample},
	{"playground", "", "serve a page that compares the algorithms", 0, 0, nil},
	{"rules", "COMMAND", "read and change limits in Redis", 0, 0, nil},
	{"simulate", "FILE TRACE...", "apply a file to recorded or generated traffic", 2, many, nil},
	{"suggest", "TRACE...", "find limits that deny few keys of recorded traffic", 1, many, nil},
	{"version", "", "print the version of this command", 0, 0, printVersion},
	{"help", "[COMMAND]", "print this list, or the flags of a command", 0, many, nil},
}

func init() {
	for _, name := range ofKeys {
		flagged[name] = defineKeys(name)
	}
	for _, name := range []string{"top", "off", "on"} {
		flagged[name] = defineFleet(name)
	}
}

// flagged are the functions of the commands with flags of their own: they define the flags, and return the
// function that runs the command.
var flagged = map[string]func(*flag.FlagSet) func(args []string, stdout, stderr io.Writer) error{
	"diff": defineDiff, "doctor": defineDoctor, "playground": definePlayground, "simulate": defineSimulate, "suggest": defineSuggest,
}

const (
	exitError   = 1
	exitUsage   = 2
	exitTooMany = 3
)

var (
	errReported = errors.New("reported") // of a command that has printed its errors
	errUsage    = errors.New("usage")    // of a command that does not have a flag

	errTooMany = errors.New("too many")         // of weir diff
	errOdd     = errors.New("the trace is odd") // of weir diff
)

// run runs the command with args, and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	out, errs := &errWriter{to: stdout}, &errWriter{to: stderr}
	status := dispatch(flag.NewFlagSet("weir", flag.ContinueOnError), commands, "", args, out, errs)
	if status == 0 && out.err != nil {
		return exitStatus(out.err, errs)
	}
	return status
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
			switch {
			case prefix != "":
			case args[0] == "rules":
				return runRules(args[1:], stdout, stderr)
			case args[0] == "help" && len(args) > 1:
				return run(append(slices.Clone(args[1:]), "-help"), stdout, stderr)
			case args[0] == "help":
				usage(stdout, flags, all...)
				return 0
			}
			if define := flagged[used[0].name]; define != nil {
				run := define(flags)
				for i := range used {
					used[i].run = run
				}
				if slices.Contains(ofKeys, used[0].name) {
					args, status, ok = parseAfterKey(flags, args[1:], stderr, used...)
				} else {
					args, status, ok = parseAnywhere(flags, args[1:], stderr, used...)
				}
			} else {
				parseArgs := parse
				if prefix != "" {
					parseArgs = parseAfterKey
				}
				args, status, ok = parseArgs(flags, args[1:], stderr, used...)
			}
			if !ok {
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
	if len(args) > 0 && len(used) == len(all) {
		unknownCommand(stderr, all, prefix, args[0])
	}
	usage(stderr, flags, used...)
	return exitUsage
}

// parseAfterKey is parse for flags before the first arguments, which may be a key that looks like a flag, and anywhere
// behind them.
func parseAfterKey(flags *flag.FlagSet, args []string, stderr io.Writer, used ...command) (rest []string, status int, ok bool) {
	args, status, ok = parse(flags, args, stderr, used...)
	if first := leastArgs(used); ok && len(args) > first {
		rest, status, ok = parseAnywhere(flags, args[first:], stderr, used...)
		args = append(args[:first:first], rest...)
	}
	return args, status, ok
}

// leastArgs returns the number of arguments that are no flags in any of the commands: a client can have chosen a key
// that looks like one.
func leastArgs(used []command) (n int) {
	for _, c := range used {
		n = max(n, c.min)
	}
	return n
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
	if errors.Is(err, errTooMany) || errors.Is(err, errOdd) {
		return exitTooMany
	}
	return exitError
}

// parse returns args without the flags at their beginning. It reports false if the command ends with
// a status, because args contain -help or an unknown flag.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer, used ...command) (rest []string, status int, ok bool) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	flags.SetOutput(stderr)
	switch {
	case err == nil:
		return flags.Args(), 0, true
	case !errors.Is(err, flag.ErrHelp):
		status = exitUsage
		fmt.Fprintln(stderr, printable(err.Error(), false))
	}
	usage(stderr, flags, used...)
	return nil, status, false
}

// parseAnywhere is parse for flags that may also follow arguments. The result is the arguments. After "--",
// there are no flags.
func parseAnywhere(flags *flag.FlagSet, args []string, stderr io.Writer, used ...command) (rest []string, status int, ok bool) {
	for {
		after, status, ok := parse(flags, args, stderr, used...)
		if !ok || len(after) == 0 {
			return rest, status, ok
		}
		if n := len(args) - len(after); n > 0 && args[n-1] == "--" {
			return append(rest, after...), 0, true
		}
		rest, args = append(rest, after[0]), after[1:]
	}
}

func usage(w io.Writer, flags *flag.FlagSet, used ...command) {
	fmt.Fprintln(w, "usage:")
	for _, c := range used {
		fmt.Fprintf(w, "  weir %-36s  %s\n", c.name+" "+c.args, c.help)
	}
	takes := func(args string) bool {
		return slices.ContainsFunc(used, func(c command) bool { return strings.Contains(c.args, args) })
	}
	if takes("TRACE") {
		fmt.Fprintln(w, "A TRACE is a file, - for the standard input, or a generator such as poisson:rate=100/s,clients=20,for=10m: "+strings.Join(simulate.Kinds, ", ")+".")
	}
	if takes("IN") {
		fmt.Fprintln(w, "IN is a policy, a route such as \"POST /login\", a rule in code, or '*' for all.")
	}
	if takes("KEY [IN]") {
		fmt.Fprintln(w, "Without IN, a command about a KEY concerns all.")
	}
	if len(used) > 1 || flags.Lookup("redis") != nil {
		fmt.Fprintln(w, "WEIR_KEY_SECRET has the key secret of the programs, if they have one.")
	}
	printFlags(w, flags, used)
}

// printFlags prints the flags of the commands in used. The text of a flag that only some commands accept begins with
// their names, such as "of list and near: ".
func printFlags(w io.Writer, flags *flag.FlagSet, used []command) {
	shown := flag.NewFlagSet("", flag.ContinueOnError)
	shown.SetOutput(w)
	flags.VisitAll(func(f *flag.Flag) {
		text := f.Usage
		if names, rest, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(text, "of ") {
			of := strings.FieldsFunc(names[len("of "):], func(c rune) bool { return c == ' ' || c == ',' })
			accept := 0
			for _, c := range used {
				if slices.Contains(of, strings.TrimPrefix(c.name, "rules ")) {
					accept++
				}
			}
			switch accept {
			case 0:
				return
			case len(used):
				text = rest
			}
		}
		shown.Var(f.Value, f.Name, text)
		shown.Lookup(f.Name).DefValue = f.DefValue
	})
	shown.PrintDefaults()
}

// report prints an error, and the excerpts of errors in a file.
func report(w io.Writer, err error) {
	var all rules.Errors
	if !errors.As(err, &all) {
		fmt.Fprintln(w, "weir:", printable(strings.TrimPrefix(err.Error(), "weir: "), false))
		return
	}
	for _, e := range all {
		fmt.Fprintln(w, printable(e.Error(), false))
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

// check reports the errors and the warnings of every file.
func check(files []string, _, stderr io.Writer) (result error) {
	for _, name := range files {
		text, err := read(name)
		if err == nil {
			_, err = rules.Parse(name, text)
		}
		if err != nil {
			report(stderr, err)
			result = errReported
			continue
		}
		warn(stderr, name, text)
	}
	return result
}

// warn prints the warnings about a valid file.
func warn(stderr io.Writer, name string, text []byte) {
	all := rules.Warnings(name, text)
	for i := range all {
		all[i].Path = "warning: " + all[i].Path
	}
	report(stderr, all)
}
