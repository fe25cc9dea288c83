package core

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Limit is how many events may happen in how long.
//
// The zero Limit is not a limit: [New] refuses it.
type Limit struct {
	Events int           // events ... at least 1, less than 2^48
	Per    time.Duration // ... in this long: whole microseconds, at most 100 years
	Burst  int           // capacity of a bucket, less than 2^48; zero means Events. Windows and logs have none
}

// Per is a limit of n events in d. The algorithm decides which spans of length d are meant; for
// [SlidingLog] and [SlidingWindow] it is every one.
func Per(n int, d time.Duration) Limit { return Limit{Events: n, Per: d} }

// PerSecond is a limit of n events a second.
func PerSecond(n int) Limit { return Per(n, time.Second) }

// PerMinute is a limit of n events a minute.
func PerMinute(n int) Limit { return Per(n, time.Minute) }

// PerHour is a limit of n events an hour.
func PerHour(n int) Limit { return Per(n, time.Hour) }

// PerDay is a limit of n events in 24 hours.
func PerDay(n int) Limit { return Per(n, day) }

// WithBurst is l with a bucket that holds n events.
func (l Limit) WithBurst(n int) Limit {
	l.Burst = n
	return l
}

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

// String is the text form of l, which [ParseLimit] reads: "500/h", "5/15m",
// "10/s burst 20".
func (l Limit) String() string {
	s := strconv.Itoa(l.Events) + "/" + formatPeriod(l.Per)
	if l.Burst != 0 {
		s += " burst " + strconv.Itoa(l.Burst)
	}
	return s
}

func formatPeriod(d time.Duration) string {
	for _, u := range units {
		if d == u.per {
			return u.name
		}
	}
	if d > 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	withoutZeros := strings.NewReplacer("h0m0s", "h", "m0s", "m") // of 1h0m0s and 15m0s
	return withoutZeros.Replace(d.String())
}

// ParseLimit reads the text form of a Limit: EVENTS "/" PERIOD [" burst " N].
//
// PERIOD is one of s, m, h and d (24 hours), a number of days ("7d"), or
// anything that [time.ParseDuration] reads ("15m", "100ms", "1h30m"). The
// numbers are positive decimal integers. Errors are [ErrInvalidLimit].
func ParseLimit(text string) (Limit, error) {
	rate, burst, hasBurst := strings.Cut(text, " burst ")
	events, period, hasPeriod := strings.Cut(rate, "/")
	if !hasPeriod {
		return Limit{}, parseError(text, `has no "/"`)
	}
	var l Limit
	var err error
	if l.Events, err = parseCount(events); err != nil {
		return Limit{}, parseError(text, "events: "+err.Error())
	}
	if l.Per, err = parsePeriod(period); err != nil {
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
	return fmt.Errorf("%w %q: %s (want it like \"10/s\", \"500/h\" or \"10/s burst 20\")", ErrInvalidLimit, text, reason)
}

func parseCount(s string) (int, error) {
	s = strings.TrimSpace(s)
	n, err := strconv.ParseUint(s, 10, strconv.IntSize-1) // which accepts no sign
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a positive integer", s)
	}
	return int(n), nil
}

func parsePeriod(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	for _, u := range units {
		if s == u.name {
			return u.per, nil
		}
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := parseCount(days)
		if err != nil || int64(n) > int64((1<<63-1)/day) {
			return 0, fmt.Errorf("%q is not a number of days", s)
		}
		return time.Duration(n) * day, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration", s)
	case d <= 0:
		return 0, fmt.Errorf("%q is not positive", s)
	}
	return d, nil
}

// MarshalText writes the text form.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the text form; l is unchanged on an error.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}

// capacity returns the events that the limit admits at once.
func (l Limit) capacity() int {
	if l.Burst == 0 {
		return l.Events
	}
	return l.Burst
}
