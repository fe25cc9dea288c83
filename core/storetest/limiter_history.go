package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
)

func limiterHistories(s *subject) { compareLimiters(s, s.histories()) }

// compareLimiters compares limiters of the subject with the model over n histories of 100 calls
// each. It returns the number of times that each situation occurred.
func compareLimiters(s *subject, n int) (occurred map[string]int) {
	occurred = make(map[string]int)
	for seed := range uint64(n) {
		s.Harness = s.newHarness(s.T)
		h := &limiterHistory{subject: s, seed: seed, rng: rand.New(rand.NewPCG(seed, 12)), occurred: occurred}
		h.fine = h.one(3)
		h.begin()
		for range 100 {
			h.step()
		}
		for _, r := range h.held {
			h.release(r)
		}
	}
	return occurred
}

// A limiterHistory makes random calls of two limiters, whose rules have plans and variants, and are
// replaced. One rule may belong to both limiters.
type limiterHistory struct {
	*subject
	seed     uint64
	rng      *rand.Rand
	fine     bool // periods are so short that fractions of a microsecond matter
	declares bool // the Store rejects rules that are in conflict
	oracle   oracle.Oracle
	limiters [2]*modelLimiter
	held     []*heldReservation
	spare    float64       // the signal of elastic rules, 0 or 1
	left     int           // the last Remaining
	wait     time.Duration // the last RetryAfter
	trace    []string
	occurred map[string]int // the number of times that each situation occurred
}

// A heldReservation is a Reservation that can be settled and released.
type heldReservation struct {
	*core.Reservation
	model *modelDecision
	since time.Time
}

// planNames are the plans of rules. No rule has the plan "other".
var planNames = []string{"free", "pro", "max"}

func (h *limiterHistory) one(n int) bool { return h.rng.IntN(n) == 0 }

func draw[T any](h *limiterHistory, from ...T) T { return from[h.rng.IntN(len(from))] }

func (h *limiterHistory) plan() string { return draw(h, append(planNames, "", "", "", "other")...) }

func (h *limiterHistory) key() string { return draw(h, "a", "b") }

func (h *limiterHistory) note(format string, args ...any) {
	h.trace = append(h.trace, fmt.Sprintf("at %d: ", h.now())+fmt.Sprintf(format, args...))
}

func (h *limiterHistory) now() int64 { return h.Now().UnixMicro() }

// differ logs the last 30 calls and fails.
func (h *limiterHistory) differ(format string, args ...any) {
	h.Helper()
	for _, text := range h.trace[max(0, len(h.trace)-30):] {
		h.Log(text)
	}
	h.fail("history %d, call %d: %s", h.seed, len(h.trace), fmt.Sprintf(format, args...))
}

func (h *limiterHistory) must(err error) {
	if h.Helper(); err != nil {
		h.differ("got error %v", err)
	}
}

func (h *limiterHistory) begin() {
	h.Advance(time.Duration(h.rng.Int64N(1e12)) * time.Microsecond)
	h.limiter(core.TokenBucket("declared", core.PerSecond(1)))
	_, err := core.New(h.Store, core.TokenBucket("declared", core.PerSecond(2)))
	h.declares = err != nil
	shared, pause := h.rule("shared", nil), h.rule(pauseName, nil)
	for i, name := range []string{"x", "y"} {
		l := &modelLimiter{}
		for n := range 1 + h.rng.IntN(2) {
			l.rules = append(l.rules, h.rule(fmt.Sprint(name, n), nil))
		}
		if !h.one(4) {
			l.rules = append(l.rules, shared)
		}
		switch {
		case h.one(3):
			l.rules = append(l.rules, pause)
		case h.one(2):
			l.rules = append([]*modelRule{h.rule(name+pauseName, nil)}, l.rules...)
		}
		l.Limiter = h.limiter(rulesOf(l.rules)...)
		h.limiters[i] = l
	}
}

// view returns a random view of a limiter.
func (h *limiterHistory) view() *modelView {
	l := draw(h, h.limiters[:]...)
	v := h.simple(l)
	if h.one(3) {
		h.occurred["chosen"]++
		v.picks = make(map[string]*modelView)
		for _, key := range []string{"a", "b"} {
			if !h.one(3) {
				v.picks[key] = h.simple(l)
			}
		}
		v.view = v.view.Choose(func(_ context.Context, key string) (*core.Limiter, error) {
			if picked := v.picks[key]; picked != nil {
				return picked.view, nil
			}
			return nil, nil
		})
	}
	return v
}

