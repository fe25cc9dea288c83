package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/rules"
)

// An application is all processes with the states of the store, as they have told Redis.
type application struct {
	Error       string      `json:"error,omitempty"` // of a reading that has failed
	Off         []turnedOff `json:"off,omitempty"`
	Differences []string    `json:"differences,omitempty"`
	Processes   []process   `json:"processes,omitempty"` // with this one
	More        int         `json:"more,omitempty"`      // processes that are left out
	Hour        counts      `json:"hour"`                // decisions of the last hour
	Rules       []ofRule    `json:"rules,omitempty"`     // those of rules
	Denied      []deniedKey `json:"denied,omitempty"`
}

// A turnedOff is a rules.Switch.
type turnedOff struct {
	Rule   string    `json:"rule"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// A process is a rules.Process.
type process struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version,omitempty"`
	Started time.Time `json:"started"`
	Sets    []set     `json:"sets,omitempty"`
}

// A set is a rules.ProcessSet.
type set struct {
	Source  string `json:"source"`
	Config  string `json:"configuration"`
	Follows bool   `json:"follows_overrides"`
	Changes string `json:"changes,omitempty"` // the latest change of overrides that is in force
}

// An ofRule is the decisions of a rule in the last hour.
type ofRule struct {
	Rule string `json:"rule"`
	Hour counts `json:"hour"`

	here observe.Counts // those of this process
}

// A deniedKey is a rules.DeniedKey.
type deniedKey struct {
	Hash    string `json:"hash"`
	Key     string `json:"key,omitempty"` // if this process may show it, or the operator has asked for it
	Rule    string `json:"rule"`
	Denials uint64 `json:"denials"`
}

const (
	maxProcesses = 200                    // in a report
	maxDenied    = 100                    // likewise
	fleetTime    = 300 * time.Millisecond // to read the application: in an outage, the page waits for no longer
)

// application returns the knowledge of Redis about the processes of the application. r has the figures of this process, and asked
// is the key that the operator has asked for, or empty.
func (h *Handler) application(ctx context.Context, r *report, asked string) *application {
	if h.fleet == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	a := new(application)
	found, err := h.fleet.Processes(ctx)
	published, err2 := h.fleet.Published(ctx)
	switches, err3 := h.fleet.Switches(ctx)
	figures, err4 := h.figures.read(ctx, h.fleet)
	if err := cmp.Or(err, err2, err3, err4); err != nil {
		a.Error = err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			a.Error = fmt.Sprintf("Redis has not answered within %v", fleetTime)
		}
	}
	for _, s := range switches.Off {
		a.Off = append(a.Off, turnedOff(s))
	}
	a.Differences = rules.Differences(found, published)
	a.More = max(0, len(found)-maxProcesses)
	for _, p := range found[:len(found)-a.More] {
		next := process{p.Host, p.PID, p.Version, p.Started, nil}
		for _, s := range p.Sets {
			next.Sets = append(next.Sets, set{s.Source, s.Config, s.Follows, s.Changes})
		}
		a.Processes = append(a.Processes, next)
	}
	a.Hour = counts(figures.Requests)
	here := make(map[string]observe.Counts)
	for _, s := range r.Series {
		sum := here[s.Rule]
		add(&sum, (*observe.Counts)(&s.Decisions.Hour))
		here[s.Rule] = sum
	}
	for _, name := range slices.Sorted(maps.Keys(figures.Rules)) {
		a.Rules = append(a.Rules, ofRule{name, counts(figures.Rules[name]), here[name]})
	}
	texts := h.texts(r, asked)
	for _, k := range figures.Denied[:min(len(figures.Denied), maxDenied)] {
		a.Denied = append(a.Denied, deniedKey{k.Tag, texts[k.Tag], k.Rule, k.Denials})
	}
	return a
}

// figures are those of the application in the last hour. They are read again after figuresTime, because pages are refreshed
// every two seconds.
type figures struct {
	mu   sync.Mutex
	at   time.Time
	last rules.Figures
}

const figuresTime = 10 * time.Second

func (f *figures) read(ctx context.Context, fleet *rules.Fleet) (rules.Figures, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.at.IsZero() && time.Since(f.at) < figuresTime {
		return f.last, nil
	}
	next, err := fleet.Figures(ctx, time.Hour)
	if err == nil {
		f.last, f.at = next, time.Now()
	}
	return next, err
}

// texts returns the texts of keys by their hashes in Redis: of the keys that r shows as texts, and of the one that was
// asked for.
func (h *Handler) texts(r *report, asked string) map[string]string {
	texts := make(map[string]string)
	if h.store.Tag("k") == "k" { // with the option observe.ClearKeys
		for _, k := range slices.Concat(r.Denied, r.Active) {
			texts[h.fleet.Tag(k.Key)] = k.Key
		}
	}
	if asked != "" {
		texts[h.fleet.Tag(asked)] = asked
	}
	return texts
}

// Row returns the row of the table.
func (o ofRule) Row() row { return rowOf(o.Rule, observe.Counts(o.Hour)) }

// Here returns that of this process.
func (o ofRule) Here() row { return rowOf(o.Rule, o.here) }

// Shown returns the rules for the table of the page: all, or those with the most denials.
func (a *application) Shown() []ofRule {
	if len(a.Rules) <= maxRows {
		return a.Rules
	}
	all := slices.Clone(a.Rules)
	slices.SortStableFunc(all, func(x, y ofRule) int {
		return cmp.Compare(observe.Counts(y.Hour).Denied(), observe.Counts(x.Hour).Denied())
	})
	return all[:maxRows]
}

// MoreRules returns the number of rules that the page does not show.
func (a *application) MoreRules() int { return max(0, len(a.Rules)-maxRows) }
