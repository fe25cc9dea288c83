package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
	"github.com/weir-go/weir/internal/testkit"
)

// modelAlgorithms are the algorithms of modelled rules.
var modelAlgorithms = append(slices.Clip(testkit.Algorithms), algorithm{Name: "quota", Rule: core.Quota}, algorithm{
	Name: "in_flight", Rule: func(name string, l core.Limit) core.Rule { return core.InFlight(name, l.Events) },
}, algorithm{Name: "pause", Rule: func(name string, _ core.Limit) core.Rule { return core.Pause(name) }})

// pauseAlgorithm is the index of the pause in modelAlgorithms, which is the last.
var pauseAlgorithm = len(modelAlgorithms) - 1

// A modelRule models a core.Rule.
type modelRule struct {
	name       string
	algorithm  int // an index of modelAlgorithms
	subWindows int // zero except for a sliding window
	soft       float64
	shadow     bool
	places     modelPlaces
	limits     map[string]core.Limit // by plan; "" is the limit without a plan, zero for a pause
	headroom   map[string]float64    // by plan, for some of them
	days       days                  // of a quota
	blockFor   time.Duration
}

// rule returns the modelled Rule.
func (r *modelRule) rule() core.Rule {
	rule := r.places.modify(modelAlgorithms[r.algorithm].Rule(r.name, r.limits[""]).Soft(r.soft))
	for _, plan := range planNames {
		if l, ok := r.limits[plan]; ok {
			rule = rule.Plan(plan, l)
		}
		if percent, ok := r.headroom[plan]; ok {
			rule = rule.Headroom(plan, percent)
		}
	}
	if modelAlgorithms[r.algorithm].Name == "quota" {
		rule = r.days.rule(rule)
	}
	if r.subWindows > 0 {
		rule = rule.SubWindows(r.subWindows)
	}
	if r.shadow {
		rule = rule.Shadow()
	}
	if r.blockFor > 0 {
		rule = rule.BlockFor(r.blockFor)
	}
	return rule
}

// replaces reports whether r replaces o in a variant.
func (r *modelRule) replaces(o *modelRule) bool {
	algorithm := func(i int) core.Algorithm { return modelAlgorithms[i].Rule("r", core.PerDay(1)).Algorithm() }
	return r.name == o.name && algorithm(r.algorithm) == algorithm(o.algorithm)
}

// begins reports whether a bucket of o, in place of one of r, has another length for some plan, and so begins in use
// (see the case ReplacedLength).
func (r *modelRule) begins(o *modelRule) bool {
	if !isBucketRule(&oracle.Rule{Algorithm: modelAlgorithms[r.algorithm].Name}) || !o.replaces(r) {
		return false
	}
	length := func(r *modelRule, plan string) string {
		l, ok := r.limits[plan]
		if !ok {
			l = r.limits[""]
		}
		if under := r.under(plan, l); under.counts() {
			return under.oracle().Length()
		}
		return ""
	}
	return slices.ContainsFunc(append(planNames, ""), func(plan string) bool { return length(r, plan) != length(o, plan) })
}

// under returns r with one limit.
func (r *modelRule) under(plan string, l core.Limit) limited {
	if l.Burst == 0 {
		l.Burst = l.Events
	}
	return limited{r.name, r.algorithm, r.subWindows, r.soft, r.shadow, r.places, l, plan, r.headroom[plan], r.days, r.blockFor}
}

// conflicts reports whether r and o have different limits for one plan.
func (r *modelRule) conflicts(o *modelRule) bool {
	for plan, l := range r.limits {
		if other, ok := o.limits[plan]; ok && r.name == o.name && !r.under(plan, l).equal(o.under(plan, other)) {
			return true
		}
	}
	return false
}

// A limited is a rule with the limit of one event.
type limited struct {
	name                  string
	algorithm, subWindows int
	soft                  float64
	shadow                bool
	places                modelPlaces
	limit                 core.Limit // with a Burst
	plan                  string     // the PlanName
	headroom              float64
	days                  days
	blockFor              time.Duration
}

