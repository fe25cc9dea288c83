package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
	"github.com/weir-go/weir/internal/testkit"
)

// RunOver runs the suite of Stores that are made of other ones. The function newStore returns an empty Store over
// primary and, if it has a second one, over backup. A Store with a method Close is closed. The result holds must be true
// for a Store that takes more from the primary than it is asked for. It may then admit an event without a call, counts
// the rest as left, and may deny an event for longer than the primary.
//
// The suite makes random calls with plans, costs that are taken at most, pauses, quotas and places, while the primary
// fails for a while, for all keys or for one, loses its replies, or is slow. It compares the results with the calls that
// the Stores behind have got. Each history runs in a bubble of testing/synctest, so newStore must leave the clock of the
// Store and those of both Fakes alone. The environment variable WEIR_HISTORIES sets twenty times the number of histories.
func RunOver(t *testing.T, newStore func(t *testing.T, primary, backup *Fake) (s driver.Store, holds bool)) {
	for _, c := range troubles {
		t.Run(c.name, func(t *testing.T) {
			s := subject{T: t}
			for seed := range uint64(max(1, s.histories()/20)) {
				synctest.Test(t, func(t *testing.T) {
					o := newOver(t, seed, c, newStore)
					for range 150 {
						o.step()
					}
					o.forget()
				})
				synctest.Test(t, func(t *testing.T) { newOver(t, seed, c, newStore).account() })
			}
		})
	}
}

// A trouble is a fault of the primary, which it has now and then.
type trouble struct {
	name string
	hook Hook          // nil if the primary is healthy
	trip time.Duration // the longest time that a reply takes; if it is 0, calls fail
	lost bool          // a call that fails may have been decided
}

var errTrouble = fmt.Errorf("%w: the suite makes the primary fail", driver.ErrUnavailable)

var troubles = []trouble{
	{name: "Healthy"},
	{name: "Slow", hook: Delay(2*time.Microsecond, 5*time.Microsecond), trip: 7 * time.Microsecond},
	{name: "VerySlow", hook: Delay(time.Millisecond, time.Millisecond), trip: 2 * time.Millisecond},
	{name: "Fails", hook: Fail(errTrouble)},
	{name: "FailsForOneKey", hook: FailFor(errTrouble, func(key string) bool { return key == "a" }), lost: true},
	{name: "LosesReplies", hook: Lose(errTrouble), lost: true},
}

// An over is a Store over others, with the random calls of a walk. The oracle of the walk has the events that the Store
// has admitted, and not those of calls that failed.
type over struct {
	*testing.T
	*walk
	driver.Store
	holds           bool
	primary, backup *Fake
	double          bool // the Store decides on the backup while the primary fails
	trouble         trouble
	failed          bool     // a call may have failed
	last            []answer // of the Stores behind to the last call
	trace           []traced

	mu      sync.Mutex
	answers []answer // of the Stores behind
}

// An answer is a call that a Store behind has answered without an error.
type answer struct {
	by            *Fake
	at            int64
	before, after []driver.Charge
}

func newOver(t *testing.T, seed uint64, c trouble, newStore func(t *testing.T, primary, backup *Fake) (driver.Store, bool)) *over {
	o := &over{T: t, trouble: c, primary: new(Fake), backup: new(Fake)}
	o.walk = newWalk(seed, &Harness{Now: time.Now, Undoes: true}, make(map[string]int))
	o.waits, o.maxStep = false, 10_000_000
	hot := &oracle.Rule{Name: "hot", Algorithm: pick(o.walk, "token_bucket", "fixed_window"), Events: 1000, Per: pick[int64](o.walk, 1_000_000, 60_000_000)}
	if !o.compile(hot, "", 0, 0) {
		t.Fatal("not a rule")
	}
	o.rules, o.inForce, o.zones = append([][]*oracle.Rule{{hot}}, o.rules...), append(o.inForce, 0), append(o.zones, 0)
	time.Sleep(time.Until(time.UnixMicro(o.now)))
	o.heal()
	o.backup.Set(o.record(o.backup))
	o.Store, o.holds = newStore(t, o.primary, o.backup)
	o.double = driver.Describe(o.Store).Behind["backup"] == driver.Store(o.backup)
	if c, ok := o.Store.(io.Closer); ok {
		t.Cleanup(func() { _ = c.Close() })
	}
	return o
}

