package driver

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// A Definition describes a rule.
type Definition struct {
	Name      string // 1 to 64 characters of printable ASCII: the namespace of its states on a Store
	Algorithm Algorithm
	Plan      string // the plan of the callers that have this limit; empty for callers without a plan

	Events   int           // the number of events per period, 1 to 2^48-1; InFlight: at the same time, up to 1000, or a million with ByCost; Pause: zero
	Per      time.Duration // the period: whole microseconds, up to 100 years; InFlight, Quota and Pause: zero
	Calendar Calendar      // Quota: the unit of the period; other algorithms: zero
	Burst    int           // the capacity of a bucket; zero means Events; for windows and logs, zero or Events

	// Always is Allowed or Blocked if the rule has that answer to all events. It then has no limit and no
	// States, and cannot be compiled. It is zero for all other rules.
	Always Result

	FromFirst  bool    // FixedWindow: the window of a key begins with its first event
	ByCost     bool    // InFlight: an event takes as many places as its cost
	SubWindows int     // SlidingWindow: 1 to 120; other algorithms: zero
	Rollover   int     // Quota: the most events that are left of the last period and count in the present one, 1 to 2^48-1, or zero
	Soft       float64 // the percentage that is admitted beyond the limit, 0 to 1000
	Headroom   float64 // the percentage of the limit that is left to other plans, 0 to 99
	Shadow     bool    // decisions do not depend on the rule
	UpTo       float64 // elastic rule: the largest factor by which its limit is multiplied, or for InFlight the least; else zero

	// InFlight: the time after which a place lapses that is not renewed, whole microseconds from 1 s to
	// 24 h. Other algorithms: zero.
	Hold time.Duration

	// Like, unless nil, is a rule of the same Algorithm and length that this one shares all States with, although
	// its limit is another one, such as the rule without Spare of a size of an elastic rule. Compile then adds a
	// fraction of an event to the capacity of a bucket, so that it fills up in the same time as a bucket of
	// Like. The fraction alone admits no event. A State that was written under one of the rules is then never
	// reduced when it is read under the other rule. Otherwise a caller that can make the limit change would
	// gain tokens with every change. (Above a million events a second, the caller still gains tokens with a
	// change, but fewer than the bucket refills in one microsecond.)
	Like *Compiled

	Text string // describes the rule in messages; if empty, they contain its algorithm, name and limit

	inherited fill // the fill time of the bucket of which this one is a part or a size; else zero
}

// A Calendar is the unit of the calendar that the periods of a [Quota] have. Their lengths differ, so they
// are no durations. Zero means none, as for all other algorithms.
type Calendar uint8

// The units. Weeks begin on Monday.
const (
	Day Calendar = iota + 1
	Week
	Month
)

// String returns "day", "week", "month", or "none".
func (c Calendar) String() string {
	switch c {
	case Day:
		return "day"
	case Week:
		return "week"
	case Month:
		return "month"
	}
	return "none"
}

func (c Calendar) isValid() bool { return c >= Day && c <= Month }

// maxSubWindows is the largest number of sub-windows of a SlidingWindow. A decision with a cost
// above one may have to read all sub-windows, and a refund may have to write all of them. With
// maxSubWindows, either takes Redis 0.1 to 0.2 ms, and a Redis hash still has the compact form.
const maxSubWindows = 120

const (
	// maxName keeps a Redis key, which contains the name, within 134 bytes.
	maxName = 64
	// maxPercent bounds Soft. A rule that needs more should have a larger limit instead.
	maxPercent = 1000
	// maxHeadroom bounds Headroom. Blocked is the limit of a plan that leaves everything.
	maxHeadroom = 99
	// maxCount is the largest number of events of a limit or state. It fits into six bytes, and the
	// sum of two such numbers is far below 2^53.
	maxCount = 1<<48 - 1
	// A third of minHold is enough for a renewal. A longer maxHold would keep the places of a process
	// that has crashed for longer than a day.
	minHold, maxHold = time.Second, 24 * time.Hour
)

// horizon is the longest span of a limit, in microseconds: 100 years. It keeps every time below
// 2^53, the range in which the doubles of Lua are exact, until the year 2155.
const horizon = 100 * 366 * 24 * int64(time.Hour/time.Microsecond)

// Reasons why a limit cannot be enforced exactly.
const (
	tooLong = "reaches over more than 100 years"
	tooMany = "counts to more than 2^48"
	tooFull = "has more than 1000 places"
	tooWide = "has more than a million places"
)

// Check returns a *[RuleError] if d is invalid: that of Compile, or if Always is set, that of d with any valid
// limit. It does not check Like.
func (d Definition) Check() error {
	if d.Always != 0 && d.Events == 0 && d.Per == 0 && d.Calendar == 0 && d.Burst == 0 {
		d.Always, d.Events = 0, 1
		switch k := d.Kind(); {
		case k.Holds:
		case k.Closes:
			d.Events = 0
		case k.Calendar:
			d.Calendar = Day
		default:
			d.Per = time.Second
		}
	}
	return d.fault()
}

