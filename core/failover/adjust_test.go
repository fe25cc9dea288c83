package failover_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A step of a test, and how much the stores have charged to the key "k" afterwards.
type step struct {
	name            string
	do              func(p *pair, r reservations) error
	primary, backup int
	fails           bool // with core.ErrUnavailable
}

// Reservations of a test, by name.
type reservations map[string]*core.Reservation

func reserve(name string, n int) func(*pair, reservations) error {
	return func(p *pair, r reservations) (err error) {
		r[name], err = p.year.Reserve(p.t.Context(), "k", n)
		return err
	}
}

func settle(name string, n int) func(*pair, reservations) error {
	return func(p *pair, r reservations) error { return r[name].Settle(p.t.Context(), n) }
}

func credit(n int) func(*pair, reservations) error {
	return func(p *pair, _ reservations) error { return p.year.Credit(p.t.Context(), "k", n) }
}

func debit(n int) func(*pair, reservations) error {
	return func(p *pair, _ reservations) error { return p.year.Debit(p.t.Context(), "k", n) }
}

func reset(p *pair, _ reservations) error {
	_, err := p.year.Reset(p.t.Context(), "k")
	return err
}

// run returns a step that calls do and does not fail.
func run(do func(p *pair)) func(*pair, reservations) error {
	return func(p *pair, _ reservations) error { do(p); return nil }
}

// set returns a step that replaces the hooks of the primary.
func set(hooks ...storetest.Hook) func(*pair, reservations) error {
	return run(func(p *pair) { p.set(hooks...) })
}

var (
	leave        = run((*pair).leave)
	comeBack     = run((*pair).comeBack)
	backupFails  = run(func(p *pair) { p.backup.Set(refuse) })
	backupDoes   = run(func(p *pair) { p.backup.Set() })
	chargeBackup = run(func(p *pair) { testkit.Admit(p.t, testkit.Limiter(p.t, p.backup, year), "k", 50) })
	halfOpen     = run(func(p *pair) { p.set(); p.until(failover.Recovering) })
)

func TestStore_Adjust(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  []failover.Option
		steps []step
		lost  uint64 // refunds
	}{
		{name: "an Undo goes to the store that has the charge", lost: 1, steps: []step{
			{"before the outage", reserve("before", 5), 5, 0, false},
			{"another", reserve("other", 1), 6, 0, false},
			{"refund another", settle("other", 0), 5, 0, false},
			{"leave", leave, 5, 0, false},
			{"during the outage", reserve("during", 7), 5, 7, false},
			{"hang", set(hang), 5, 7, false},
			{"refund of before", settle("before", 0), 5, 7, true},
			{"another", reserve("other", 2), 5, 9, false},
			{"refund another", settle("other", 0), 5, 7, false},
			{"later", reserve("later", 1), 5, 8, false},
			{"come back", comeBack, 5, 8, false},
			{"lower during", settle("during", 3), 5, 4, false},
			{"raise later", settle("later", 3), 7, 4, false}, // where a Debit goes now
			{"refund later", settle("later", 0), 5, 3, false},
		}},
		{name: "the primary refuses", lost: 2, steps: []step{
			{"first", reserve("first", 10), 10, 0, false},
			{"second", reserve("second", 10), 20, 0, false},
			{"charge the backup", chargeBackup, 20, 50, false},
			{"refuse", set(refuse), 20, 50, false},
			{"credit", credit(1), 20, 50, true}, // a Credit may have been made, and is not repeated
			{"lower second", settle("second", 7), 20, 50, true},
			{"debit", debit(9), 20, 59, false},
			{"reset", reset, 20, 0, false},
		}},
		{name: "the primary loses answers", lost: 2, steps: []step{
			{"first", reserve("first", 10), 10, 0, false},
			{"second", reserve("second", 10), 20, 0, false},
			{"charge the backup", chargeBackup, 20, 50, false},
			{"lose", set(lose), 20, 50, false},
			{"credit", credit(1), 19, 50, true},
			{"lower second", settle("second", 7), 16, 50, true},
			{"debit", debit(9), 25, 59, false}, // a double charge is safer than none
			{"reset", reset, 0, 0, false},
		}},
		{name: "the primary is away", steps: []step{
			{"before the outage", reserve("before", 10), 10, 0, false},
			{"leave", leave, 10, 0, false},
			{"during the outage", reserve("during", 20), 10, 20, false},
			{"credit", credit(3), 10, 17, false},
			{"debit", debit(5), 10, 22, false},
			{"reset", reset, 10, 0, false},
		}},
		{name: "a Reset goes to both stores", steps: []step{
			{"before the outage", reserve("before", 10), 10, 0, false},
			{"leave", leave, 10, 0, false},
			{"during the outage", reserve("during", 20), 10, 20, false},
			{"come back", comeBack, 10, 20, false},
			{"reset", reset, 0, 0, false},
			{"after the outage", reserve("after", 10), 10, 0, false},
			{"the backup fails", backupFails, 10, 0, false},
			{"reset", reset, 0, 0, false},
			{"the backup is healthy", backupDoes, 0, 0, false},
			{"before another outage", reserve("before", 10), 10, 0, false},
			{"leave", leave, 10, 0, false},
			{"during another outage", reserve("during", 20), 10, 20, false},
			{"half-open", halfOpen, 10, 20, false}, // hardly a call goes to the primary
			{"reset", reset, 0, 0, false},
		}},
		{name: "a receipt that the primary lost is not that of the backup", steps: []step{
			{"lose", set(lose), 0, 0, false},
			{"event", reserve("event", 10), 10, 10, false},
			{"healthy", set(), 10, 10, false},
			{"refund", settle("event", 0), 10, 0, false},
		}},
		{name: "FailOpen charges and refunds nothing", opts: []failover.Option{failover.FailOpenFor("year")}, steps: []step{
			{"before the outage", reserve("before", 10), 10, 0, false},
			{"leave", leave, 10, 0, false},
			{"first", reserve("first", 1000), 10, 0, false},
			{"refund first", settle("first", 0), 10, 0, false},
			{"second", reserve("second", 1000), 10, 0, false},
			{"come back", comeBack, 10, 0, false},
			{"refund second", settle("second", 0), 10, 0, false},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachPair(t, func(t *testing.T, p *pair) {
				r := reservations{}
				for i, s := range c.steps {
					away, begun := p.State() == failover.Backup, time.Now()
					err := s.do(p, r)
					if errors.Is(err, core.ErrUnavailable) != s.fails || err != nil && !s.fails {
						t.Errorf("step %d, %s: got %v, expected core.ErrUnavailable: %v", i, s.name, err, s.fails)
					}
					if took := time.Since(begun); away && p.State() == failover.Backup && took != 0 {
						t.Errorf("step %d, %s: got %v, expected no wait for a primary that is away", i, s.name, took)
					}
					if p.used("k", s.primary, s.backup); t.Failed() {
						t.Fatalf("after step %d, %s", i, s.name)
					}
				}
				if got := p.Stats().Lost; got != c.lost {
					t.Errorf("lost refunds: got %d, expected %d", got, c.lost)
				}
			}, c.opts...)
		})
	}
}

