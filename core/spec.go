package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/blockfor"
	"github.com/weir-go/weir/core/internal/period"
)

// A Spec describes a [Rule]: [NewRule] makes the rule, and [Rule.Spec] returns its Spec. The constructors,
// such as [TokenBucket], and the methods of Rule that return a Rule set single fields.
//
//	core.TokenBucket("api", core.PerMinute(100)).Soft(10)
//	core.NewRule(core.Spec{Name: "api", Algorithm: core.AlgorithmTokenBucket, Limit: core.PerMinute(100), Soft: 10})
//
// Name, Algorithm and Limit are required, except that a [Pause] has no Limit. All other fields may be zero: the
// rule then does not have the property, or has the default that the field names. [New] returns an error for a
// field that is invalid, or that has no meaning for the algorithm.
type Spec struct {
	Name      string // see Rule
	Algorithm Algorithm
	Limit     Limit // that of callers without a plan, or with an unknown one

	// Plans are other limits for the callers of plans, such as paying customers. All other fields apply to
	// every plan.
	//
	// [Limiter.Plan], the field Plan of an [Ask] and the option gate.Plan choose the plan of an event. If
	// an application has a name for Limit, too, such as "free", it should be a plan with the same limit.
	// Otherwise "free" is an unknown plan (see [Limiter.Plan]).
	//
	// Plans of the same length (see [Rule]) share the state of a key. If a key that has used 10 of 10 a
	// minute changes to 100 a minute, a window or log has 90 left at once. A bucket keeps the part that
	// is used: an exhausted bucket is still exhausted, and refills at the new rate. Plans of different
	// lengths have states of their own. A caller that changes between plans therefore gains at most one
	// limit for each length.
	//
	// If callers with several plans share a key, a plan with a smaller limit leaves the difference to
	// the others in a window or log: after 8 events of a plan "sheddable" with 8 a minute, a plan with 10 a
	// minute has 2 left. A bucket leaves nothing, because the plans share the part that is used: once
	// "sheddable" has used 8 of 8, nothing is left for any plan. Plan.Headroom leaves a part in every
	// algorithm.
	Plans []Plan

	// Soft is the percentage above the limit that is admitted, too, and flagged in [State.Soft] for the
	// handler, from 0 to 1000. Remaining does not include these events. It applies to the events of a
	// window or log and to the burst of a bucket, not to its rate. It is rounded down: 10 percent of 5 is no
	// event.
	Soft float64

	// FromFirst makes the window of a key of a [FixedWindow] begin with its first admitted event, and end
	// Limit.Per later. The next event after that begins the next window. Denied events and peeks begin none, and a
	// refund of all events ends it. The windows of all keys do not end at one moment, and State.Window and
	// the header fields of all answers in one window are about one time. A key is admitted at most twice the
	// limit in any Per: all events of the end of one window and all of the next. Rules with FromFirst and
	// without have different states, like those of different periods (see [Rule]).
	FromFirst bool

	// BlockFor makes a denial by the rule ban the key for a time, in all processes: from a second to 366 days. The denial
	// that begins the ban already has it in its RetryAfter, unless the wait for the limit is longer. Denials during the ban
	// do not make it longer, and [Limiter.Reset] ends it. The rule counts as two of the 128 of a call. Another BlockFor does not
	// change bans that have begun.
	//
	// Use it only for keys that the client cannot choose, such as its address: with the name that is tried at a login, a
	// stranger could ban the owner of the name. An event that is refunded afterwards counts until then, so requests that will
	// be refunded can ban a client that makes many at the same time.
	//
	// No ban begins with:
	//   - a Peek or an event of cost 0, except for a request that a gate denies before it runs the next key function or reads the body
	//   - a denial by a shadow, by a plan with headroom, or by an elastic limit that is not at its largest
	//   - a denial of a cost that an unused key would not admit
	//   - a denial of a caller of Wait or Acquire, or by a leaky bucket only because of MaxDelay
	//   - a decision of the backup of package failover, during which no ban holds
	//
	// Debts and the tokens of leases (package lease) count, and on a Cluster, for a moment, so do the charges of events that
	// another rule denies.
	//
	// The ban is the pause Name + ".ban", so Name has at most 60 characters. No other rule should have that name, and none of the
	// same limiter may have it.
	BlockFor time.Duration

	// Rollover adds the rest of a period of a [Quota], the events of its limit that were not used, to the limit of the next
	// period: up to that many events, 1 to 2^48-1. Limit, Capacity and Remaining of the [State] include the rest, and so do
	// its header fields, a [Plan.Headroom], and the rest of that period in turn. The extra events of Soft do not roll over.
	//
	// The rest follows from the state of the last period on the Store, so nothing else adds to a limit: no new key, Reset,
	// eviction or outage, and no period in which no event of the key counts, because there was none or all were refunded. The
	// state of a key lives until the end of the next period, in Redis up to 33 days longer than its own.
	//
	// Events that the backup of package failover admits in an outage are not in the state, and count as unused. The backup gives no
	// rest.
	//
	// The first event of a period fixes the rest, from the events that counted then and the limit of its own plan. An event of an
	// earlier period that is undone, refunded or settled later does not change the rest. After a change of the Location or the
	// Anchor, a period ends as it began, and the next one, which may be short, is a period like all others. A smaller Rollover
	// takes effect at once, and a greater one with the next period. Rules with and without it have the same states.
	Rollover int

	// SubWindows is the number of sub-windows of a [SlidingWindow], 1 to 120, by default 60. With 120, a
	// limit per minute has sub-windows of 0.5 s. More sub-windows make the rule less strict, its state
	// larger, and Redis slower for costs above 1.
	SubWindows int

	// Hold is the hold of a place of an [InFlight], which package core renews after a third of
	// it or a little later: whole microseconds from 1 s to 24 h, by default 30 s. With a short hold,
	// the places of a crashed process are soon free. With a long one, events keep their places while the
	// Store is slow or down. Rules with different holds have different states, like those of different
	// periods (see [Rule]).
	Hold time.Duration

	// ByCost makes an event of an [InFlight] take as many places as its cost: the tokens of a batch, or the slots of a
	// query. The limit is then up to a million places, for at most 1000 events at a time. A cost above the limit is
	// denied for ever. A rule that changes between ByCost and without keeps the places of events that have begun.
	ByCost bool

	// MaxHold is the time for which the places of an [InFlight] are renewed. A place then lapses within one
	// hold, so an event that hangs does not take it for ever. By default, there is no bound.
	MaxHold time.Duration

	// Location is the place whose calendar a [Quota] follows, by default UTC. Days in which the clocks
	// change have 23 or 25 hours.
	Location *time.Location

	// Anchor gives each key of a [Quota] periods of its own, which begin at the time that it returns: that
	// day of each month or week, and that time of the day, at the Location. The date may be in the past or
	// in the future. A month without that day begins its period on its last day: the 31st is February 28 or
	// 29. The day is that at the location: 23:30 UTC on the 31st is the first in Berlin. A time that the
	// clocks skip is the first one after it. It is for quotas that are renewed when a subscription is. If
	// Anchor returns the zero time, the key has the periods of the calendar.
	//
	// Each call about the key calls Anchor, from many goroutines; a decision calls it once. It must return
	// quickly, and must not call a Limiter. ctx is that of the call.
	Anchor func(ctx context.Context, key string) time.Time

	// Shadow makes a rule that is evaluated and reported but never enforced, to try a limit on real
	// traffic. Decisions do not depend on it, and no header field describes it to clients. Its State
	// reports whether the rule would have denied the event.
	//
	// A shadow rule is charged if the other rules of the decision admit the event and the charge fits.
	// Its state is that of an enforced rule: events that it would have denied are not charged to it.
	Shadow bool

	// Label is the name of the rule in header fields and problem documents, by default Name, which
	// identifies the rule on the Store. Several rules may have one label. The characters are those of a
	// name.
	Label string

	// Unit is the name of the events in texts for clients, by default "requests": a plural of at most 32
	// characters of printable ASCII, such as "tokens" or "bytes". It changes no cost: for a gate, see its
	// option Cost. The text of a problem document is then `Policy "model" allows 1000 tokens per 60 s`, and
	// for a limit of one event "allows 1 per 60 s (tokens)".
	//
	// The header field RateLimit-Policy contains the units that its specification defines: "bytes" as
	// qu="content-bytes", and "content-bytes" and "concurrent-requests" as they are. An [InFlight] always has
	// qu="concurrent-requests", and one with ByCost unless it has another unit. Other units have no qu.
	Unit string

	// Spare makes the limit elastic: it grows while resources are free, and shrinks back to Limit as they
	// are used up. Each process follows its own signal. Spare, such as a signal of package core/load,
	// returns the free part of the resources. At 0 or less, the limit is Limit. At 1 or more, it is UpTo
	// times as large (1 to 1000). Values between 0 and 1 scale the limit in ten steps of 0.1, rounded down
	// to whole events. NaN counts as 0. Every decision calls Spare, from many goroutines, so it must be
	// fast.
	//
	// The limit moves away from Limit to a step when the signal comes within 0.01 of it: to the fifth step at
	// 0.49. It moves back when the signal is more than half a step nearer: from the fifth step at less than
	// 0.45. Small changes of the signal therefore do not move the limit up and down. A bucket that is half
	// used stays half used at every size. After the limit of a window or log has shrunk, surplus events
	// expire as usual, so no key is denied for longer than the period, and one sub-window.
	//
	// The limit of an [InFlight] only shrinks, because its places are few: UpTo is a factor above 0, up to 1.
	// At 1 or more of Spare, the limit is Limit, at 0 or less UpTo times as large, and at least 1. It is at
	// the fifth step at a signal of 0.51. Running events keep their places.
	Spare func() float64
	UpTo  float64
}

