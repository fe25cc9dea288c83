package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core/rules"
)

// A differ is the command weir diff.
type differ struct {
	traces               []string
	traffic              traffic
	policy               *string
	asJSON               *bool
	top                  *int
	names                func() func(string) string
	maxKeys, maxRequests share
	ignore               *bool // the warnings
}

// defineDiff defines the flags of weir diff, and returns the command.
func defineDiff(flags *flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
	d := &differ{maxKeys: share{part: 1}, maxRequests: share{part: 1}}
	flags.Func("trace", "apply both files to this `TRACE`; for several files, repeat the flag", func(text string) error {
		d.traces = append(d.traces, text)
		return nil
	})
	d.traffic.define(flags)
	d.policy = definePolicy(flags)
	d.asJSON = flags.Bool("json", false, "print JSON")
	d.top = flags.Int("top", 10, "the `NUMBER` of keys to list, those with the most additional denials")
	d.names = defineNames(flags)
	flags.Var(&d.maxKeys, "max-new-denied-keys", "with -trace: exit with 3 if more keys than this `NUMBER`, or part such as 0.1%, are denied by B and not by A")
	flags.Var(&d.maxRequests, "max-new-denied-requests", "with -trace: exit with 3 if B denies more requests than A, by more than this `NUMBER`, or part such as 1%")
	d.ignore = flags.Bool("ignore-warnings", false, "with -trace: exit with 0 also if the trace is odd")
	return d.run
}

// run lists the changes from a file to another, and their effect on a trace if there is one.
func (d *differ) run(args []string, stdout, stderr io.Writer) error {
	a, err := load(args[0])
	if err != nil {
		return err
	}
	b, err := load(args[1])
	if err != nil {
		return err
	}
	lines := rules.Diff(a, b)
	if len(d.traces) == 0 {
		if d.maxKeys.text+d.maxRequests.text != "" || *d.asJSON {
			return errors.New("-max-new-denied-keys, -max-new-denied-requests and -json need a -trace")
		}
		for _, line := range lines {
			fmt.Fprintln(stdout, line)
		}
		return nil
	}
	c, err := d.compare(a, b, stderr)
	if err != nil {
		return err
	}
	c.Changes = append([]string{}, lines...) // not nil, for JSON
	if *d.asJSON {
		err = writeJSON(stdout, c)
	} else {
		err = c.write(stdout)
	}
	switch more := int(c.DeniedAfter) - int(c.DeniedBefore); {
	case err != nil:
	case c.NewlyDenied > d.maxKeys.of(c.Keys):
		err = fmt.Errorf("%w keys are newly denied: %s of %s, more than %s", errTooMany, count(c.NewlyDenied), count(c.Keys), d.maxKeys.text)
	case more > d.maxRequests.of(int(c.Requests)):
		err = fmt.Errorf("%w requests are newly denied: %s of %s, more than %s", errTooMany, count(more), count(c.Requests), d.maxRequests.text)
	case len(c.Warnings) > 0 && !*d.ignore:
		err = fmt.Errorf("%w, so that the figures may be wrong: see the warnings, or accept them with -ignore-warnings", errOdd)
	}
	return err
}

// compare applies both configurations to the traces.
func (d *differ) compare(a, b *rules.Config, stderr io.Writer) (*comparison, error) {
	before, err := newSimulation(a, *d.policy)
	if err != nil {
		return nil, err
	}
	after, err := newSimulation(b, *d.policy)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	err = d.traffic.read(d.traces, append(before.rules(), after.rules()...), stderr, func(e *simulate.Event) error {
		if _, err := before.decide(ctx, e); err != nil {
			return err
		}
		_, err := after.decide(ctx, e)
		return err
	})
	if err := cmp.Or(err, before.check(), after.check()); err != nil {
		return nil, err
	}
	return newComparison(before, after, &d.traffic, d.names(), *d.top), nil
}

// A comparison is the report of weir diff with a trace.
type comparison struct {
	Changes       []string     `json:"changes"`
	Trace         string       `json:"trace"`
	Warnings      []string     `json:"warnings"`
	Requests      uint64       `json:"requests"`
	Keys          int          `json:"keys"`
	NewlyDenied   int          `json:"newly_denied_keys"`   // denied by the new file, and not by the old one
	NewlyAffected int          `json:"newly_affected_keys"` // some of these, with more denials than affected of their requests
	MoreDenied    int          `json:"more_denied_keys"`    // denied by both files, more often by the new one
	FewerDenied   int          `json:"fewer_denied_keys"`   // denied by both files, less often by the new one
	AsDenied      int          `json:"as_denied_keys"`      // denied by both files, equally often
	NoMoreDenied  int          `json:"no_more_denied_keys"` // denied by the old file, and not by the new one
	DeniedBefore  uint64       `json:"denied_before"`
	DeniedAfter   uint64       `json:"denied_after"`
	TopKeys       []changedKey `json:"top_keys"`
	Notes         []string     `json:"notes"`
}