// Found is about both stores, if both can be called.
func TestStore_Adjust_ResetFound(t *testing.T) {
	for _, c := range []struct {
		name            string
		primary, backup int // charged before the Reset
		away            bool
		backupFails     bool
		want            bool
	}{
		{name: "nothing charged"},
		{name: "primary", primary: 1, want: true},
		{name: "backup", backup: 1, want: true},
		{name: "both", primary: 1, backup: 1, want: true},
		{name: "primary, which is away", primary: 1, away: true},
		{name: "backup, and the primary is away", backup: 1, away: true, want: true},
		{name: "primary, and the backup fails", primary: 1, backupFails: true, want: true},
		{name: "backup, which fails", backup: 1, backupFails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachPair(t, func(t *testing.T, p *pair) {
				testkit.Ask(t, testkit.Limiter(t, p.primary.Store, year), "k", c.primary)
				testkit.Ask(t, testkit.Limiter(t, p.backup.Store, year), "k", c.backup)
				if c.away {
					p.leave()
				}
				if c.backupFails {
					p.backup.Set(refuse)
				}
				if got, err := p.year.Reset(t.Context(), "k"); err != nil || got != c.want {
					t.Errorf("found: got %v and %v, expected %v", got, err, c.want)
				}
			})
		})
	}
}

// The backup is not called for a caller that has left.
func TestStore_Adjust_CallerLeaves(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.set(hang)
		ctx, cancel := context.WithTimeout(t.Context(), deadline/2)
		defer cancel()
		if _, err := p.year.Reset(ctx, "k"); err != context.DeadlineExceeded {
			t.Errorf("got %v, expected %v", err, context.DeadlineExceeded)
		}
		if n := p.backup.Calls(); n != 0 {
			t.Errorf("calls of the backup: got %d, expected 0", n)
		}
	})
}

