package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
)

type formatTest struct {
	file                                    string
	flags                                   []string
	requests, keys, logins, limited, unread int
}

// The files of testdata are as the programs write them, or as their documentation has them. Their requests, keys,
// logins, requests with the status 429 and unreadable lines were counted by hand.
func TestSimulate_Formats(t *testing.T) {
	const limits = "policies: {api: {rules: [{name: m, algorithm: fixed_window, limit: 9/m}]}, login: {rules: [{name: m, algorithm: fixed_window, limit: 9/m}]}}\nroutes: {/: api, POST /login: login}"
	const own = `$http_x_forwarded_for [$msec] $host "$request" s=$status $request_time user=$user`
	tests := []formatTest{
		{"nginx-main.log", nil, 5, 2, 2, 1, 0},
		{"nginx-main.log", []string{"-key", "http_x_forwarded_for"}, 4, 3, 2, 1, 1},
		{"apache-vhost.log", nil, 4, 3, 2, 1, 0},
		{"apache-vhost.log", []string{"-key", "remote_user"}, 1, 1, 0, 0, 3},
		{"caddy.log", nil, 4, 2, 2, 1, 0},
		{"traefik.log", nil, 4, 3, 2, 1, 0},
		{"traefik.json", nil, 4, 3, 2, 1, 0},
		{"haproxy.log", nil, 4, 2, 2, 1, 0},
		{"envoy.log", nil, 4, 3, 2, 1, 0},
		{"alb.log", nil, 4, 3, 2, 1, 0},
		{"elb.log", nil, 4, 2, 2, 1, 0},
		{"cloudfront.log", nil, 4, 3, 2, 1, 0},
		{"iis.log", nil, 4, 3, 2, 1, 0},
		{"cloudflare.json", nil, 4, 3, 2, 1, 0},
		{"google.json", nil, 4, 3, 2, 1, 0},
		{"ecs.json", nil, 4, 3, 2, 1, 0},
		{"gin.log", nil, 5, 3, 2, 1, 0},
		{"gin-terminal.log", nil, 5, 3, 2, 1, 0},
		{"chi.log", nil, 5, 3, 2, 1, 0},
		{"chi-requestid.log", nil, 5, 3, 2, 1, 0},
		{"slog-text.log", nil, 5, 3, 2, 1, 0},
		{"pino.json", []string{"-key", "req.remoteAddress", "-request", "req", "-status", "res.statusCode"}, 4, 3, 2, 1, 0},
		{"docker.json", nil, 4, 3, 2, 1, 0},
		{"docker-slog.json", []string{"-key", "user.id"}, 4, 3, 1, 1, 0},
		{"own.log", []string{"-format", own}, 4, 3, 2, 1, 0},
		{"own.log", []string{"-format", own, "-key", "user"}, 2, 2, 0, 0, 2},
	}
	file := t.TempDir() + "/limits.yaml"
	write(t, file, limits)
	begin := map[string]bool{}
	for _, test := range tests {
		t.Run(strings.Join(append([]string{test.file}, test.flags...), " "), func(t *testing.T) {
			r := simulateArgs(t, append([]string{file, "testdata/" + test.file}, test.flags...)...)
			logins := 0
			for _, p := range r.Policies {
				if p.Name == "login" {
					logins = int(p.Requests)
				}
			}
			notes := strings.Join(r.Notes, "\n")
			for n, note := range map[int]string{test.limited: "of the trace had the status 429", test.unread: "could not be read"} {
				if strings.Contains(notes, note) != (n > 0) || n > 0 && !strings.Contains(notes, fmt.Sprintf("%d request", n)+" "+note) && !strings.Contains(notes, fmt.Sprintf("%d line", n)) {
					t.Errorf("got the notes %q, want %d %s", r.Notes, n, note)
				}
			}
			if int(r.Requests) != test.requests || r.Keys != test.keys || logins != test.logins || len(r.Warnings) > 0 {
				t.Errorf("got %d requests of %d keys, %d logins and the warnings %q; want %d, %d and %d", r.Requests, r.Keys, logins, r.Warnings, test.requests, test.keys, test.logins)
			}
			begin[r.First.Format("2006-01-02T15:04:05Z07:00")] = true
		})
	}
	// The words of a container runtime, of docker compose, kubectl, Heroku and journald before lines change nothing.
	for _, test := range tests {
		content, err := os.ReadFile("testdata/" + test.file)
		testkit.Must(t, err)
		if strings.Contains(string(content), "#Fields:") {
			continue
		}
		want := simulateArgs(t, append([]string{file, "testdata/" + test.file}, test.flags...)...)
		for _, words := range []string{"2027-01-12T09:00:01.1Z stdout F ", "web-1  | ", "\x1b[36mweb-1  | \x1b[0m", "[pod/web-1/app] ", "2027-01-12T09:00:01.1+00:00 app[web.1]: ", "Jan 12 09:00:01 web1 app[7]: "} {
			changed := t.TempDir() + "/trace"
			write(t, changed, words+strings.ReplaceAll(strings.TrimSpace(string(content)), "\n", "\n"+words))
			if got := simulateArgs(t, append([]string{file, changed}, test.flags...)...); got.figures() != want.figures() || got.First != want.First {
				t.Errorf("%s %q behind %q: got %s, want %s", test.file, test.flags, words, got.figures(), want.figures())
			}
		}
	}
	if len(begin) != 1 {
		t.Errorf("the traces begin at different seconds: %v", begin)
	}
	files, err := os.ReadDir("testdata")
	testkit.Must(t, err)
	for _, f := range files {
		if !slices.ContainsFunc(tests, func(test formatTest) bool { return test.file == f.Name() }) {
			t.Errorf("no test reads %s", f.Name())
		}
	}
}

