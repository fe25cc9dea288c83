package observe

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/sampler"
)

// MaxSeries is the largest number of combinations of a rule and a plan that are counted apart. All
// further ones are counted together, as the rule "other".
const MaxSeries = 1000

// other is the name of the rule that stands for all beyond MaxSeries.
const other = "other"

// A series holds the counters of all rules and plans.
type series struct {
	store *Store

	mu     sync.Mutex
	byName map[name]*counter
}

// A name is the name of a rule and that of a plan.
type name struct{ rule, plan string }

// counter returns the counter of a rule and a plan. Package core rarely calls it: it keeps the result.
func (s *series) counter(rule, plan string) *counter {
	n := name{rule, plan}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = make(map[name]*counter)
	}
	if len(s.byName) >= MaxSeries && s.byName[n] == nil {
		n = name{rule: other}
	}
	c := s.byName[n]
	if c == nil {
		c = &counter{name: n, store: s.store, denials: sampler.New(1, time.Second)}
		if keys := s.store.keys; keys != nil {
			c.salt = keys.denied.hash(n.rule)
		}
		s.byName[n] = c
	}
	return c
}

// snapshot returns the sums of all counters, by the names of the rules and plans.
func (s *series) snapshot() []Series {
	s.mu.Lock()
	all := make([]Series, 0, len(s.byName))
	for _, c := range s.byName {
		all = append(all, c.sum())
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b Series) int { return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Plan, b.Plan)) })
	return all
}

// A counter counts the decisions of one rule in one plan. Its method count is for [driver.Observer].
type counter struct {
	name    name
	store   *Store
	salt    uint64 // a hash of the rule, for the ranking of denials
	counts  sharded[decided]
	denials *sampler.Sampler // of the log
}

// decided are the numbers of a rule. Most decisions have one rule, whose result is that of the decision:
// alone counts them with one addition.
type decided struct {
	alone, rules, decisions counts
	near                    atomic.Uint64
}

// count counts the result of the rule, and that of the decision if it is counted for this rule.
func (c *counter) count(o driver.Observation) {
	random := rand.Uint32()
	d := c.counts.at(random)
	if o.Result == o.Decision {
		d.alone[o.Result].Add(1)
	} else {
		d.rules[o.Result].Add(1)
		d.decisions[o.Decision].Add(1)
	}
	if near := c.store.near; near > 0 && o.Capacity > 0 && float64(o.Remaining) < (1-near)*float64(o.Capacity) {
		d.near.Add(1)
	}
	denied, shadow := o.Result >= driver.Denied && o.Result <= driver.Banned, o.Result == driver.ShadowDenied
	if keys := c.store.keys; keys != nil {
		if denied {
			keys.denied.add(o.Key, c.name.rule, c.salt, 1)
		}
		if o.Decision != 0 && random>>16%sampledOf == 0 {
			keys.active.add(o.Key, "", 0, sampledOf)
		}
	}
	if c.store.logger != nil && (shadow || denied && o.Decision != 0) {
		c.log(&o)
	}
}

// log logs a denial, unless one was logged less than a second ago.
func (c *counter) log(o *driver.Observation) {
	suppressed, ok := c.denials.PassAt(c.store.clock.now())
	if !ok {
		return
	}
	message := "weir: denied"
	if o.Result == driver.ShadowDenied {
		message = "weir: a shadow rule would have denied"
	}
	retryAfter := slog.Duration("retry_after", o.RetryAfter)
	if o.RetryAfter == driver.Never {
		retryAfter = slog.String("retry_after", "never")
	}
	c.store.logger.LogAttrs(context.Background(), slog.LevelInfo, message,
		slog.String("rule", c.name.rule), slog.String("plan", c.name.plan), slog.String("result", o.Result.String()),
		slog.String("key", c.store.Tag(o.Key)), retryAfter, slog.Int("suppressed", suppressed))
}

// sum returns the counts so far.
func (c *counter) sum() Series {
	s := Series{Rule: c.name.rule, Plan: c.name.plan}
	c.counts.all(func(d *decided) {
		d.rules.addTo(&s.Decisions)
		d.alone.addTo(&s.Decisions)
		d.decisions.addTo(&s.Requests)
		d.alone.addTo(&s.Requests)
		s.Near += d.near.Load()
	})
	s.Requests[0] = 0 // decisions that the rule did not determine
	return s
}
