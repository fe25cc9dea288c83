package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
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
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.ContainsFunc(tests, func(test formatTest) bool { return test.file == f.Name() }) {
			t.Errorf("no test reads %s", f.Name())
		}
	}
}
