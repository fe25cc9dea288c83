package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestServePlayground(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- servePlayground(ctx, "127.0.0.1:0", in) }()
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address, ok := strings.CutPrefix(string(line[:n]), "weir: the playground is at ")
	address, ok2 := strings.CutSuffix(address, " ; Ctrl+C ends it\n")
	if !ok || !ok2 {
		t.Fatalf("printed %q", line[:n])
	}
	response, err := http.Get(address + "run?limit=7")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
