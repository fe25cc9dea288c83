package main

import (
	"context"
	"time"

	"github.com/weir-go/weir/core"
)

// The limits of the rules, in units.
const (
	open    = 1_000_000_000 // is never reached
	limited = 12            // is reached between two checks
)

// A rule is a rule with the format of its state.
type rule struct {
	core.Rule
	decode func(value any) (count int, err error) // of the value of the key in Redis
}

func (r rule) limited() bool { return r.Limit().Events == limited }

// rules returns the rules with a limit. No event of them expires, and no window or period ends, within an hour.
func rules(suffix string, events int) []rule {
	now := time.Now()
	begun := func(context.Context, string) time.Time { return now.AddDate(0, 0, -10) }
	return []rule{
		{core.Quota("quota-"+suffix, core.Monthly(events)).Anchor(begun), decodeQuota},
		{core.FixedWindow("fixed-"+suffix, core.Per(events, lasting(now))), decodeQuota},
		{core.SlidingWindow("sliding-"+suffix, core.PerDay(events)), decodeSlidingWindow},
	}
}

// lasting returns a period of about a day whose present window, which began at a multiple of the period, lasts for
// another hour.
func lasting(now time.Time) time.Duration {
	const room = time.Hour
	for period := 24 * time.Hour; ; period += time.Hour {
		if used := time.Duration(now.UnixNano()) % period; used > room && period-used > room {
			return period
		}
	}
}
