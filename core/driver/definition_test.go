package driver_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// valid returns a valid Definition.
func valid(a driver.Algorithm) driver.Definition {
	d := driver.Definition{Name: "rule", Algorithm: a, Events: 10, Per: time.Second}
	if a == driver.SlidingWindow {
		d.SubWindows = 60
	}
	if a == driver.InFlight {
		d.Per, d.Hold = 0, time.Minute
	}
	if a == driver.Quota {
		d.Per, d.Calendar = 0, driver.Day
	}
	if a == driver.Pause {
		d.Events, d.Per = 0, 0
	}
	return d
}

// Compile reports the field and the reason of each fault.
func TestDefinition_Compile_Faults(t *testing.T) {
	const century = time.Duration(driver.Horizon) * time.Microsecond
	const bucket, log, fixed, sliding, inFlight = driver.TokenBucket, driver.SlidingLog, driver.FixedWindow, driver.SlidingWindow, driver.InFlight
	const pause = driver.Pause
	const quota, fixedSpan = driver.Quota, "is a period of the calendar, which only a quota has: use a fixed span, such as 24h, 7d or 30d"
	type row struct {
		algorithm     driver.Algorithm
		change        func(d *driver.Definition)
		field, reason string
	}
	rows := []row{
		{0, func(*driver.Definition) {}, "algorithm", "is none"},
		{255, func(*driver.Definition) {}, "algorithm", "is none"},
		{bucket, func(d *driver.Definition) { d.Name = "" }, "name", "is empty"},
		{log, func(d *driver.Definition) { d.Name = strings.Repeat("x", 65) }, "name", "is 65 bytes long, more than 64"},
		{bucket, func(d *driver.Definition) { d.Name = "a\x1f" }, "name", "is not printable ASCII, so it cannot be sent in a RateLimit field"},
		{bucket, func(d *driver.Definition) { d.Name = "a\x7f" }, "name", "is not printable ASCII, so it cannot be sent in a RateLimit field"},
		{bucket, func(d *driver.Definition) { d.Name = "é" }, "name", "is not printable ASCII, so it cannot be sent in a RateLimit field"},
		{fixed, func(d *driver.Definition) { d.Events, d.Per = 0, 0 }, "limit", "is zero"},
		{fixed, func(d *driver.Definition) { d.Events = 0 }, "events", "is 0, not positive"},
		{bucket, func(d *driver.Definition) { d.Events = -1 }, "events", "is -1, not positive"},
		{bucket, func(d *driver.Definition) { d.Events, d.Per, d.Burst = 0, 0, 1 }, "events", "is 0, not positive"},
		{bucket, func(d *driver.Definition) { d.Per = 0 }, "per", "is 0s, not positive"},
		{log, func(d *driver.Definition) { d.Per = -time.Second }, "per", "is -1s, not positive"},
		{bucket, func(d *driver.Definition) { d.Burst = -1 }, "burst", "is -1, negative"},
		{fixed, func(d *driver.Definition) { d.Burst = 11 }, "burst", "has no meaning for fixed_window"},
		{log, func(d *driver.Definition) { d.Burst = 9 }, "burst", "has no meaning for sliding_log"},
		{sliding, func(d *driver.Definition) { d.Burst = 1 }, "burst", "has no meaning for sliding_window"},
		{log, func(d *driver.Definition) { d.SubWindows = 1 }, "sub-windows", "has no meaning for sliding_log"},
		{bucket, func(d *driver.Definition) { d.SubWindows = -1 }, "sub-windows", "has no meaning for token_bucket"},
		{sliding, func(d *driver.Definition) { d.SubWindows = 0 }, "sub-windows", "are 0, outside 1 to 120"},
		{sliding, func(d *driver.Definition) { d.SubWindows = -5 }, "sub-windows", "are 0, outside 1 to 120"},
		{sliding, func(d *driver.Definition) { d.SubWindows = 121 }, "sub-windows", "are 121, outside 1 to 120"},
		{bucket, func(d *driver.Definition) { d.Soft = -0.5 }, "soft", "is -0.5 percent, outside 0 to 1000"},
		{log, func(d *driver.Definition) { d.Soft = 1000.5 }, "soft", "is 1000.5 percent, outside 0 to 1000"},
		{log, func(d *driver.Definition) { d.Soft = math.Inf(1) }, "soft", "is +Inf percent, outside 0 to 1000"},
		{fixed, func(d *driver.Definition) { d.Soft = math.NaN() }, "soft", "is NaN percent, outside 0 to 1000"},
		{inFlight, func(d *driver.Definition) { d.Per = time.Second }, "per", "has no meaning for in_flight"},
		{inFlight, func(d *driver.Definition) { d.Hold = 0 }, "hold", "is 0s, not whole microseconds from 1s to 24h0m0s"},
		{inFlight, func(d *driver.Definition) { d.Hold = time.Second + 1 }, "hold", "is 1.000000001s, not whole microseconds from 1s to 24h0m0s"},
		{inFlight, func(d *driver.Definition) { d.Hold = 24*time.Hour + time.Microsecond }, "hold", "is 24h0m0.000001s, not whole microseconds from 1s to 24h0m0s"},
		{inFlight, func(d *driver.Definition) { d.Events = 1001 }, "limit", "has more than 1000 places"},
		{inFlight, func(d *driver.Definition) { d.Events, d.Soft = 1000, 0.1 }, "limit", "has more than 1000 places"},
		{inFlight, func(d *driver.Definition) { d.Events, d.Hold = 1000, time.Second }, "", ""},
		{inFlight, func(d *driver.Definition) { d.Events, d.ByCost = 1_000_001, true }, "limit", "has more than a million places"},
		{inFlight, func(d *driver.Definition) { d.Events, d.Soft, d.ByCost = 1_000_000, 0.1, true }, "limit", "has more than a million places"},
		{inFlight, func(d *driver.Definition) { d.Events, d.ByCost = math.MaxInt32, true }, "limit", "has more than a million places"},
		{inFlight, func(d *driver.Definition) { d.Events, d.ByCost = 0, true }, "limit", "is zero"},
		{inFlight, func(d *driver.Definition) { d.Events, d.ByCost = 1_000_000, true }, "", ""},
		{inFlight, func(d *driver.Definition) { d.Events, d.Soft, d.ByCost = 500_000, 100, true }, "", ""},
		{log, func(d *driver.Definition) { d.ByCost = true }, "by cost", "has no meaning for sliding_log"},
		{bucket, func(d *driver.Definition) { d.ByCost = true }, "by cost", "has no meaning for token_bucket"},
		{fixed, func(d *driver.Definition) { d.ByCost = true }, "by cost", "has no meaning for fixed_window"},
		{sliding, func(d *driver.Definition) { d.ByCost = true }, "by cost", "has no meaning for sliding_window"},
		{quota, func(d *driver.Definition) { d.ByCost = true }, "by cost", "has no meaning for quota"},
		{pause, func(d *driver.Definition) { d.ByCost = true }, "by cost", "has no meaning for pause"},
		{log, func(d *driver.Definition) { d.Hold = time.Second }, "hold", "has no meaning for sliding_log"},
		{bucket, func(d *driver.Definition) { d.Per = time.Second + 1 }, "per", "is not a whole number of microseconds"},
		{log, func(d *driver.Definition) { d.Per = 999 }, "per", "is not a whole number of microseconds"},
		{sliding, func(d *driver.Definition) { d.Per = century + time.Microsecond }, "per", "reaches over more than 100 years"},
		{bucket, func(d *driver.Definition) { d.Per, d.Burst = century/10+time.Microsecond, 100 }, "limit", "reaches over more than 100 years"},
		{bucket, func(d *driver.Definition) { d.Per, d.Soft = century, 10 }, "limit", "reaches over more than 100 years"},
		{bucket, func(d *driver.Definition) { d.Per, d.Burst = century, math.MaxInt32 }, "limit", "reaches over more than 100 years"},
		{quota, func(d *driver.Definition) { d.Per = time.Hour }, "per", "is no period of the calendar: use a limit per day, week or month"},
		{quota, func(d *driver.Definition) { d.Calendar = 0 }, "per", "is no period of the calendar: use a limit per day, week or month"},
		{quota, func(d *driver.Definition) { d.Calendar = driver.Month + 1 }, "per", "is no period of the calendar: use a limit per day, week or month"},
		{quota, func(d *driver.Definition) { d.Burst = 11 }, "burst", "has no meaning for quota"},
		{quota, func(d *driver.Definition) { d.Hold = time.Second }, "hold", "has no meaning for quota"},
		{quota, func(d *driver.Definition) { d.Calendar, d.Soft = driver.Week, 50 }, "", ""},
		{bucket, func(d *driver.Definition) { d.Calendar = driver.Day }, "per", fixedSpan},
		{log, func(d *driver.Definition) { d.Calendar = driver.Week }, "per", fixedSpan},
		{fixed, func(d *driver.Definition) { d.Calendar = driver.Month }, "per", fixedSpan},
		{bucket, func(d *driver.Definition) { d.Headroom = -1 }, "headroom", "is -1 percent, outside 0 to 99"},
		{quota, func(d *driver.Definition) { d.Headroom = 99.5 }, "headroom", "is 99.5 percent, outside 0 to 99"},
		{inFlight, func(d *driver.Definition) { d.Headroom = math.NaN() }, "headroom", "is NaN percent, outside 0 to 99"},
		{log, func(d *driver.Definition) { d.Headroom = 99 }, "", ""},
		{pause, func(*driver.Definition) {}, "", ""},
		{pause, func(d *driver.Definition) { d.Shadow = true }, "", ""},
		{pause, func(d *driver.Definition) { d.Plan = "free" }, "plan", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.Plan = "é" }, "plan", `"é" is not a name of at most 64 characters of printable ASCII`},
		{pause, func(d *driver.Definition) { d.Name = "" }, "name", "is empty"},
		{pause, func(d *driver.Definition) { d.Always = 1 }, "limit", "has no number of events"},
		{pause, func(d *driver.Definition) { d.Events = 1 }, "limit", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.Events = -1 }, "limit", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.Per = time.Second }, "limit", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.Burst = 1 }, "limit", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.Calendar = driver.Day }, "limit", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.Soft = 10 }, "soft", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.Soft = math.NaN() }, "soft", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.Headroom = 10 }, "headroom", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.Hold = time.Minute }, "hold", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.FromFirst = true }, "from first", "has no meaning for pause"},
		{pause, func(d *driver.Definition) { d.SubWindows = 1 }, "sub-windows", "has no meaning for pause"},
		// The largest valid definitions.
		{bucket, func(d *driver.Definition) { d.Name = strings.Repeat(" ~", 32) }, "", ""},
		{bucket, func(d *driver.Definition) { d.Per = century }, "", ""},
		{bucket, func(d *driver.Definition) { d.Per, d.Burst = century/10, 100 }, "", ""},
		{sliding, func(d *driver.Definition) { d.Per, d.SubWindows, d.Burst, d.Soft = century, 120, 10, 1000 }, "", ""},
		{sliding, func(d *driver.Definition) { d.SubWindows = 1 }, "", ""},
	}
	if large := int64(1) << 48; strconv.IntSize == 64 {
		rows = append(rows, []row{
			{fixed, func(d *driver.Definition) { d.Events = int(large) }, "limit", "counts to more than 2^48"},
			{sliding, func(d *driver.Definition) { d.Events, d.Soft = int(large-1), 1 }, "limit", "counts to more than 2^48"},
			{log, func(d *driver.Definition) { d.Events, d.Soft = int(large/11), 1000 }, "", ""},
			{log, func(d *driver.Definition) { d.Events, d.Soft = int(large/11)+1, 1000 }, "limit", "counts to more than 2^48"},
			{bucket, func(d *driver.Definition) { d.Events, d.Burst = int(large), 1 }, "limit", "counts to more than 2^48"},
			{bucket, func(d *driver.Definition) { d.Burst = int(large) }, "limit", "counts to more than 2^48"},
			{bucket, func(d *driver.Definition) { d.Events, d.Soft = int(large-1), 1 }, "limit", "counts to more than 2^48"},
			{bucket, func(d *driver.Definition) { d.Events = math.MaxInt }, "limit", "counts to more than 2^48"},
			{bucket, func(d *driver.Definition) { d.Events, d.Per = int(large-1), 1000 }, "", ""},
			{fixed, func(d *driver.Definition) { d.Events, d.Per = int(large-1), time.Microsecond }, "", ""},
		}...)
	}
	for _, c := range rows {
		d := valid(c.algorithm)
		c.change(&d)
		compiled, err := d.Compile()
		if c.field == "" {
			if err != nil || compiled.Definition != d {
				t.Errorf("%+v: got %v, expected the rule", d, err)
			}
			continue
		}
		var got *driver.RuleError
		want := driver.RuleError{Rule: d.Name, Field: c.field, Reason: c.reason, Category: driver.ErrInvalidRule}
		if !errors.As(err, &got) || *got != want || !errors.Is(err, driver.ErrInvalidRule) || errors.Is(err, driver.ErrRuleConflict) || compiled != nil {
			t.Errorf("%+v:\n got %v, %+v\nwant %+v", d, compiled, got, want)
			continue
		}
		if text := fmt.Sprintf("weir: rule %q: %s %s", d.Name, c.field, c.reason); err.Error() != text {
			t.Errorf("got the text %s, expected %s", err, text)
		}
	}
}

