package inspect

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/similar"
)

// A question is the key, and optionally the plan, that an operator asks for.
type question struct{ key, plan string }

// An answer describes a key.
type answer struct {
	Key    string        `json:"key"`
	Plan   string        `json:"plan,omitempty"`
	Tag    string        `json:"tag"`
	Used   bool          `json:"used"` // a rule has something in use, or there is an override
	Limits []limitsOfKey `json:"limits"`

	Asked   string   `json:"asked,omitempty"`   // the hash of the key, if that was asked for
	Similar []string `json:"similar,omitempty"` // if the key is not used: similar ones that are, such as basic:ann for ann
	Example string   `json:"-"`                 // a key of the configuration
}

// A limitsOfKey describes a key for one limiter.
type limitsOfKey struct {
	Policy   string    `json:"policy,omitempty"`
	OfAll    bool      `json:"of_all_routes,omitempty"`
	Decision string    `json:"decision"` // about an event of cost 1
	Allowed  bool      `json:"allowed"`
	Error    string    `json:"error,omitempty"` // in place of a decision
	Override string    `json:"override,omitempty"`
	Unread   string    `json:"unread,omitempty"` // the error that hides an override
	Source   string    `json:"source,omitempty"` // of the override
	Used     bool      `json:"used"`             // something is in use, an event is denied, or there is an override
	States   []state   `json:"states,omitempty"`
	Commands []command `json:"commands,omitempty"`

	NoCommand string `json:"no_command,omitempty"` // why a command is missing

	BannedUntil string `json:"banned_until,omitempty"` // RFC 3339

	pause string // the name of the one that denies, in its policy
}

// A state is the state of one rule for the key.
type state struct {
	Rule       string `json:"rule"`
	Limit      string `json:"limit"` // the one in force
	Plan       string `json:"plan,omitempty"`
	Mode       string `json:"mode"`
	Used       string `json:"used"`
	Left       string `json:"left"`
	RetryAfter string `json:"retry_after"`
	ResetAfter string `json:"reset_after"`
	Denies     bool   `json:"denies"`
	Hold       string `json:"hold,omitempty"` // of an in-flight rule, whose Used and Left are places
}

// Places returns the number of places of an in-flight rule: Limit without its modifiers.
func (s state) Places() string {
	n, _, _ := strings.Cut(s.Limit, " ")
	return n
}

// A command is a line for a shell of POSIX, zsh or fish, and its effect.
type command struct {
	Effect string `json:"effect"`
	Line   string `json:"line"`
}

// atOnce is the number of limiters that are asked at the same time.
const atOnce = 16

// answer asks the stores about a key, or about that with the hash, and about similar ones if it is not used.
func (h *Handler) answer(ctx context.Context, groups []group, asked question) *answer {
	a := h.limitsOf(ctx, groups, asked)
	if a.Used {
		return a
	}
	if key, ok := h.find(asked.key); ok {
		a = h.limitsOf(ctx, groups, question{key, asked.plan})
		a.Asked = asked.key
		return a
	}
	if a.IsHash() {
		for i := range a.Limits {
			a.Limits[i].Commands, a.Limits[i].NoCommand = nil, "The key may be a hash."
		}
	}
	for _, key := range similar.Keys(asked.key) {
		if h.limitsOf(ctx, groups, question{key, asked.plan}).Used {
			a.Similar = append(a.Similar, key)
		}
	}
	for _, g := range groups {
		if g.config != nil && a.Example == "" && len(g.config.Keys) > 0 {
			a.Example = slices.Min(slices.Collect(maps.Keys(g.config.Keys)))
		}
	}
	return a
}

// IsHash reports whether the key that was asked for can be a hash.
func (a *answer) IsHash() bool { return similar.IsHash(a.Key) }

