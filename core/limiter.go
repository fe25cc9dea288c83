package core

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/bounds"
	"github.com/weir-go/weir/core/internal/hold"
	"github.com/weir-go/weir/core/internal/waiters"
	"github.com/weir-go/weir/internal/argument"
)

// A Store keeps the state of each rule of each key. Package memstore provides a Store for this
// process, redisstore and pgstore Stores for all processes that share a Redis or Postgres, and casstore one of
// another database. Packages failover, denycache and lease provide Stores that wrap another Store, and resilient
// is the recommended combination for Redis. Package driver contains the contract.
type Store = driver.Store

// A Limiter admits an event if all of its Rules do. It is safe for concurrent use. All state is in
// its Store, except for the callers that wait in [Limiter.Wait].
//
// A key is any text that is not empty. An empty key is an [ErrEmptyKey], because all callers that
// leave the key empty by mistake would share one state.
//
// [Limiter.Plan], [Limiter.Variant] and [Limiter.Choose] return views: limiters with other limits
// for some events, which share the Store, the rules and the waiting callers of the first Limiter.
type Limiter struct {
	view
	pick pickFunc // nil unless Choose has made the view
}

// shared is the part of a Limiter that it shares with its views.
type shared struct {
	store    Store
	observer driver.Observer        // store, if it is one
	local    bool                   // see driver.Description
	steady   bool                   // likewise
	now      func() time.Time       // the clock for the calendar of quotas
	off      func(rule string) bool // see driver.Description
	current  atomic.Pointer[ruleSet]
	formers  atomic.Pointer[[]*former] // of the latest calls of ReplaceAll, or nil
	waiters  waiters.List[view]
}

// A view selects the rules of a Limiter for an event.
type view struct {
	*shared
	variant *variant // nil unless Limiter.Variant has made the view
	plan    string
}

// New returns a Limiter that admits an event if every rule does, and keeps its state in s.
//
// The error is an [ErrNoStore] or a [RuleError]. A RuleError reports that there are no rules or more than 128, that a
// limit is zero or cannot be represented exactly, that two of the rules have one name, or that s
// already has another rule of that name.
//
// Processes that share s may have different limits for a while, for example during a rollout. Each
// process applies its own limit. Limits of one length (see [Rule]) share the states of the keys. In a process that
// starts with a limit of another length, every key begins unused: use [Limiter.Replace] to lower a limit.
func New(s Store, rules ...Rule) (*Limiter, error) {
	if argument.IsNil(s) {
		return nil, fmt.Errorf("%w: it is nil", ErrNoStore)
	} else if !reflect.ValueOf(s).Comparable() {
		return nil, fmt.Errorf("%w: %T cannot be compared; use a pointer", ErrNoStore, s)
	}
	set, err := newRuleSet(rules)
	if err != nil {
		return nil, err
	}
	if err := driver.Declare(s, driver.Change{New: set.definitions()}); err != nil {
		return nil, err
	}
	of := driver.Describe(s)
	l := &Limiter{view: view{shared: &shared{store: s, local: of.Local, steady: of.Steady, now: of.Clock, off: of.Off}}}
	if l.now == nil {
		l.now = time.Now
	}
	l.observer, _ = s.(driver.Observer)
	l.current.Store(set)
	return l, nil
}

// inForce returns r, or r without its limit if that is turned off. Blocks and pauses stay.
func (s *shared) inForce(r Rule) Rule {
	if s.off == nil || r.d.compiled == nil || r.Kind().Closes || !s.off(r.d.spec.Name) {
		return r
	}
	return r.withoutLimit()
}

// Must returns l, and panics if err is not nil. It is for limiters that are made before the first
// request: core.Must(core.New(...)).
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic("core: Must: " + err.Error())
	}
	return l
}

// Plan returns a view of l with the limits of a plan (see [Rule.Plan]). A rule without that plan
// has its limit without a plan. If no rule of l has plans, Plan has no effect. An empty name
// returns a view without a plan. Plan only copies a few words.
//
// If rules of l have plans, but none has this one, the plan is unknown: the view has the limits
// without a plan. l and its views log a warning through [log/slog.Default], once for each of the
// first 16 unknown plans since the last Replace. In the States of every such event, [Rule.PlanName]
// is "unknown".
func (l *Limiter) Plan(name string) *Limiter {
	v := *l
	v.plan = name
	return &v
}

