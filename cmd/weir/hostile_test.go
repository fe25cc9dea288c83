package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// hostile are texts that control a terminal, change the direction of text, or are invisible, with their escapes.
var hostile = map[string]struct{ text, shown string }{
	"escape sequence":    {"\x1b[2J", `\x1b[2J`},
	"command of xterm":   {"\x1b]0;x\a", `\x1b]0;x\a`},
	"C1":                 {"\u009b2J", `\u009b2J`},
	"delete":             {"\x7f", `\u007f`},
	"carriage return":    {"\rweir", `\rweir`},
	"next line":          {"\u0085", `\u0085`},
	"line separator":     {"\u2028", `\u2028`},
	"right to left":      {"\u202e", `\u202e`},
	"isolate":            {"\u2066", `\u2066`},
	"mark":               {"\u200f", `\u200f`},
	"no width":           {"\u200b", `\u200b`},
	"tag":                {"\U000e0001", `\udb40\udc01`},
	"not UTF-8":          {"\xff", `\xff`},
	"printable":          {`é\n"漢`, `é\n"漢`},
	"a space of its own": {"x\u00a0y", "x\u00a0y"},
}

// No text from outside controls the terminal.
func TestRun_Hostile(t *testing.T) {
	t.Setenv("WEIR_REDIS_URL", "redis://"+redistest.Shared(t).Addr)
	for name, c := range hostile {
		for _, end := range []string{"", "\tx\nweir: valid"} { // which are escaped in names only
			t.Run(fmt.Sprintf("%s/%q", name, end), func(t *testing.T) {
				t.Chdir(t.TempDir())
				n := c.text + end
				if err := os.WriteFile(n, nil, 0o600); err != nil {
					t.Skip(err) // the file system does not permit the name
				}
				shown := c.shown + strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(end)
				write(t, n+".good", "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}], enforce: 50}, b: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}]}}\nroutes: {GET /a: api}")
				write(t, n+".bad", "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 1}]}}")
				write(t, n+".not", "?"+n+"\n")
				write(t, n+".trace", "time,key,plan\n1767322800.5,"+"k,p\n1767322800.5,\"k\n1767322800.5,k,\n")
				write(t, n+".empty", "")
				for _, c := range []struct {
					args string // § is the text
					want string // a part of the output
				}{
					{"check §.missing", "open §.missing: no such file or directory"},
					{"check §.bad", "§.bad:1:68: policies.api.rules[0].limit: "},
					{"check §.not", "§.not:"},
					{"diff §.missing §.good", "open §.missing: "},
					{"diff §.good §.bad", "§.bad:1:68: "},
					{"explain §.good § k", `§.good has no policy `},
					{"explain §.good /§ k", "weir: "},
					{"explain §.good api § §", "No rule of the policy has the plan "},
					{"simulate §.missing §.trace", "open §.missing: "},
					{"simulate §.good §.missing", "open §.missing: no such file or directory; a trace is "},
					{"simulate §.good §.empty", "§.empty has no requests"},
					{"simulate §.good §.trace", "no route of §.good matches"},
					{"simulate §.good §.trace -policy §", "§.good has no policy "},
					{"simulate §.good §.trace -policy api", "§.good applied to §.trace: 2 requests"},
					{"simulate §.good §.trace -policy api", "\n  §.trace:3: "},
					{"simulate §.good §.trace -key §", "§.trace: no header with a column "},
					{"simulate §.good steady:§=1", `steady:§=1: unknown parameter `},
					{"diff §.good §.good -trace §.trace -policy api", "§.trace: 2 requests"},
					{"diff §.good §.good -trace §.trace -policy api", "\n  §.trace:3: "},
					{"suggest §.trace", "§.trace: 2 requests"},
					{"suggest §.trace", "\n  §.trace:3: "},
					{"suggest §.trace §.not", "\n  §.not:1: "},
					{"suggest §.not", "weir: §.not has no request that can be read: §.not:1: "},
					{"check -§", "flag provided but not defined: -§\n"},
					{"rules get -config §.missing api k", "open §.missing: "},
					{"rules get -config §.bad api k", "§.bad:1:68: "},
					{"rules usage -config §.good § k", `§.good has no policy `},
					{"rules block -config §.good api k §", "UNTIL is neither "},
					{"rules override -config §.good api k {§", "OVERRIDE:"},
				} {
					var stdout, stderr strings.Builder
					args := strings.Fields(c.args)
					for i := range args {
						args[i] = strings.ReplaceAll(args[i], "§", n)
					}
					run(args, &stdout, &stderr)
					got := stdout.String() + stderr.String()
					if want := strings.ReplaceAll(c.want, "§", shown); !strings.Contains(got, want) {
						t.Errorf("%s: got %q, want a part %q", c.args, got, want)
					}
					if strings.ContainsFunc(got, controls) || !utf8.ValidString(got) || strings.Contains(got, "\nweir: valid") {
						t.Errorf("%s: got %q", c.args, got)
					}
				}
				for _, args := range [][]string{{"simulate", n + ".good", n + ".trace", "-policy", "api"}, {"suggest", n + ".trace"}, {"diff", n + ".good", n + ".good", "-trace", n + ".trace", "-policy", "api"}} {
					var report struct{ Trace string }
					got := output(t, append(slices.Clone(args), "-json")...)
					if err := json.Unmarshal([]byte(got), &report); err != nil || report.Trace != strings.ToValidUTF8(n, "\ufffd")+".trace" || strings.ContainsFunc(got, controls) {
						t.Errorf("%q: got %q, %v", args, got, err)
					}
				}
			})
		}
	}
}

// controls reports whether r must not get to a terminal.
func controls(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// A configuration in Redis is printed with escapes. Lines and tabs stay.
func TestRules_Hostile(t *testing.T) {
	server := redistest.Shared(t)
	for name, c := range hostile {
		for _, end := range []string{"\n", "\r\n", "\tx\n"} {
			config := "# " + c.text + end + "policies: {}" + end
			testkit.Must(t, server.Client().HSet(t.Context(), "hostile:test:rules", "text", config, "version", c.text).Err())
			var stdout, notes strings.Builder
			status := run([]string{"rules", "get", "-prefix", "hostile:", "-redis", "redis://" + server.Addr}, &stdout, &notes)
			if want := strings.Replace(config, c.text, c.shown, 1); status != 0 || stdout.String() != want {
				t.Errorf("%s: got %q, want %q", name, &stdout, want)
			}
			if got, want := notes.String(), "weir: note: version "+c.shown+"\n"; got != want {
				t.Errorf("%s: got the notes %q, want %q", name, got, want)
			}
		}
	}
}

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
			testkit.Must(t, json.Unmarshal([]byte(stdout.String()), &r))
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