// simple returns a random view of l without Choose.
func (h *limiterHistory) simple(l *modelLimiter) *modelView {
	v := modelView{of: l, view: l.Limiter}
	if len(l.variants) > 0 && h.one(3) {
		h.occurred["variant"]++
		v = *draw(h, l.variants...)
	}
	if h.one(2) {
		v.plan = h.plan()
		v.view = v.view.Plan(v.plan)
	}
	return &v
}

func (h *limiterHistory) cost() int {
	switch h.rng.IntN(6) {
	case 0:
		return max(1, min(h.left, 100))
	case 1:
		return min(h.left, 100) + 1
	case 2:
		return 1 + h.rng.IntN(12)
	}
	return 1
}

func (h *limiterHistory) ask() modelAsk {
	a := modelAsk{view: h.view(), key: h.key(), cost: h.cost(), peek: h.one(5)}
	if h.one(4) {
		a.plan = h.plan()
	}
	return a
}

// step moves the clock and makes a random call.
func (h *limiterHistory) step() {
	h.Helper()
	h.advance()
	if h.one(4) {
		h.spare = float64(h.rng.IntN(2))
	}
	switch h.rng.IntN(27) {
	case 0:
		h.replace(h.one(2))
	case 1:
		h.variant()
	case 2, 3:
		h.adjust()
	case 4:
		h.reset()
	case 5, 6, 7:
		h.settle()
	case 8, 9, 10:
		h.decide(draw(h, core.ReserveTogether, core.ReserveTogether, nil), h.ask(), h.ask())
	case 11, 12:
		h.decide(reserveAtMost, modelAsk{view: h.view(), key: h.key(), cost: h.cost() * draw(h, 1, 10), atMost: true})
	case 13:
		h.acquire()
	case 14, 15:
		h.end()
	case 16, 17, 18, 19:
		h.pause()
	default:
		if a := h.ask(); a.plan == "" && h.one(2) {
			h.decide(nil, a)
		} else {
			h.decide(core.ReserveTogether, a)
		}
	}
}

func (h *limiterHistory) advance() {
	per := time.Second
	if h.fine {
		per = 50 * time.Microsecond
	}
	var d time.Duration
	switch h.rng.IntN(8) {
	case 0:
		d = h.wait
	case 1:
		d = max(0, h.wait-time.Microsecond)
	case 2:
		d = time.Duration(h.rng.Int64N(int64(per)))
	case 3:
		d = time.Duration(h.rng.Int64N(int64(per) / 10))
	case 4:
		if h.one(4) {
			d = 100 * per
		}
	case 5:
		if h.one(4) {
			d = time.Duration(h.rng.Int64N(int64(40 * time.Hour)))
		}
	}
	h.Advance(d.Truncate(time.Microsecond))
}

// compare fails if the State got differs from want with the given Period, of a Rule as in r, into whose period
// a rest has rolled over.
func (h *limiterHistory) compare(got, want core.State, period time.Duration, rest int, r limited) {
	h.Helper()
	r.limit.Events, r.limit.Burst = r.limit.Events+rest, r.limit.Burst+rest
	want.Rule = got.Rule
	plain := core.State{
		Rule: got.Rule, Ask: got.Ask, Allowed: got.Allowed, Soft: got.Soft, Unknown: got.Unknown, Estimate: got.Estimate, Remaining: got.Remaining,
		RetryAfter: got.RetryAfter, ResetAfter: got.ResetAfter, Window: got.Window, Delay: got.Delay, Ban: got.Ban,
	}
	if plain != want || got.Period() != period {
		h.differ("%v:\n\tgot  %+v\n\twant %+v and Period %v", got.Rule, got, want, period)
	}
	rule, l := got.Rule, got.Limit()
	if l.Burst == 0 {
		l.Burst = l.Events
	}
	if l != r.shows(got.Allowed) || rule.Name() != r.name || rule.PlanName() != r.plan || rule.IsShadow() != r.shadow || !hasHeadroom(rule, r.headroom) {
		h.differ("got the rule %v of %v plan %q, want %+v", rule, l, rule.PlanName(), r)
	}
	h.left = got.Remaining
	if got.RetryAfter > 0 && got.RetryAfter != core.Never {
		h.wait = got.RetryAfter
	}
	for name, is := range map[string]bool{
		"unlimited": r.limit == core.Unlimited, "blocked": r.limit == core.Blocked, "unknown": got.Unknown,
		"plan": r.plan != "" && r.plan != "unknown", "unknown plan": r.plan == "unknown",
		"denied": !got.Allowed, "soft": got.Soft, "delayed": got.Delay > 0,
		"estimate": got.Estimate, "elastic": l != r.limit && !r.isPause(),
		"quota": period > 0, "quota denied": period > 0 && got.RetryAfter > 0, "anchored": period > 0 && !r.days.anchor.IsZero(), "rest": rest > 0,
		"headroom": r.headroom > 0 && got.Remaining > 0, "headroom denied": r.headroom > 0 && !got.Allowed,
		"cost that never fits": r.places.byCost && !got.Allowed && got.RetryAfter == core.Never && r.limit != core.Blocked,
		"estimate by cost":     r.places.byCost && got.Estimate,
		"headroom of places":   r.headroom > 0 && r.isInFlight(),
		"paused":               r.isPause() && !got.Allowed && !r.shadow, "shadow paused": r.isPause() && !got.Allowed && r.shadow,
		"in a ban": got.Ban > 0, "ban behind the limit": got.Ban > 0 && got.RetryAfter > got.Ban, "ban under a plan": got.Ban > 0 && r.plan != "",
		"not paused": r.isPause() && got.Allowed && !got.Unknown, "unknown pause": r.isPause() && got.Unknown,
	} {
		if is {
			h.occurred[name]++
		}
	}
}

