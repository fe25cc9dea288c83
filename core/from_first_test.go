package core_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// The window of a key begins with its first admitted event, and all decisions name its end.
func TestRule_FromFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.Per(4, time.Minute)
		l := testkit.Limiter(t, memstore.New(), core.FixedWindow("r", limit).FromFirst())
		time.Sleep(7*time.Second + 123_456*time.Microsecond)
		var end time.Time
		check := func(name string, d core.Decision, allowed bool, remaining int) {
			t.Helper()
			s := d.State(0)
			if d.Allowed != allowed || s.Remaining != remaining {
				t.Errorf("%s: got allowed %t and %d remaining, want %t and %d", name, d.Allowed, s.Remaining, allowed, remaining)
			}
			if at := time.Now().Add(s.Window); !at.Equal(end) || s.ResetAfter > 0 && s.ResetAfter != s.Window || !allowed && s.RetryAfter != s.Window {
				t.Errorf("%s: got %+v, want an end at %v", name, s, end)
			}
		}
		peek := func() core.Decision {
			d, err := l.Peek(t.Context(), "k")
			testkit.Must(t, err)
			return d
		}
		for _, name := range []string{"a peek", "another peek"} { // which begin no window
			end = time.Now().Add(time.Minute)
			check(name, peek(), true, 4)
			time.Sleep(time.Second)
		}
		tooMuch, err := l.AllowN(t.Context(), "k", 5)
		if testkit.Must(t, err); tooMuch.Allowed || tooMuch.RetryAfter != core.Never {
			t.Errorf("5 of 4: got %+v", tooMuch)
		}
		time.Sleep(time.Second)

		end = time.Now().Add(time.Minute)
		check("the first event", testkit.Allow(t, l, "k"), true, 3)
		time.Sleep(59 * time.Second)
		for left := 2; left >= 0; left-- {
			check("an event near the end", testkit.Allow(t, l, "k"), true, left)
		}
		check("one too many", testkit.Allow(t, l, "k"), false, 0)
		time.Sleep(time.Until(end) - time.Microsecond)
		check("a microsecond before the end", testkit.Allow(t, l, "k"), false, 0)
		time.Sleep(time.Microsecond)
		end = time.Now().Add(time.Minute)
		for left := 3; left >= 0; left-- { // 7 in a little more than a second, and at most 7 in any minute
			check("the next window", testkit.Allow(t, l, "k"), true, left)
		}
		time.Sleep(3 * time.Hour) // nothing begins meanwhile
		end = time.Now().Add(time.Minute)
		check("after a pause", peek(), true, 4)

		r, err := l.Reserve(t.Context(), "k", 2)
		testkit.Must(t, err)
		time.Sleep(10 * time.Second)
		testkit.Must(t, r.Settle(t.Context(), 1))
		check("a refund of a part", peek(), true, 3)
		testkit.Must(t, r.Refund(t.Context()))
		end = time.Now().Add(time.Minute)
		check("a refund of all", peek(), true, 4)
		time.Sleep(5 * time.Second)
		end = time.Now().Add(time.Minute)
		check("the event after it", testkit.Allow(t, l, "k"), true, 3)
	})
}

// Other algorithms have no windows that could begin so, and windows of both kinds share no state.
func TestRule_FromFirst_Others(t *testing.T) {
	limit := core.PerMinute(3)
	for _, r := range []core.Rule{core.TokenBucket("r", limit), core.LeakyBucket("r", limit), core.SlidingLog("r", limit), core.SlidingWindow("r", limit), core.InFlight("r", 3), core.Quota("r", core.Daily(3))} {
		var of *core.RuleError
		if _, err := core.New(memstore.New(), r.FromFirst()); !errors.As(err, &of) || of.Field != "from first" {
			t.Errorf("%v: got error %v", r, err)
		}
	}
	s := memstore.New()
	clock, own := testkit.Limiter(t, s, core.FixedWindow("r", limit)), core.FixedWindow("r", limit).FromFirst()
	testkit.Admit(t, clock, "k", 3)
	testkit.Must(t, clock.Replace(own))
	if d := testkit.Allow(t, clock, "k"); !d.Allowed || d.State(0).Remaining != 2 {
		t.Errorf("after 3 events of the clock's windows: got %+v, want 2 left", d.State(0))
	}
	if got, want := own.String(), `fixed_window "r" 3/m from the first event`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