// A Plan is the limit of a [Spec] for the callers of a plan.
type Plan struct {
	Name  string // 1 to 64 characters of printable ASCII, but not "unknown"; no two plans have one name
	Limit Limit

	// Headroom is the percentage of Limit that the callers of the plan leave to all others, from 0 to 99. With
	// 20 of a limit of 100, they are admitted while more than 20 are left, and all callers without
	// headroom until none is. It is for callers that share a key, such as the interactive requests and the batch jobs of a
	// customer. At least one event remains to the plan. Its State, its header fields and its RetryAfter are
	// about the part that it may use, here 80: q of RateLimit-Policy is 80, and Remaining is 0 when 80 are used. Only [State.Limit]
	// is the whole limit, 100. A plan of another length (see [Rule]) has a state of its own, and leaves nothing to the others.
	// Spec.Soft does not apply to a plan with headroom.
	Headroom float64
}

const (
	defaultSubWindows = 60
	defaultHold       = 30 * time.Second
)

// complete replaces the fields of s that have another default than zero.
func (s *Spec) complete() {
	k := s.kind()
	if slices.Contains(k.Properties, "sub-windows") {
		s.SubWindows = cmp.Or(s.SubWindows, defaultSubWindows)
	}
	if slices.Contains(k.Properties, "hold") {
		s.Hold = cmp.Or(s.Hold, defaultHold)
	}
	if k.Closes && s.Limit == (Limit{}) {
		s.Limit = Unlimited
	}
}

