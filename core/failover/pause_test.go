package failover_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

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

// Only the debit of a pause also goes to the backup. The other charges of an Adjust have their cost on the store that
// decides.
func TestStore_Adjust_pauseAmongOthers(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		l := testkit.Limiter(t, p, year, partner)
		testkit.Must(t, l.Debit(t.Context(), "k", 3))
		p.used("k", 3, 0)
		p.set(refuse)
		testkit.Must(t, l.Debit(t.Context(), "k", 4))
		p.used("k", 3, 4)
		p.set()
		r, err := l.Reserve(t.Context(), "k", 5)
		testkit.Must(t, err)
		testkit.Must(t, l.Pause(t.Context(), "k", time.Hour))
		p.used("k", 8, 4)
		// Both have got the debit of the pause. The primary has got two of the rate, of which it refused one.
		if on, backup := p.primary.Charges(driver.Debit), p.backup.Charges(driver.Debit); on != 3 || backup != 2 {
			t.Errorf("got %d debits on the primary and %d on the backup, expected 3 and 2", on, backup)
		}
		testkit.Must(t, r.Settle(t.Context(), 2)) // of an event from before the pause
		p.used("k", 5, 4)
		for range 2 {
			if d := testkit.Allow(t, l, "k"); d.Allowed || d.RetryAfter > time.Hour || d.RetryAfter < time.Hour-time.Minute {
				t.Errorf("got %v, expected a denial for an hour", d)
			}
			p.used("k", 5, 4) // the denial takes nothing on either store
			p.leave()
		}
	})
}

// A pause that fails because ctx has ended changes nothing.
func TestStore_Adjust_pauseAfterTheEnd(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l := testkit.Limiter(t, p, partner)
		if err := l.Pause(ctx, "k", time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, expected the error of ctx", err)
		}
		for _, s := range []*storetest.Fake{p.primary, p.backup} {
			testkit.Admit(t, testkit.Limiter(t, s.Store, partner), "k", 1)
		}
	})
}
