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

const banTime = 24 * time.Hour

// Only the primary has bans: none holds or begins while the backup decides, and those of the primary hold afterwards.
func TestStore_bans(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		rule := core.SlidingLog("r", core.Per(3, 365*24*time.Hour)).BlockFor(banTime)
		l := testkit.Limiter(t, p, rule)
		banned := func(when string, s core.Store, key string, want bool) {
			t.Helper()
			if d := testkit.Peek(t, testkit.Limiter(t, s, rule), key); (d.State(0).Ban > 0) != want {
				t.Errorf("%s: got %+v of %s, want a ban: %t", when, d, key, want)
			}
		}
		deny := func(when, key string, bans bool) {
			t.Helper()
			if d := testkit.Allow(t, l, key); d.Allowed || (d.State(0).Ban > 0) != bans {
				t.Errorf("%s: got %+v of %s, want a denial, and a ban: %t", when, d, key, bans)
			}
		}
		testkit.Admit(t, l, "k", 3)
		deny("before the outage", "k", true)
		banned("before the outage", p.primary.Store, "k", true)
		banned("before the outage", p.backup.Store, "k", false)

		p.leave()
		banned("in the outage", p, "k", false)
		for _, key := range []string{"k", "other"} {
			if d := testkit.Admit(t, l, key, 3); d.State(0).Ban > 0 {
				t.Errorf("in the outage: got %+v of %s, want no ban", d, key)
			}
			for range 2 {
				deny("in the outage", key, false)
			}
			banned("in the outage", p.backup.Store, key, false)
		}

		p.comeBack()
		banned("after the outage", p, "k", true)
		deny("after the outage", "k", true)
		banned("after the outage", p.primary.Store, "other", false)
		testkit.Admit(t, l, "other", 1)
		if found, err := l.Reset(t.Context(), "k"); err != nil || !found {
			t.Errorf("Reset: got %t, %v", found, err)
		}
		banned("after a Reset", p.primary.Store, "k", false)
		testkit.Admit(t, l, "k", 3)
	})
}

// A primary that is away, or fails, begins no ban, and neither does the backup for it.
func TestStore_Adjust_ban(t *testing.T) {
	pause := core.Pause("r.ban")
	for name, hook := range map[string]storetest.Hook{"away": nil, "refuses": refuse} {
		t.Run(name, func(t *testing.T) {
			eachPair(t, func(t *testing.T, p *pair) {
				if hook == nil {
					p.leave()
				} else {
					p.set(hook)
				}
				charges := []driver.Charge{{Key: "k", Rule: testkit.Compiled(pause), Op: driver.Debit, Cost: 1, Pause: banTime, Ban: true}}
				if err := p.Adjust(t.Context(), charges); !errors.Is(err, core.ErrUnavailable) {
					t.Errorf("got the error %v, want an ErrUnavailable", err)
				}
				for name, s := range map[string]core.Store{"primary": p.primary.Store, "backup": p.backup.Store} {
					if d := testkit.Peek(t, testkit.Limiter(t, s, pause), "k"); !d.Allowed {
						t.Errorf("the %s: got %+v, want no ban", name, d)
					}
				}
			})
		})
	}
}

// A denial by the backup, because the primary fails for one decision, begins no ban in the primary, which is not away.
func TestStore_Take_banByBackup(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		rule := core.SlidingLog("r", core.Per(3, 365*24*time.Hour)).BlockFor(banTime)
		l := testkit.Limiter(t, p, rule)
		testkit.Admit(t, testkit.Limiter(t, p.backup.Store, rule), "k", 3)
		p.set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			if charges[0].Op.Asks() {
				return errDown
			}
			return next(ctx, charges)
		})
		if d := testkit.Allow(t, l, "k"); d.Allowed || d.State(0).Ban > 0 {
			t.Errorf("by the backup: got %+v, want a denial without a ban", d)
		}
		p.is(failover.Primary)
		p.set()
		testkit.Admit(t, l, "k", 3)
		if d := testkit.Allow(t, l, "k"); d.State(0).Ban != banTime {
			t.Errorf("by the primary: got %+v, want a ban", d)
		}
	})
}