// Rules returns a copy of the present rules of l, in order. If Choose has made l, these are the
// rules for keys for which its function returns nil.
func (l *Limiter) Rules() []Rule { return slices.Clone(l.rules()) }

// Replace gives l and its views new rules while they are used: each decision uses either the old
// rules or the new ones. If an error is returned, nothing changes.
//
// A rule of the same name, algorithm and length (see [Rule]) continues with the states of the old
// rule, and the new limit applies to them from the next decision on. A bucket keeps the part that
// is used, and a window or log keeps its events. If 100 an hour become 50, a bucket with 40 of 100
// left has 20 of 50 left, and a window or log with 60 events admits nothing until fewer than 50 are
// left. If 50 become 100, an exhausted bucket refills twice as fast, and a window or log has
// room for 50 more events at once. After a lower limit, an earlier RetryAfter may be too short. States
// of old rules expire in the Store by themselves.
//
// A rule of another length, such as a bucket whose burst / rate is another time, has other states. A bucket begins, at the
// first decision about its key, with the part that is then in use in the bucket of the same name, algorithm and plan before the
// change, rounded up to whole tokens: a key that has used
// up "10/s burst 20" has used up "1/s burst 20", too. Until that decision, the bucket refills at the old rate. Within the
// shorter of both lengths after the change, the first decision about a key makes one more call of the Store, or two if the
// bucket is in use. Windows, logs, quotas
// and places of another length begin unused.
//
// Callers of [Limiter.Wait] ask again with the new rules, in the same order. A [Reservation] undoes
// its charges under the rules that charged them. Caches of stores never answer for another limit.
// Other processes keep their rules until they call Replace, too (see [New]).
//
// The error is a [RuleError]: an ErrInvalidRule, or an [ErrRuleConflict] if another limiter on the
// Store still uses a rule of that name with another definition. Use [ReplaceAll] to change both. A limiter that is not
// used any more counts, too: it stays on its Store until the program ends.
func (l *Limiter) Replace(rules ...Rule) error {
	return ReplaceAll(map[*Limiter][]Rule{l: rules})
}

// Allow decides about one event of key, and charges it if it is admitted.
//
// An error means that no decision could be made. The Decision is then zero, and the event has been charged
// at most once, or not at all. After an [ErrUnavailable], the caller chooses whether to let the event through,
// unless it is an [ErrFailClosed]. Any other error is the error of ctx, or a fault of the program, such as an
// [ErrEmptyKey] or [ErrInvalidAsk]: an event that is let through after it has no limit.
func (l *Limiter) Allow(ctx context.Context, key string) (d Decision, err error) {
	return AllowTogether(ctx, Ask{Limiter: l, Key: key})
}

// AllowN is Allow for an event of cost n. If n is zero, AllowN charges nothing, and denies if
// nothing is left, like [Limiter.Peek]. If n is negative, it returns an [ErrNegativeCost]. If n is
// above the capacity of a rule, the event is denied with a RetryAfter of [Never].
func (l *Limiter) AllowN(ctx context.Context, key string, n int) (d Decision, err error) {
	if n == 0 {
		return l.Peek(ctx, key)
	}
	return AllowTogether(ctx, Ask{Limiter: l, Key: key, Cost: n})
}

// Peek reports whether Allow would admit an event of key. It charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (d Decision, err error) {
	return AllowTogether(ctx, Ask{Limiter: l, Key: key, Peek: true})
}

// rulesFor returns the present rules for an event of key, and the ends of their choice. plan, if not
// empty, replaces the plan of l.
func (l *Limiter) rulesFor(ctx context.Context, key, plan string) (rules []Rule, ends time.Duration, err error) {
	switch {
	case l.pick != nil || plan != "":
		var c choice
		c, rules, err = l.chosen(ctx, key, plan)
		ends = c.ends
	case l.variant != nil || l.plan != "":
		rules = l.rules()
	default:
		rules = l.current.Load().rules
	}
	return rules, ends, err
}

