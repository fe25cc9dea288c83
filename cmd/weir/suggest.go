package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/core"
)

// A suggester is the command weir suggest.
type suggester struct {
	traffic traffic
	periods []time.Duration
	deny    share
	asJSON  *bool
}

// defineSuggest defines the flags of weir suggest, and returns the command.
func defineSuggest(flags *flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
	s := &suggester{periods: []time.Duration{time.Second, time.Minute, time.Hour}, deny: share{text: "0.1%", part: 0.001}}
	s.traffic.define(flags)
	flags.Func("per", "the `PERIODS` of the limits (default 1s,1m,1h)", s.setPeriods)
	flags.Var(&s.deny, "deny", "the largest `PART` of the keys, or number of keys, that a limit would have denied")
	s.asJSON = flags.Bool("json", false, "print JSON")
	return s.run
}

// setPeriods reads periods as in limits, such as 1s,5m,d.
func (s *suggester) setPeriods(text string) error {
	s.periods = nil
	for p := range strings.SplitSeq(text, ",") {
		l, err := core.ParseLimit("1/" + strings.TrimSpace(p))
		if err != nil || l.Per <= 0 {
			return fmt.Errorf("%q is not a period, such as 1s, 15m, h or 7d", p)
		}
		if slices.Contains(s.periods, l.Per) {
			return fmt.Errorf("%q is there twice", p)
		}
		s.periods = append(s.periods, l.Per)
	}
	return nil
}

// run prints a limit for each period.
func (s *suggester) run(args []string, stdout, stderr io.Writer) error {
	counts, err := simulate.NewSuggestion(s.periods)
	if err != nil {
		return err
	}
	ctx := context.Background()
	err = s.traffic.read(args, nil, stderr, func(e *simulate.Event) error { return counts.Add(ctx, e) })
	if err != nil {
		return err
	}
	r := &suggested{Trace: s.traffic.name, Requests: uint64(s.traffic.stats.Events), Keys: counts.Keys(), Deny: s.deny.text}
	r.Warnings = s.traffic.warnings(counts.Requests())
	r.Notes = append([]string{}, s.traffic.notes()...)
	limits := make([]int64, len(s.periods))
	for i, per := range s.periods {
		all := counts.Counts(i)
		limits[i] = simulate.Limit(all, s.deny.of(len(all)))
		alone := make([]int64, len(limits))
		alone[i] = limits[i]
		denied, requests := counts.Denied(alone)
		at := func(percent int) int64 { return all[(len(all)*percent-1)/100] }
		r.Limits = append(r.Limits, suggestedLimit{core.Per(int(limits[i]), per).String(), denied, requests, at(50), at(99), at(100)})
		if per-per/20 > s.traffic.span() {
			r.Notes = append(r.Notes, fmt.Sprintf("The trace is shorter than %s: in a longer one, counts for that period may be larger.", duration(per)))
		}
	}
	r.Denied, r.DeniedRequests = counts.Denied(limits)
	if *s.asJSON {
		return writeJSON(stdout, r)
	}
	return r.write(stdout)
}

// A suggested is the report of weir suggest.
type suggested struct {
	Trace          string           `json:"trace"`
	Warnings       []string         `json:"warnings"`
	Requests       uint64           `json:"requests"`
	Keys           int              `json:"keys"`
	Deny           string           `json:"deny"`
	Limits         []suggestedLimit `json:"limits"`
	Denied         int              `json:"denied_keys"` // by all limits together
	DeniedRequests uint64           `json:"requests_of_denied_keys"`
	Notes          []string         `json:"notes"`
}

// A suggestedLimit is the smallest limit of a period that denies few keys, with the largest counts of the keys.
type suggestedLimit struct {
	Limit    string `json:"limit"`
	Denied   int    `json:"denied_keys"`
	Requests uint64 `json:"requests_of_denied_keys"` // admitted and denied
	Median   int64  `json:"median"`
	P99      int64  `json:"p99"`
	Max      int64  `json:"max"`
}

// write writes r for people.
func (r *suggested) write(out io.Writer) error {
	writeWarnings(out, r.Warnings)
	fmt.Fprintf(out, "%s: %s of %s. A sliding_window with one of these limits would have denied at most %s of the keys:\n\n", printable(r.Trace, false), plural(int(r.Requests), "request"), plural(r.Keys, "key"), r.Deny)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "LIMIT\tDENIED KEYS\t\tTHEIR REQUESTS\tLARGEST COUNT OF A KEY: MEDIAN\t99 %\tALL\t")
	for _, l := range r.Limits {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.Limit, count(l.Denied), percent(l.Denied, r.Keys), percent(l.Requests, r.Requests), count(l.Median), count(l.P99), count(l.Max))
	}
	w.Flush()
	word := strings.NewReplacer(".", "_", "µ", "u") // of the name of a rule
	fmt.Fprintf(out, "\nTogether, they would have denied requests of %s (%s), which sent %s of all requests. As a file:\n\npolicies:\n  api:\n    rules:\n",
		plural(r.Denied, "key"), percent(r.Denied, r.Keys), percent(r.DeniedRequests, r.Requests))
	for _, l := range r.Limits {
		_, per, _ := strings.Cut(l.Limit, "/")
		fmt.Fprintf(out, "      - {name: per_%s, algorithm: sliding_window, limit: %s}\n", word.Replace(per), l.Limit)
	}
	return writeNotes(out, r.Notes)
}
