package core

import (
	"context"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/calendar"
)

// Quota returns a rule that admits l.Events in every period of the calendar: l is the result of [Daily],
// [Weekly] or [Monthly]. Periods begin at midnight UTC, weeks on Monday and months on the first day.
// [Spec.Location] and [Spec.Anchor] change that. It is for amounts that customers have bought, such as
// 1 000 000 calls a month. A quota does not refill during a period, and does not begin with the first use.
//
//	core.Quota("calls", core.Monthly(1_000_000)).In(berlin)
//
// # Periods
//
// The clock of the Store decides which period it is, so the clock of a process may be wrong by less than
// half a period. [State.Window], after a denial [State.RetryAfter], and if something is used
// [State.ResetAfter] are the time until the next period. [State.Period] is the length of the present
// period. A refund of an event of an earlier period does nothing.
//
// A period of a key lasts until the end that it had when its first event was counted. If the zone or the
// anchor of the key changes meanwhile, the new calendar applies from then on, and the period after the
// change may be shorter than [State.Period], which is that of the new calendar. By the new calendar, that
// period may have begun before the old one ended: a refund of an event between both times frees an event of
// the new period.
//
// # Outages
//
// The backup of package failover begins at zero, as it does not know the counts of Redis, so the outages of
// a period may admit one more quota in each process (one n-th of it in each of n with failover.Instances).
// For a quota that must not be exceeded, name the rule in failover.FailClosedFor. A state lives until the
// end of its period, up to 31 days and an hour: Redis must keep it (maxmemory-policy noeviction, and
// persistence), or the quota begins again. With memstore.Store, it begins again when the process is
// started. Package lease does not lease quotas, because a process that ends would lose the events that it
// holds.
func Quota(name string, l Limit) Rule {
	return NewRule(Spec{Name: name, Algorithm: driver.Quota, Limit: l})
}

// Daily returns a limit of n events a day of the calendar, for a [Quota]. Its text is "n/day". [PerDay] is
// that of 24 hours.
func Daily(n int) Limit { return Limit{Events: n, Calendar: Day} }

// Weekly returns a limit of n events a week, for a [Quota]. Its text is "n/week".
func Weekly(n int) Limit { return Limit{Events: n, Calendar: Week} }

// Monthly returns a limit of n events a month, for a [Quota]. Its text is "n/month".
func Monthly(n int) Limit { return Limit{Events: n, Calendar: Month} }

// presentPeriods is the compiled rule of a quota without anchors for decisions from and until some time.
type presentPeriods struct {
	compiled    *driver.Compiled
	from, until int64 // Unix microseconds
}

// during returns the compiled rule of r, a quota, for an event of key at the time now.
func (r *definition) during(ctx context.Context, now time.Time, key string) *driver.Compiled {
	us := now.UnixMicro()
	if r.spec.Anchor != nil {
		return r.compiled.During(calendar.Periods(r.plan.Limit.Calendar, now, r.spec.Anchor(ctx, key), r.spec.Location))
	}
	known := r.present.Load()
	if known == nil || us < known.from || us >= known.until {
		p := calendar.Periods(r.plan.Limit.Calendar, now, time.Time{}, r.spec.Location)
		known = &presentPeriods{r.compiled.During(p), p.Start + (p.Boundary-p.Start)/2, p.Boundary + (p.End-p.Boundary)/2}
		r.present.Store(known)
	}
	return known.compiled
}
