package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
)

// A simulated is the report of weir simulate.
type simulated struct {
	File         string            `json:"file"`
	Trace        string            `json:"trace"`
	Warnings     []string          `json:"warnings"`
	First        time.Time         `json:"first"`
	Last         time.Time         `json:"last"`
	Requests     uint64            `json:"requests"`
	Admitted     uint64            `json:"admitted"`
	Denied       uint64            `json:"denied"`
	Delayed      uint64            `json:"delayed"`
	DeniedByBans uint64            `json:"denied_by_bans,omitempty"` // denied requests that would have been admitted without block_for
	NoPolicy     uint64            `json:"no_policy"`                // requests without a policy, which are admitted
	Keys         int               `json:"keys"`
	DeniedKeys   int               `json:"denied_keys"`
	AffectedKeys int               `json:"affected_keys"` // with more denials than affected of their requests
	Policies     []simulatedPolicy `json:"policies"`
	TopKeys      []simulatedKey    `json:"top_keys"`
	Timeline     simulatedTimeline `json:"timeline"`
	Notes        []string          `json:"notes"`
}

// affected is the part of its requests beyond which the denials of a key matter.
const affected = 0.05

type simulatedPolicy struct {
	Name       string          `json:"name"`
	Requests   uint64          `json:"requests"`
	Admitted   uint64          `json:"admitted"`
	Denied     uint64          `json:"denied"` // by this policy; the others were denied by another one
	Delayed    uint64          `json:"delayed"`
	DeniedKeys int             `json:"denied_keys"`
	RetryAfter quantiles       `json:"retry_after"` // of denials, in seconds, as clients see it
	Never      uint64          `json:"never"`       // denials without Retry-After
	Rules      []simulatedRule `json:"rules"`
}

type simulatedRule struct {
	Name      string         `json:"name"`
	Algorithm string         `json:"algorithm"`
	Limit     string         `json:"limit"`
	Shadow    bool           `json:"shadow"`
	Admitted  uint64         `json:"admitted"`
	Denied    uint64         `json:"denied"`
	Delayed   uint64         `json:"delayed"`
	Bans      uint64         `json:"bans,omitempty"`
	Banned    int            `json:"banned_keys,omitempty"`
	BlockFor  float64        `json:"block_for,omitempty"` // the time of a ban, in seconds
	Delay     quantiles      `json:"delay"`               // of delayed requests, in seconds
	Queue     quantiles      `json:"queue"`               // of a leaky bucket: the costs of the requests in it
	Most      *simulatedMost `json:"most,omitempty"`
}

// A simulatedMost is the span of the length of the period in which a rule let the most of one key through.
type simulatedMost struct {
	Admitted int64     `json:"admitted"`
	Limit    string    `json:"limit"`
	Events   int       `json:"events"` // of the limit
	Begin    time.Time `json:"begin"`
	Key      string    `json:"key"`
	AtLeast  bool      `json:"at_least"` // the times of some requests were rounded
	per      time.Duration
}

