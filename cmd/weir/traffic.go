package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/trace"
	"github.com/weir-go/weir/core"
)

// A traffic is the recorded or generated traffic that a command reads.
type traffic struct {
	options trace.Options
	reader  *trace.Reader
	name    string
	made    atomic.Int64 // events of a generator, for progress
	stats   trace.Stats  // once the traffic has been read
}

// define defines the flags for the format of recorded traffic.
func (t *traffic) define(flags *flag.FlagSet) {
	flags.Func("format", "the `FORMAT` of the trace: csv, json, logfmt, w3c or log, or a log_format of nginx; without it, that of the first line with a request", func(text string) (err error) {
		t.options.Format, err = trace.ParseFormat(text)
		return err
	})
	f := &t.options.Fields
	flags.StringVar(&f.Time, "time", "", "the `FIELD` of the trace with the time")
	flags.StringVar(&f.Key, "key", "", "the `FIELD` of the trace with the key, such as remote_addr, or user.id for the member of an object")
	flags.StringVar(&f.Cost, "cost", "", "the `FIELD` of the trace with the cost")
	flags.StringVar(&f.Plan, "plan", "", "the `FIELD` of the trace with the plan")
	flags.StringVar(&f.Request, "request", "", "the `FIELD` of the trace with the method and path, such as \"POST /login\"")
	flags.StringVar(&f.Method, "method", "", "the `FIELD` of the trace with the method of the request")
	flags.StringVar(&f.Path, "path", "", "the `FIELD` of the trace with the path or URL of the request")
	flags.StringVar(&f.Status, "status", "", "the `FIELD` of the trace with the status of the response")
}

// read calls f for each event of the traces: files, "-" for the standard input, or one generator. An adversary
// attacks targets. Read reports its progress if stderr is a terminal.
func (t *traffic) read(traces []string, targets []core.Rule, stderr io.Writer, f func(*simulate.Event) error) error {
	events, err := t.events(traces, targets)
	if err != nil {
		return err
	}
	defer showProgress(t.progress, stderr)()
	for e := range events {
		if err = f(e); err != nil {
			return err
		}
		if t.reader == nil {
			t.count(e)
		}
	}
	if t.reader != nil {
		if err = t.reader.Err(); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; a trace is a file, - or a generator: %s", err, strings.Join(simulate.Kinds, ", "))
		}
		if err != nil {
			return err
		}
		t.stats = t.reader.Stats()
	}
	if t.stats.Events == 0 {
		return t.empty()
	}
	return nil
}

func (t *traffic) events(traces []string, targets []core.Rule) (simulate.Traffic, error) {
	t.name = strings.Join(traces, " ")
	for _, text := range traces {
		g, ok, err := simulate.ParseGenerator(text)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			continue
		case len(traces) > 1:
			return nil, fmt.Errorf("%s is a generator, and cannot be combined with other traces", text)
		}
		for _, r := range targets {
			s := r.Spec()
			if i := slices.IndexFunc(s.Plans, func(p core.Plan) bool { return p.Name == g.Plan }); i >= 0 {
				s.Limit = s.Plans[i].Limit
				r = core.NewRule(s)
			}
			g.Targets = append(g.Targets, r)
		}
		if g.Kind == simulate.Adversary && !slices.ContainsFunc(g.Targets, simulate.CanAttack) {
			return nil, errors.New("an adversary needs a rule with a fixed period")
		}
		return g.Traffic(), nil
	}
	t.reader = trace.New(t.options)
	return t.reader.Files(traces), nil
}

// count counts an event of a generator.
func (t *traffic) count(e *simulate.Event) {
	if t.stats.Events = int(t.made.Add(1)); t.stats.Events == 1 {
		t.stats.First = e.At
	}
	t.stats.Last = e.At
}

// empty returns the error about traffic without an event.
func (t *traffic) empty() error {
	text := fmt.Sprintf("%s has no requests", t.name)
	if s := t.stats; s.Broken > 0 {
		text = fmt.Sprintf("%s has no request that can be read: %s:%d: %s: %s; %s", t.name, s.Samples[0].File, s.Samples[0].Line, s.Samples[0].Reason, s.Samples[0].Text, s.Conversion)
	}
	return errors.New(text)
}

// Parts of the requests, in percent, from which traffic is odd if it has at least enough requests, and the number of
// requests that may have one time.
const (
	enough = 100
	nearly = 90
	few    = 1
	some   = 20
)

