package trace

import (
	"bytes"
	"math"
	"strings"
	"time"
)

const (
	noTime      = "no time"
	unknownTime = "the time has an unknown format"
	outsideTime = "the time is not between 1970 and 2255"
)

// maxTime is the latest time of an event, Unix time in microseconds: stores keep times in 53 bits.
const maxTime = 1<<53 - 1

// A timeParser parses times. The zero value is ready for use.
type timeParser struct {
	text   []byte // the latest text of a date, which in a log is repeated
	at     int64
	reason string
}

// parse returns the Unix time in microseconds. It returns the reason if text is not a valid time.
func (t *timeParser) parse(text []byte) (at int64, reason string) {
	if text = bytes.TrimSpace(text); !present(text) {
		return 0, noTime
	}
	if bytes.Equal(text, t.text) {
		return t.at, t.reason
	}
	if at, ok := parseUnix(text); ok {
		return checkTime(at)
	}
	t.at, t.reason = parseDate(string(text))
	t.text = append(t.text[:0], text...)
	return t.at, t.reason
}

func checkTime(at int64) (int64, string) {
	if at < 0 || at > maxTime {
		return 0, outsideTime
	}
	return at, ""
}

// isTime reports whether text has the form of a time that parse reads, from 1973 on, and not that of a duration or of
// a time of day.
func isTime(text []byte) bool {
	digits := 0
	for digits < len(text) && isDigit(text[digits]) {
		digits++
	}
	end := byte('.')
	if digits < len(text) {
		end = text[digits]
	}
	return digits >= 9 && end == '.' || digits == 4 && (end == '-' || end == '/') || digits == 2 && end == '/'
}

// parseUnix returns the microseconds of a Unix time in seconds, milliseconds, microseconds or
// nanoseconds, with any number of decimal places. ok is false if text is not such a number. For a
// number with more digits than nanoseconds have, at is MaxInt64.
func parseUnix(text []byte) (at int64, ok bool) {
	whole, fraction, point := bytes.Cut(text, []byte("."))
	if len(whole) == 0 || point && len(fraction) == 0 {
		return 0, false
	}
	var n int64
	large := false
	for _, c := range whole {
		if c < '0' || c > '9' {
			return 0, false
		}
		if large = large || n > (math.MaxInt64-9)/10; !large {
			n = n*10 + int64(c-'0')
		}
	}
	// The number of the present time has three digits more in each unit than in the one before.
	unit := int64(second)
	switch {
	case n < 1e11:
		at = n * unit
	case n < 1e14:
		unit = 1e3
		at = n * unit
	case n < 1e17:
		unit = 1
		at = n
	default:
		unit = 0
		at = n / 1e3
	}
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return 0, false
		}
		unit /= 10
		at += int64(c-'0') * unit
	}
	if large {
		at = math.MaxInt64
	}
	return at, true
}

const (
	logLayout   = "02/Jan/2006:15:04:05 -0700"
	localLayout = "02/Jan/2006:15:04:05"
	dateLayout  = "2006-01-02T15:04:05"
)

// parseDate returns the Unix time in microseconds of a date. It returns the reason if text is not a
// valid time.
func parseDate(text string) (at int64, reason string) {
	layout := logLayout
	if !strings.Contains(text, " ") {
		layout = localLayout
	}
	if len(text) > 10 && text[4] == '/' && text[7] == '/' { // as package log writes it
		text = text[:4] + "-" + text[5:7] + "-" + text[8:]
	}
	if len(text) > 10 && text[4] == '-' {
		// A date of RFC 3339 may have a space in place of the T, and no colon in its offset, or no offset.
		rest := text[11:]
		if text[10] == ' ' || text[10] == 't' {
			text = text[:10] + "T" + rest
		}
		sign := strings.LastIndexAny(rest, "+-Zz")
		switch {
		case sign < 0:
			layout = dateLayout
		case rest[sign] == 'z':
			text = text[:len(text)-1] + "Z"
			layout = time.RFC3339
		case rest[sign] == 'Z' || strings.Contains(rest[sign:], ":"):
			layout = time.RFC3339
		default:
			layout = dateLayout + "-0700"
		}
	}
	date, err := time.Parse(layout, text)
	if err != nil {
		return 0, unknownTime
	}
	return checkTime(date.UnixMicro())
}