// Compile returns the compiled rule, or a *[RuleError] if d is invalid.
func (d Definition) Compile() (*Compiled, error) {
	if d.Like != nil && d.Like.Kind.Refills {
		d.inherited = d.Like.fillTime()
	}
	if err := d.fault(); err != nil {
		return nil, err
	}
	c := d.compile()
	if d.Like == nil {
		return c, nil
	}
	if d.Algorithm != d.Like.Algorithm {
		return nil, d.invalid("algorithm", "is not that of "+d.Like.String())
	}
	if d.length() != d.Like.Definition.length() {
		return nil, d.invalid("limit", "has another period or other sub-windows than "+d.Like.String())
	}
	if like, ok := d.Like.engine.(*bucket); ok {
		b := c.engine.(*bucket)
		if !b.fillLike(fill{like.full, like.den}) { // of a part, it may be longer than d.inherited
			return nil, d.invalid("limit", tooMany)
		}
		b.leave(d.left(int64(d.capacity())))
		c = newCompiled(d, b)
	}
	return c, nil
}

// compile compiles d, which must be valid.
func (d Definition) compile() *Compiled {
	extra := portion(int64(d.capacity()), d.Soft)
	d.Rollover = int(min(int64(d.Rollover), maxCount-int64(d.capacity())-extra, int64(math.MaxInt-d.capacity())))
	e := newEngine(&d, extra)
	b, isBucket := e.(*bucket)
	if isBucket && d.inherited.den != 0 {
		// The parts of the limits of one length share States, so they must fill up in the same time,
		// too. A part that admits one event at once, because it must, may take longer.
		own := *b
		if !b.fillLike(d.inherited) || b.burst < own.burst {
			*b = own
		}
	}
	if isBucket {
		b.leave(d.left(int64(d.capacity())))
	}
	return newCompiled(d, e)
}

// fault returns the reason why d cannot be compiled, or nil.
func (d *Definition) fault() error {
	if d.Algorithm == 0 || int(d.Algorithm) >= len(kinds) {
		return d.invalid("algorithm", "is none")
	}
	if err := d.check(); err != nil {
		return err
	}
	capacity := int64(d.capacity())
	extra := portion(capacity, d.Soft)
	switch {
	case max(int64(d.Events), capacity) > maxCount || capacity+extra > maxCount:
		return d.invalid("limit", tooMany)
	case d.Kind().Holds && !d.ByCost && capacity+extra > maxPlaces:
		return d.invalid("limit", tooFull)
	case d.ByCost && capacity+extra > maxCosts:
		return d.invalid("limit", tooWide)
	case d.Kind().Refills && exceeds(capacity+extra, d.Per.Microseconds(), int64(d.Events), horizon):
		return d.invalid("limit", tooLong)
	}
	return nil
}

// divide returns the compiled rule with one n-th of the limit of d, as described in [Compiled.Divide], or nil if d cannot be
// divided.
func (d Definition) divide(n int) *Compiled {
	least := d
	least.Text, least.Events, least.Burst, least.Like = "", max(1, d.Events/n), 0, nil
	least.Rollover = 0
	exact := least
	if d.Kind().Refills {
		least.inherited = d.fillTime()
		exact = least
		least.Burst = 1
		common := int(gcd(int64(d.Events), int64(n)))
		exact.Events, exact.Burst = d.Events/common, max(1, d.capacity()/n)
		if exact.Burst == exact.Events {
			exact.Burst = 0
		}
		if longer := int64(n / common); int64(d.Per) <= math.MaxInt64/longer {
			exact.Per *= time.Duration(longer)
		} else {
			exact = least
		}
	}
	for _, part := range [...]Definition{exact, least} { // the longer period of exact may be too long
		if c, err := part.Compile(); err == nil {
			return c
		}
	}
	return nil
}

// String describes the rule in messages.
func (d Definition) String() string {
	if d.Text != "" {
		return d.Text
	}
	if d.Kind().Closes {
		return fmt.Sprintf("%s %q", d.Algorithm, d.Name)
	}
	per := (d.Per + d.Hold).String()
	if d.Calendar != 0 {
		per = "a " + d.Calendar.String()
	}
	return fmt.Sprintf("%s %q of %d in %s, burst %d", d.Algorithm, d.Name, d.Events, per, d.capacity())
}

// Equal reports whether d and o define the same rule. It ignores their Text and Like.
func (d Definition) Equal(o Definition) bool {
	d.Burst, o.Burst = d.capacity(), o.capacity()
	d.Text, o.Text, d.Like, o.Like = "", "", nil, nil
	same := d.length() == o.length()
	d.inherited, o.inherited = fill{}, fill{}
	return same && d == o
}

func (d *Definition) capacity() int { return cmp.Or(d.Burst, d.Events) }

// left returns the part of n events that Headroom leaves to the plan of d, at least 1, or 0 if d has no Headroom.
func (d *Definition) left(n int64) int64 {
	if d.Headroom == 0 {
		return 0
	}
	return max(1, portion(n, 100-d.Headroom))
}

