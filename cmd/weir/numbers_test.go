package main

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/simulate"
	"github.com/weir-go/weir/cmd/weir/internal/trace"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1 000", 12345: "12 345", 1234567: "1 234 567", 1 << 62: "4 611 686 018 427 387 904"} {
		if got := count(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for n, want := range map[int][2]string{0: {"0 keys", "0 keys were"}, 1: {"1 key", "1 key was"}, 1000: {"1 000 keys", "1 000 keys were"}} {
		if a, b := plural(n, "key"), pluralWas(n, "key"); a != want[0] || b != want[1] {
			t.Errorf("got %s and %s, want %s", a, b, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for n, want := range map[[2]int]string{
		{0, 0}: "0 %", {0, 5}: "0.0 %", {5, 5}: "100.0 %", {1, 3}: "33.3 %", {1, 1000}: "0.1 %", {1, 2000}: "0.05 %", {123, 1_000_000}: "0.012 %",
		{1, 100_000}: "0.001 %", {1, 1_000_000}: "< 0.001 %", {999, 1000}: "99.9 %", {9995, 10_000}: "99.95 %", {999_999, 1_000_000}: "99.999 %", {999_999_999, 1_000_000_000}: "99.999 %",
	} {
		if got := percent(n[0], n[1]); got != want {
			t.Errorf("%v: got %s, want %s", n, got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{
		0: "0s", 0.000312: "312µs", 0.0123: "12ms", 1.0004: "1s", 9.9994: "9.999s", 10.4: "10s", 60: "1m", 600: "10m", 605: "10m5s", 3600: "1h", 5400: "1h30m", 36000: "10h", 36001: "10h0m1s", 30 * 86400: "720h",
	} {
		if got := seconds(s); got != want {
			t.Errorf("%v: got %s, want %s", s, got, want)
		}
	}
	for limit, want := range map[string]string{"5/10s": "10s", "5/s": "1s", "5/m burst 9": "1m", "5/10m": "10m", "5/30m": "30m", "5/h": "1h", "5/90m": "1h30m", "5/d": "24h", "5/1500ms": "1.5s"} {
		l, err := core.ParseLimit(limit)
		if got := duration(l.Per); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", limit, got, err, want)
		}
	}
}

// Times that cannot be written as a duration, such as the wait after a denial without an end, have a word.
func TestNever(t *testing.T) {
	const never, nearly = core.Never, core.Never - 1
	for name, got := range map[string]string{
		"duration": duration(never), "seconds": seconds(never.Seconds()), "seconds of Retry-After": seconds(float64(simulate.Seconds(never))),
		"more seconds": seconds(1e300), "wait": wait(never), "nearly, seconds": seconds(nearly.Seconds()), "nearly, seconds of Retry-After": seconds(float64(simulate.Seconds(nearly))),
		"nearly, wait": wait(nearly),
	} {
		if got != "never" {
			t.Errorf("%s: got %s", name, got)
		}
	}
	if got := progress(trace.Stats{Read: 1, Total: 1 << 50}, time.Hour); !strings.HasSuffix(got, ", 0 requests, 999h left") {
		t.Errorf("got the progress %s", got)
	}
	for d, want := range map[time.Duration]int64{0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, never: int64(never/time.Second) + 1} {
		if got := simulate.Seconds(d); got != want {
			t.Errorf("%d: got %d seconds, want %d", d, got, want)
		}
	}
}

// Denials without an end, or with one after all durations, are in no report as a duration.
func TestRun_Never(t *testing.T) {
	server := redistest.Shared(t)
	t.Chdir(t.TempDir())
	after := time.Now().Add(core.Never).Add(24 * time.Hour).UTC()
	var keys, events []string
	for key, override := range map[string]string{
		"blocked": "blocked: true", "long": `blocked: true, until: "9999-01-01T00:00:00Z"`, "after": "blocked: true, until: " + strconv.Quote(after.Format(time.RFC3339)), "limit": "limits: {r: blocked}",
	} {
		keys, events = append(keys, key+": {"+override+"}"), append(events, "0.5,"+key)
	}
	write(t, "old.yaml", policy("{name: r, algorithm: leaky_bucket, limit: 2/m}"))
	for _, a := range testkit.Names() {
		algorithm := a.String()
		if a == driver.Pause { // has no limit
			continue
		}
		limit := map[string]string{"quota": "2/month", "in_flight": "2"}[algorithm]
		write(t, "new.yaml", "policies: {api: {rules: [{name: r, algorithm: "+algorithm+", limit: "+cmp.Or(limit, "2/m")+"}], keys: {"+strings.Join(keys, ", ")+"}}}")
		write(t, "trace", csv(strings.Join(events, " ")+" 0.5,cost,3"))
		commands := []string{"simulate new.yaml trace -keys", "simulate -json new.yaml trace", "diff old.yaml new.yaml -trace trace -keys", "diff old.yaml new.yaml", "suggest trace"}
		for _, key := range []string{"blocked", "long", "after", "limit"} {
			commands = append(commands, "explain new.yaml api "+key)
			for _, command := range []string{"usage", "why"} {
				commands = append(commands, "rules "+command+" -prefix never: -redis redis://"+server.Addr+" -config new.yaml api "+key)
			}
		}
		for _, args := range commands {
			if got := output(t, strings.Fields(args)...); regexp.MustCompile("256204[0-9]h|922337203[0-9]|-[0-9]+h").MatchString(got) {
				t.Errorf("%s, %s: got\n%s", algorithm, args, got)
			}
		}
	}
}

func TestShare(t *testing.T) {
	for text, test := range map[string][2]int{ // of how many, and the result
		"0": {10, 0}, "12": {10, 12}, "0%": {10, 0}, "100%": {7, 7}, "0.1%": {1000, 1}, "0.1 %": {1999, 1}, "0.7%": {1000, 7}, "7%": {100, 7}, "29%": {100, 29}, "1.1%": {1000, 11}, "33.3%": {10, 3}, "50%": {0, 0},
	} {
		var s share
		testkit.Must(t, s.Set(text))
		if got := s.of(test[0]); got != test[1] || s.String() != text {
			t.Errorf("%s of %d: got %d, want %d", text, test[0], got, test[1])
		}
	}
	// Each whole percentage of 100, and each thousandth of a thousand, is exact.
	for n := range 1001 {
		for _, s := range []share{{part: float64(n) / 10 / 100}, {part: float64(n) / 1000}} {
			if got := s.of(1000); got != n {
				t.Errorf("%v: got %d, want %d", s.part, got, n)
			}
		}
	}
}
