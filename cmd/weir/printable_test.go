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
			if err := server.Client().HSet(t.Context(), "hostile:test:rules", "text", config, "version", c.text).Err(); err != nil {
				t.Fatal(err)
			}
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
