package client

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWait is the longest time that RetryAfter returns: a year. Numbers of seconds above a billion are times, not waits.
const maxWait = 365 * 24 * time.Hour

// RetryAfter returns the time after which the server of r accepts requests again, from now on, and whether r names one.
// It is between 0 and a year; a time in the past is 0. The first of these sources that has one counts:
//
//   - retry-after-ms of OpenAI and Azure, which is more exact, and Retry-After (RFC 9110, section 10.2.3)
//   - RateLimit of draft-ietf-httpapi-ratelimit-headers: t of the policies without remaining units (drafts 8 to 11), or
//     reset (draft 7), or RateLimit-Reset (up to draft 6)
//   - X-RateLimit-Reset-After, X-RateLimit-Reset and X-Rate-Limit-Reset; with X-RateLimit-Remaining, if that is 0 or less
//   - x-ratelimit-reset-requests and -tokens of OpenAI, anthropic-ratelimit-*-reset, and x-ratelimit-requests-reset and
//     -complexity-reset of Linear, of the limits whose remaining units are 0 or less
//
// A time is a number of seconds, also with a fraction; from a billion on, seconds or milliseconds since 1970; a duration
// such as 6m0s; or a date of RFC 9110 or RFC 3339. A date, and a time since 1970, is compared with the field Date of r.
//
// If several limits are exhausted, the last of their times counts. RetryAfter ignores fields that it cannot read. It does
// not look at the status: use it for a response that says that it was limited.
func RetryAfter(r *http.Response) (d time.Duration, ok bool) {
	return retryAfter(r, true)
}

// retryAfter is RetryAfter for a response whose status says that it was limited, or may say so.
func retryAfter(r *http.Response, says bool) (d time.Duration, ok bool) {
	h := response{r.Header, dateOf(r.Header), says}
	for _, read := range [...]func() (time.Duration, bool){h.retryAfter, h.rateLimit, h.xRateLimit, h.vendors} {
		if d, ok = read(); ok {
			return min(max(d, 0), maxWait), true
		}
	}
	return 0, false
}

// A response has the header of a response, and the time at which the server made it.
type response struct {
	http.Header
	date time.Time
	says bool // the status says that a limit is exhausted
}

// dateOf returns the field Date of h, or the time now if it has none. The times in h are those of the same clock, which
// may be wrong.
func dateOf(h http.Header) time.Time {
	if date, err := http.ParseTime(short(h.Get("Date"))); err == nil {
		return date
	}
	return time.Now()
}

func (h response) retryAfter() (time.Duration, bool) {
	if ms, ok := number(h.Get("Retry-After-Ms")); ok {
		return duration(ms / 1000), true
	}
	return h.reset(h.Get("Retry-After"))
}

// xRateLimit reads the fields that most servers have, and those of Discord and X.
func (h response) xRateLimit() (time.Duration, bool) {
	if after, ok := number(h.Get("X-Ratelimit-Reset-After")); ok && h.exhausted("X-Ratelimit-Remaining") {
		return duration(after), true
	}
	for _, prefix := range [...]string{"X-Ratelimit-", "X-Rate-Limit-"} {
		if d, ok := h.reset(h.Get(prefix + "Reset")); ok && h.exhausted(prefix+"Remaining") {
			return d, true
		}
	}
	return 0, false
}

// exhausted reports whether a field says that no unit is left. Without the field, the status may say it.
func (h response) exhausted(field string) bool {
	text := h.Get(field)
	n, ok := number(strings.TrimPrefix(text, "-")) // more was used than there was
	return text == "" && h.says || ok && (n < 1 || text[0] == '-')
}

// reset reads seconds, a time since 1970 in seconds or milliseconds, or a time as text.
func (h response) reset(text string) (time.Duration, bool) {
	const epoch, milliseconds = 1e9, 1e11
	text = short(text)
	switch n, ok := number(text); {
	case ok && n >= milliseconds:
		return time.UnixMilli(int64(min(n, 1e15))).Sub(h.date), true
	case ok && n >= epoch:
		return time.UnixMilli(int64(n * 1000)).Sub(h.date), true
	case ok:
		return duration(n), true
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, true
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Sub(h.date), true
	}
	if at, err := time.Parse("2006-01-02T15:04Z07:00", text); err == nil { // of Atlassian, which leaves out the seconds
		return at.Add(time.Minute).Sub(h.date), true
	}
	at, err := http.ParseTime(text)
	return at.Sub(h.date), err == nil
}

// vendors reads the fields of OpenAI, Anthropic and Linear: one reset and one number of remaining units for each limit.
func (h response) vendors() (longest time.Duration, ok bool) {
	for _, limit := range [...]string{"requests", "tokens", "input-tokens", "output-tokens", "complexity"} {
		for _, f := range [...]struct{ reset, remaining string }{
			{"X-Ratelimit-Reset-" + limit, "X-Ratelimit-Remaining-" + limit},
			{"Anthropic-Ratelimit-" + limit + "-Reset", "Anthropic-Ratelimit-" + limit + "-Remaining"},
			{"X-Ratelimit-" + limit + "-Reset", "X-Ratelimit-" + limit + "-Remaining"},
		} {
			d, known := h.reset(h.Get(f.reset))
			if known && h.Get(f.remaining) != "" && h.exhausted(f.remaining) {
				longest, ok = max(longest, d), true
			}
		}
	}
	return longest, ok
}

// short returns text, or "" if it is longer than any time: package time copies a text that is no time several times.
func short(text string) string {
	if len(text) > 64 {
		return ""
	}
	return text
}

// number reads a decimal number that is not negative.
func number(text string) (float64, bool) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 20 || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

// duration returns a number of seconds, at most maxWait, rounded up to milliseconds.
func duration(seconds float64) time.Duration {
	return time.Duration(math.Ceil(min(seconds, maxWait.Seconds())*1000)) * time.Millisecond
}