// compareCost fails if the Cost of r differs from that of want.
func (h *limiterHistory) compareCost(r *core.Reservation, want *modelDecision) {
	if h.Helper(); r.Cost() != want.cost() {
		h.differ("got Cost %d, want %d", r.Cost(), want.cost())
	}
}

// settle settles a reservation.
func (h *limiterHistory) settle() {
	h.Helper()
	h.dropOld()
	if len(h.held) == 0 {
		return
	}
	r, cost := draw(h, h.held...), draw(h, 0, 0, 1, h.cost())
	if r.model.allowed && len(r.model.charges) > 0 {
		h.occurred["settled"]++
	}
	if h.one(2) {
		h.note("settle %v at %d", r.model.rules, cost)
		h.must(r.Settle(context.Background(), cost))
		r.model.settle(&h.oracle, h.now(), cost, nil)
		h.compareCost(r.Reservation, r.model)
		return
	}
	only := draw(h, h.limiters[:]...)
	h.note("settle %v at %d for %v", r.model.rules, cost, rulesOf(only.rules))
	err := r.SettleFor(context.Background(), only.Plan(h.plan()), cost)
	if !r.model.settle(&h.oracle, h.now(), cost, only) {
		if !errors.Is(err, core.ErrInvalidAsk) {
			h.differ("got error %v, want ErrInvalidAsk", err)
		}
		return
	}
	h.must(err)
	h.compareCost(r.Reservation, r.model)
}

// adjust makes a Debit or Credit.
func (h *limiterHistory) adjust() {
	h.Helper()
	v, key, cost, op, call := h.view(), h.key(), h.cost(), oracle.Debit, (*core.Limiter).Debit
	if h.one(2) {
		op, call = oracle.Credit, (*core.Limiter).Credit
	}
	h.note("op %d of %q, cost %d: %v", op, key, cost, v.rules(key, ""))
	err := call(v.view, context.Background(), key, cost)
	if rules, _ := v.choose(key, ""); slices.ContainsFunc(rules, func(r *modelRule) bool { return isInFlight(r.algorithm) }) {
		if !errors.Is(err, core.ErrInvalidAsk) {
			h.differ("got error %v, want ErrInvalidAsk", err)
		}
		return
	}
	h.must(err)
	for _, r := range v.rules(key, "") {
		if r.counts() {
			c := r.charge(key, op)
			c.Cost = int64(cost)
			h.oracle.Adjust(h.now(), []oracle.Charge{c})
		}
	}
}

// reset makes a Reset, which forgets the states of all plans.
func (h *limiterHistory) reset() {
	h.Helper()
	v, key, want := h.view(), h.key(), false
	h.note("reset of %q", key)
	got, err := v.view.Reset(context.Background(), key)
	h.must(err)
	rules, _ := v.choose(key, "")
	forget := func(r limited) {
		c := []oracle.Charge{r.charge(key, oracle.Reset)}
		h.oracle.Adjust(h.now(), c)
		want = want || c[0].Verdict.Found
	}
	for _, r := range slices.Concat(rules, v.of.rules) {
		for plan, l := range r.limits {
			r := r.under(plan, l)
			if r.counts() {
				forget(r)
			}
			if pause, ok := r.ban(); ok {
				forget(pause)
			}
		}
	}
	if h.occurred[fmt.Sprint("reset ", want)]++; got != want {
		h.differ("Reset of %q: got %v, want %v", key, got, want)
	}
}

