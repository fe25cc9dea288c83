// Package period reads and writes the periods of limits.
package period

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
)

const day = 24 * time.Hour

var units = []struct {
	name string
	per  time.Duration
}{
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", day},
}

// words are other texts for single periods. A word for a period of the calendar is none of them.
var words = map[string]time.Duration{
	"sec": time.Second, "second": time.Second, "min": time.Minute, "minute": time.Minute, "hour": time.Hour,
}

// others are texts that are no periods, and the texts to write instead.
var others = map[string]string{"days": "day", "weeks": "week", "months": "month", "year": "365d", "years": "365d",
	"w": "7d, or week for the calendar", "mo": "30d, or month for the calendar", "y": "365d"}

// Parse reads a period, which is a duration or a unit of the calendar.
func Parse(s string) (time.Duration, driver.Calendar, error) {
	for _, u := range units {
		if s == u.name {
			return u.per, 0, nil
		}
	}
	if d, ok := words[s]; ok {
		return d, 0, nil
	}
	for c := driver.Day; c <= driver.Month; c++ {
		if s == c.String() {
			return 0, c, nil
		}
	}
	if instead, ok := others[s]; ok {
		return 0, 0, fmt.Errorf("%q is no period; write %s", s, instead)
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(strings.TrimSpace(days), 10, 63) // ParseUint accepts no sign
		if err != nil || n == 0 || n > uint64((1<<63-1)/day) {
			return 0, 0, fmt.Errorf("%q is not a number of days", s)
		}
		return time.Duration(n) * day, 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, 0, fmt.Errorf("%q is not a positive duration", s)
	}
	return d, 0, nil
}

// Text returns the text of a period that is a duration, which Parse reads.
func Text(d time.Duration) string {
	for _, u := range units {
		if d == u.per {
			return u.name
		}
	}
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return Duration(d)
}

// zeros are the parts that [Duration] leaves out.
var zeros = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// Duration returns d as "1h" and not 1h0m0s, and "15m" and not 15m0s.
func Duration(d time.Duration) string { return zeros.Replace(d.String()) }
