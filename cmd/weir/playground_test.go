package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/cmd/weir/internal/playground"
	"github.com/weir-go/weir/internal/testkit"
)

func TestServePlayground(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- servePlayground(ctx, "127.0.0.1:0", in) }()
	line := make([]byte, 200)
	n, err := out.Read(line)
	testkit.Must(t, err)
	address, ok := strings.CutPrefix(string(line[:n]), "weir: the playground is at ")
	address, ok2 := strings.CutSuffix(address, " ; Ctrl+C ends it\n")
	if !ok || !ok2 {
		t.Fatalf("printed %q", line[:n])
	}
	response, err := http.Get(address + "run?limit=7")
	testkit.Must(t, err)
	text, err := io.ReadAll(response.Body)
	if response.Body.Close(); err != nil || response.StatusCode != 200 || !strings.HasPrefix(string(text), `{"traffic":"adversary","limit":7,`) {
		t.Errorf("got %s %.100s: %v", response.Status, text, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// The end of the program does not wait for runs.
func TestServePlayground_EndsRuns(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- servePlayground(ctx, "127.0.0.1:0", in) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	testkit.Must(t, err)
	address, _, _ := strings.Cut(strings.TrimPrefix(line, "weir: the playground is at "), " ")
	const requests = 60
	complete := make(chan bool, requests)
	for range requests {
		go func() {
			response, err := http.Get(address + "run?traffic=steady&limit=500&burst=1000&rate=1000&clients=10")
			if err == nil {
				response.Body.Close()
			}
			complete <- err == nil && response.StatusCode == 200
		}()
	}
	<-complete // all others wait or run
	stop()
	n := 1
	for range requests - 1 {
		if <-complete {
			n++
		}
	}
	if err := <-ended; err != nil || n > requests/2 {
		t.Errorf("ended with %v after %d of %d runs", err, n, requests)
	}
}

func TestPlayground_Errors(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer used.Close()
	const usage = "usage:\n  weir playground "
	for name, test := range map[string]struct {
		args   []string
		status int
		stderr string // the beginning
		has    string
	}{
		"help":         {[]string{"playground", "-h"}, 0, usage, "127.0.0.1:8081"},
		"unknown flag": {[]string{"playground", "-x"}, 2, "flag provided but not defined: -x\n" + usage, ""},
		"an argument":  {[]string{"playground", "x"}, 2, usage, ""},
		"port in use":  {[]string{"playground", "-addr", used.Addr().String()}, 1, "weir: listen tcp " + used.Addr().String(), "-addr 127.0.0.1:0"},
		"no port":      {[]string{"playground", "-addr", "localhost"}, 1, "weir: listen tcp: address localhost", ""},
	} {
		var stdout, stderr strings.Builder
		status := run(test.args, &stdout, &stderr)
		if status != test.status || stdout.String() != "" || !strings.HasPrefix(stderr.String(), test.stderr) || !strings.Contains(stderr.String(), test.has) {
			t.Errorf("%s: got status %d, %q and %q", name, status, &stdout, &stderr)
		}
	}
}

// The figures of the page are those of weir simulate for a file with the same limit and a generator with the same
// traffic.
func TestPlayground_Simulate(t *testing.T) {
	t.Chdir(t.TempDir())
	for generator, query := range map[string]string{
		"steady:rate=150/m,clients=2,for=5m":             "traffic=steady&clients=2",
		"poisson:rate=40/m,clients=3,for=5m":             "traffic=poisson&rate=40&clients=3&limit=20&burst=50",
		"poisson:rate=900/s,clients=1,for=5s":            "traffic=poisson&rate=900&per=s&limit=500",
		"burst:rate=150/h,clients=4,for=5h,every=18m45s": "traffic=burst&clients=4&per=h",
		"adversary:clients=1,for=5m":                     "",
		"adversary:clients=7,for=5h":                     "clients=7&limit=3&per=h",
	} {
		p, err := playground.Parse(query)
		testkit.Must(t, err)
		result, err := playground.Run(t.Context(), p)
		testkit.Must(t, err)
		for _, l := range result.Lanes {
			limit := fmt.Sprintf("%d/%s", p.Limit, p.Per)
			if strings.HasSuffix(l.Algorithm, "bucket") {
				limit += fmt.Sprintf(" burst %d", p.Burst)
			}
			algorithm, fromFirst := strings.CutSuffix(l.Algorithm, "_from_first")
			if fromFirst && p.Traffic == "adversary" {
				continue // that of the page attacks the rule of another lane
			}
			write(t, "limits.yaml", fmt.Sprintf("policies: {api: {rules: [{name: api, algorithm: %s, limit: %s, from_first: %t}]}}", algorithm, limit, fromFirst))
			var stdout, stderr strings.Builder
			if status := run([]string{"simulate", "-json", "limits.yaml", generator}, &stdout, &stderr); status != 0 {
				t.Fatalf("%s: status %d: %s", generator, status, &stderr)
			}
			var s simulated
			testkit.Must(t, json.Unmarshal([]byte(stdout.String()), &s))
			q, r := s.Policies[0], s.Policies[0].Rules[0]
			got := fmt.Sprint(s.Requests, q.Admitted, q.Denied, q.Delayed, r.Most.Admitted, q.RetryAfter.Median, q.RetryAfter.Max, r.Queue.Max, int64(r.Delay.Max*1000))
			want := fmt.Sprint(result.Requests, l.Admitted, l.Denied, l.Delayed, l.Worst.Admitted, l.Retry, l.RetryMax, l.Queue, l.Delay)
			if got != want {
				t.Errorf("%s, %s: simulate has %s, the page %s", generator, l.Algorithm, got, want)
			}
		}
	}
}