// Reserve is [Limiter.AllowN] for an event whose cost may turn out to be more or less than n, or which
// takes a place of an [InFlight] rule until it ends. If the event is denied, Settle, Refund and Release do
// nothing. On an error the Reservation is nil, and the event has been charged at most once, or not at all.
func (l *Limiter) Reserve(ctx context.Context, key string, n int) (*Reservation, error) {
	return ReserveTogether(ctx, Ask{Limiter: l, Key: key, Cost: n, Peek: n == 0})
}

// ReserveAtMost takes the units that key has left, up to n: the largest cost that all rules admit,
// including the extra events of a [Rule.Soft]. [Reservation.Cost] returns the taken cost, and Settle and
// Refund free the unused part of it. It is for work in blocks, such as a batch, or the tokens of a stream
// that ends when its budget is used up.
//
// If not even one unit is left, the event is denied: nothing is charged, and RetryAfter is that of one
// unit. A [Rule.Shadow] does not reduce the cost, and is charged if it admits the taken cost. A plan that
// is [Unlimited] admits n. In a [LeakyBucket], the taken units are consecutive places of the queue, which
// the event gets after its Delay, as with AllowN of that cost.
//
// If n is zero, the error is an [ErrInvalidAsk], and if n is negative, an [ErrNegativeCost]. On an error
// the Reservation is nil, and at most n units have been charged.
func (l *Limiter) ReserveAtMost(ctx context.Context, key string, n int) (*Reservation, error) {
	if n == 0 {
		return nil, invalidAsk("at most 0 units are to be taken")
	}
	return ReserveTogether(ctx, Ask{Limiter: l, Key: key, Cost: n, atMost: true})
}

// Reset forgets the events of key under the rules of l, in the states of every plan. Reset reports
// whether any capacity was in use: tokens not refilled, or events not expired. After an error, some
// of the states may have been reset.
//
// To reset a caller of a middleware, pass the text that its keyfunc.Func returns. A view of [Limiter.Choose] or
// [Limiter.LimitOf] resets the states of the limit that it chooses for key. The states of a [Limiter.Variant] whose period
// is another one, or whose bucket takes another time to fill up, are those of another length (see [Rule]): call Reset of
// the Variant. Such states of rules that [Limiter.Replace] has removed
// stay, too, except for buckets from which new ones still begin.
func (l *Limiter) Reset(ctx context.Context, key string) (found bool, err error) {
	c, _, err := l.chosen(ctx, key, "")
	if err != nil {
		return false, err
	}
	states, most := c.states(), bounds.Charges
	if slices.ContainsFunc(states, func(r Rule) bool { return r.d.ban != nil }) {
		most /= 2
	}
	for rules := range slices.Chunk(states, most) {
		var held []*hold.Hold
		if l.local && slices.ContainsFunc(rules, holds) {
			held = hold.Held(l.store, key, ids(rules))
		}
		some, err := adjust(ctx, driver.Reset, Ask{Limiter: l, Key: key, Cost: 1}, rules, 0)
		if err != nil {
			return false, err
		}
		hold.Lose(held)
		found = found || some
	}
	return found, nil
}

// ids returns the IDs of the compiled forms of rules.
func ids(rules []Rule) (all []uint64) {
	for _, r := range rules {
		all = append(all, r.d.compiled.ID)
	}
	return all
}

// Credit frees n units that are in use by key, or all of them if there are fewer. Algorithms that
// remember single events forget the newest ones; a [SlidingLog] forgets none before the newest 1000
// times at which it has events. Credit is for admitted events that turned out not to count. If n is
// zero, Credit does nothing. If n is negative, it returns an [ErrNegativeCost].
//
// Credit is not tied to a decision. Crediting twice, or crediting an event that was denied or has
// expired, frees capacity that other events used. Prefer [Reservation.Refund]. For a [LeakyBucket],
// Credit frees the end of the queue, which may belong to another event.
func (l *Limiter) Credit(ctx context.Context, key string, n int) error {
	return l.adjust(ctx, key, driver.Credit, n)
}

