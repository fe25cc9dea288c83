package client

import (
	"iter"
	"strings"
	"time"
)

// maxPolicies is the largest number of policies of a RateLimit field that are read.
const maxPolicies = 32

// rateLimit reads the field RateLimit: a list of structured fields (RFC 9651), such as "day";r=0;t=3600, "hour";r=5 in
// drafts 8 to 11, and limit=100, remaining=0, reset=50 in draft 7; or RateLimit-Reset of older drafts.
func (h response) rateLimit() (longest time.Duration, ok bool) {
	fields := strings.Join(h.Values("Ratelimit"), ",")
	if fields == "" {
		d, known := h.reset(h.Get("Ratelimit-Reset"))
		return d, known && h.exhausted("Ratelimit-Remaining")
	}
	separator := byte(',')
	if !strings.ContainsRune(fields, ';') && strings.Contains(fields, "reset") { // draft 7: one policy, whose parts are the items
		fields, separator = strings.ReplaceAll(fields, ",", ";"), 0
	}
	policies := 0
	for item := range split(fields, separator) {
		if policies++; policies > maxPolicies {
			break
		}
		remaining, after := "", ""
		for parameter := range split(item, ';') {
			name, value, _ := strings.Cut(parameter, "=")
			switch strings.TrimSpace(name) {
			case "r", "remaining":
				remaining = value
			case "t", "reset":
				after = value
			}
		}
		left, known := number(remaining)
		if d, timed := h.reset(after); known && left == 0 && timed {
			longest, ok = max(longest, d), true
		}
	}
	return longest, ok
}

// split splits text at each separator outside of quoted strings. It needs no memory for the parts, because a hostile
// server may send millions of them.
func split(text string, separator byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		begin, quoted := 0, false
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case c == separator && !quoted:
				if !yield(text[begin:i]) {
					return
				}
				begin = i + 1
			}
		}
		yield(text[begin:])
	}
}
