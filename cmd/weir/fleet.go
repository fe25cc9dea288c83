package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/similar"
)

// A fleet has the flags of the commands about all processes of an application.
type fleet struct {
	*remote
	by     string
	period time.Duration
}

// defineFleet returns the function for flagged that defines the command off, on or top.
func defineFleet(name string) func(*flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
	return func(flags *flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
		f := &fleet{remote: &remote{flags: flags}}
		f.define(flags)
		switch name {
		case "top":
			flags.DurationVar(&f.period, "for", 5*time.Minute, "the last minutes, from 2m to 2h, as a `DURATION`")
			flags.IntVar(&f.most, "n", 20, "at most this `NUMBER` of keys")
		default:
			flags.StringVar(&f.about, "note", "", "a `TEXT`, such as the reason")
			flags.StringVar(&f.by, "by", operator(), "the `NAME` of the operator")
			flags.StringVar(&f.file, "config", "", "the `FILE` with the routes, if IN is one, instead of the configuration in Redis")
			f.defineWait("")
		}
		return func(args []string, stdout, stderr io.Writer) error {
			f.stdout, f.stderr, f.writes = stdout, stderr, name != "top" && len(args) > 0
			switch {
			case name == "top" && (f.period < 2*time.Minute || f.period > rules.MaxFiguresPeriod):
				fmt.Fprintf(stderr, "weir: the flag -for is from 2m to %v\n", rules.MaxFiguresPeriod)
				return errUsage
			case name == "top" && f.most < 1:
				fmt.Fprintln(stderr, "weir: the flag -n is not 1 or more")
				return errUsage
			}
			return f.connect(func(ctx context.Context) error {
				return map[string]func(context.Context, []string) error{"off": f.off, "on": f.on, "top": f.top}[name](ctx, args)
			})
		}
	}
}

// operator returns the name of the user and of the machine. Tests change it.
var operator = func() string {
	host, _ := os.Hostname()
	return cmp.Or(os.Getenv("USER"), "unknown") + "@" + host
}

// off prints the limits that are off, or turns limits off.
func (f *fleet) off(ctx context.Context, args []string) error {
	if len(args) == 0 {
		now, err := f.source.Fleet().Switches(ctx)
		if err == nil {
			f.print(now)
		}
		return err
	}
	return f.turn(ctx, args[0], f.source.Fleet().TurnOff)
}

// on turns limits on.
func (f *fleet) on(ctx context.Context, args []string) error {
	return f.turn(ctx, args[0], f.source.Fleet().TurnOn)
}

// turn changes the switches of the rules or policies that IN stands for, and prints the limits that are then off.
func (f *fleet) turn(ctx context.Context, in string, change func(context.Context, rules.Switch) (rules.Switches, error)) error {
	name, err := f.named(ctx, in)
	if err != nil {
		return err
	}
	now, err := change(ctx, rules.Switch{Rule: name, By: f.by, Reason: f.about})
	if errors.Is(err, rules.ErrNotOff) && len(now.Off) > 0 {
		err = fmt.Errorf("%w; there is one of %s", err, quotedAll(namesOf(now.Off)))
	}
	if err != nil {
		return err
	}
	f.print(now)
	if f.wait <= 0 {
		return nil
	}
	return f.awaitProcesses(ctx, strconv.Quote(name), func(p *rules.Process) bool { return hasAny(p, name) }, func(p *rules.Process) reason {
		return switchReason(p, now.Change)
	}, func([]rules.Process) error { return nil })
}

// namesOf returns the rules of switches.
func namesOf(off []rules.Switch) (all []string) {
	for _, s := range off {
		all = append(all, s.Rule)
	}
	return all
}

// hasAny reports whether a process has a limit that a switch of a name turns off, or may have it.
func hasAny(p *rules.Process, name string) bool {
	policy, _, _ := strings.Cut(name, ".")
	return name == rules.AllLimits && len(p.Rules)+len(p.Sets) > 0 || len(policiesIn(p, []string{name})) > 0 || p.Set(policy) != nil
}