// Debit charges key n units, whether they fit or not. It is for a cost that is known only after the
// event, such as the bytes of a response or the tokens of a language model. If n is zero, Debit
// does nothing. If n is negative, it returns an [ErrNegativeCost]. After any other error the units
// have been charged at most once, or not at all.
//
// A bucket or queue goes into debt, and admits nothing until it has repaid the debt at its rate.
// Windows and logs count the units as events of this moment, and may deny all for one period.
//
// Debit adds to the charged cost. [Reservation.Settle] sets the total cost of an event.
func (l *Limiter) Debit(ctx context.Context, key string, n int) error {
	return l.adjust(ctx, key, driver.Debit, n)
}

// maxPause is the length of the longest pause.
const maxPause = 366 * 24 * time.Hour

// Pause makes the [Pause] rule of l deny all events of key from now on, for d or until the end of a present pause,
// whichever is later: pauses do not add up. d is rounded up to microseconds. If d is zero, the pause ends, and
// nothing else changes: [Limiter.Reset] also forgets the events of the other rules.
//
// The error is an [ErrInvalidAsk] if d is negative or more than 366 days, or if l has no Pause, and an [ErrEmptyKey]
// if the key is empty. After an error of the Store, the key may be paused, in this process or in all.
//
// The function of [Limiter.Choose] is not asked. A [Limiter.Variant] has the pauses of l; with [Spec.Shadow] it does
// not enforce them.
func (l *Limiter) Pause(ctx context.Context, key string, d time.Duration) error {
	if d < 0 || d > maxPause {
		return invalidAsk(fmt.Sprintf("a pause of %v, outside 0 to 366 days", d))
	}
	rules := l.current.Load().rules
	i := slices.IndexFunc(rules, closes)
	if i < 0 || rules[i].d.compiled == nil {
		return invalidAsk("the limiter has no Pause rule, or its limit is Blocked")
	}
	op := driver.Debit
	if d == 0 {
		op = driver.Reset
	}
	length := (d + time.Microsecond - 1).Truncate(time.Microsecond)
	_, err := adjust(ctx, op, Ask{Limiter: l, Key: key}, rules[i:i+1], length)
	if d == 0 {
		l.waiters.Wake(key)
	}
	return err
}

// adjust applies op with n units to all rules of key.
func (l *Limiter) adjust(ctx context.Context, key string, op driver.Op, n int) error {
	if n == 0 {
		return nil
	}
	_, rules, err := l.chosen(ctx, key, "")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(rules, holds) {
		return errNoHolder
	}
	if i := slices.IndexFunc(rules, closes); i >= 0 { // which has no cost
		rules = slices.Delete(slices.Clone(rules), i, i+1)
	}
	_, err = adjust(ctx, op, Ask{Limiter: l, Key: key, Cost: n}, rules, 0)
	return err
}

// adjust applies op, one of [driver.Store.Adjust], with the key and cost of a to rules. pause is the length that a Debit
// of a [Pause] sets, the only one of rules. found is the result of a Reset.
func adjust(ctx context.Context, op driver.Op, a Ask, rules []Rule, pause time.Duration) (found bool, err error) {
	if err := cmp.Or(a.check(), ctx.Err()); err != nil {
		return false, err
	}
	e := events.Get().(*event)
	defer e.free()
	e.add(ctx, 0, &a, rules, op, 0)
	charges := e.charges()
	if len(charges) == 0 {
		return false, nil
	}
	if charges[0].Pause = pause; op == driver.Debit {
		if err := e.carry(ctx); err != nil {
			return false, err
		}
	}
	err = a.Limiter.store.Adjust(ctx, charges)
	return err == nil && slices.ContainsFunc(charges, func(c driver.Charge) bool { return c.Verdict.Found }), err
}

// replaced returns the rules before the latest calls of ReplaceAll, the latest last. It forgets them when all are over,
// so that later decisions do not read the time.
func (s *shared) replaced() []*former {
	formers := s.formers.Load()
	switch {
	case formers == nil:
		return nil
	case !slices.ContainsFunc(*formers, func(f *former) bool { return !f.isOver() }):
		s.formers.CompareAndSwap(formers, nil)
		return nil
	}
	return *formers
}
