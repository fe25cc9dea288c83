package trace_test

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/trace"
)

func TestTimes(t *testing.T) {
	const (
		unknown = "the time has an unknown format"
		outside = "the time is not between 1970 and 2255"
	)
	at := func(micros int64) string { return fmt.Sprintf("%d a 1 _ _", micros) }
	for text, expected := range map[string]string{
		"1767366245":                          at(0),
		"1767366245.000001":                   at(1),
		"1767366245.0000019999":               at(1),
		"1700000000.123456":                   at(-67366245_000000 + 123456),
		"1767366245.5":                        at(500000),
		"1767366245123":                       at(123000),
		"1767366245123.4":                     at(123400),
		"1767366245123.4567":                  at(123456),
		"1767366245123456":                    at(123456),
		"1767366245123456.9":                  at(123456),
		"1767366245123456789":                 at(123456),
		"1767366245123456789.1":               at(123456),
		" 0001767366245 ":                     at(0),
		"0":                                   at(-base),
		"0.5":                                 at(-base + 500000),
		"9007199254.740991":                   at(1<<53 - 1 - base),
		"2026-01-02T15:04:05Z":                at(0),
		"2026-01-02t15:04:05z":                at(0),
		"2026-01-02T15:04:05.1234567Z":        at(123456),
		"2026-01-02T15:04:05,5Z":              at(500000),
		"2026-01-02T17:04:05+02:00":           at(0),
		"2026-01-02T17:04:05.25+0200":         at(250000),
		"2026-01-02T10:04:05-05:00":           at(0),
		"2026-01-02T10:04:05-0500":            at(0),
		"2026-01-02 15:04:05":                 at(0),
		"2026-01-02 15:04:05.000":             at(0),
		"2026-01-02 15:04:05,001":             at(1000),
		"2026-01-02T15:04:05.000001":          at(1),
		"2026-01-02 17:04:05+02:00":           at(0),
		"02/Jan/2026:15:04:05 +0000":          at(0),
		"02/Jan/2026:15:04:05.25 +0000":       at(250000),
		"02/Jan/2026:10:34:05 -0430":          at(0),
		"":                                    "no time",
		"-":                                   "no time",
		"now":                                 unknown,
		"-1":                                  unknown,
		".5":                                  unknown,
		"5.":                                  unknown,
		"1.5.5":                               unknown,
		"1e9":                                 unknown,
		"1767366245x":                         unknown,
		"1767366245.x":                        unknown,
		"99999999999999999999x":               unknown,
		"2026-01-02":                          unknown,
		"2026-01-02T":                         unknown,
		"2026-13-02T15:04:05Z":                unknown,
		"2026-01-02T15:04:05+0":               unknown,
		"2026-01-02T15:04:05 MST":             unknown,
		"31/Feb/2026:15:04:05 +0000":          unknown,
		"9007199254.740992":                   outside,
		"99999999999999999999":                outside,
		"999999999999999999999999999999999.5": outside,
		"1969-12-31T23:59:59Z":                outside,
		"2256-01-01T00:00:00Z":                outside,
		"0000-01-01T00:00:00Z":                outside,
	} {
		t.Run(text, func(t *testing.T) {
			for _, twice := range []bool{false, true} { // the second time is cached
				line := fmt.Sprintf("{\"time\":%q,\"key\":\"a\"}\n", text)
				if twice {
					line += line
				}
				events, stats := readText(t, trace.Options{}, line)
				got := ""
				if stats.Broken > 0 {
					got = stats.Samples[stats.Broken-1].Reason
				} else if len(events) > 0 {
					got = events[len(events)-1]
				}
				if got != expected {
					t.Errorf("got %q, want %q", got, expected)
				}
			}
		})
	}
}
