package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/rules"
)

// A report is the content of the page, and the JSON document.
type report struct {
	Process  string         `json:"process"`
	Begun    time.Time      `json:"begun"`
	Now      time.Time      `json:"now"`
	App      *application   `json:"application,omitempty"` // nil if the store has no states in Redis
	Requests counts         `json:"requests"`
	Series   []series       `json:"series"`
	Minutes  []minute       `json:"minutes"`
	Rules    []rule         `json:"rules"`
	Config   *configuration `json:"configuration,omitempty"`
	Denied   []topKey       `json:"denied,omitempty"`
	Active   []topKey       `json:"active,omitempty"`
	Measures []measured     `json:"measures"`
	Calls    calls          `json:"calls"`
	Key      *answer        `json:"key,omitempty"`

	intervals []interval
	plans     []string // of all rules
}

// counts are written as an object with the results as names, without zeros.
type counts observe.Counts

func (c counts) MarshalJSON() ([]byte, error) {
	all := make(map[string]uint64)
	for i, n := range c {
		if n > 0 {
			all[driver.Result(i).String()] = n
		}
	}
	return json.Marshal(all)
}

// A series contains the decisions of a rule and a plan.
type series struct {
	Rule      string `json:"rule"`
	Plan      string `json:"plan,omitempty"`
	Decisions span   `json:"decisions"`
	Requests  span   `json:"requests"`

	denials []uint64 // that the rule determined, for each interval
}

// A span contains the numbers of decisions since the start and in the last hour.
type span struct {
	Total counts `json:"total"`
	Hour  counts `json:"hour"`
}

// A minute contains the decisions of a minute.
type minute struct {
	From     time.Time `json:"from"`
	Requests counts    `json:"requests"`
	Outage   bool      `json:"outage"`
}

// A rule is a rule in force.
type rule struct {
	Name      string   `json:"name"`
	Algorithm string   `json:"algorithm"`
	Limit     string   `json:"limit"` // with soft, elastic and hold, as in core.Rule.String
	Plans     []string `json:"plans,omitempty"`
	Mode      string   `json:"mode"`
	Origin    string   `json:"origin"`
}

// A configuration is that of a rules.Set.
type configuration struct {
	Name      string `json:"name,omitempty"`
	Version   string `json:"version"`
	AllRoutes string `json:"all_routes,omitempty"` // the policy of all routes
}

// A topKey is an observe.Key.
type topKey struct {
	Key   string `json:"key"`
	Rule  string `json:"rule,omitempty"`
	Count uint64 `json:"count"`
	Error uint64 `json:"error"` // the count is at most so much too high
}