// Lines of a log with text before the address have the key of the client, or cannot be read. In both cases, a bound is
// exceeded, or the exit status is 1.
func TestRun_LogPrefixes(t *testing.T) {
	for name, test := range map[string]struct {
		text string // %d and %02d are the second
		read bool
	}{
		"none":                         {"CLIENT - -", true},
		"virtual host":                 {"www.example.com:443 CLIENT - ann", true},
		"CRI":                          {"2027-01-12T09:00:%02d.1Z stdout F CLIENT - -", true},
		"syslog":                       {"Jan 12 09:00:%02d web1 nginx: CLIENT - -", true},
		"syslog with a priority":       {"<190>Jan 12 09:00:%02d web1 nginx: CLIENT - -", true},
		"syslog with an exact time":    {"2027-01-12T09:00:%02d.123456+00:00 10.0.0.5 nginx: CLIENT - -", true},
		"journald":                     {"Jan 12 09:00:%02d web1 nginx[123]: CLIENT - -", true},
		"compose":                      {"web-1  | CLIENT - -", true},
		"kubectl with times":           {"2027-01-12T09:00:%02d.1Z CLIENT - -", true},
		"kubectl with a prefix":        {"[pod/web-1/nginx] CLIENT - -", true},
		"stern":                        {"web-1 nginx CLIENT - -", true},
		"NULs":                         {"\x00\x00\x00\x00CLIENT - -", true},
		"CRI before a name":            {"2027-01-12T09:00:%02d.1Z stdout F name-CLIENT - -", false},
		"compose before a name":        {"web-1  | host.example.com - -", false},
		"compose with colors":          {"\x1b[36mweb-1  | \x1b[0mCLIENT - -", true},
		"RFC 5424":                     {"<190>1 2027-01-12T09:00:%02dZ web1 nginx 123 - - CLIENT - -", false},
		"RFC 5424 with data":           {`<190>1 2027-01-12T09:00:%02dZ web1 nginx 123 - [meta x="y"] CLIENT - -`, false},
		"logger":                       {"2027-01-12 09:00:%02d,123 - werkzeug - INFO - CLIENT - -", false},
		"logger with a name":           {"INFO - CLIENT - -", false},
		"grep":                         {"access.log:CLIENT - -", false},
		"no client":                    {"Jan 12 09:00:%02d", false},
		"X-Forwarded-For":              {"CLIENT, 10.0.0.1 - -", true},
		"X-Forwarded-For of IPv6":      {"2001:db8:%d::9, CLIENT - -", true},
		"X-Forwarded-For of three":     {"198.51.100.%d, CLIENT, 10.0.0.1 - -", true},
		"X-Forwarded-For, remote_addr": {"CLIENT, 198.51.100.%d 10.0.0.1 - -", false},
	} {
		t.Run(name, func(t *testing.T) {
			var trace strings.Builder
			for i := range 8 {
				text := strings.ReplaceAll(test.text, "CLIENT", fmt.Sprintf("192.0.2.%d", 10+i%2))
				text = strings.NewReplacer("%02d", fmt.Sprintf("%02d", i), "%d", fmt.Sprint(i)).Replace(text)
				fmt.Fprintf(&trace, "%s [12/Jan/2027:09:00:%02d +0000] \"GET / HTTP/1.1\" 200 5\n", text, i)
			}
			tooMany := "weir: too many keys are newly denied: 2 of 2, more than 0\n"
			checkKeys(t, trace.String(), "", test.read, tooMany)
		})
	}
}

// A list of addresses is the key of one client.
func TestRun_ListsOfAddresses(t *testing.T) {
	for name, line := range map[string]string{
		"JSON": `{"time":"2027-01-12T09:00:0%d.5Z","x_forwarded_for":"198.51.100.%[1]d, %[2]s, 10.0.0.%[1]d"}`,
		"CSV":  `2027-01-12T09:00:0%d.5Z,"198.51.100.%[1]d, %[2]s, 10.0.0.%[1]d"`,
	} {
		t.Run(name, func(t *testing.T) {
			trace := ""
			if name == "CSV" {
				trace = "time,x_forwarded_for\n"
			}
			for i := range 8 {
				trace += fmt.Sprintf(line, i, []string{"192.0.2.10", "192.0.2.11"}[i%2]) + "\n"
			}
			checkKeys(t, trace, " -key x_forwarded_for", true, "weir: too many keys are newly denied: 2 of 2, more than 0\n")
		})
	}
}

// checkKeys runs the commands on a trace with 4 requests of each of two clients, or with lines that cannot be read.
func checkKeys(t *testing.T, trace, flags string, read bool, tooMany string) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "old.yaml", policy("{name: r, algorithm: fixed_window, limit: 5/m}"))
	write(t, "new.yaml", policy("{name: r, algorithm: fixed_window, limit: 1/m}"))
	write(t, "trace", trace)
	for args, want := range map[string]int{"diff old.yaml new.yaml -trace trace -max-new-denied-keys 0": exitTooMany, "suggest trace -per 1m -deny 0": 0, "simulate old.yaml trace": 0} {
		var stdout, stderr strings.Builder
		status := run(strings.Fields(args+flags), &stdout, &stderr)
		switch {
		case !read:
			if status != exitError || !strings.Contains(stderr.String(), "trace has no request that can be read: trace:") {
				t.Errorf("%s: got status %d, stdout\n%s\nand stderr %s", args, status, &stdout, &stderr)
			}
		case status != want || want == exitTooMany && stderr.String() != tooMany || strings.HasPrefix(args, "suggest") && !strings.Contains(stdout.String(), "limit: 4/m}"):
			t.Errorf("%s: got status %d, stdout\n%s\nand stderr %s", args, status, &stdout, &stderr)
		}
	}
}
