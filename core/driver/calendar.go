package driver

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