// switchReason returns the reason why a change of switches is not in force in p.
func switchReason(p *rules.Process, change int64) reason {
	switch {
	case p.SwitchChange < 0:
		return reason{"does not follow weir off: its store is not that of resilient.New", true}
	case p.SwitchChange < change:
		return reason{notYet(p), false}
	}
	return reason{}
}

// print prints the limits that are off.
func (f *fleet) print(now rules.Switches) {
	for _, s := range now.Off {
		fmt.Fprintln(f.stdout, asSentence(offText(s)))
	}
	if len(now.Off) == 0 {
		fmt.Fprintln(f.stdout, "No limit is off.")
	}
	if s := now.On; !s.Since.IsZero() {
		fmt.Fprintln(f.stdout, asSentence(limitsOf(s)+" were turned on"+about(s)))
	}
}

// offText describes a Switch that is in force.
func offText(s rules.Switch) string { return limitsOf(s) + " are off since" + about(s) }

// limitsOf names the limits of a Switch.
func limitsOf(s rules.Switch) string {
	if s.Rule == rules.AllLimits {
		return "all limits"
	}
	return fmt.Sprintf("the limits of %q", s.Rule)
}

// about returns the time, the operator and the note of a Switch.
func about(s rules.Switch) string {
	text := " " + s.Since.UTC().Format(time.RFC3339)
	if s.By != "" {
		text += " by " + escaped(s.By)
	}
	if s.Reason != "" {
		text += fmt.Sprintf(", with the note %q", s.Reason)
	}
	return text
}