// check returns an error if a field of d other than Algorithm is invalid.
func (d *Definition) check() error {
	switch {
	case d.Name == "":
		return d.invalid("name", "is empty")
	case len(d.Name) > maxName:
		return d.invalid("name", fmt.Sprintf("is %d bytes long, more than %d", len(d.Name), maxName))
	case strings.ContainsFunc(d.Name, unprintable):
		return d.invalid("name", "is not printable ASCII, so it cannot be sent in a RateLimit field")
	case len(d.Plan) > maxName || strings.ContainsFunc(d.Plan, unprintable):
		return d.invalid("plan", fmt.Sprintf("%q is not a name of at most %d characters of printable ASCII", d.Plan, maxName))
	case d.Always != 0:
		return d.invalid("limit", "has no number of events")
	}
	k := d.Kind()
	if err := k.Check(d.Name, d.has); err != nil {
		return err
	}
	switch {
	case k.has("limit") && d.Events == 0 && d.Per == 0 && d.Burst == 0 && d.Calendar == 0:
		return d.invalid("limit", "is zero")
	case k.has("limit") && d.Events <= 0:
		return d.invalid("events", fmt.Sprintf("is %d, not positive", d.Events))
	case k.has("hold") && (d.Hold < minHold || d.Hold > maxHold || d.Hold%time.Microsecond != 0):
		return d.invalid("hold", fmt.Sprintf("is %v, not whole microseconds from %v to %v", d.Hold, minHold, maxHold))
	case k.Calendar && (d.Per != 0 || !d.Calendar.isValid()):
		return d.invalid("per", "is no period of the calendar: use a limit per day, week or month")
	case !k.Calendar && d.Calendar != 0:
		return d.invalid("per", "is a period of the calendar, which only a quota has: use a fixed span, such as 24h, 7d or 30d")
	case k.has("per") && !k.Calendar && d.Per <= 0:
		return d.invalid("per", fmt.Sprintf("is %v, not positive", d.Per))
	case d.Per%time.Microsecond != 0:
		return d.invalid("per", "is not a whole number of microseconds")
	case d.Per.Microseconds() > horizon:
		return d.invalid("per", tooLong)
	case d.Burst < 0:
		return d.invalid("burst", fmt.Sprintf("is %d, negative", d.Burst))
	case k.has("sub-windows") && (d.SubWindows < 1 || d.SubWindows > maxSubWindows):
		return d.invalid("sub-windows", fmt.Sprintf("are %d, outside 1 to %d", max(0, d.SubWindows), maxSubWindows))
	case d.Rollover < 0 || int64(d.Rollover) > maxCount:
		return d.invalid("rollover", fmt.Sprintf("is %d, outside 1 to 2^48-1", max(0, d.Rollover)))
	case !(d.Headroom >= 0 && d.Headroom <= maxHeadroom): // NaN is neither
		return d.invalid("headroom", fmt.Sprintf("is %v percent, outside 0 to %d", d.Headroom, maxHeadroom))
	case !(d.Soft >= 0 && d.Soft <= maxPercent):
		return d.invalid("soft", fmt.Sprintf("is %v percent, outside 0 to %d", d.Soft, maxPercent))
	}
	return nil
}

// has reports whether d has a property that not all rules have.
func (d *Definition) has(property string) bool {
	return property == "plan" && d.Plan != "" ||
		property == "limit" && (d.Events != 0 || d.Per != 0 || d.Burst != 0 || d.Calendar != 0) ||
		property == "per" && (d.Per != 0 || d.Calendar != 0) ||
		property == "burst" && d.Burst > 0 && d.Burst != d.Events ||
		property == "soft" && d.Soft != 0 ||
		property == "headroom" && d.Headroom != 0 ||
		property == "from first" && d.FromFirst ||
		property == "sub-windows" && d.SubWindows != 0 ||
		property == "rollover" && d.Rollover != 0 ||
		property == "hold" && d.Hold != 0 ||
		property == "by cost" && d.ByCost
}

func unprintable(c rune) bool { return c < 0x20 || c > 0x7e }

func (d *Definition) invalid(field, reason string) error {
	return &RuleError{Rule: d.Name, Field: field, Reason: reason, Category: ErrInvalidRule}
}

// portion returns percent of n, rounded down.
func portion(n int64, percent float64) int64 {
	a, b := fraction(percent)
	return n/b*a + n%b*a/b
}

// fraction returns percent as a fraction a/b: 1/3 for 100.0/3, and 1/10 for 100*(1-0.9), which is less than 10. With a
// larger b, the products of a script in Lua would be above 2^53.
func fraction(percent float64) (a, b int64) {
	const largest, tolerance = 9e7, 1e-14
	x := percent / 100
	a, b = int64(x), 1
	for lastA, lastB, rest := int64(1), int64(0), x-math.Floor(x); math.Abs(float64(a)/float64(b)-x) > tolerance; {
		whole := math.Floor(1 / rest)
		rest = 1/rest - whole
		nextB := whole*float64(b) + float64(lastB)
		if nextB > largest {
			break
		}
		a, lastA = int64(whole)*a+lastA, a
		b, lastB = int64(nextB), b
	}
	return a, b
}
