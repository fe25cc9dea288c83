package observe

import (
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/processes"
)

// Counts are numbers of decisions, at the index of their result: c[driver.Denied]. Those at the index 0 are Unknown.
type Counts [driver.Failed + 1]uint64

// Total returns the sum of c.
func (c Counts) Total() (n uint64) {
	for _, of := range c {
		n += of
	}
	return n
}

// Denied returns the number of denied ones, for any reason.
func (c Counts) Denied() uint64 {
	return c[driver.Denied] + c[driver.NeverAllowed] + c[driver.Blocked] + c[driver.Banned]
}

// Unknown returns the number of decisions in which the rule was not evaluated, because a cached denial or a blocked rule
// had denied the event.
func (c Counts) Unknown() uint64 { return c[0] }

// A Series contains the numbers of decisions of one rule in one plan, since the Store was made.
type Series struct {
	Rule, Plan string // see MaxSeries
	// Decisions are the decisions that contained the rule, by the result of the rule. A shadow rule would have denied
	// between Decisions[driver.ShadowDenied] and that number plus Decisions.Unknown().
	Decisions Counts
	// Requests are the decisions that the rule has determined, by the result of the whole decision. Each
	// decision is counted once: for the rule with the longest RetryAfter of those that denied, or else for
	// the first soft one, or else for the first one. Shadow rules determine only decisions without others. None is Unknown.
	Requests Counts
	// Near is the number of events after which more than a share of the limit was used; zero without the option [Near].
	Near uint64
}

// A Snapshot contains the figures of a Store, all of this process. Counts are since the Store was
// made.
type Snapshot struct {
	Series   []Series  // sorted by Rule and Plan
	Calls    Calls     // of the Store behind
	Measures []Measure // of the Store and its parts: see METRICS.md
	Denied   []Key     // the keys with the most denials; nil without TopKeys
	Active   []Key     // the keys with the most decisions; nil without TopKeys
}

// Total returns the sum of the Requests of all Series.
func (s *Snapshot) Total() (sum Counts) {
	for i := range s.Series {
		for j, n := range s.Series[i].Requests {
			sum[j] += n
		}
	}
	return sum
}

// Snapshot returns the figures now. It takes some microseconds for each series, and does not stop
// decisions, so that figures may be from slightly different moments.
func (s *Store) Snapshot() *Snapshot {
	n := &Snapshot{Series: s.series.snapshot(), Calls: s.sumCalls(), Measures: s.parts.measures()}
	if s.keys != nil {
		n.Denied, n.Active = s.keys.denied.top(s.topKeys, s.Tag), s.keys.active.top(s.topKeys, s.Tag)
	}
	return n
}

// tell returns a function that tells the application the decisions of s, and the keys that it has denied in the complete
// minutes since the last call.
func (s *Store) tell() func(*processes.Figures, func(string) string) {
	from := int64(-1)
	return func(f *processes.Figures, tag func(string) string) {
		for _, of := range s.series.snapshot() {
			rule, all := f.Rules[of.Rule], f.Rules[""]
			for i := range of.Decisions {
				rule[i] += of.Decisions[i]
				all[i] += of.Requests[i]
			}
			f.Rules[of.Rule], f.Rules[""] = rule, all
		}
		if s.keys == nil {
			return
		}
		var denied []Key
		denied, from = s.keys.denied.between(from, s.topKeys, false, func(key string) string {
			if len(key) == maxKey { // the rest of a longer key is not known
				return ""
			}
			return tag(key)
		})
		for _, k := range denied {
			if n := k.Count - k.Error; n > 0 && k.Key != "" {
				f.Denied[processes.DeniedKey{Tag: k.Key, Rule: k.Rule}] += n
			}
		}
	}
}