// pause pauses a key of a limiter, or ends its pause.
func (h *limiterHistory) pause() {
	h.Helper()
	v, key := h.view(), h.key()
	us := draw(h, 0, 0, 0, 1, h.wait.Microseconds(), h.rng.Int64N(1000), h.rng.Int64N(3e6), h.rng.Int64N(100e9), longestPause.Microseconds())
	d := min(time.Duration(us)*time.Microsecond, longestPause)
	h.note("pause of %q for %v: %v", key, d, rulesOf(v.of.rules))
	asked := d
	if d > 0 {
		asked -= time.Duration(h.rng.IntN(int(time.Microsecond))) // which is rounded up
	}
	err := v.view.Pause(context.Background(), key, asked)
	i := slices.IndexFunc(v.of.rules, func(r *modelRule) bool { return r.algorithm == pauseAlgorithm })
	if i < 0 {
		if h.occurred["no pause"]++; !errors.Is(err, core.ErrInvalidAsk) {
			h.differ("got error %v, want ErrInvalidAsk", err)
		}
		return
	}
	h.must(err)
	r := v.of.rules[i].under("", core.Limit{})
	c := []oracle.Charge{r.charge(key, oracle.Debit)}
	c[0].Pause = d
	if d == 0 {
		c[0].Op = oracle.Reset
	}
	h.oracle.Adjust(h.now(), c)
	switch got := c[0].Verdict; {
	case got.Found:
		h.occurred["pause ended"]++
	case got.ResetAfter > d.Microseconds():
		h.occurred["pause not made shorter"]++
	}
}

// variant makes a Variant.
func (h *limiterHistory) variant() {
	h.Helper()
	l := draw(h, h.limiters[:]...)
	v := &modelView{of: l}
	for _, r := range l.rules {
		if h.one(2) || len(v.variant) == 0 {
			next := h.rule(r.name, r)
			for next.algorithm != r.algorithm {
				next = h.rule(r.name, r)
			}
			v.variant = append(v.variant, next)
		}
	}
	h.note("variant %v of %v", rulesOf(v.variant), rulesOf(l.rules))
	var err error
	v.view, err = l.Variant(rulesOf(v.variant)...)
	h.must(err)
	l.variants = append(l.variants, v)
}

// replace replaces the rules of one limiter or of both.
func (h *limiterHistory) replace(both bool) {
	h.Helper()
	changed := h.limiters[:]
	if !both {
		changed = []*modelLimiter{draw(h, changed...)}
	}
	rules := make(map[*core.Limiter][]core.Rule)
	next := make(map[*modelLimiter][]*modelRule)
	shared := map[string]*modelRule{"shared": h.rule("shared", nil), pauseName: h.rule(pauseName, nil)}
	begins := func(r *modelRule) bool { return r.name == "shared" && r.begins(shared[r.name]) }
	for slices.ContainsFunc(slices.Concat(h.limiters[0].rules, h.limiters[1].rules), begins) {
		shared["shared"] = h.rule("shared", nil)
	}
	for _, l := range changed {
		for _, r := range l.rules {
			switch {
			case shared[r.name] != nil && both:
				r = shared[r.name]
			case !h.one(3):
				before := r
				for r = h.rule(before.name, before); before.begins(r); {
					r = h.rule(before.name, before)
				}
			}
			next[l] = append(next[l], r)
		}
		rules[l.Limiter] = rulesOf(next[l])
	}
	h.note("replace %v", rules)
	conflict := false
	if !both && h.declares {
		for _, l := range h.limiters {
			for _, r := range next[changed[0]] {
				conflict = conflict || l != changed[0] && slices.ContainsFunc(l.rules, r.conflicts)
			}
		}
	}
	switch err := core.ReplaceAll(rules); {
	case !conflict:
		h.must(err)
		for l, rules := range next {
			l.rules = rules
		}
		h.occurred["replaced"]++
	case !errors.Is(err, core.ErrRuleConflict):
		h.differ("got error %v, want ErrRuleConflict", err)
	default:
		h.occurred["conflict"]++
	}
}

// hasHeadroom reports whether the text of r, the rule of a plan, has this headroom.
func hasHeadroom(r core.Rule, percent float64) bool {
	if percent == 0 {
		return !strings.Contains(r.String(), "headroom")
	}
	return strings.Contains(r.String(), fmt.Sprintf(" headroom %v%%", percent))
}
