package storetest

import "github.com/weir-go/weir/core/driver"

// A calendar is an [oracle.Calendar] of periods with similar lengths, such as the days at a place whose
// clocks change.
type calendar struct {
	length, offset int64
	jitter         int64 // the length of a period differs from length by less than jitter
	ahead          int64 // the difference between the clock of the caller and that of the Store
}

// boundary returns the beginning of the n-th period.
func (c calendar) boundary(n int64) int64 {
	at := n*c.length + c.offset
	if c.jitter > 0 {
		at += int64(uint64(n) * 0x9e3779b97f4a7c15 >> 8 % uint64(c.jitter))
	}
	return at
}

// number returns the number of the period that contains now, which must be after the offset.
func (c calendar) number(now int64) int64 {
	n := (now - c.offset) / c.length
	if c.boundary(n) > now {
		n--
	}
	return n
}

func (c calendar) Period(now int64) (start, end int64) {
	n := c.number(now)
	return c.boundary(n), c.boundary(n + 1)
}

// periods returns the periods around the boundary that is nearest to the clock of the caller.
func (c calendar) periods(now int64) driver.Periods {
	now += c.ahead
	n := c.number(now)
	if now-c.boundary(n) >= c.boundary(n+1)-now {
		n++
	}
	return driver.Periods{Start: c.boundary(n - 1), Boundary: c.boundary(n), End: c.boundary(n + 1)}
}

// unitNames are the texts of the periods of quotas, and units their values.
var (
	unitNames = []string{"day", "week", "month"}
	units     = map[string]driver.Calendar{"day": driver.Day, "week": driver.Week, "month": driver.Month}
)

// unitLengths contains usual lengths of periods in microseconds.
var unitLengths = map[string]int64{"day": 86_400_000_000, "week": 7 * 86_400_000_000, "month": 30 * 86_400_000_000}