// asSentence returns text with a capital letter and a full stop.
func asSentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// named returns the rule or the policy that IN stands for. A name that neither a process nor a switch has is an error.
func (f *fleet) named(ctx context.Context, in string) (string, error) {
	now, err := f.source.Fleet().Switches(ctx)
	if err != nil && !errors.Is(err, rules.ErrRecord) {
		return "", err
	}
	if slices.Contains(namesOf(now.Off), in) {
		return in, nil
	}
	if strings.Contains(in, "/") {
		return f.ofRoute(ctx, in)
	}
	for begun := time.Now(); ; time.Sleep(pollTime) { // Redis may have lost the heartbeats
		all, err := f.source.Fleet().Processes(ctx)
		published, err2 := f.source.Fleet().Published(ctx)
		if err := cmp.Or(err, err2); err != nil && len(all)+len(published) == 0 {
			return "", err
		}
		names := slices.Sorted(maps.Keys(published))
		for _, p := range all {
			names = append(names, p.Rules...)
		}
		policy, _, _ := strings.Cut(in, ".")
		unknown := !slices.ContainsFunc(names, rules.Switch{Rule: policy}.Has) // the rules of a Set on another store
		switch {
		case slices.ContainsFunc(names, rules.Switch{Rule: in}.Has) ||
			slices.ContainsFunc(all, func(p rules.Process) bool { return p.AllRules || unknown && hasAny(&p, in) }):
			return in, nil
		case time.Since(begun) < min(f.wait, settleTime):
			continue
		case len(names) == 0:
			return "", fmt.Errorf("nothing is written: no process of the application %q is known; %s", f.app, invisible)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		more := ""
		if n := len(names) - maxListed; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		return "", fmt.Errorf("nothing is written: no process has a rule or a policy %q%s; the rules are %s%s", in, similar.Nearest(in, names, ""), list(names[:min(len(names), maxListed)]), more)
	}
}

// maxListed is the number of rules in an error.
const maxListed = 20

// ofRoute returns the policy of a route.
func (f *fleet) ofRoute(ctx context.Context, in string) (string, error) {
	if err := f.configure(ctx); err != nil {
		return "", err
	}
	route, err := routeOf(f.config, in)
	if err != nil {
		return "", err
	}
	policy := f.config.Routes[route]
	if policy == "" {
		err := fmt.Errorf("nothing is written: no route of %s matches %q", f.name(), in)
		if f.loaded == nil {
			err = fmt.Errorf("%w; the flag -config names a file with the routes", err)
		}
		return "", err
	}
	var others []string
	for _, other := range slices.Sorted(maps.Keys(f.config.Routes)) {
		if f.config.Routes[other] == policy && other != route {
			others = append(others, other)
		}
	}
	if len(others) > 0 {
		f.note("the policy %q is also that of %s", policy, quotedAll(others[:min(len(others), maxNames)]))
	}
	if all := f.config.AllRoutes; all != "" && all != policy {
		f.note("the policy %q of all routes is not concerned", all)
	}
	return policy, nil
}

// results are the columns of weir top.
var results = []struct {
	name string
	sum  func(observe.Counts) uint64
}{
	{"ALLOWED", func(c observe.Counts) uint64 { return c[driver.Allowed] }},
	{"SOFT", func(c observe.Counts) uint64 { return c[driver.Soft] }},
	{"DENIED", func(c observe.Counts) uint64 { return c[driver.Denied] + c[driver.NeverAllowed] }},
	{"BLOCKED", func(c observe.Counts) uint64 { return c[driver.Blocked] }},
	{"BANNED", func(c observe.Counts) uint64 { return c[driver.Banned] }},
	{"SHADOW", func(c observe.Counts) uint64 { return c[driver.ShadowDenied] }},
	{"FAILED", func(c observe.Counts) uint64 { return c[driver.Failed] + c[driver.Canceled] }},
}

// top prints the decisions of all processes in the last minutes, and the keys with the most denials.
func (f *fleet) top(ctx context.Context, _ []string) error {
	of := f.source.Fleet()
	figures, err := of.Figures(ctx, f.period)
	if err != nil && len(figures.Rules) == 0 {
		return err
	}
	if err != nil {
		f.note("%v", err)
	}
	all, err := of.Processes(ctx)
	if err != nil {
		f.note("%v", err)
	}
	switches, err := of.Switches(ctx)
	if err != nil {
		f.note("%v", err)
	}
	published, err := of.Published(ctx)
	if err != nil {
		f.note("%v", err)
	}
	versions := distinct(all, func(p rules.Process) string { return p.Version })
	fmt.Fprintf(f.stdout, "%s of the application %q", plural(len(all), "process"), f.app)
	if len(versions) > 0 {
		fmt.Fprintf(f.stdout, ", %s", strings.Join(versions, ", "))
	}
	fmt.Fprintln(f.stdout)
	for _, s := range switches.Off {
		fmt.Fprintln(f.stdout, asSentence(offText(s)))
	}
	for _, text := range rules.Differences(all, published) {
		fmt.Fprintln(f.stdout, asSentence(escaped(text)))
	}
	fmt.Fprintf(f.stdout, "\nDecisions in the last %v, without those of about the last minute:\n", f.period)
	w := tabwriter.NewWriter(f.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "RULE")
	for _, column := range results {
		fmt.Fprint(w, "\t"+column.name)
	}
	fmt.Fprintln(w)
	row := func(name string, c observe.Counts) {
		fmt.Fprint(w, escaped(name))
		for _, column := range results {
			fmt.Fprint(w, "\t", column.sum(c))
		}
		fmt.Fprintln(w)
	}
	for _, rule := range slices.SortedFunc(maps.Keys(figures.Rules), func(a, b string) int {
		return cmp.Or(cmp.Compare(figures.Rules[b].Denied(), figures.Rules[a].Denied()), cmp.Compare(figures.Rules[b].Total(), figures.Rules[a].Total()), cmp.Compare(a, b))
	}) {
		row(rule, figures.Rules[rule])
	}
	row("all requests", figures.Requests)
	_ = w.Flush() // stdout remembers an error
	if len(figures.Rules) == 0 {
		f.note("no process has told decisions in the last %v: those with the store of resilient.New do so once a minute", f.period)
	}
	if len(figures.Denied) == 0 {
		f.note("no denied key is known: processes with the option observe.TopKeys tell them after each complete minute")
		return nil
	}
	fmt.Fprint(f.stdout, "\nKeys with the most denials, in this hour and the one before, without about the last two minutes:\n")
	fmt.Fprintln(w, "KEY\tRULE\tDENIALS")
	for _, k := range figures.Denied[:min(len(figures.Denied), f.most)] {
		fmt.Fprintf(w, "#%s\t%s\t%d\n", escaped(k.Tag), escaped(k.Rule), k.Denials)
	}
	return w.Flush()
}
