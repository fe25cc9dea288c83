package core

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/period"
)

// A Limit is a number of events per period, or of an [InFlight] at the same time. The zero Limit is invalid.
type Limit struct {
	Events   int           // 1 to 2^48-1; of an InFlight 1 to 1000, or a million with [Spec.ByCost]
	Per      time.Duration // the period: whole microseconds, up to 100 years; zero for InFlight and Quota
	Calendar Calendar      // of a Quota, the unit of its period; zero for other algorithms
	Burst    int           // the capacity of a bucket, up to 2^48-1; zero means Events, the only other value of windows and logs

	always driver.Result      // of Unlimited and Blocked; zero for numbers of events
	part   *driver.Definition // of a limit that Divide has made: it has the length of the whole; else nil
}

// A Calendar is the unit of the period of a [Quota]: a Day, a Week from Monday on, or a Month. The zero
// Calendar is no unit.
type Calendar = driver.Calendar

// The units of the calendar.
const (
	Day   = driver.Day
	Week  = driver.Week
	Month = driver.Month
)

// Limits without a number of events, for a [Rule] or one of its plans (see [Rule.Plan]).
var (
	// Unlimited admits every event without a call of the Store, except for a [Pause]. Header fields do not mention
	// the rule.
	Unlimited = Limit{always: driver.Allowed}
	// Blocked denies every event, without a call of the Store: for ever, unless package rules has
	// blocked a key until a time. RetryAfter is then the time until the block ends.
	Blocked = Limit{always: driver.Blocked}
)

// counts reports whether l is a number of events, valid or not.
func (l Limit) counts() bool { return l != Unlimited && l != Blocked }

// Per returns a limit of n events in d. [SlidingLog] and [SlidingWindow] enforce it over every span
// of length d. See the comments of the other algorithms for their guarantees.
func Per(n int, d time.Duration) Limit { return Limit{Events: n, Per: d} }

// PerSecond returns a limit of n events per second.
func PerSecond(n int) Limit { return Per(n, time.Second) }

// PerMinute returns a limit of n events per minute.
func PerMinute(n int) Limit { return Per(n, time.Minute) }

// PerHour returns a limit of n events per hour.
func PerHour(n int) Limit { return Per(n, time.Hour) }

// PerDay returns a limit of n events per 24 hours. [Daily] is that of a day of the calendar.
func PerDay(n int) Limit { return Per(n, 24*time.Hour) }

// Daily returns a limit of n events a day of the calendar, for a [Quota]. Its text is "n/day". [PerDay] is
// that of 24 hours.
func Daily(n int) Limit { return Limit{Events: n, Calendar: Day} }

// Weekly returns a limit of n events a week, for a [Quota]. Its text is "n/week".
func Weekly(n int) Limit { return Limit{Events: n, Calendar: Week} }

// Monthly returns a limit of n events a month, for a [Quota]. Its text is "n/month".
func Monthly(n int) Limit { return Limit{Events: n, Calendar: Month} }

// WithBurst returns a copy of l with a Burst of n.
func (l Limit) WithBurst(n int) Limit {
	l.Burst = n
	return l
}

// times returns l with factor times as many events, and a burst that refills in the same time.
func (l Limit) times(factor float64) Limit {
	const rounding = 1e-9 // 1.1 times 10 is 11, in spite of floating-point errors
	events := int(min(int64(math.Floor(float64(l.Events)*factor+rounding)), math.MaxInt))
	hi, lo := bits.Mul64(uint64(l.Burst), uint64(events))
	burst, _ := bits.Div64(hi, lo, uint64(l.Events))
	l.Events, l.Burst = max(events, 1), int(min(burst, math.MaxInt))
	return l
}

// String returns the text form of l, which [ParseLimit] reads: "500/h", "5/15m", "10/s burst 20",
// "9/month", "5" without a period, "unlimited", "blocked".
func (l Limit) String() string {
	switch l {
	case Unlimited:
		return "unlimited"
	case Blocked:
		return "blocked"
	}
	s := strconv.Itoa(l.Events)
	if l.Calendar != 0 {
		s += "/" + l.Calendar.String()
	}
	if l.Per != 0 {
		s += "/" + period.Text(l.Per)
	}
	if l.Burst != 0 {
		s += " burst " + strconv.Itoa(l.Burst)
	}
	return s
}

// ParseLimit reads the text form of a Limit: EVENTS "/" PERIOD [" burst " N]; EVENTS alone, for an
// [InFlight]; "unlimited" for [Unlimited]; or "blocked" for [Blocked].
//
// EVENTS and N are positive decimal integers. PERIOD is s, sec or second, m, min or minute, h or hour,
// d (24 hours), a number of days ("7d"), or a text for [time.ParseDuration] ("15m", "100ms",
// "1h30m"). The words day, week and month are those of [Daily], [Weekly] and [Monthly]: periods of the
// calendar, which only a [Quota] has. Errors are [ErrInvalidLimit].
func ParseLimit(text string) (Limit, error) {
	switch strings.TrimSpace(text) {
	case "unlimited":
		return Unlimited, nil
	case "blocked":
		return Blocked, nil
	}
	rate, burst, hasBurst := strings.Cut(text, " burst ")
	events, per, hasPeriod := strings.Cut(rate, "/")
	var l Limit
	var err error
	if l.Events, err = parseCount(events); err != nil {
		return Limit{}, parseError(text, "events: "+err.Error())
	}
	switch {
	case !hasPeriod && hasBurst:
		return Limit{}, parseError(text, `has no "/"`)
	case !hasPeriod:
		return l, nil
	}
	if l.Per, l.Calendar, err = period.Parse(strings.TrimSpace(per)); err != nil {
		return Limit{}, parseError(text, "period: "+err.Error())
	}
	if hasBurst {
		if l.Burst, err = parseCount(burst); err != nil {
			return Limit{}, parseError(text, "burst: "+err.Error())
		}
	}
	return l, nil
}

func parseError(text, reason string) error {
	return fmt.Errorf("%w %q: %s (expected \"10/s\", \"500/h\", \"10/s burst 20\", \"1000/month\", \"5\", \"unlimited\" or \"blocked\")", ErrInvalidLimit, text, reason)
}

func parseCount(s string) (int, error) {
	s = strings.TrimSpace(s)
	n, err := strconv.ParseUint(s, 10, strconv.IntSize-1) // ParseUint accepts no sign
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a positive integer", s)
	}
	return int(n), nil
}

// MarshalText returns the text form of l.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the text form. On an error, it leaves l unchanged.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}