// An Adjust with a fail-closed rule returns an error, and does the charges of the other rules.
func TestStore_Adjust_FailClosed(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		login := core.SlidingLog("login", core.PerHour(100))
		l := testkit.Limiter(t, p, login, year)
		r := testkit.Reserve(t, l, "k", 10)
		p.leave()
		closed := func(name string, err error, backup int) {
			t.Helper()
			if !errors.Is(err, core.ErrFailClosed) {
				t.Errorf("%s: got %v, expected core.ErrFailClosed", name, err)
			}
			p.used("k", 10, backup)
		}
		closed("Debit", l.Debit(t.Context(), "k", 9), 9)
		closed("Credit", l.Credit(t.Context(), "k", 2), 7)
		closed("Settle", r.Settle(t.Context(), 15), 12)
		_, err := l.Allow(t.Context(), "k") // is one decision
		closed("Allow", err, 12)
		testkit.Must(t, r.Settle(t.Context(), 15))
		p.comeBack()
		testkit.Must(t, r.Refund(t.Context()))
		p.used("k", 0, 7)
		p.leave()
		_, err = l.Reset(t.Context(), "k")
		if p.used("k", 0, 0); !errors.Is(err, core.ErrFailClosed) {
			t.Errorf("Reset: got %v, expected core.ErrFailClosed", err)
		}
	}, failover.FailClosedFor("login"))
}

// A Store may be the primary of another, and a refund finds the store that has the charge.
func TestStore_Adjust_NestedStores(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPair(t, false)
		third := &storetest.Fake{Store: memstore.New()}
		outer := failover.New(p.Store, third)
		defer outer.Close()
		stores := []*storetest.Fake{p.primary, p.backup, third}
		l := testkit.Limiter(t, outer, year)
		all := []*core.Reservation{testkit.Reserve(t, l, "k", 10)}
		p.leave()
		all = append(all, testkit.Reserve(t, l, "k", 10))
		p.backup.Set(refuse)
		for outer.State() != failover.Backup {
			testkit.Peek(t, l, "k")
			time.Sleep(time.Millisecond)
		}
		all = append(all, testkit.Reserve(t, l, "k", 10))
		p.backup.Set()
		p.comeBack()
		time.Sleep(2 * time.Second)
		for i, r := range all {
			testkit.Must(t, r.Settle(t.Context(), 4))
			if got := testkit.Left(t, testkit.Limiter(t, stores[i].Store, year), "k"); got != 96 {
				t.Errorf("store %d: got %d left, expected 96", i, got)
			}
		}
	})
}

var partner = core.Pause("partner")

// A pauser makes calls of a limiter with a pause on a pair.
type pauser struct {
	*pair
	l *core.Limiter
}

// pause returns a step that pauses "k" for d, or ends its pause.
func pause(d time.Duration) func(p *pauser) error {
	return func(p *pauser) error { return p.l.Pause(p.t.Context(), "k", d) }
}

// resetTo returns a step that resets "k", whose Reset has to report found.
func resetTo(found bool) func(p *pauser) error {
	return func(p *pauser) error {
		got, err := p.l.Reset(p.t.Context(), "k")
		if err == nil && got != found {
			p.t.Errorf("a Reset: got %t, expected %t", got, found)
		}
		return err
	}
}

// doing returns a step that calls do and does not fail.
func doing(do func(p *pair)) func(p *pauser) error {
	return func(p *pauser) error { do(p.pair); return nil }
}