// A changedKey is a key that the new file denies more often.
type changedKey struct {
	Key          string `json:"key"`
	Requests     uint64 `json:"requests"`
	DeniedBefore uint64 `json:"denied_before"`
	DeniedAfter  uint64 `json:"denied_after"`
}

func newComparison(before, after *simulation, t *traffic, name func(string) string, top int) *comparison {
	c := &comparison{Trace: t.name, Keys: len(after.Clients), TopKeys: []changedKey{}}
	for key, n := range after.Clients {
		o := before.Clients[key]
		c.Requests += n.Requests
		c.DeniedBefore += o.Denied
		c.DeniedAfter += n.Denied
		switch {
		case o.Denied == 0 && n.Denied > 0:
			if c.NewlyDenied++; isAffected(n) {
				c.NewlyAffected++
			}
		case n.Denied == 0 && o.Denied > 0:
			c.NoMoreDenied++
		case n.Denied > o.Denied:
			c.MoreDenied++
		case n.Denied < o.Denied:
			c.FewerDenied++
		case n.Denied > 0:
			c.AsDenied++
		}
		if n.Denied > o.Denied {
			c.TopKeys = append(c.TopKeys, changedKey{key, n.Requests, o.Denied, n.Denied})
		}
	}
	slices.SortFunc(c.TopKeys, func(a, b changedKey) int {
		return cmp.Or(cmp.Compare(b.DeniedAfter-b.DeniedBefore, a.DeniedAfter-a.DeniedBefore), cmp.Compare(a.Key, b.Key))
	})
	c.TopKeys = c.TopKeys[:min(max(top, 0), len(c.TopKeys))]
	for i := range c.TopKeys {
		c.TopKeys[i].Key = name(c.TopKeys[i].Key)
	}
	c.Warnings = append(t.warnings(after.Requests()), after.warnings()...)
	c.Notes = append(after.notes(), t.notes()...)
	return c
}

// write writes c for people.
func (c *comparison) write(out io.Writer) error {
	writeWarnings(out, c.Warnings)
	print := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	for _, line := range c.Changes {
		print("%s", line)
	}
	if len(c.Changes) > 0 {
		print("")
	}
	print("%s: %s of %s", printable(c.Trace, false), plural(int(c.Requests), "request"), plural(c.Keys, "key"))
	print("%s of %s newly denied, %s of them more than %.0f %% of their requests", count(c.NewlyDenied), plural(c.Keys, "key"), count(c.NewlyAffected), 100*affected)
	print("%s of %s no longer denied", count(c.NoMoreDenied), plural(c.Keys, "key"))
	if both := c.MoreDenied + c.FewerDenied + c.AsDenied; both > 0 {
		print("%s of %s denied by both files: %s more often by the new one, %s less often, %s equally often", count(both), plural(c.Keys, "key"), count(c.MoreDenied), count(c.FewerDenied), count(c.AsDenied))
	}
	print("denied requests: %s before (%s), %s after (%s)", count(c.DeniedBefore), percent(c.DeniedBefore, c.Requests), count(c.DeniedAfter), percent(c.DeniedAfter, c.Requests))
	if len(c.TopKeys) > 0 {
		print("\nThe keys with the most additional denials:")
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "KEY\tREQUESTS\tDENIED BEFORE\tDENIED AFTER\t\t")
		for _, k := range c.TopKeys {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", k.Key, count(k.Requests), count(k.DeniedBefore), count(k.DeniedAfter), percent(k.DeniedAfter, k.Requests))
		}
		w.Flush()
	}
	return writeNotes(out, c.Notes)
}

// A share is a number, or a part of all, as the value of a flag.
type share struct {
	text   string
	number int
	part   float64 // if the text ends with %
}

func (s *share) String() string { return s.text }

// Set implements [flag.Value].
func (s *share) Set(text string) (err error) {
	s.text = text
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		s.part, err = strconv.ParseFloat(strings.TrimSpace(percent), 64)
		if s.part /= 100; err != nil || !(s.part >= 0 && s.part <= 1) {
			return errors.New("not a percentage from 0% to 100%")
		}
		return nil
	}
	s.part = -1
	if s.number, err = strconv.Atoi(text); err != nil || s.number < 0 {
		return errors.New("not a number, such as 12, or a percentage, such as 0.1%")
	}
	return nil
}

// of returns the largest number of all that is not more than s.
func (s *share) of(all int) int {
	if s.part < 0 {
		return s.number
	}
	return int(s.part*float64(all) + 1e-6) // 0.7% of 1000 is 7, although the product is less
}