// warnings returns the facts about recorded traffic because of which its figures are probably wrong. requests are the
// keys and their numbers of requests.
func (t *traffic) warnings(requests iter.Seq2[string, uint64]) []string {
	warnings := []string{} // not nil, for JSON
	s := t.stats
	if t.reader == nil {
		return warnings
	}
	add := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	if s.First < 1e14 { // in 1973
		add("the trace begins in %d: its time may be a duration. -time names another field.", utc(s.First).Year())
	}
	if s.Events > some && s.First == s.Last {
		add("all %s have one time, so that counts and denials are wrong. -time names another field.", plural(s.Events, "request"))
	}
	if s.Events < enough {
		return warnings
	}
	all := uint64(s.Events)
	var largest, private, keys uint64
	var busiest string
	for key, n := range requests {
		if keys++; n > largest {
			largest, busiest = n, key
		}
		if trace.IsPrivate(key) {
			private += n
		}
	}
	switch {
	case largest*100 >= all*nearly && trace.IsPrivate(busiest):
		add("%s of the requests have one key, a private address as that of a proxy. -key names another field, or the log needs the address of the client.", percent(largest, all))
	case largest*100 >= all*nearly:
		add("%s of the requests have one key, as behind a proxy. -key names another field, or the log needs the address of the client.", percent(largest, all))
	case private*100 >= all*nearly:
		add("%s of the requests have private addresses, as those of proxies. -key names another field, or the log needs the address of the client.", percent(private, all))
	case keys*100 > all*nearly:
		add("nearly every request has a key of its own: %s for %s. -key names a field that identifies a client.", plural(int(keys), "key"), plural(s.Events, "request"))
	}
	if t.unsorted() {
		add("%s (%s) were read too late to be sorted, and given the time of the request before. Name each file of the trace, in place of one stream of all: files are merged by their times.", plural(s.Late, "request"), percent(s.Late, s.Events))
	}
	return warnings
}

// unsorted reports whether more requests than a few were read too late.
func (t *traffic) unsorted() bool {
	return t.stats.Events >= enough && !isFew(uint64(t.stats.Late), uint64(t.stats.Events))
}

// isFew reports whether n of all requests are too few to make the figures wrong: single clients can send them.
func isFew(n, all uint64) bool { return n*100 <= all*few }

// notes returns the notes of a report about the traffic.
func (t *traffic) notes() (notes []string) {
	s := t.stats
	add := func(n int, format string, args ...any) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(s.Limited, "%s of the trace had the status 429. Such requests count as demand, like all others.", plural(s.Limited, "request"))
	if t.reader != nil && !s.Fractions {
		notes = append(notes, "The times of the trace are whole seconds: the requests of a second count as sent at once, so limits of some seconds deny more than in reality.")
	}
	if !t.unsorted() {
		add(s.Late, "%s read too late to be sorted, and given the time of the request before.", pluralWas(s.Late, "request"))
	}
	add(s.Broken, "%s could not be read:", plural(s.Broken, "line"))
	for _, b := range s.Samples {
		notes = append(notes, fmt.Sprintf("  %s:%d: %s: %s", printable(b.File, false), b.Line, b.Reason, b.Text))
	}
	return notes
}

// span returns the time from the first to the last event.
func (t *traffic) span() time.Duration {
	return time.Duration(t.stats.Last-t.stats.First) * time.Microsecond
}

// progress returns how much has been read or made within the time passed.
func (t *traffic) progress(passed time.Duration) string {
	if t.reader == nil {
		return plural(int(t.made.Load()), "request")
	}
	return progress(t.reader.Stats(), passed)
}

// showProgress shows the text of progress, if w is a terminal, until the returned function is called.
func showProgress(progress func(passed time.Duration) string, w io.Writer) (stop func()) {
	if out, ok := w.(*errWriter); ok {
		w = out.to // which is a terminal, or not
	}
	file, ok := w.(*os.File)
	if !ok {
		return func() {}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		begun := time.Now()
		for {
			select {
			case <-stopped:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-ticker.C:
				fmt.Fprintf(w, "\r\x1b[K%s", progress(time.Since(begun)))
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}

// progress returns a bar, or the size that was read if the total is unknown.
func progress(s trace.Stats, passed time.Duration) string {
	requests := plural(s.Events, "request")
	if s.Total <= 0 || s.Read <= 0 {
		return bytesText(s.Read) + ", " + requests
	}
	const width = 30
	part := min(1, float64(s.Read)/float64(s.Total))
	full := int(part * width)
	left := time.Duration(min(float64(passed)*(1-part)/part, float64(999*time.Hour))).Round(time.Second)
	return fmt.Sprintf("[%s%s] %3.0f %%  %s of %s, %s, %s left", strings.Repeat("█", full), strings.Repeat("░", width-full), 100*part, bytesText(s.Read), bytesText(s.Total), requests, duration(left))
}

func bytesText(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d KB", n/1000)
}