// find returns the key of this process with a hash, which is that of logs and of this page, or that in Redis.
func (h *Handler) find(hash string) (key string, ok bool) {
	if !similar.IsHash(hash) {
		return "", false
	}
	hash = strings.TrimPrefix(hash, "#")
	return h.store.Find(func(key string) bool {
		return h.store.Tag(key) == hash || h.fleet != nil && h.fleet.Tag(key) == hash
	})
}

// limitsOf describes a key for all limiters: first those that deny its events, then those that it uses.
func (h *Handler) limitsOf(ctx context.Context, groups []group, asked question) *answer {
	a := &answer{Key: asked.key, Plan: asked.plan, Tag: h.store.Tag(asked.key)}
	a.Limits = make([]limitsOfKey, len(groups))
	var wg sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i := range groups {
		places <- struct{}{}
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil { // of a function of core.Limiter.Choose
					a.Limits[i] = limitsOfKey{Policy: groups[i].policy, Error: fmt.Sprint("panic: ", p)}
				}
				<-places
			}()
			a.Limits[i] = h.limits(ctx, &groups[i], asked)
		})
	}
	wg.Wait()
	for i := range a.Limits {
		l := &a.Limits[i]
		l.Used = l.Override != "" || l.Error == "" && !l.Allowed || slices.ContainsFunc(l.States, func(s state) bool { return s.Used != "0" && s.Used != "" })
		a.Used = a.Used || l.Used
	}
	rank := func(l limitsOfKey) int {
		switch {
		case !l.Allowed:
			return 0
		case l.Used:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(a.Limits, func(a, b limitsOfKey) int { return rank(a) - rank(b) })
	return a
}

// limits describes a key for the limiter of g.
func (h *Handler) limits(ctx context.Context, g *group, asked question) limitsOfKey {
	all := limitsOfKey{Policy: g.policy, OfAll: g.ofAll}
	limiter := g.limiter
	if hasPlan(limiter, asked.plan) {
		limiter = limiter.Plan(asked.plan)
	}
	d, err := limiter.Peek(ctx, asked.key)
	if err != nil {
		all.Error = err.Error()
	}
	if g.config == nil {
		all.decide(d, g)
		return all
	}
	o, err := h.set.OverrideOf(ctx, g.policy, asked.key)
	if err != nil {
		all.Unread = err.Error()
	}
	own := g.config.Keys[asked.key]
	ofConfig := reflect.DeepEqual(o, own)
	if !o.Until.IsZero() && !time.Now().Before(o.Until) {
		o = rules.Override{}
	}
	if given := o.Blocked || o.Plan != "" || len(o.Limits) > 0; given {
		text, err := o.Format()
		if err != nil {
			text = []byte(err.Error())
		}
		if all.Override, all.Source = string(text), "Redis"; ofConfig {
			all.Source = "the configuration"
		}
	}
	all.decide(d, g)
	h.addCommands(&all, g, asked.key, o, ofConfig, d)
	return all
}

// decide describes d, unless there is an error in its place.
func (all *limitsOfKey) decide(d core.Decision, g *group) {
	if all.Error != "" {
		return
	}
	all.Allowed, all.Decision = d.Allowed, decisionOf(d)
	var ban time.Duration
	var bans []string // the rules that ban the key
	for _, s := range d.States() {
		r := stateOf(s, g)
		if s.Rule.Kind().Closes && s.Limit() == core.Blocked && !d.Blocked() {
			if r.Limit = "paused"; r.Denies {
				all.pause = s.Rule.Spec().Label
				all.Decision = "Paused by the rule " + r.Rule + ": every event is denied for " + text(s.RetryAfter) + "."
			}
		}
		if s.Ban > 0 {
			r.Used, ban, bans = "banned", max(ban, s.Ban), append(bans, r.Rule)
		}
		all.States = append(all.States, r)
	}
	if ban > 0 {
		all.BannedUntil = time.Now().Add(ban).UTC().Format(time.RFC3339)
		all.Decision = fmt.Sprintf("Banned by %s until %s. The next event is admitted in %s. A reset (weir reset, core.Limiter.Reset) ends the ban.",
			strings.Join(bans, ", "), all.BannedUntil, text(d.RetryAfter))
	}
}

// addCommands adds the commands that change the limits of a key whose override is o. d is the decision
// about it.
func (h *Handler) addCommands(all *limitsOfKey, g *group, key string, o rules.Override, ofConfig bool, d core.Decision) {
	if _, err := h.set.Command(); err != nil { // there are no overrides
		return
	}
	add := func(effect string, args ...string) {
		reason := ""
		if i := strings.IndexFunc(key, special); i >= 0 {
			c, _ := utf8.DecodeRuneInString(key[i:])
			reason = fmt.Sprintf("The key contains %#U, which can have a meaning in a shell.", c)
		}
		line, err := h.set.Command(args...)
		if err != nil || strings.ContainsFunc(strings.ReplaceAll(line, "'", ""), special) {
			all.NoCommand = cmp.Or(reason, all.NoCommand, "The configuration has a name with a character that can have a meaning in a shell.")
			return
		}
		all.Commands = append(all.Commands, command{effect, line})
	}
	if all.Source != "" && !ofConfig {
		if o.Blocked {
			add("Let the key in: end the block", "unblock", g.policy, key)
		} else {
			add("Remove the override", "remove", g.policy, key)
		}
	}
	if all.pause != "" {
		add("Let the key in: end its pause", "reset", "-rule", all.pause, g.policy, key)
	}
	if all.Error == "" && !all.Allowed && (all.pause == "" || all.BannedUntil != "") && !d.Blocked() {
		effect := "Let the key in: forget its events"
		if all.BannedUntil != "" {
			effect = "Let the key in: end the ban, and forget its events"
		}
		if slices.ContainsFunc(g.limiter.Rules(), func(r core.Rule) bool { return r.Kind().Holds }) {
			effect += "; those that run lose their places"
		}
		add(effect, "reset", g.policy, key)
	}
	if all.Unread == "" && (!o.Blocked || ofConfig) {
		rule, limit := g.example(d)
		if o.Blocked = false; o.Limits == nil {
			o.Limits = make(map[string]core.Limit)
		}
		if o.Limits[rule] = limit; o.Until.IsZero() {
			o.Until = time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
		}
		if text, err := o.Format(); err == nil { // else no rule has a limit
			// The quotes of the time are not necessary, and have a meaning in shells.
			plain := bytes.ReplaceAll(text, []byte("'"), nil)
			if same, err := rules.ParseOverride("", plain); err == nil {
				if again, err := same.Format(); err == nil && bytes.Equal(again, text) {
					text = plain
				}
			}
			add(fmt.Sprintf("Give the key another limit until the time in the line: change %s there", limit), "override", g.policy, key, string(text))
		}
	}
	if all.Source == "" {
		add("Block the key for a day", "block", g.policy, key, "24h")
	}
}

// special reports whether c is in no line: a character that PowerShell or cmd.exe, which do not quote as the
// shells of POSIX do, may not take literally. The lines are not for them, but a client can choose a key that
// they would run.
func special(c rune) bool {
	return !unicode.In(c, unicode.L, unicode.M, unicode.Nd) && !strings.ContainsRune(" -_./:@,+=~*?[]{}", c)
}

// example returns the rule of the policy whose limit an operator probably changes, with its limit in force:
// the first one that denies, or else the first one; none if a pause is the only rule. d is the decision about the key.
func (g *group) example(d core.Decision) (name string, limit core.Limit) {
	for _, r := range g.config.Rules {
		if core.NewRule(r.Spec).Kind().Closes {
			continue
		}
		s, ok := d.StateOf(g.policy + "." + r.Name)
		if ok = ok && s.Limit() != core.Blocked && s.Limit() != core.Unlimited; ok && !s.Allowed {
			return r.Name, s.Limit()
		}
		if name == "" {
			if name, limit = r.Name, r.Limit; ok {
				limit = s.Limit()
			}
		}
	}
	return name, limit
}

// hasPlan reports whether a rule of l has a plan.
func hasPlan(l *core.Limiter, plan string) bool {
	return slices.ContainsFunc(l.Rules(), func(r core.Rule) bool {
		return slices.ContainsFunc(r.Spec().Plans, func(p core.Plan) bool { return p.Name == plan })
	})
}

// placesOf reports whether an enforced in-flight rule denies d, and whether no other rule does.
func placesOf(d core.Decision) (denies, alone bool) {
	alone = true
	for _, s := range d.States() {
		if !s.Allowed && !s.Rule.IsShadow() {
			denies, alone = denies || s.Estimate, alone && s.Estimate
		}
	}
	return denies, denies && alone
}

// decisionOf describes the decision about an event of cost 1.
func decisionOf(d core.Decision) string {
	places, alone := placesOf(d)
	switch {
	case d.Blocked() && d.RetryAfter == core.Never:
		return "Blocked: every event is denied."
	case d.Blocked():
		return "Blocked: every event is denied for " + text(d.RetryAfter) + "."
	case !d.Allowed && d.RetryAfter == core.Never:
		return "Denied: the limit is smaller than one event."
	case alone:
		return "Denied: all places are taken. The next event is admitted when a running one ends."
	case places:
		return "Denied: the next event is admitted when a running one has ended, in " + text(d.RetryAfter) + " at the earliest."
	case !d.Allowed:
		return "Denied: the next event is admitted in " + text(d.RetryAfter) + "."
	case d.Delay > 0:
		return "Admitted, after a delay of " + text(d.Delay) + "."
	case d.Soft():
		return "Admitted, beyond the limit itself."
	}
	return "Admitted."
}

func stateOf(s core.State, g *group) state {
	r := state{
		Rule: s.Rule.Name(), Limit: limitInForce(s), Plan: s.Rule.PlanName(), Mode: g.mode(s.Rule.IsShadow()),
		Denies: !s.Allowed && !s.Rule.IsShadow(), RetryAfter: "now", ResetAfter: "now",
	}
	if s.RetryAfter > 0 {
		r.RetryAfter = after(s, s.RetryAfter)
	}
	if s.RetryAfter == core.Never {
		r.RetryAfter = "never"
	}
	if s.ResetAfter > 0 && s.ResetAfter != core.Never {
		r.ResetAfter = after(s, s.ResetAfter)
	}
	switch l := s.Limit(); {
	case s.Unknown:
		r.RetryAfter, r.ResetAfter = "unknown", ""
	case l != core.Blocked && l != core.Unlimited:
		r.Used, r.Left = strconv.Itoa(s.Used()), strconv.Itoa(s.Remaining)
		if !s.Rule.Kind().Holds {
			break
		}
		r.Hold = s.Rule.Spec().Hold.String()
		if s.Estimate {
			r.RetryAfter = "when an event ends"
		}
		if s.Used() > 0 {
			r.ResetAfter = "when all events end"
		}
	}
	return r
}

// after returns the text of the end of a wait for s: for a quota, the end of its period in its time zone,
// rounded to a minute because the clock of this process may not be that of the store.
func after(s core.State, d time.Duration) string {
	if s.Period() == 0 {
		return "in " + text(d)
	}
	return "at " + time.Now().Add(d).Round(time.Minute).In(cmp.Or(s.Rule.Spec().Location, time.UTC)).Format(time.RFC3339)
}

// text returns a duration, rounded up to a tenth of a second, or to a second above a minute.
func text(d time.Duration) string {
	unit := 100 * time.Millisecond
	if d > time.Minute {
		unit = time.Second
	}
	if d > core.Never-unit {
		return "more than 290 years"
	}
	return ((d + unit - 1) / unit * unit).String()
}