// quantiles describe a distribution.
type quantiles struct {
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

type simulatedKey struct {
	Key      string            `json:"key"`
	Requests uint64            `json:"requests"`
	Denied   uint64            `json:"denied"`
	Delayed  uint64            `json:"delayed"`
	DeniedBy map[string]uint64 `json:"denied_by"` // by policy
}

// A simulatedTimeline has the counts of equal spans.
type simulatedTimeline struct {
	Begin    time.Time `json:"begin"`
	Seconds  float64   `json:"seconds"` // of one span
	Admitted []uint64  `json:"admitted"`
	Denied   []uint64  `json:"denied"`
}

func newSimulated(s *simulation, t *traffic, name func(string) string, top int) *simulated {
	r := &simulated{File: s.config.Name, Trace: t.name, First: utc(t.stats.First), Last: utc(t.stats.Last), NoPolicy: s.noPolicy, Keys: len(s.Clients),
		Policies: []simulatedPolicy{}, TopKeys: []simulatedKey{}}
	denied := make(map[*simulate.Policy]int) // keys
	for key, c := range s.Clients {
		r.Requests += c.Requests
		r.Denied += c.Denied
		r.Delayed += c.Delayed
		if c.Denied > 0 {
			r.DeniedKeys++
			r.TopKeys = append(r.TopKeys, simulatedKey{Key: key, Requests: c.Requests, Denied: c.Denied, Delayed: c.Delayed})
		}
		if isAffected(c) {
			r.AffectedKeys++
		}
		for _, by := range c.DeniedBy {
			denied[by.Policy]++
		}
	}
	r.Admitted = r.Requests - r.Denied
	slices.SortFunc(r.TopKeys, func(a, b simulatedKey) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Key, b.Key))
	})
	r.TopKeys = r.TopKeys[:min(max(top, 0), len(r.TopKeys))]
	for i := range r.TopKeys {
		k := &r.TopKeys[i]
		k.DeniedBy, k.Key = deniedBy(s.Clients[k.Key]), name(k.Key)
	}
	for _, p := range s.Policies {
		if p.Requests > 0 {
			r.Policies = append(r.Policies, newSimulatedPolicy(p, denied[p], name))
		}
	}
	r.Timeline = simulatedTimeline{Begin: utc(s.Timeline.Begin), Seconds: float64(s.Timeline.Width) / 1e6}
	for _, b := range s.Timeline.Bins {
		r.Timeline.Admitted = append(r.Timeline.Admitted, b.Admitted)
		r.Timeline.Denied = append(r.Timeline.Denied, b.Denied)
	}
	r.Warnings = append(t.warnings(s.Requests()), s.warnings()...)
	r.Notes = append(s.notes(), t.notes()...)
	return r
}

func isAffected(c *simulate.Client) bool { return float64(c.Denied) > affected*float64(c.Requests) }

// deniedBy returns the denials of a key by policy.
func deniedBy(c *simulate.Client) map[string]uint64 {
	m := make(map[string]uint64)
	for _, by := range c.DeniedBy {
		m[by.Policy.Name] = by.Denied
	}
	return m
}

func newSimulatedPolicy(p *simulate.Policy, deniedKeys int, name func(string) string) simulatedPolicy {
	q := simulatedPolicy{Name: p.Name, Requests: p.Requests, Admitted: p.Admitted, Denied: p.Denied, Delayed: p.Delayed, DeniedKeys: deniedKeys, RetryAfter: quantilesOf(&p.RetryAfter, 1), Never: p.Never, Rules: []simulatedRule{}}
	for _, r := range p.Rules {
		if r == nil {
			continue
		}
		at := strings.TrimPrefix(r.Rule.Name(), p.Name+".") // the name on the store
		if rule, ok := strings.CutSuffix(at, ".candidate"); ok {
			at = rule + ", candidate"
		}
		rule := simulatedRule{Name: at, Algorithm: r.Rule.Algorithm().String(), Limit: r.Rule.Limit().String(), Shadow: r.Rule.IsShadow(),
			Admitted: r.Admitted, Denied: r.Denied, Delayed: r.Delayed, Bans: r.Bans, Banned: r.BannedKeys(), BlockFor: r.Rule.Spec().BlockFor.Seconds(), Delay: quantilesOf(&r.Delay, 1e6), Queue: quantilesOf(&r.Queue, 1)}
		if k := r.Rule.Kind(); k.Holds || k.Closes { // see withoutInFlight
			rule.Limit = "not simulated"
		}
		if w := r.Worst; w.Admitted > 0 {
			rule.Most = &simulatedMost{w.Admitted, w.Limit.String(), w.Limit.Events, utc(w.Begin), name(w.Key), w.AtLeast, w.Limit.Per}
		}
		q.Rules = append(q.Rules, rule)
	}
	return q
}

func quantilesOf(d *simulate.Distribution, unit float64) quantiles {
	return quantiles{float64(d.Quantile(0.5)) / unit, float64(d.Quantile(0.99)) / unit, float64(d.Max) / unit}
}