// equal reports whether r and o are the same limit, under any plan and with any ban.
func (r limited) equal(o limited) bool {
	o.plan, o.blockFor = r.plan, r.blockFor
	return r == o
}

// ban returns the pause of the ban of r, if it has one.
func (r *limited) ban() (pause limited, ok bool) {
	return limited{name: r.name + ".ban", algorithm: pauseAlgorithm}, r.blockFor > 0 && !r.shadow && r.counts()
}

func (r limited) String() string {
	m := modelRule{r.name, r.algorithm, r.subWindows, r.soft, r.shadow, r.places, map[string]core.Limit{"": r.limit}, nil, r.days, r.blockFor}
	return fmt.Sprintf("%v plan %q headroom %v", m.rule(), r.plan, r.headroom)
}

func (r *limited) counts() bool { return r.limit != core.Unlimited && r.limit != core.Blocked }

func (r *limited) isPause() bool { return r.algorithm == pauseAlgorithm }

// shows returns the limit that a State of r has. If r is a pause, it shows whether that is closed.
func (r *limited) shows(allowed bool) core.Limit {
	switch {
	case !r.isPause():
		return r.inForce()
	case allowed:
		return core.Unlimited
	}
	return core.Blocked
}

// oracle returns r for the oracle, which keeps the states of different algorithms in one place.
func (r *limited) oracle() *oracle.Rule {
	l := r.inForce()
	name, fromFirst := strings.CutSuffix(modelAlgorithms[r.algorithm].Name, "_from_first")
	o := &oracle.Rule{
		Name: name + " " + r.name, Algorithm: name, Events: int64(l.Events), Per: (l.Per + r.places.hold).Microseconds(),
		Extra: percent(int64(l.Burst), r.soft), Leaves: leaves(r.headroom), FromFirst: fromFirst, ByCost: r.places.byCost, SubWindows: int64(r.subWindows), Shadow: r.shadow, Lasting: r.places.lasting,
	}
	switch {
	case isBucketRule(o):
		o.Burst = int64(l.Burst)
	case l.Calendar != 0:
		o.Unit, o.Rollover = l.Calendar.String(), int64(r.days.rollover)
	}
	return o
}

// charge returns a charge of r, whose limit counts, for key.
func (r *limited) charge(key string, op oracle.Op) oracle.Charge {
	c := oracle.Charge{Key: key, Rule: r.oracle(), Op: op}
	if c.Rule.Unit != "" {
		c.Calendar = r.days.calendar(key, r.limit.Calendar)
	}
	return c
}

// days are a rollover, and a calendar of days and weeks that all have the same length, because the clock of the Store may
// be years from the clock with which package core computes periods.
type days struct {
	east   time.Duration // of the zone
	anchor time.Time     // for the key "a", unless it is zero

	rollover int
}

// rule returns r, a quota, with the calendar d.
func (d days) rule(r core.Rule) core.Rule {
	if r = r.In(time.FixedZone("east", int(d.east/time.Second))); d.rollover > 0 {
		r = r.Rollover(d.rollover)
	}
	if d.anchor.IsZero() {
		return r
	}
	return r.Anchor(func(_ context.Context, key string) time.Time {
		if key == "a" {
			return d.anchor
		}
		return time.Time{}
	})
}

// calendar returns the calendar of a key.
func (d days) calendar(key string, unit core.Calendar) calendar {
	begin := time.Date(1969, 12, 29, 0, 0, 0, 0, time.UTC).Add(-d.east) // a Monday
	if key == "a" && !d.anchor.IsZero() {
		begin = d.anchor
	}
	length := unitLengths[unit.String()]
	return calendar{length: length, offset: (begin.UnixMicro()%length + length) % length}
}

