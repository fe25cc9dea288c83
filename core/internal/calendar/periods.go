// Package calendar computes the days, weeks and months of places.
package calendar

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Periods returns the periods of a unit before and after the boundary that is nearest to now, at a location,
// where nil is UTC. They begin as anchor did, or if it is zero, as days, weeks from Monday, and months do.
func Periods(unit driver.Calendar, now, anchor time.Time, location *time.Location) driver.Periods {
	location = cmp.Or(location, time.UTC)
	begin := time.Date(2001, time.January, 1, 0, 0, 0, 0, location) // a Monday
	if !anchor.IsZero() {
		begin = anchor.In(location)
	}
	local := now.In(location)
	starts := make([]int64, 0, 7)
	for i := -3; i <= 3; i++ { // one more than necessary on either side, because a place may skip a day
		year, month, date := local.Date()
		switch unit {
		case driver.Day:
			date += i
		case driver.Week:
			date += 7*i - int(local.Weekday()-begin.Weekday()+7)%7
		default:
			month += time.Month(i)
			date = min(begin.Day(), time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day())
		}
		starts = append(starts, firstTime(year, month, date, begin).UnixMicro())
	}
	starts = slices.Compact(starts)
	us := now.UnixMicro()
	next, _ := slices.BinarySearch(starts, us+1)
	if us-starts[next-1] < starts[next]-us {
		next--
	}
	return driver.Periods{Start: starts[next-1], Boundary: starts[next], End: starts[next+1]}
}

// firstTime returns the time at which the clocks at the location of clock show the time of clock on a date,
// or a later time if they skip it.
func firstTime(year int, month time.Month, date int, clock time.Time) time.Time {
	on := func(l *time.Location) time.Time {
		return time.Date(year, month, date, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), l)
	}
	t, want := on(clock.Location()), on(time.UTC)
	_, offset := t.Zone()
	switch shown := t.Add(time.Duration(offset) * time.Second); {
	case shown.Before(want):
		_, t = t.ZoneBounds()
	case shown.After(want):
		t, _ = t.ZoneBounds()
	}
	return t
}
