package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
)

// count returns n with spaces between groups of three digits.
func count[N int | int64 | uint64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}

// plural returns n with a noun in the singular or the plural.
func plural(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return count(n) + " " + noun
}

// pluralWas is plural with the verb was or were.
func pluralWas(n int, noun string) string {
	if n == 1 {
		return plural(n, noun) + " was"
	}
	return plural(n, noun) + " were"
}

// percent returns the part n of all in percent.
func percent[N int | uint64](n, all N) string {
	if all == 0 {
		return "0 %"
	}
	p := 100 * float64(n) / float64(all)
	switch {
	case n > 0 && p < 0.001:
		return "< 0.001 %"
	case n > 0 && p < 0.1:
		return fmt.Sprintf("%.2g %%", p)
	case n < all && p > 99.9:
		return fmt.Sprintf("%v %%", math.Floor(p*1000)/1000)
	}
	return fmt.Sprintf("%.1f %%", p)
}

// seconds returns a text for a time in seconds.
func seconds(s float64) string {
	if s >= core.Never.Seconds() {
		return duration(core.Never)
	}
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Millisecond:
		d = d.Round(time.Millisecond)
	}
	return duration(d)
}

// duration returns d as 1h and not 1h0m0s, and 15m and not 15m0s.
func duration(d time.Duration) string {
	if d == core.Never {
		return "never"
	}
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}
