package driver

import (
	"fmt"
	"strconv"
)

// length returns the length of the States of a rule as a text: the time in which a bucket fills up,
// or the period of another algorithm (of an in-flight rule, Hold), and for a sliding window the number of
// sub-windows ("60/60"). A fixed window from the first event has the length "60/first".
// The unit is the second, or a smaller unit that is followed by its name ("1500ms",
// "333333us+1/3"). The text is empty for an invalid bucket.
//
// Rules with the same name and length share States. A State means the same under each of their
// limits: a half empty bucket is half empty. Under another length it does not: an empty bucket of a
// minute would be a nearly full bucket of an hour. If limits of different lengths shared a State, a
// client that can choose between them would gain events with every change. As they do not, it gains
// at most one limit for each length.
func (d *Definition) length() string {
	if d.Calendar != 0 {
		return d.Calendar.String()
	}
	us := (d.Per + d.Hold).Microseconds() // one of them is zero
	switch {
	case d.FromFirst:
		return durationText(us) + "/first"
	case d.SubWindows != 0:
		return durationText(us) + "/" + strconv.Itoa(d.SubWindows)
	case !d.Kind().Refills:
		return durationText(us)
	case d.inherited.den == 0 && d.fault() != nil:
		return ""
	}
	f := d.fillTime()
	if f.span.Frac == 0 {
		return durationText(f.span.Micros)
	}
	g := gcd(f.span.Frac, f.den)
	return fmt.Sprintf("%dus+%d/%d", f.span.Micros, f.span.Frac/g, f.den/g)
}

// A fill is the time in which a bucket fills up, and the denominator of the time.
type fill struct {
	span Span
	den  int64
}

// fillTime returns the fill time of d, a valid bucket.
func (d *Definition) fillTime() fill {
	if d.inherited.den != 0 {
		return d.inherited
	}
	capacity := int64(d.capacity())
	b := newBucket(int64(d.Events), d.Per.Microseconds(), capacity+portion(capacity, d.Soft), 0, false)
	return fill{b.full, b.den}
}

// durationText returns us microseconds as a text.
func durationText(us int64) string {
	switch {
	case us%1_000_000 == 0:
		return strconv.FormatInt(us/1_000_000, 10)
	case us%1000 == 0:
		return strconv.FormatInt(us/1000, 10) + "ms"
	}
	return strconv.FormatInt(us, 10) + "us"
}