// record returns the last Hook of s, a Store behind. It keeps the answer, also if a Hook before it loses the reply.
func (o *over) record(s *Fake) Hook {
	return func(ctx context.Context, charges []driver.Charge, next Call) error {
		before, now := slices.Clone(charges), time.Now().UnixMicro()
		err := next(ctx, charges)
		if err == nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.answers = append(o.answers, answer{s, now, before, slices.Clone(charges)})
		}
		return err
	}
}

// takeAnswers returns the answers since its last call.
func (o *over) takeAnswers() []answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.answers
	o.answers = nil
	return taken
}

func (o *over) differ(format string, args ...any) {
	o.Helper()
	for _, c := range o.trace[max(0, len(o.trace)-12):] {
		o.Log(c)
	}
	o.Fatalf("history %d, call %d: %s", o.seed, len(o.trace), fmt.Sprintf(format, args...))
}

func (o *over) heal() { o.primary.Set(o.record(o.primary)) }

// change makes the primary healthy or not, now and then.
func (o *over) change() {
	if o.trouble.hook == nil || !o.one(12) {
		return
	}
	if o.heal(); o.one(2) {
		o.primary.Set(o.trouble.hook, o.record(o.primary))
		o.failed = o.trouble.trip == 0
	}
}

// step makes the next call of the walk, sometimes many times, as the callers of a hot key do.
func (o *over) step() {
	o.Helper()
	o.change()
	o.now = time.Now().UnixMicro()
	c := o.next()
	time.Sleep(time.Until(time.UnixMicro(o.now)))
	o.make(c)
	if o.one(8) {
		for range 40 {
			time.Sleep(time.Millisecond)
			hot := call{now: time.Now().UnixMicro()}
			hot.add(withReceipt(oracle.Charge{Key: "a", Rule: o.rules[0][0], Cost: 1}))
			o.now = hot.now
			o.make(hot)
		}
	}
}

// make makes a call, and checks its result.
func (o *over) make(call call) {
	o.Helper()
	synctest.Wait()
	charges := make([]driver.Charge, len(call.charges))
	for i := range charges {
		charges[i] = o.charge(&call.charges[i], call.now, call.receipts[i])
	}
	o.takeAnswers()
	asked := slices.Clone(charges)
	err := Do(context.Background(), o.Store, charges)
	o.last = o.takeAnswers()
	o.trace = append(o.trace, traced{o.now, asked, charges, err, len(o.last)})
	switch {
	case err == nil && call.asks():
		o.checkTake(asked, charges)
	case err == nil:
		o.passedOn(asked, charges)
		o.forBoth(asked)
	case !o.failed || !errors.Is(err, driver.ErrUnavailable):
		o.differ("got error %v", err)
	case call.asks() && o.double:
		o.differ("got error %v, and the backup is healthy", err)
	}
	o.keep(call, charges, err)
}

// A traced call is one of the last calls, for a failure.
type traced struct {
	now        int64
	asked, got []driver.Charge
	err        error
	answers    int
}

func (c traced) String() string {
	text := fmt.Sprintf("at %d: %v, %d answers behind", c.now, c.err, c.answers)
	for i, got := range c.got {
		a := c.asked[i]
		text += fmt.Sprintf("\n\top %d of %q, cost %d, at most %t, max delay %v, pause %v, %v, receipt %+v: %+v, cost %d, receipt %+v",
			a.Op, a.Key, a.Cost, a.AtMost, a.MaxDelay, a.Pause, a.Rule.Definition, a.Receipt, got.Verdict, got.Cost, got.Receipt)
	}
	return text
}

