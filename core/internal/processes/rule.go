package processes

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/blockfor"
)

const (
	// RuleLifetime is the time for which a rule stays published after a process has said it.
	RuleLifetime = 24 * time.Hour
	// again is the time after which a process says its rules again, so that an older description is one of processes that
	// have ended.
	again = 2 * time.Minute
	// Current is the age of the oldest description that a process may still say.
	Current = again + 30*time.Second
	// maxPublished is the number of published rules of an application.
	maxPublished = 1000
	// maxPlans is the number of plans of one published rule, and maxOthers that of further lengths.
	maxPlans, maxOthers = 20, 64
	// maxRule is the length of the JSON of a published rule, and maxRuleText that of its Text.
	maxRule, maxRuleText = 32 << 10, 512
)

// A Rule is a rule as processes have said it: its limits, and the states that a key may have of it.
type Rule struct {
	Base   Limit   `json:"base"`
	Plans  []Limit `json:"plans,omitempty"`  // at most 20
	Others []Limit `json:"others,omitempty"` // of further plans those whose states have another length, at most 64
	More   int     `json:"more,omitempty"`   // the number of plans that are left out
	InSet  bool    `json:"in_set,omitempty"` // it is that of a policy in the configuration of a Set
	Bans   bool    `json:"bans,omitempty"`   // a denial bans the key: see core.Spec.BlockFor
	Text   string  `json:"text"`             // describes the rule without its plans

	At time.Time `json:"-"` // when a process has said it, by the clock of Redis
}

// A Limit is a driver.Definition without texts.
type Limit struct {
	Name       string           `json:"name"`
	Algorithm  driver.Algorithm `json:"algorithm"`
	Plan       string           `json:"plan,omitempty"`
	Events     int              `json:"events,omitempty"`
	Per        time.Duration    `json:"per,omitempty"`
	Calendar   driver.Calendar  `json:"calendar,omitempty"`
	Burst      int              `json:"burst,omitempty"`
	Always     driver.Result    `json:"always,omitempty"`
	FromFirst  bool             `json:"from_first,omitempty"`
	ByCost     bool             `json:"by_cost,omitempty"`
	Rollover   int              `json:"rollover,omitempty"`
	SubWindows int              `json:"sub_windows,omitempty"`
	Soft       float64          `json:"soft,omitempty"`
	Headroom   float64          `json:"headroom,omitempty"`
	Shadow     bool             `json:"shadow,omitempty"`
	UpTo       float64          `json:"up_to,omitempty"`
	Hold       time.Duration    `json:"hold,omitempty"`
}

func limitOf(d *driver.Definition) Limit {
	return Limit{
		d.Name, d.Algorithm, d.Plan, d.Events, d.Per, d.Calendar, d.Burst, d.Always, d.FromFirst, d.ByCost, d.Rollover, d.SubWindows, d.Soft,
		d.Headroom, d.Shadow, d.UpTo, d.Hold,
	}
}

// Definition returns the driver.Definition of l.
func (l Limit) Definition() driver.Definition {
	return driver.Definition{
		Name: l.Name, Algorithm: l.Algorithm, Plan: l.Plan, Events: l.Events, Per: l.Per, Calendar: l.Calendar, Burst: l.Burst, Always: l.Always,
		FromFirst: l.FromFirst, ByCost: l.ByCost, Rollover: l.Rollover, SubWindows: l.SubWindows, Soft: l.Soft, Headroom: l.Headroom, Shadow: l.Shadow, UpTo: l.UpTo,
		Hold: l.Hold,
	}
}

// takeBans removes the pauses of rules that ban keys (core.Spec.BlockFor), and returns the names of these rules.
func takeBans(rules map[string][]driver.Definition) map[string]bool {
	bans := make(map[string]bool)
	closes := func(name string) bool { return rules[name][0].Kind().Closes }
	for name := range rules {
		of, ok := strings.CutSuffix(name, blockfor.Suffix)
		if ok = ok && rules[of] != nil && closes(name) && !closes(of); ok {
			bans[of] = true
			delete(rules, name)
		}
	}
	return bans
}