// kind is [Rule.Kind] for the rule of s.
func (s *Spec) kind() *driver.Kind { return (&driver.Definition{Algorithm: s.Algorithm}).Kind() }

// indexOf returns the index of a plan, or -1.
func (s *Spec) indexOf(plan string) int {
	return slices.IndexFunc(s.Plans, func(p Plan) bool { return p.Name == plan })
}

// maxUnit is the length of the longest unit.
const maxUnit = 32

// check returns an error if a field of s is invalid that package driver does not know.
func (s *Spec) check() error {
	if s.Algorithm == 0 {
		return s.invalid("algorithm", "is none: make rules with TokenBucket, SlidingLog and the like")
	}
	if len(s.Unit) > maxUnit {
		return s.invalid("unit", fmt.Sprintf("is %d bytes long, more than %d", len(s.Unit), maxUnit))
	}
	if err := cmp.Or(s.checkText("label", s.Label), s.checkText("unit", s.Unit)); err != nil {
		return err
	}
	if s.BlockFor != 0 && (s.BlockFor < time.Second || s.BlockFor > maxPause) {
		return s.invalid("block for", fmt.Sprintf("is %v, outside 1s to 366 days", max(0, s.BlockFor)))
	}
	if s.MaxHold < 0 {
		return s.invalid("max hold", fmt.Sprintf("is %v, negative", s.MaxHold))
	}
	return s.kind().Check(s.Name, func(property string) bool {
		return property == "block for" && s.BlockFor != 0 || property == "max hold" && s.MaxHold > 0 || property == "location" && s.Location != nil ||
			property == "anchor" && s.Anchor != nil || property == "elastic" && s.isElastic()
	})
}