// passedOn reports whether the Stores behind have answered the call asked, and fails if they have and the answers are not
// got. The charges of an Adjust may be those of several calls.
func (o *over) passedOn(asked, got []driver.Charge) bool {
	o.Helper()
	if asked[0].Op.Asks() {
		return o.answered(asked, got, o.last)
	}
	var single []answer
	for _, a := range o.last {
		for i := range a.before {
			single = append(single, answer{a.by, a.at, a.before[i : i+1], a.after[i : i+1]})
		}
	}
	all := true
	for i := range asked {
		all = o.answered(asked[i:i+1], got[i:i+1], single) && all
	}
	return all
}

// answered reports whether one of answers is about the charges asked, and is got. It fails if there are only others about
// them. A Reset may be for both Stores, and has found something if one of them has.
func (o *over) answered(asked, got []driver.Charge, answers []answer) bool {
	o.Helper()
	same := func(a, b driver.Charge) bool {
		return a.Key == b.Key && a.Rule == b.Rule && a.Op == b.Op && a.Cost == b.Cost && a.AtMost == b.AtMost && a.MaxDelay == b.MaxDelay
	}
	equal := func(a, b driver.Charge) bool {
		a.Receipt.Origin, a.Receipt.Age = b.Receipt.Origin, b.Receipt.Age
		a.Verdict.Found = a.Verdict.Found || a.Op == driver.Reset && b.Verdict.Found && o.double
		return a.Verdict == b.Verdict && a.Cost == b.Cost && a.Receipt == b.Receipt
	}
	var wants [][]driver.Charge
	for _, a := range answers {
		if !slices.EqualFunc(a.before, asked, same) {
			continue
		}
		if slices.EqualFunc(a.after, got, equal) {
			o.now = a.at
			return true
		}
		wants = append(wants, a.after)
	}
	if len(wants) > 0 && !o.holds {
		o.differ("got  %+v\n\twant an answer of a Store behind: %+v", got, wants)
	}
	return false
}

// forBoth fails if the backup has not got the charges of an Adjust that are for both Stores: those that end something, or
// begin a pause.
func (o *over) forBoth(asked []driver.Charge) {
	o.Helper()
	for i, c := range asked {
		if !o.double || c.Op != driver.Reset && c.Waiter == nil && (!c.Rule.Kind.Closes || c.Op != driver.Debit) {
			continue
		}
		same := func(a driver.Charge) bool {
			return a.Key == c.Key && a.Rule == c.Rule && a.Op == c.Op && a.Waiter == c.Waiter
		}
		if !slices.ContainsFunc(o.last, func(a answer) bool { return a.by == o.backup && slices.ContainsFunc(a.before, same) }) {
			o.differ("charge %d has not reached the backup", i)
		}
	}
}

// checkTake checks a decision that no error has ended.
func (o *over) checkTake(asked, got []driver.Charge) {
	o.Helper()
	if o.passedOn(asked, got) {
		return
	}
	if o.double || !o.holds && admitted(got) {
		o.differ("no Store behind has decided")
	}
	if o.holds {
		return
	}
	for i, c := range got {
		if v := c.Verdict; v.Allowed || v.Rule.Shadow {
			continue
		}
		peek := c
		peek.Op, peek.Cost, peek.AtMost, peek.Receipt = driver.Peek, asked[i].Cost, false, driver.Receipt{}
		if asked[i].AtMost {
			peek.Cost = 1
		}
		charges := []driver.Charge{peek}
		if err := o.primary.store().Take(context.Background(), charges); err != nil {
			o.differ("got error %v", err)
		}
		if err := o.compare(c.Verdict, charges[0].Verdict); err != nil {
			o.differ("charge %d was denied without a call: %+v\n\t%v", i, c, err)
		}
	}
}

// late returns by how much a time may be later than that of the primary.
func (o *over) late() time.Duration { return o.trouble.trip + time.Microsecond }