// limit returns a random limit of a rule of the algorithm. It often has the length of one of like.
func (h *limiterHistory) limit(algorithm int, like map[string]core.Limit) (l core.Limit) {
	bucket := isBucket(modelAlgorithms[algorithm])
	l = core.Per(draw(h, 1, 2, 3, 7, 10, 50), draw(h, 700*time.Millisecond, time.Second, 3*time.Second, time.Minute))
	if h.fine {
		l = core.Per(1+h.rng.IntN(12), time.Duration(1+h.rng.IntN(100))*time.Microsecond)
	}
	if bucket && h.one(2) {
		l.Burst = draw(h, 1, 2, 5, 20)
	}
	switch modelAlgorithms[algorithm].Name {
	case "quota":
		l = core.Limit{Events: l.Events, Calendar: draw(h, core.Day, core.Week)}
	case "in_flight":
		l = core.Limit{Events: draw(h, 1, 2, 3, 5, 15)}
	}
	if old := like[draw(h, append(planNames, "")...)]; old.Events > 0 && !h.one(3) {
		times := draw(h, 1, 2, 3, 7)
		l = old
		l.Events, l.Burst = old.Events*times, old.Burst*times
	}
	if isInFlight(algorithm) {
		l.Events = min(l.Events, 20)
	}
	if h.one(12) {
		l = draw(h, core.Unlimited, core.Blocked)
	}
	return l
}

// pauseName is the name of the pause of both limiters, and ends that of the pause of one of them.
const pauseName = "pause"

// rule returns a random rule of the name. It is often similar to like, unless like is nil.
func (h *limiterHistory) rule(name string, like *modelRule) *modelRule {
	r := &modelRule{name: name, shadow: h.one(6), soft: draw[float64](h, 0, 0, 0, 10, 50, 300), days: h.days(name)}
	if strings.HasSuffix(name, pauseName) {
		r.algorithm, r.soft, r.limits = pauseAlgorithm, 0, map[string]core.Limit{"": {}}
		return r
	}
	var limits map[string]core.Limit
	if like != nil && !h.one(6) {
		*r, limits = *like, like.limits
	} else {
		if r.algorithm = h.rng.IntN(pauseAlgorithm); h.one(5) {
			r.algorithm = slices.IndexFunc(modelAlgorithms, func(a algorithm) bool { return a.Name == "in_flight" })
		}
		switch modelAlgorithms[r.algorithm].Name {
		case "sliding_window":
			r.subWindows = draw(h, 1, 3, 10, 60)
		case "in_flight":
			r.places = h.places()
		}
	}
	if !isInFlight(r.algorithm) && h.one(2) {
		r.blockFor = draw(h, 0, time.Second, 1500*time.Millisecond, 10*time.Second)
	} else if isInFlight(r.algorithm) || h.fine && !h.one(4) { // a block is much longer than fine periods
		r.blockFor = 0
	}
	r.limits, r.headroom = make(map[string]core.Limit), make(map[string]float64)
	r.limits[""] = h.limit(r.algorithm, limits)
	if isInFlight(r.algorithm) && r.limits[""].Events == 0 { // only plans can be Unlimited or Blocked
		r.limits[""] = core.Limit{Events: 2}
	}
	for _, plan := range planNames[:h.rng.IntN(len(planNames)+1)] {
		if !h.one(4) {
			if r.limits[plan] = h.limit(r.algorithm, r.limits); h.one(2) {
				r.headroom[plan] = draw[float64](h, 1, 20, 50, 90)
			}
		}
	}
	return r
}

// days returns the calendar of a name, always the same.
func (h *limiterHistory) days(name string) days {
	rng := rand.New(rand.NewPCG(h.seed, uint64(name[0])<<8|uint64(name[1])))
	d := days{east: time.Duration(rng.IntN(53)-24) * 30 * time.Minute}
	if n := rng.IntN(20) - 5; !h.NoRollover {
		d.rollover = max(0, n)
	}
	if rng.IntN(2) == 0 {
		d.anchor = time.UnixMicro(rng.Int64N(2e15)).UTC()
	}
	return d
}

func rulesOf(models []*modelRule) (rules []core.Rule) {
	for _, m := range models {
		rules = append(rules, m.rule())
	}
	return rules
}