// checkText returns an error if text is not empty and could not be the name of a rule.
func (s *Spec) checkText(field, text string) error {
	if text == "" {
		return nil
	}
	err := driver.Definition{Name: text, Algorithm: driver.TokenBucket, Events: 1, Per: time.Second}.Check()
	var of *RuleError
	if errors.As(err, &of) {
		return s.invalid(field, of.Reason)
	}
	return nil
}

func (s *Spec) invalid(field, reason string) *RuleError {
	return &RuleError{Rule: s.Name, Field: field, Reason: reason, Category: ErrInvalidRule}
}

func (s *Spec) isElastic() bool { return s.Spare != nil || s.UpTo != 0 }

// maxElastic bounds UpTo.
const maxElastic = 1000

// checkElastic returns an error if Spare or UpTo is invalid.
func (s *Spec) checkElastic() error {
	switch {
	case !s.isElastic():
	case s.Spare == nil:
		return s.invalid("elastic", "has no signal: the function is nil")
	case s.kind().Holds && !(s.UpTo > 0 && s.UpTo <= 1): // NaN is neither
		return s.invalid("elastic", fmt.Sprintf("is up to %v, not above 0 and up to 1", s.UpTo))
	case !s.kind().Holds && !(s.UpTo >= 1 && s.UpTo <= maxElastic):
		return s.invalid("elastic", fmt.Sprintf("is up to %v, outside 1 to %d", s.UpTo, maxElastic))
	}
	return nil
}

// definition returns s with the limit of p in the form of package driver, without its Text.
func (s *Spec) definition(p *Plan) (d driver.Definition) {
	l := &p.Limit
	if l.part != nil {
		d = *l.part // with its length
	}
	d.Name, d.Algorithm, d.Plan = s.Name, s.Algorithm, p.Name
	d.Events, d.Per, d.Calendar, d.Burst, d.Always = l.Events, l.Per, l.Calendar, l.Burst, l.always
	d.FromFirst, d.ByCost, d.Rollover, d.SubWindows, d.Hold = s.FromFirst, s.ByCost, s.Rollover, s.SubWindows, s.Hold
	d.Soft, d.Headroom = s.Soft, p.Headroom
	d.Shadow, d.UpTo, d.Text = s.Shadow, s.UpTo, ""
	if *l == Unlimited && s.kind().Closes {
		d.Always = 0
	}
	return d
}

// bans reports whether denials ban keys, unless the limit is Unlimited or Blocked.
func (s *Spec) bans() bool { return s.BlockFor != 0 && !s.Shadow }

