package calendar_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/calendar"
)

// zones are places whose clocks change in different ways, or do not.
var zones = []string{
	"UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Lisbon", "Europe/Moscow", "Europe/Istanbul", "America/New_York",
	"America/Los_Angeles", "America/Anchorage", "America/Halifax", "America/Caracas", "America/Bogota",
	"America/Sao_Paulo", "America/Asuncion", "America/Santiago", "America/Havana", // clocks skip midnight
	"Asia/Beirut", "Asia/Amman", "Asia/Damascus", "Asia/Gaza", "Africa/Cairo", "Asia/Tehran", // clocks skip midnight
	"Africa/Casablanca", // four changes a year
	"Asia/Kolkata", "Asia/Kathmandu", "Asia/Pyongyang", "Asia/Tokyo", "Australia/Sydney", "Pacific/Chatham",
	"Australia/Lord_Howe",                                 // changes by half an hour
	"Pacific/Apia", "Pacific/Fakaofo", "America/St_Johns", // Apia and Fakaofo skip 2011-12-30
}

// A scan contains the time that the clocks at a place show at each quarter of an hour, as if it were UTC.
// All clocks of zones change at such times, except in years before 2012 at St. John's.
type scan struct {
	from  time.Time
	shown []time.Time
}

const quarter = 15 * time.Minute

func scanOf(location *time.Location, from, until time.Time) scan {
	s := scan{from: from}
	for t := from; t.Before(until); t = t.Add(quarter) {
		_, offset := t.In(location).Zone()
		s.shown = append(s.shown, t.Add(time.Duration(offset)*time.Second))
	}
	return s
}

// first returns the times at which the clocks show want, or else the first time at which they show a
// later time. want must be a whole quarter of an hour.
func (s scan) first(want time.Time) (times []time.Time) {
	var skipped []time.Time
	around := int(want.Sub(s.from)/quarter) - 30*4 // zones are less than 30 hours from UTC
	for i := max(0, around); i < min(len(s.shown), around+60*4); i++ {
		switch at := s.from.Add(time.Duration(i) * quarter); {
		case s.shown[i].Equal(want):
			times = append(times, at)
		case s.shown[i].After(want) && len(skipped) == 0:
			skipped = append(skipped, at)
		}
	}
	if len(times) > 0 {
		return times
	}
	return skipped
}

// targets returns the times of the clocks at which periods begin from one time until another.
func targets(unit driver.Calendar, anchor time.Time, from, until time.Time) (all []time.Time) {
	clock := time.Duration(anchor.Hour())*time.Hour + time.Duration(anchor.Minute())*time.Minute
	last := -1
	for date := from.Truncate(24 * time.Hour); date.Before(until); date = date.AddDate(0, 0, 1) {
		tomorrow := date.AddDate(0, 0, 1)
		begins := unit == driver.Day || unit == driver.Week && date.Weekday() == anchor.Weekday()
		if unit == driver.Month && int(date.Month()) != last {
			begins = date.Day() == anchor.Day() || tomorrow.Month() != date.Month() && anchor.Day() > date.Day()
		}
		if begins {
			last = int(date.Month())
			all = append(all, date.Add(clock))
		}
	}
	return all
}

// All periods of a calendar follow each other without a gap, and each begins when the clocks of the place
// show the beginning of the day, week or month, or have skipped it. The boundary is the nearest to the
// time of the call.
func TestPeriods(t *testing.T) {
	anchors := map[string]time.Time{
		"none":     {},
		"29th":     time.Date(2004, 2, 29, 0, 0, 0, 0, time.UTC),
		"30th":     time.Date(2010, 9, 30, 2, 30, 0, 0, time.UTC), // a time that clocks skip
		"31st":     time.Date(2016, 12, 31, 23, 45, 0, 0, time.UTC),
		"a Friday": time.Date(2017, 6, 16, 12, 0, 0, 0, time.UTC),
	}
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			for _, year := range []int{2011, 2017, 2024} {
				if zone == "America/St_Johns" && year == 2011 {
					continue
				}
				from, until := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC)
				s := scanOf(location, from.AddDate(0, -5, 0), until.AddDate(0, 5, 0))
				for name, anchor := range anchors {
					for _, unit := range []driver.Calendar{driver.Day, driver.Week, driver.Month} {
						if unit == driver.Day && !anchor.IsZero() && anchor.Minute() == 0 {
							continue // as without an anchor
						}
						about := fmt.Sprintf("%d, %v, anchor %s", year, unit, name)
						testPeriods(t, about, s, location, unit, anchor, from, until)
					}
				}
			}
		})
	}
}

func testPeriods(t *testing.T, about string, s scan, location *time.Location, unit driver.Calendar, anchor, from, until time.Time) {
	wall, local := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{} // a Monday
	if !anchor.IsZero() {
		wall = anchor
		local = time.Date(anchor.Year(), anchor.Month(), anchor.Day(), anchor.Hour(), anchor.Minute(), 0, 0, location)
	}
	// begins contains the periods in the order of their beginnings, and the times at which each may begin.
	var begins [][]int64
	for _, target := range targets(unit, wall, from.AddDate(0, -4, 0), until.AddDate(0, 4, 0)) {
		var times []int64
		for _, at := range s.first(target) {
			times = append(times, at.UnixMicro())
		}
		if n := len(begins); n > 0 && slices.Contains(times, begins[n-1][0]) {
			continue // a day that does not exist
		}
		begins = append(begins, times)
	}
	chosen := make(map[int]int64) // the beginnings that the results have in common
	for k := range begins {
		first := begins[k][0]
		if first < from.UnixMicro() || first >= until.UnixMicro() {
			continue
		}
		half := (begins[k+1][0] - first) / 2
		for _, now := range []int64{first - 1, first, first + half/2, first + half - 1, first + half, first + half + 1} {
			p := calendar.Periods(unit, time.UnixMicro(now), local.UTC(), location)
			i := slices.IndexFunc(begins[k-1:k+2], func(times []int64) bool { return slices.Contains(times, p.Boundary) })
			if i < 0 {
				t.Fatalf("%s: at %v: got the boundary %v, want one of %v", about, time.UnixMicro(now).In(location), time.UnixMicro(p.Boundary).In(location), begins[k-1:k+2])
			}
			n := k - 1 + i
			for j, got := range []int64{p.Start, p.Boundary, p.End} {
				if !slices.Contains(begins[n-1+j], got) || chosen[n-1+j] != 0 && chosen[n-1+j] != got {
					t.Fatalf("%s: at %v: got %v in %+v, want one of %v, or %v as before", about, time.UnixMicro(now).In(location), got, p, begins[n-1+j], chosen[n-1+j])
				}
				chosen[n-1+j] = got
			}
			distance := func(at int64) int64 { return max(at-now, now-at) }
			if distance(p.Boundary) > min(distance(p.Start), distance(p.End)) || p.Start >= p.Boundary || p.Boundary >= p.End {
				t.Fatalf("%s: at %v: got %+v, want the nearest boundary", about, time.UnixMicro(now).In(location), p)
			}
		}
	}
	if want := map[driver.Calendar]int{driver.Day: 364, driver.Week: 52, driver.Month: 12}[unit]; len(chosen) < want {
		t.Errorf("%s: got %d periods, want %d", about, len(chosen), want)
	}
}