// A pause holds on the primary and on the backup. One that begins while the primary is away holds on the backup
// only. A Reset ends both.
func TestStore_Adjust_pause(t *testing.T) {
	hooks := func(hooks ...storetest.Hook) func(p *pauser) error { return doing(func(p *pair) { p.set(hooks...) }) }
	backup := func(hooks ...storetest.Hook) func(p *pauser) error {
		return doing(func(p *pair) { p.backup.Set(hooks...) })
	}
	type step struct {
		name            string
		do              func(p *pauser) error
		primary, backup bool // "k" is paused there afterwards
		denied          bool // by the Store
		fails           bool // with core.ErrUnavailable
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"an outage in a pause", []step{
			{"pause", pause(time.Hour), true, true, true, false},
			{"leave", doing((*pair).leave), true, true, true, false},
			{"come back", doing((*pair).comeBack), true, true, true, false},
			{"end", pause(0), false, false, false, false},
			{"end again", resetTo(false), false, false, false, false},
			{"leave", doing((*pair).leave), false, false, false, false},
		}},
		{"a pause in an outage", []step{
			{"leave", doing((*pair).leave), false, false, false, false},
			{"pause", pause(time.Hour), false, true, true, false},
			{"come back", doing((*pair).comeBack), false, true, false, false},
			{"reset", resetTo(true), false, false, false, false},
		}},
		{"the end of a pause in an outage", []step{
			{"pause", pause(time.Hour), true, true, true, false},
			{"leave", doing((*pair).leave), true, true, true, false},
			{"end", pause(0), true, false, false, false},
			{"come back", doing((*pair).comeBack), true, false, true, false},
			{"reset", resetTo(true), false, false, false, false},
		}},
		{"half open", []step{
			{"leave", doing((*pair).leave), false, false, false, false},
			{"half open", doing(func(p *pair) { p.set(); p.until(failover.Recovering) }), false, false, false, false},
			{"pause", pause(time.Hour), true, true, true, false},
		}},
		{"the primary refuses", []step{
			{"refuse", hooks(refuse), false, false, false, false},
			{"pause", pause(time.Hour), false, true, true, true}, // the next decision may be one of the primary
			{"end", pause(0), false, false, false, false},
		}},
		{"the primary loses answers", []step{
			{"lose", hooks(lose), false, false, false, false},
			{"pause", pause(time.Hour), true, true, true, true},
			{"end", pause(0), false, false, false, false},
		}},
		{"the backup refuses", []step{
			{"refuse", backup(refuse), false, false, false, false},
			{"pause", pause(time.Hour), true, false, true, false},
			{"pause again", pause(2 * time.Hour), true, false, true, false},
			{"recover", backup(), true, false, true, false},
			{"pause once more", pause(time.Minute), true, true, true, false},
		}},
		{"both refuse", []step{
			{"refuse", hooks(refuse), false, false, false, false},
			{"refuse", backup(refuse), false, false, false, false},
			{"pause", pause(time.Hour), false, false, false, true},
			{"end", pause(0), false, false, false, true},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachPair(t, func(t *testing.T, p *pair) {
				x := &pauser{p, testkit.Limiter(t, p, partner)}
				for i, s := range c.steps {
					if err := s.do(x); s.fails != errors.Is(err, core.ErrUnavailable) || !s.fails && err != nil {
						t.Fatalf("%s: got %v, expected an error: %t", s.name, err, s.fails)
					}
					for name, on := range map[string]struct {
						store *storetest.Fake
						want  bool
					}{"primary": {p.primary, s.primary}, "backup": {p.backup, s.backup}} {
						if got := !testkit.Allow(t, testkit.Limiter(t, on.store.Store, partner), "k").Allowed; got != on.want {
							t.Errorf("step %d, %s: paused on the %s: got %t, expected %t", i, s.name, name, got, on.want)
						}
					}
					if d, err := x.l.Allow(t.Context(), "k"); err == nil && d.Allowed == s.denied {
						t.Errorf("step %d, %s: got %v, expected denied %t", i, s.name, d, s.denied)
					}
				}
			})
		})
	}
}

// Undos and renewals go to the store that has the place, before, in and after an outage. A renewal that
// fails is not lost.
func TestStore_Adjust_inFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFlight(t, memstore.New())
		a, b, c := f.take(), f.take(), f.take()
		f.renew(a, true)
		f.primary.Set(refuse)
		f.fails(driver.Renew, a)
		f.until(failover.Backup)
		d, e := f.take(), f.take()
		f.left(1, 2)
		if charges, err := f.do(driver.Spend, driver.Receipt{}); err != nil || charges[0].Verdict.Allowed {
			t.Errorf("the verdict is %+v, %v, want a denial by the backup", charges[0].Verdict, err)
		}
		time.Sleep(20 * time.Second)
		f.renew(d, true)
		f.fails(driver.Renew, a)
		f.fails(driver.Renew, e, b, d) // e and d are renewed nevertheless
		if n := f.Stats().Lost; n != 0 {
			t.Errorf("%d are lost after renewals, want none", n)
		}
		f.fails(driver.Undo, c)
		f.fails(driver.Undo, e, c)
		if n := f.Stats().Lost; n != 2 {
			t.Errorf("%d are lost after two undos, want 2", n)
		}
		f.left(1, 3)

		f.primary.Set()
		f.until(failover.Primary)
		f.renew(a, true)
		f.renew(d, true)
		f.renew(e, false)
		time.Sleep(45 * time.Second) // after the end of b and c
		f.renew(a, true)
		f.renew(b, false)
		f.renew(d, true)
		f.left(3, 3)
		if charges, err := f.do(driver.Renew, d, b, a); err != nil || !charges[0].Verdict.Found || charges[1].Verdict.Found || !charges[2].Verdict.Found {
			t.Errorf("the renewals are %+v, %v, want found, not found, found", charges, err)
		}
		_, err := f.do(driver.Undo, d, a)
		testkit.Must(t, err)
		f.left(4, 4)
	})
}

// An event that fail-open admits has no place, and loses none.
func TestStore_Adjust_inFlightFailOpen(t *testing.T) {
	for name, f := range map[string]func(t *testing.T) *flight{
		"backup": func(t *testing.T) *flight { return newFlight(t, failover.FailOpen) },
		"rule": func(t *testing.T) *flight {
			return newFlight(t, memstore.New(), failover.FailOpenFor("places"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := f(t)
				f.primary.Set(refuse)
				f.until(failover.Backup)
				for range 5 {
					m := f.take()
					f.renew(m, true)
					_, err := f.do(driver.Undo, m)
					testkit.Must(t, err)
				}
			})
		})
	}
}
