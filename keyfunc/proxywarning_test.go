package keyfunc_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// logged returns the lines that f logs.
func logged(f func()) string {
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	f()
	return log.String()
}

func TestProxyWarning(t *testing.T) {
	remote := func() keyfunc.Func { return keyfunc.RemoteIP() }
	list := func() keyfunc.Func { return keyfunc.XForwardedFor(proxies) }
	for _, c := range []struct {
		name  string
		f     func() keyfunc.Func
		peer  string
		lines []string
		want  []string // in the line; none means that nothing is logged
	}{
		{"private", remote, "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9"},
			[]string{"level=WARN", "keyfunc.RemoteIP ", "field=X-Forwarded-For", "peer=10.0.0.5", `keyfunc.XForwardedFor(keyfunc.Proxies(\"10.0.0.5\"))`}},
		{"private IPv6", remote, "[fd00::5%eth0]:1", []string{"Forwarded: for=203.0.113.9"},
			[]string{"field=Forwarded", "peer=fd00::5", `keyfunc.Forwarded(keyfunc.Proxies(\"fd00::5\"))`}},
		{"loopback", remote, "127.0.0.1:1", []string{"X-Real-Ip: 203.0.113.9"},
			[]string{"field=X-Real-Ip", `keyfunc.HeaderIP(\"X-Real-Ip\", keyfunc.Proxies(\"127.0.0.1\"))`}},
		{"mapped", remote, "[::ffff:192.168.0.1]:1", []string{"X-Forwarded-For: 203.0.113.9"}, []string{"peer=192.168.0.1"}},
		{"link-local", remote, "169.254.1.1:1", []string{"X-Forwarded-For: 203.0.113.9"}, []string{"peer=169.254.1.1"}},
		{"shared address space", remote, "100.64.0.1:1", []string{"X-Forwarded-For: 203.0.113.9"}, []string{"peer=100.64.0.1"}},
		{"172.31", remote, "172.31.0.1:1", []string{"X-Forwarded-For: 203.0.113.9"}, []string{"peer=172.31.0.1"}},
		{"link-local IPv6", remote, "[fe80::1]:1", []string{"X-Forwarded-For: 203.0.113.9"}, []string{"peer=fe80::1"}},
		{"Unix socket", remote, "@", []string{"X-Forwarded-For: 203.0.113.9"}, []string{"peer=unix", `keyfunc.XForwardedFor(keyfunc.Proxies(\"unix\"))`}},
		{"another proxy", list, "192.168.0.1:1", []string{"X-Forwarded-For: 203.0.113.9"},
			[]string{"keyfunc.XForwardedFor ", `keyfunc.XForwardedFor(keyfunc.Proxies(\"192.168.0.1\"))`}},
		{"own header first", func() keyfunc.Func { return keyfunc.HeaderIP("cf-connecting-ip", proxies) }, "192.168.0.1:1",
			[]string{"X-Forwarded-For: 6.6.6.6", "Cf-Connecting-Ip: 203.0.113.9"}, []string{"field=Cf-Connecting-Ip", `HeaderIP(\"Cf-Connecting-Ip\", `}},
		{"own list first", func() keyfunc.Func { return keyfunc.Forwarded(proxies) }, "192.168.0.1:1",
			[]string{"X-Forwarded-For: 6.6.6.6", "Forwarded: for=203.0.113.9"}, []string{"field=Forwarded"}},
		{"another header", list, "192.168.0.1:1", []string{"Forwarded: for=203.0.113.9"}, []string{"field=Forwarded"}},

		{"no header", remote, "10.0.0.5:1", []string{"Accept: */*"}, nil},
		{"public", remote, "198.51.100.7:1", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
		{"172.32", remote, "172.32.0.1:1", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
		{"100.128", remote, "100.128.0.1:1", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
		{"192.169", remote, "192.169.0.1:1", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
		{"169.253", remote, "169.253.0.1:1", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
		{"public IPv6", remote, "[2001:db8::1]:1", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
		{"trusted", list, "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
		{"trusted, another header", list, "10.0.0.5:1", []string{"Forwarded: for=203.0.113.9"}, nil},
		{"trusted socket", func() keyfunc.Func { return keyfunc.XForwardedFor(keyfunc.Proxies("unix")) }, "@", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
		{"last hops", func() keyfunc.Func { return keyfunc.XForwardedFor(keyfunc.LastHops(1)) }, "10.0.0.5:1", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
		{"no peer", remote, "localhost", []string{"X-Forwarded-For: 203.0.113.9"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.f()
			r := request(c.peer, c.lines...)
			log := logged(func() {
				_, _ = ask(f, request(c.peer)) // a request without a header changes nothing
				for range 3 {
					_, _ = ask(f, r)
				}
			})
			if n := strings.Count(log, "\n"); n != min(len(c.want), 1) {
				t.Fatalf("%d lines were logged, want %d: %s", n, min(len(c.want), 1), log)
			}
			for _, text := range c.want {
				if !strings.Contains(log, text) {
					t.Errorf("the line lacks %q: %s", text, log)
				}
			}
			if strings.Contains(log, "203.0.113.9") || strings.Contains(log, "6.6.6.6") {
				t.Errorf("the line contains the value of the header: %s", log)
			}
		})
	}
}

// Each function warns once, also for concurrent requests.
func TestProxyWarning_Concurrent(t *testing.T) {
	log := logged(func() {
		for range 2 {
			f := keyfunc.RemoteIP()
			testkit.Concurrently(20, func(int) { _, _ = ask(f, request("10.0.0.5:1", "X-Forwarded-For: 203.0.113.9")) })
		}
	})
	if n := strings.Count(log, "\n"); n != 2 {
		t.Errorf("%d lines were logged, want 2: %s", n, log)
	}
}

func TestProxyWarning_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	ip, list := keyfunc.RemoteIP(), keyfunc.XForwardedFor(proxies)
	peer, forwarded := request("192.168.0.1:1", "Accept: */*"), request("192.168.0.1:1", "X-Forwarded-For: 203.0.113.9")
	_ = logged(func() { _, _ = ask(list, forwarded) })
	for name, c := range map[string]struct {
		f keyfunc.Func
		r *http.Request
	}{"no header": {ip, peer}, "logged before": {list, forwarded}} {
		if n := testing.AllocsPerRun(100, func() { _, _ = ask(c.f, c.r) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