// compare returns an error if got, the Verdict of a charge that was denied without a call, contradicts want, the Verdict
// that the primary would give: no event is denied that the primary would admit, and no time is too early.
func (o *over) compare(got, want driver.Verdict) error {
	between := func(got, least time.Duration) bool {
		return got == least || got <= least+o.late() && (got > least || o.trouble.lost)
	}
	switch {
	case want.Allowed:
		return fmt.Errorf("the primary admits it: %+v", want)
	case !testkit.SameRule(got.Rule, want.Rule) || got.Soft || got.Delay != 0:
		return fmt.Errorf("want a denial by %v", want.Rule)
	case !between(got.RetryAfter, want.RetryAfter):
		return fmt.Errorf("want RetryAfter %v and at most %v more", want.RetryAfter, o.late())
	case !between(got.ResetAfter, want.ResetAfter):
		return fmt.Errorf("want ResetAfter %v and at most %v more", want.ResetAfter, o.late())
	case got.Remaining > want.Remaining && !o.trouble.lost:
		return fmt.Errorf("want Remaining %d at most", want.Remaining)
	case got.RetryAfter != driver.Never && got.Window != got.RetryAfter:
		return errors.New("want a Window of RetryAfter")
	}
	return nil
}

// keep applies to the model those charges of the call that count: those that free events, whatever came of them, and
// others if they succeeded.
func (o *over) keep(c call, got []driver.Charge, err error) {
	o.Helper()
	counts, admitted := call{now: c.now}, err == nil && admitted(got)
	for i, g := range got {
		next, done := c.charges[i], err == nil || g.Verdict.Done
		if c.receipts[i] != nil && done {
			*c.receipts[i] = g.Receipt
		}
		if retry := g.Verdict.RetryAfter; retry > 0 && retry != driver.Never {
			o.wait = retry.Microseconds()
		}
		if !isPauseRule(next.Rule) {
			o.left = int64(g.Verdict.Remaining)
		}
		if c.asks() && admitted || !c.asks() && (done || g.Op != driver.Debit && g.Op != driver.Renew) {
			next.AtMost, next.Cost = false, int64(g.Cost)
			counts.charges, counts.receipts = append(counts.charges, next), append(counts.receipts, c.receipts[i])
		}
	}
	if len(counts.charges) > 0 && !o.double {
		o.answer(counts)
	}
}

// admitted reports whether all charges of a Take were admitted by the rules that are enforced.
func admitted(charges []driver.Charge) bool {
	return !slices.ContainsFunc(charges, func(c driver.Charge) bool { return (!c.Verdict.Allowed || c.Verdict.Unknown) && !c.Rule.Shadow })
}

// forget resets all keys of a healthy primary, and fails if events are left.
func (o *over) forget() {
	o.Helper()
	o.heal()
	for _, key := range []string{"a", "b"} {
		for _, r := range slices.Concat(o.rules...) {
			reset := o.charge(&oracle.Charge{Key: key, Rule: r, Op: oracle.Reset, Cost: 1, Calendar: o.calendar(r)}, o.now, nil)
			c := reset
			c.Op = driver.Peek
			o.until(&reset)
			o.until(&c)
			if !c.Verdict.Allowed || c.Verdict.ResetAfter != 0 && !c.Verdict.Unknown {
				o.differ("after a Reset: got %+v", c)
			}
		}
	}
}

// until makes a call with c until it succeeds, as it must after a minute.
func (o *over) until(c *driver.Charge) {
	o.Helper()
	for range 60 {
		charges := []driver.Charge{*c}
		if err := Do(context.Background(), o.Store, charges); err == nil {
			*c = charges[0]
			return
		}
		time.Sleep(time.Second)
	}
	o.differ("the primary has been healthy for a minute")
}

// must fails if err is not one of the errors that the primary has made.
func (o *over) must(err error) {
	o.Helper()
	if err != nil && !(o.failed && errors.Is(err, driver.ErrUnavailable)) {
		o.differ("got error %v", err)
	}
}