// A measured is an observe.Measure.
type measured struct {
	Name  string  `json:"name"`
	Role  string  `json:"role,omitempty"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Help  string  `json:"help"`
}

// A calls describes the calls of the store since the start, in the last hour and in the last two intervals.
type calls struct {
	Count  uint64 `json:"count"`
	Hour   times  `json:"hour"`
	Minute times  `json:"minute"`
}

// A times contains the number of calls and the upper bounds of quantiles of their times.
type times struct {
	Count uint64 `json:"count"`
	P50   string `json:"p50,omitempty"`
	P99   string `json:"p99,omitempty"`
}

// report returns the figures now, and the answer to a question about a key.
func (h *Handler) report(ctx context.Context, asked question) *report {
	now := h.store.Snapshot()
	r := &report{
		Process: h.process, Begun: h.begun, Now: time.Now(), Requests: counts(now.Total()),
		intervals: h.history.hour(now),
	}
	for _, k := range now.Denied {
		r.Denied = append(r.Denied, topKey(k))
	}
	for _, k := range now.Active {
		r.Active = append(r.Active, topKey(k))
	}
	for _, m := range now.Measures {
		r.Measures = append(r.Measures, measured{m.Name, m.Role, m.Value, m.Unit, m.Help})
	}
	r.addSeries(now.Series)
	for i := range r.intervals {
		m := &r.intervals[i]
		r.Minutes = append(r.Minutes, minute{m.from, counts(m.requests), m.outage})
	}
	r.Calls = calls{Count: now.Calls.Count, Hour: timesOf(r.intervals), Minute: timesOf(r.intervals[max(0, len(r.intervals)-2):])}
	groups := h.groups()
	for _, g := range groups {
		r.addRules(&g, h.off)
	}
	if h.set != nil {
		c := h.set.Config()
		r.Config = &configuration{c.Name, h.set.Version(), c.AllRoutes}
	}
	if asked.key != "" {
		r.Key = h.answer(ctx, groups, asked)
		asked.key = r.Key.Key
	}
	r.App = h.application(ctx, r, asked.key)
	return r
}

func (r *report) addSeries(all []observe.Series) {
	for i := range all {
		s := series{Rule: all[i].Rule, Plan: all[i].Plan, denials: make([]uint64, len(r.intervals))}
		s.Decisions.Total, s.Requests.Total = counts(all[i].Decisions), counts(all[i].Requests)
		r.Series = append(r.Series, s)
	}
	for n := range r.intervals {
		for i := range r.intervals[n].series {
			p := &r.intervals[n].series[i]
			at, ok := slices.BinarySearchFunc(r.Series, p, func(s series, p *observe.Series) int {
				return cmp.Or(cmp.Compare(s.Rule, p.Rule), cmp.Compare(s.Plan, p.Plan))
			})
			if !ok {
				continue
			}
			s := &r.Series[at]
			add((*observe.Counts)(&s.Decisions.Hour), &p.Decisions)
			add((*observe.Counts)(&s.Requests.Hour), &p.Requests)
			s.denials[n] = p.Requests.Denied()
		}
	}
}

// timesOf returns the times of the calls in intervals.
func timesOf(intervals []interval) (t times) {
	sum := observe.Calls{Buckets: make([]uint64, len(observe.Bounds)+1)}
	for _, m := range intervals {
		sum.Count += m.calls.Count
		for i, n := range m.calls.Buckets {
			sum.Buckets[i] += n
		}
	}
	if t.Count = sum.Count; t.Count > 0 {
		t.P50, t.P99 = quantile(sum, 0.5), quantile(sum, 0.99)
	}
	return t
}

// A group is a limiter, and the policy that it belongs to, if any.
type group struct {
	policy  string
	config  *rules.Policy
	off     bool // the policy, or all of them
	limiter *core.Limiter
	origin  string
	ofAll   bool // the policy is that of all routes
}

// groups returns the limiters that were given to New, and those of the policies in force.
func (h *Handler) groups() (all []group) {
	for _, l := range h.limiters {
		all = append(all, group{limiter: l, origin: "code"})
	}
	if h.set == nil {
		return all
	}
	c, from := h.set.Config(), len(all)
	origin := "configuration"
	if c.Name != "" {
		origin = c.Name
	}
	for name, p := range c.Policies {
		if l, err := h.set.Limiter(name); err == nil { // it may have been removed just now
			all = append(all, group{name, &p, c.Disabled || p.Disabled, l, origin, name == c.AllRoutes})
		}
	}
	slices.SortFunc(all[from:], func(a, b group) int { return cmp.Compare(a.policy, b.policy) })
	return all
}

// mode returns the effect of a rule of g.
func (g *group) mode(shadow bool) string {
	switch {
	case g.off:
		return "off"
	case shadow:
		return "shadow"
	case g.config != nil && g.config.Enforce < 100:
		return fmt.Sprintf("enforced for %g %% of the keys", g.config.Enforce)
	}
	return "enforced"
}

// addRules adds the rules of g. isOff, unless it is nil, reports whether a rule is turned off.
func (r *report) addRules(g *group, isOff func(rule string) bool) {
	for _, of := range g.limiter.Rules() {
		next := rule{Name: of.Name(), Algorithm: of.Algorithm().String(), Limit: limitOf(of), Mode: g.mode(of.IsShadow()), Origin: g.origin}
		if isOff != nil && isOff(of.Name()) {
			next.Mode = "off, by weir off"
		}
		s := of.Spec()
		for _, p := range s.Plans {
			next.Plans = append(next.Plans, p.Name+" "+limitOfPlan(s, p))
			if !slices.Contains(r.plans, p.Name) {
				r.plans = append(r.plans, p.Name)
			}
		}
		r.Rules = append(r.Rules, next)
	}
}

// limitInForce returns the limit that was in force for s, as limitOfPlan does.
func limitInForce(s core.State) string {
	of := s.Rule.Spec()
	p := core.Plan{Limit: of.Limit}
	if s.Rule.PlanName() != "" && len(of.Plans) > 0 { // only that plan, or none if it is unknown
		p = of.Plans[0]
	}
	return limitOfPlan(of, p)
}

// limitOfPlan returns the limit of p, a plan of s, and how it counts, such as the time zone of a quota and the headroom.
func limitOfPlan(s core.Spec, p core.Plan) string {
	if p.Limit == core.Unlimited || p.Limit == core.Blocked {
		return p.Limit.String()
	}
	return limitWith(s, p, func(of core.Property) bool { return of.OfLimit })
}

// limitOf returns the limit of r and its properties, with the hold of an in-flight rule and the time zone of a quota.
func limitOf(r core.Rule) string {
	s := r.Spec()
	return limitWith(s, core.Plan{Limit: s.Limit}, func(of core.Property) bool {
		switch of.Name {
		case "hold", "location":
			return true
		case "shadow", "unit":
			return false
		}
		return !of.Default
	})
}

// limitWith returns the limit of p, a plan of s, and the properties that belong to the text.
func limitWith(s core.Spec, p core.Plan, belongs func(core.Property) bool) string {
	text := p.Limit.String()
	if p.Limit == (core.Limit{}) { // of a pause
		text = "none"
	}
	for _, of := range s.Properties(p) {
		if belongs(of) {
			text += " " + of.Text
		}
	}
	return text
}
