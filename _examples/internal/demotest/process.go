// Package demotest runs each example as a process, sends it HTTP requests, and checks
// the answers.
package demotest

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testkit"
)

// timeout bounds every wait for a process. It is far above the usual time, so that
// tests also pass on a busy machine.
const timeout = time.Minute

// childEnv, if it is set, makes a test binary run the example instead of its tests.
const childEnv = "WEIR_EXAMPLE_PROCESS"

// Main is the TestMain of an example, and main is the main function of the example.
func Main(m *testing.M, main func()) {
	if os.Getenv(childEnv) == "" {
		m.Run()
		return
	}
	// Stdin is closed when the parent ends, for whatever reason.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	main()
	os.Exit(0)
}

// A Process is a running example.
type Process struct {
	url       string
	transport *http.Transport
	cmd       *exec.Cmd
	output    *testkit.Buffer
	exited    chan struct{} // closed when err is set
	err       error
}

var listening = regexp.MustCompile(`Listening on (http://\S+) `)

// Start is Run for an example that listens. It returns when it does.
func Start(t testing.TB, env ...string) *Process {
	t.Helper()
	p := Run(t, env...)
	Until(t, "the example listens", func() bool {
		select {
		case <-p.exited:
			t.Fatalf("the example ended: %v", p.err)
		default:
		}
		if m := listening.FindStringSubmatch(p.output.String()); m != nil {
			p.url = m[1]
		}
		return p.url != ""
	})
	return p
}

// Run runs the example on a free port, with env added to the environment. At the end
// of the test Run stops the example, and the test fails if that fails.
func Run(t testing.TB, env ...string) *Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{transport: new(http.Transport), cmd: exec.Command(exe), output: new(testkit.Buffer), exited: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), env...), childEnv+"=1", "ADDR=127.0.0.1:0",
		"GORACE=atexit_sleep_ms=0") // otherwise the race detector waits a second
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.WaitDelay = timeout
	if _, err := p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() { p.stop(t) })
	return p
}

// stop ends p with SIGTERM, as a service manager does, and fails the test unless the
// exit code is 0: the race detector has its own exit code.
func (p *Process) stop(t testing.TB) {
	p.transport.CloseIdleConnections()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(timeout):
		t.Error("the example does not stop on SIGTERM")
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	if p.err != nil {
		t.Errorf("the example ended: %v", p.err)
	}
	if t.Failed() {
		t.Logf("output of the example:\n%s", p.output)
	}
}

// Output returns all text that p has printed so far.
func (p *Process) Output() string { return p.output.String() }

// Do sends a request to p, with header fields of the form "Name: value".
func (p *Process) Do(t testing.TB, method, path string, fields ...string) *Answer {
	t.Helper()
	return p.do(t, p.transport, method, path, http.NoBody, fields)
}

// Post is like Do, for a POST with a body.
func (p *Process) Post(t testing.TB, path, body string, fields ...string) *Answer {
	t.Helper()
	return p.do(t, p.transport, http.MethodPost, path, strings.NewReader(body), fields)
}

// DoFrom is like Do, but sends the request from addr, an address of this machine.
func (p *Process) DoFrom(t testing.TB, addr, method, path string, fields ...string) *Answer {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	return p.do(t, transport, method, path, http.NoBody, fields)
}

func (p *Process) do(t testing.TB, transport http.RoundTripper, method, path string, body io.Reader, fields []string) *Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Add(name, value)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return &Answer{Request: method + " " + path, Status: resp.StatusCode, Header: resp.Header, Body: string(answer)}
}

// Until calls check every few milliseconds until it returns true, and fails the test
// if it does not within the timeout.
func Until(t testing.TB, condition string, check func() bool) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", timeout, condition)
		}
		<-tick.C
	}
}

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
