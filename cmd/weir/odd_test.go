package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Odd traffic has warnings before the report, in text and JSON, and weir diff exits with 3 because of them.
func TestRun_Odd(t *testing.T) {
	const (
		routes = "{policies: {api: {rules: [{name: m, algorithm: fixed_window, limit: 9/m}]}, login: {rules: [{name: h, algorithm: fixed_window, limit: 9/h}]}},\nroutes: {/: api%s}}"
		odd    = "weir: the trace is odd, so that the figures may be wrong: see the warnings, or accept them with -ignore-warnings\n"
	)
	login := fmt.Sprintf(routes, ", POST /login: login")
	// line returns so many lines with seconds in place of SS, and the number of the line in place of N.
	line := func(n int, text string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.NewReplacer("SS", fmt.Sprintf("%02d", i%60), "N", fmt.Sprint(i)).Replace(text) + "\n")
		}
		return b.String()
	}
	from := func(address string) string {
		return address + ` - - [12/Jan/2027:09:00:SS +0000] "GET / HTTP/1.1" 200 5`
	}
	mixed := func(n, others int, address string) string {
		return line(n, from(address)) + line(others, from("203.0.113.7"))
	}
	owned := func(keys, others int) string { return line(keys, from("N")) + line(others, from("0")) }
	const (
		posted   = `{"time":"2027-01-12T09:00:SS.5Z","key":"kSS","request":"POST /login HTTP/1.1"}`
		pathOnly = `{"time":"2027-01-12T09:00:SS.5Z","key":"k","request":"/login"}`
	)
	// 500 requests of 5 keys, 12 a minute each, and the later half of the file is older.
	var newestFirst strings.Builder
	for _, hour := range []int{10, 9} {
		for i := range 250 {
			fmt.Fprintf(&newestFirst, "192.0.2.%d - - [12/Jan/2027:%02d:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 5\n", i%5, hour, i/60, i%60)
		}
	}
	for name, test := range map[string]struct {
		trace, flags string
		file         string // login if empty
		warning      string // the beginning, or "" for none
		note         string // of the report, without a warning
	}{
		"the proxy":                        {trace: line(100, from("10.0.0.7")), warning: "100.0 % of the requests have one key, a private address as that of a proxy."},
		"nearly all of the proxy":          {trace: mixed(90, 10, "10.0.0.7"), warning: "90.0 % of the requests have one key, a private address as that of a proxy."},
		"most of the proxy":                {trace: mixed(89, 11, "10.0.0.7")},
		"too few requests":                 {trace: line(99, from("10.0.0.7"))},
		"one public address":               {trace: line(100, from("192.0.2.1")), warning: "100.0 % of the requests have one key, as behind a proxy."},
		"two proxies":                      {trace: line(50, from("10.0.0.7")) + line(50, from("fd00::1")), warning: "100.0 % of the requests have private addresses, as those of proxies."},
		"link-local and loopback":          {trace: line(50, from("169.254.0.1")) + line(50, from("::1")), warning: "100.0 % of the requests have private addresses, as those of proxies."},
		"a list of addresses":              {trace: line(50, from("192.0.2.1, 10.0.0.7")) + line(50, from("203.0.113.7, 10.0.0.7"))},
		"keys of their own":                {trace: owned(100, 1), warning: "nearly every request has a key of its own: 100 keys for 101 requests."},
		"most with keys of their own":      {trace: owned(90, 10)},
		"few with keys of their own":       {trace: owned(99, 0)},
		"files newest first":               {trace: newestFirst.String(), warning: "250 requests (50.0 %) were read too late to be sorted, "},
		"a hundredth too late":             {trace: strings.ReplaceAll(mixed(200, 97, "192.0.2.1"), "09:00", "10:00") + line(3, from("203.0.113.7"))},
		"paths without methods":            {trace: line(4, `{"StartUTC":"2027-01-12T09:00:SS.5Z","ClientHost":"192.0.2.1","RequestPath":"/login"}`), warning: "4 requests were read without a method and counted as GET, but f.yaml has 1 route with a method."},
		"few paths without methods":        {trace: line(99, posted) + line(1, pathOnly), note: "1 request was read without a method and counted as GET, but f.yaml has 1 route with a method."},
		"more paths without methods":       {trace: line(98, posted) + line(2, pathOnly), warning: "2 requests were read without a method and counted as GET, but f.yaml has 1 route with a method."},
		"paths of -request":                {trace: line(4, `{"time":"2027-01-12T09:00:SS.5Z","key":"k","RequestMethod":"POST","u":"https://example.com/login?a=b"}`), flags: " -request u", warning: "4 requests were read without a method"},
		"paths of -path":                   {trace: line(4, `{"time":"2027-01-12T09:00:SS.5Z","key":"k","RequestMethod":"POST","u":"https://example.com/login?a=b"}`), flags: " -path u"},
		"paths, and routes without method": {trace: line(4, `{"time":"2027-01-12T09:00:SS.5Z","key":"k","path":"/login"}`), file: fmt.Sprintf(routes, ", /login: login")},
		"21 of one time":                   {trace: line(21, `{"time":1799744400,"key":"k","request":"GET /","id":N}`), warning: "all 21 requests have one time, so that counts and denials are wrong."},
		"20 of one time":                   {trace: line(20, `{"time":1799744400,"key":"k","request":"GET /","id":N}`)},
		"a duration as time":               {trace: line(4, `{"time":0.012,"at":"2027-01-12T09:00:SS.5Z","key":"k","request":"GET /"}`), warning: "the trace begins in 1970: its time may be a duration."},
		"a duration beside a time":         {trace: line(4, `{"time":0.012,"timestamp":"2027-01-12T09:00:SS.5Z","key":"k","request":"GET /"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if test.file == "" {
				test.file = login
			}
			write(t, "f.yaml", test.file)
			write(t, "trace", test.trace)
			commands := []string{"simulate f.yaml trace", "diff f.yaml f.yaml -trace trace", "diff f.yaml f.yaml -trace trace -ignore-warnings"}
			if !strings.Contains(test.warning, "without a method") && !strings.Contains(test.flags, "-p") {
				commands = append(commands, "suggest trace")
			}
			for _, command := range commands {
				var stdout, stderr strings.Builder
				status := run(strings.Fields(command+test.flags), &stdout, &stderr)
				want, wantErr := 0, ""
				if test.warning != "" && strings.HasSuffix(command, "-trace trace") {
					want, wantErr = exitTooMany, odd
				}
				if status != want || stderr.String() != wantErr {
					t.Errorf("%s: got status %d and %s", command, status, &stderr)
				}
				if first, _, _ := strings.Cut(stdout.String(), "\n"); strings.HasPrefix(first, "weir: ") != (test.warning != "") || !strings.HasPrefix(first, "weir: "+test.warning) && test.warning != "" {
					t.Errorf("%s: got %s, want first %q", command, &stdout, test.warning)
				}
			}
			var r struct{ Warnings, Notes []string }
			var stdout, stderr strings.Builder
			run(strings.Fields("simulate -json f.yaml trace"+test.flags), &stdout, &stderr)
			if err := json.Unmarshal([]byte(stdout.String()), &r); err != nil {
				t.Fatal(err)
			}
			if test.note != "" && !slices.Contains(r.Notes, test.note) {
				t.Errorf("got the notes %q, want %q", r.Notes, test.note)
			}
			if len(r.Warnings) != min(1, len(test.warning)) || r.Warnings == nil || test.warning != "" && !strings.HasPrefix(r.Warnings[0], test.warning) {
				t.Errorf("got the warnings %q, want %q", r.Warnings, test.warning)
			}
		})
	}
	if got := output(t, "suggest", "steady:clients=1,rate=1/s,for=10m"); strings.Contains(got, "weir: ") {
		t.Errorf("of a generator, got %s", got)
	}
}