// Equal compares all fields except Text. A Burst of zero equals a Burst of Events.
func TestDefinition_Equal(t *testing.T) {
	base := valid(driver.TokenBucket)
	for _, c := range []struct {
		name   string
		change func(d *driver.Definition)
		want   bool
	}{
		{"nothing", func(*driver.Definition) {}, true},
		{"Text", func(d *driver.Definition) { d.Text = "other" }, true},
		{"Burst as Events", func(d *driver.Definition) { d.Burst = 10 }, true},
		{"Burst", func(d *driver.Definition) { d.Burst = 11 }, false},
		{"Name", func(d *driver.Definition) { d.Name = "other" }, false},
		{"Algorithm", func(d *driver.Definition) { d.Algorithm = driver.LeakyBucket }, false},
		{"Events", func(d *driver.Definition) { d.Events, d.Burst = 20, 10 }, false},
		{"Per", func(d *driver.Definition) { d.Per++ }, false},
		{"SubWindows", func(d *driver.Definition) { d.SubWindows = 1 }, false},
		{"Soft", func(d *driver.Definition) { d.Soft = 1 }, false},
		{"Shadow", func(d *driver.Definition) { d.Shadow = true }, false},
		{"UpTo", func(d *driver.Definition) { d.UpTo = 2 }, false},
		{"Headroom", func(d *driver.Definition) { d.Headroom = 1 }, false},
	} {
		other := base
		c.change(&other)
		if base.Equal(other) != c.want || other.Equal(base) != c.want {
			t.Errorf("%s changed: got %v and %v, expected %v", c.name, base.Equal(other), other.Equal(base), c.want)
		}
	}
}