// banDefinition returns the definition of the pause that bans keys of s, if there is one: see Spec.BlockFor.
func (s *Spec) banDefinition() (d driver.Definition, ok bool) {
	if !s.bans() {
		return d, false
	}
	ban := Spec{Name: s.Name + blockfor.Suffix, Algorithm: AlgorithmPause, Limit: Unlimited}
	d = ban.definition(&Plan{Limit: Unlimited})
	d.Text = ban.text(&Plan{Limit: Unlimited})
	return d, true
}

func limitOf(d *driver.Definition) Limit {
	return Limit{Events: d.Events, Per: d.Per, Calendar: d.Calendar, Burst: d.Burst, always: d.Always}
}

// A Property is one property of a rule in words, apart from its name, algorithm and limit.
type Property struct {
	Name    string // "from first", "sub-windows", "by cost", "hold", "rollover", "location", "anchor", "max hold", "block for", "soft", "headroom", "elastic", "shadow", "unit" or "plan"
	Text    string // such as "from the first event" or "soft 10%"
	Default bool   // the rule has it if nothing is said about it
	OfLimit bool   // says how the limit counts, and belongs to a text about the limit alone
}

// Properties describes s, that of a rule, with the limit of p, one of its plans, or of the zero Plan. The texts, in their order
// and with spaces between them, follow the limit in [Rule.String].
func (s Spec) Properties(p Plan) (all []Property) {
	add := func(has bool, of Property, values ...any) {
		if has {
			of.Text = fmt.Sprintf(of.Text, values...)
			all = append(all, of)
		}
	}
	properties := s.kind().Properties
	add(s.FromFirst, Property{Name: "from first", Text: "from the first event", OfLimit: true})
	add(slices.Contains(properties, "sub-windows"), Property{Name: "sub-windows", Text: "in %d sub-windows", Default: s.SubWindows == defaultSubWindows}, s.SubWindows)
	add(s.ByCost, Property{Name: "by cost", Text: "by cost", OfLimit: true})
	add(slices.Contains(properties, "hold"), Property{Name: "hold", Text: "hold " + period.Duration(s.Hold), Default: s.Hold == defaultHold})
	add(s.Rollover != 0, Property{Name: "rollover", Text: "rollover %d", OfLimit: true}, s.Rollover)
	add(s.Location != nil || slices.Contains(properties, "location"), Property{Name: "location", Text: "in %v", Default: s.Location == nil, OfLimit: true}, cmp.Or(s.Location, time.UTC))
	add(s.Anchor != nil, Property{Name: "anchor", Text: "anchored"})
	add(s.MaxHold == Never, Property{Name: "max hold", Text: "max hold never"})
	add(s.MaxHold > 0 && s.MaxHold != Never, Property{Name: "max hold", Text: "max hold " + period.Duration(s.MaxHold)})
	add(s.BlockFor != 0, Property{Name: "block for", Text: "block for " + period.Duration(s.BlockFor)})
	add(s.Soft > 0, Property{Name: "soft", Text: "soft %v%%"}, s.Soft)
	add(p.Headroom > 0, Property{Name: "headroom", Text: "headroom %v%%", OfLimit: true}, p.Headroom)
	add(s.UpTo != 0, Property{Name: "elastic", Text: "elastic up to %v"}, s.UpTo)
	add(s.Shadow, Property{Name: "shadow", Text: "shadow"})
	add(s.Unit != "", Property{Name: "unit", Text: "unit %s"}, s.Unit)
	add(p.Name != "", Property{Name: "plan", Text: "plan %q"}, p.Name)
	return all
}

// text describes s with the limit of p for logs.
func (s *Spec) text(p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q", s.Algorithm, s.Name)
	if !s.kind().Closes || p.Limit != Unlimited {
		b.WriteString(" " + p.Limit.String())
	}
	for _, of := range s.Properties(*p) {
		if !of.Default && of.Name != "unit" {
			b.WriteString(" " + of.Text)
		}
	}
	return b.String()
}