// publish returns the names and texts of rules for a Heartbeat of a process with these Sets. The definitions of a rule are
// those of callers without a plan, first, and of the plans. bans is the result of takeBans.
func publish(rules map[string][]driver.Definition, bans map[string]bool, sets []Set) (all [][2]string) {
	for name, definitions := range rules {
		slices.SortFunc(definitions, func(a, b driver.Definition) int { return strings.Compare(a.Plan, b.Plan) })
		policy, _, dotted := strings.Cut(name, ".")
		r := Rule{
			Base:  limitOf(&definitions[0]),
			InSet: dotted && slices.ContainsFunc(sets, func(s Set) bool { return slices.Contains(s.Policies, policy) }),
			Bans:  bans[name],
			Text:  definitions[0].String(),
		}
		r.Text = r.Text[:min(len(r.Text), maxRuleText)]
		lengths := map[string]bool{lengthOf(definitions[0]): true}
		for _, d := range definitions[1:] {
			length := lengthOf(d)
			switch {
			case len(r.Plans) < maxPlans:
				r.Plans = append(r.Plans, limitOf(&d))
			case length != "" && !lengths[length] && len(r.Others) < maxOthers:
				r.Others = append(r.Others, limitOf(&d))
			default:
				r.More++
			}
			lengths[length] = true
		}
		text, _ := json.Marshal(r)
		sum := sha256.Sum256(text)
		all = append(all, [2]string{name + " " + base64.RawURLEncoding.EncodeToString(sum[:6]), string(text)})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return all[:min(len(all), maxPublished)]
}

// lengthOf returns the name of the states of a definition, or an empty text if it has none.
func lengthOf(d driver.Definition) string {
	if d.Always != 0 {
		return ""
	}
	d.Like = nil
	c, err := d.Compile()
	if err != nil {
		return ""
	}
	return c.StateName
}

// Published returns the rules that processes of the application have said within a day, in the order of their names, the
// latest first. A rule that is not well formed is left out, and the error then an ErrRecord.
func (r Record) Published(ctx context.Context) (all []Rule, err error) {
	found, failed := r.fields(ctx, []string{r.published()}, maxRule, 2*maxPublished)
	if failed != nil {
		return nil, failed
	}
	now, failed := r.now(ctx)
	if failed != nil {
		return nil, failed
	}
	for name, text := range found[0] {
		rule, ok := parseRule(name, text)
		switch {
		case !ok:
			err = fmt.Errorf("%w: a published rule", ErrRecord)
		case now.Sub(rule.At) <= RuleLifetime:
			all = append(all, rule)
		}
	}
	slices.SortFunc(all, func(a, b Rule) int {
		if a.Base.Name != b.Base.Name {
			return strings.Compare(a.Base.Name, b.Base.Name)
		}
		return b.At.Compare(a.At)
	})
	return all, err
}

// parseRule returns the rule in a field of the record: its time, a space and its JSON. The name of the field is that of the
// rule, a space and a hash.
func parseRule(name, text string) (r Rule, ok bool) {
	at, text, _ := strings.Cut(text, " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	rule := name
	if i := strings.LastIndexByte(name, ' '); i >= 0 {
		rule = name[:i]
	}
	if err != nil || len(text) > maxRule || json.Unmarshal([]byte(text), &r) != nil || r.Base.Name != rule ||
		len(r.Plans) > maxPlans || len(r.Others) > maxOthers {
		return Rule{}, false
	}
	for _, l := range slices.Concat([]Limit{r.Base}, r.Plans, r.Others) {
		d := l.Definition()
		if d.Name != rule || d.Check() != nil {
			return Rule{}, false
		}
	}
	r.At = time.UnixMilli(ms)
	return r, true
}