// Package storetest compares rules that are like others with the oracle.
func TestDefinition_Like_Faults(t *testing.T) {
	bucket, window := valid(driver.TokenBucket), valid(driver.FixedWindow)
	quick, slow := bucket, bucket
	quick.Events, quick.Per = 1<<31-1, time.Microsecond
	slow.Events, slow.Burst, slow.Per = 1, 1, 36600*24*time.Hour
	for _, c := range []struct {
		name    string
		d, base driver.Definition
		field   string
	}{
		{"an invalid rule", driver.Definition{Name: "rule"}, bucket, "algorithm"},
		{"2^31 a microsecond for 100 years", quick, slow, "limit"},
		{"a rule of another algorithm", window, bucket, "algorithm"},
	} {
		var got *driver.RuleError
		c.d.Like = compile(t, c.base)
		if compiled, err := c.d.Compile(); compiled != nil || !errors.As(err, &got) || got.Field != c.field || got.Category != driver.ErrInvalidRule {
			t.Errorf("%s: got %v and %v, expected a fault of the field %s", c.name, compiled, err, c.field)
		}
	}
	other := window
	other.Events = 30
	alone := compile(t, other)
	other.Like = compile(t, window)
	if c, err := other.Compile(); err != nil || c.Constants != alone.Constants {
		t.Errorf("got %+v and %v of a window like another one, expected that alone", c, err)
	}
}

// Percentages of large limits are exact. A percentage with a floating-point error counts as the intended one.
func TestDefinition_Compile_Percentages(t *testing.T) {
	for _, c := range []struct {
		events         int64
		soft, headroom float64
		want           int64
	}{
		{243_944_979_815_901, 0, 1, 241_505_530_017_741},
		{243_944_979_815_901, 10, 0, 268_339_477_797_491},
		{187_649_984_473_700, 33.3, 0, 250_137_429_303_442},
		{1000, 0.1, 0, 1001},
		{300, 100.0 / 3, 0, 400},
		{10, 9.999999999999998, 0, 11},
	} {
		if c.events > math.MaxInt {
			continue
		}
		d := driver.Definition{Name: "r", Algorithm: driver.FixedWindow, Events: int(c.events), Per: time.Second, Soft: c.soft, Headroom: c.headroom}
		if got := compile(t, d).Constants.Capacity; got != c.want {
			t.Errorf("%d with soft %v and headroom %v: got the capacity %d, want %d", c.events, c.soft, c.headroom, got, c.want)
		}
	}
}