func utc(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// warnings returns the facts about the requests because of which they may have the wrong policies.
func (s *simulation) warnings() []string {
	if isFew(s.noMethod, s.requests) {
		return nil
	}
	return []string{s.withoutMethod() + " -method names its field."}
}

// withoutMethod returns the sentence about the requests without a method.
func (s *simulation) withoutMethod() string {
	return fmt.Sprintf("%s read without a method and counted as GET, but %s has %s with a method.",
		pluralWas(int(s.noMethod), "request"), printable(s.config.Name, false), plural(s.methods, "route"))
}

// notes returns the notes of a report about s.
func (s *simulation) notes() []string {
	notes := []string{"Simulated clients do not adapt: each request comes at the time of the trace, also if a real client would have waited after a denial."}
	if s.noPolicy > 0 {
		notes = append(notes, plural(int(s.noPolicy), "request")+" had no policy, and no limit: no route of the file matches. -policy chooses one for them.")
	}
	if s.all != nil {
		notes = append(notes, "Every request is charged to the policy "+s.all.Name+" of all routes, in one decision with the policy of its route: a request that another policy denies is not charged to it.")
	}
	if s.noMethod > 0 && isFew(s.noMethod, s.requests) {
		notes = append(notes, s.withoutMethod())
	}
	if s.noPlan > 0 {
		notes = append(notes, plural(int(s.noPlan), "request")+" had a plan that no rule of the policy has, and the limits without a plan: "+escaped(strings.Join(s.unknown, ", "))+".")
	}
	if n := s.absentKeys(); n > 0 {
		notes = append(notes, "The trace does not have the keys of "+plural(n, "override")+" of the file.")
	}
	if len(s.left) > 0 {
		notes = append(notes, "Rules that count requests at the same time are not simulated, because a trace has no ends of requests: "+strings.Join(s.left, ", ")+".")
	}
	if len(s.pauses) > 0 {
		notes = append(notes, "No key is paused, because a trace does not tell when a program has paused one: "+strings.Join(s.pauses, ", ")+".")
	}
	return notes
}

// write writes r for people.
func (r *simulated) write(out io.Writer) error {
	writeWarnings(out, r.Warnings)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	print := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	print("%s applied to %s: %s of %s in %s, from %s", printable(r.File, false), printable(r.Trace, false), plural(int(r.Requests), "request"), plural(r.Keys, "key"), seconds(r.Last.Sub(r.First).Seconds()), r.First.Format(time.RFC3339))
	print("")
	if r.NoPolicy > 0 {
		print("without a policy\t%s\t%s\t", count(r.NoPolicy), percent(r.NoPolicy, r.Requests))
	}
	admitted := r.Admitted - r.NoPolicy
	print("admitted\t%s\t%s\t", count(admitted), percent(admitted, r.Requests))
	if r.Delayed > 0 {
		print("after a delay\t%s\t%s\t", count(r.Delayed), percent(r.Delayed, r.Requests))
	}
	print("denied\t%s\t%s\t", count(r.Denied), percent(r.Denied, r.Requests))
	w.Flush()
	print("\nKeys that were denied at least once: %s of %s (%s); more than %.0f %% of their requests: %s.", count(r.DeniedKeys), count(r.Keys), percent(r.DeniedKeys, r.Keys), 100*affected, count(r.AffectedKeys))
	for _, p := range r.Policies {
		text := ""
		if p.Denied > p.Never {
			text = fmt.Sprintf(" Retry-After is at most %s for half of them, %s for 99 %%, and %s for all.", seconds(p.RetryAfter.Median), seconds(p.RetryAfter.P99), seconds(p.RetryAfter.Max))
		}
		if p.Never > 0 {
			text += fmt.Sprintf(" %s can never be admitted.", plural(int(p.Never), "request"))
		}
		if p.Denied > 0 {
			text = fmt.Sprintf(" (%s), those of %s.", percent(p.Denied, p.Requests), plural(p.DeniedKeys, "key")) + text
		} else {
			text = "."
		}
		print("Policy %s denied %s of %s%s", p.Name, count(p.Denied), plural(int(p.Requests), "request"), text)
	}
	w.Flush()
	r.writeBans(out)
	fmt.Fprintln(out)
	r.writeRules(out)
	r.writeTimeline(out)
	if len(r.TopKeys) > 0 {
		fmt.Fprintln(out, "\nThe keys with the most denials:")
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "KEY\tREQUESTS\tDENIED\t\tBY POLICY")
		for _, k := range r.TopKeys {
			var by []string
			for _, policy := range slices.Sorted(maps.Keys(k.DeniedBy)) {
				by = append(by, policy+" "+count(k.DeniedBy[policy]))
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t  %s\n", k.Key, count(k.Requests), count(k.Denied), percent(k.Denied, k.Requests), strings.Join(by, ", "))
		}
		w.Flush()
	}
	return writeNotes(out, r.Notes)
}

// writeBans writes a line for each rule that has banned a key, and their effect.
func (r *simulated) writeBans(out io.Writer) {
	for _, p := range r.Policies {
		for _, s := range p.Rules {
			if s.Bans > 0 {
				fmt.Fprintf(out, "The rule %s.%s banned %s for %s: %s in all.\n", p.Name, s.Name, plural(s.Banned, "key"), seconds(s.BlockFor), plural(int(s.Bans), "ban"))
			}
		}
	}
	if r.DeniedByBans > 0 {
		fmt.Fprintf(out, "%s denied because of bans, and would be admitted without block_for.\n", pluralWas(int(r.DeniedByBans), "request"))
	}
}

// writeRules writes a line for each rule. The last column is last because its text is long.
func (r *simulated) writeRules(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POLICY\tRULE\tALGORITHM\tLIMIT\tDENIES\tDELAYS\tMOST LET THROUGH IN A PERIOD, FOR ONE KEY")
	var queues []string
	for _, p := range r.Policies {
		for _, s := range p.Rules {
			name := s.Name
			if s.Shadow {
				name += " (shadow)"
			}
			most := "–"
			if m := s.Most; m != nil {
				most = fmt.Sprintf("%s of %s per %s%s", count(m.Admitted), count(m.Events), duration(m.per), excess(m))
				if m.AtLeast {
					most = "at least " + most
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, name, s.Algorithm, s.Limit, count(s.Denied), count(s.Delayed), most)
			if s.Queue.Max > 0 {
				queues = append(queues, fmt.Sprintf("Queue of %s.%s, in units of cost: at most %.0f for half of the admitted requests, %.0f for 99 %% of them, and %.0f for all; delays of up to %s.",
					p.Name, s.Name, s.Queue.Median, s.Queue.P99, s.Queue.Max, seconds(s.Delay.Max)))
			}
		}
	}
	w.Flush()
	for _, q := range queues {
		fmt.Fprintln(out, q)
	}
}

// excess returns a text for more than the limit.
func excess(m *simulatedMost) string {
	if m.Admitted <= int64(m.Events) {
		return ""
	}
	return fmt.Sprintf(" (%v x)", math.Round(100*float64(m.Admitted)/float64(m.Events))/100)
}

// writeTimeline writes a chart of the requests over the time.
func (r *simulated) writeTimeline(out io.Writer) {
	t := &r.Timeline
	n := len(t.Admitted)
	if n < 2 {
		return
	}
	span := time.Duration(t.Seconds * float64(time.Second))
	fmt.Fprintf(out, "\nRequests in each %s:\n", duration(span))
	for _, row := range []struct {
		name   string
		counts []uint64
	}{{"admitted", t.Admitted}, {"denied", t.Denied}} {
		fmt.Fprintf(out, "%-8s  %s  at most %s\n", row.name, bars(row.counts), count(slices.Max(row.counts)))
	}
	begin, end := t.Begin.Format(time.DateTime), r.Last.Format(time.DateTime)
	fmt.Fprintf(out, "          %s%*s\n", begin, max(n-len(begin), len(end)+2), end)
}

// bars returns a block for each count, of a height in proportion to the largest one. A count that is not zero is
// visible.
func bars(counts []uint64) string {
	top := slices.Max(counts)
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, c := range counts {
		i := 0
		if c > 0 {
			i = max(1, int(c*uint64(len(blocks)-1)/max(top, 1)))
		}
		b.WriteRune(blocks[i])
	}
	return b.String()
}

// writeWarnings writes the lines before a report about odd traffic.
func writeWarnings(out io.Writer, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(out, "weir:", w)
	}
	if len(warnings) > 0 {
		fmt.Fprintln(out)
	}
}

func writeNotes(out io.Writer, notes []string) error {
	_, err := fmt.Fprintln(out)
	for _, n := range notes {
		_, err = fmt.Fprintln(out, n)
	}
	return err
}
