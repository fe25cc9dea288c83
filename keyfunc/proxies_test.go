package keyfunc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

func TestProxySet_Contains(t *testing.T) {
	for _, c := range []struct {
		cidrs    string
		addr     string
		contains bool
	}{
		{"10.0.0.0/8", "10.255.255.255", true},
		{"10.0.0.0/8", "11.0.0.0", false},
		{"10.0.0.0/8", "9.255.255.255", false},
		{"10.0.0.0/8", "::ffff:10.1.2.3", true},
		{"10.0.0.0/8", "::10.1.2.3", false},
		{"::ffff:10.0.0.0/104", "10.1.2.3", true},
		{"::ffff:10.0.0.0/104", "11.1.2.3", false},
		{"::ffff:0:0/96", "192.0.2.1", true},
		{"::ffff:192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::1", true},
		{"2001:db8::1", "2001:db8::1%eth0", true},
		{"fe80::/10", "fe80::1%eth0", true},
		{"::/0", "2001:db8::1", true},
		{"::/0", "192.0.2.1", false},
		{"0.0.0.0/0", "192.0.2.1", true},
		{"0.0.0.0/0", "2001:db8::1", false},
		{"10.0.0.0/8 10.1.0.0/16 10.1.0.0/24 10.0.0.0/8", "10.200.0.1", true},
		{"10.1.0.0/16 192.0.2.0/24 10.3.0.0/16", "10.2.0.1", false},
		{"10.1.0.0/16 192.0.2.0/24 10.3.0.0/16", "10.3.0.1", true},
	} {
		p, err := keyfunc.ParseProxies(strings.Fields(c.cidrs)...)
		testkit.Must(t, err)
		if got := p.Contains(netip.MustParseAddr(c.addr)); got != c.contains {
			t.Errorf("{%s} contains %s = %v, want %v", c.cidrs, c.addr, got, c.contains)
		}
	}
}

func TestProxySet_Empty(t *testing.T) {
	for _, p := range []keyfunc.ProxySet{{}, keyfunc.Proxies()} {
		for _, addr := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")} {
			if p.Contains(addr) {
				t.Errorf("the empty set contains %v", addr)
			}
		}
		for _, h := range forwardingHeaders {
			wantKey(t, h.keyBy(p), request("127.0.0.1:1", h.name+": "+h.entry("6.6.6.6")), "127.0.0.1")
		}
	}
	if keyfunc.Proxies("0.0.0.0/0", "::/0").Contains(netip.Addr{}) {
		t.Error("the zero Addr is in a set")
	}
}

// The sorted, disjoint prefixes contain the same addresses as the list of arguments.
func TestProxySet_RandomPrefixes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	addr := func() netip.Addr { // few bits vary, so that prefixes nest and addresses hit
		if random.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, byte(random.IntN(4)), byte(random.IntN(4)) << 6, byte(random.IntN(4))})
		}
		return netip.AddrFrom16([16]byte{0: 0x20, 1: byte(random.IntN(4)), 7: byte(random.IntN(4)), 15: byte(random.IntN(4))})
	}
	hits := 0
	for range 500 {
		var list []netip.Prefix
		var texts []string
		for range random.IntN(12) {
			a := addr()
			prefix := netip.PrefixFrom(a, 4+random.IntN(a.BitLen()-3)).Masked()
			list, texts = append(list, prefix), append(texts, prefix.String())
		}
		p := keyfunc.Proxies(texts...)
		for range 50 {
			a := addr()
			want := slices.ContainsFunc(list, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
			if got := p.Contains(a); got != want {
				t.Fatalf("%v contains %v = %v, want %v", texts, a, got, want)
			}
			if want {
				hits++
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d addresses were in a set: want at least 1000", hits)
	}
}

func TestProxySet_ContainsKey(t *testing.T) {
	p := keyfunc.Proxies("10.0.0.0/8", "11.0.0.0/8", "::ffff:192.0.2.0/120", "198.51.100.7", "2001:db8::/32", "2001:db8:1::/48", "fd00::/65", "fe80::1")
	for want, keys := range map[bool][]string{
		true: {
			"10.0.0.0", "10.255.255.255", "10.1.0.0/16", "10.0.0.0/8", "192.0.2.9", "198.51.100.7", "198.51.100.7/32",
			"::ffff:10.1.2.3", "::ffff:10.1.0.0/112", "2001:db8::/32", "2001:db8:1:2::/64", "2001:db8::1", "fd00::1", "fd00::/65", "fe80::1",
		},
		false: {
			"10.0.0.0/7", "0.0.0.0/0", "12.0.0.0", "9.255.255.255", "192.0.3.0", "198.51.100.6/31", "2001:db8::/31", "2001:db9::/64", "fd00::/64", "fe80::/64", "::/0",
			"", "user:10.1.2.3", "10.1.2.3:80", "[2001:db8::1]", "10.1.2.3/8", "fe80::1%eth0", " 10.1.2.3",
		},
	} {
		for _, key := range keys {
			if got := p.ContainsKey(key); got != want {
				t.Errorf("%q: %v, want %v", key, got, want)
			}
		}
	}
	if (keyfunc.ProxySet{}).ContainsKey("10.1.2.3") {
		t.Error("the zero value contains an address")
	}
}

func TestParseProxies_Errors(t *testing.T) {
	for _, c := range []struct{ cidr, text string }{
		{"10.0.0.1/8", `"10.0.0.1/8" has bits set beyond its prefix: write "10.0.0.0/8" for the network or "10.0.0.1" for the one address`},
		{"2001:db8::1/32", `write "2001:db8::/32"`},
		{"::ffff:10.0.0.1/104", "bits set beyond"},
		{"::ffff:0:0/95", "bits set beyond"},
		{"", `"" is neither an IP address nor a CIDR prefix`},
		{"localhost", "neither an IP address nor a CIDR prefix"},
		{"10.0.0.0/33", "not a CIDR prefix"},
		{"10.0.0.0/08", "not a CIDR prefix"},
		{"10.0.0/8", "not a CIDR prefix"},
		{"010.0.0.0/8", "not a CIDR prefix"},
		{"10.0.0.0/8,192.168.0.0/16", "not a CIDR prefix"},
		{" 10.0.0.0/8", "not a CIDR prefix"},
		{"10.0.0.1:80", "neither an IP address"},
		{"fe80::%eth0/10", "not a CIDR prefix"},
		{"fe80::1%eth0", "has a zone"},
	} {
		p, err := keyfunc.ParseProxies("192.0.2.1", c.cidr)
		if err == nil || !strings.HasPrefix(err.Error(), "keyfunc: ParseProxies: ") || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q: error %v, want one with %q", c.cidr, err, c.text)
		}
		if p.Contains(netip.MustParseAddr("192.0.2.1")) {
			t.Errorf("%q: the set beside the error is not empty", c.cidr)
		}
		testkit.Panics(t, strings.Replace(err.Error(), "ParseProxies", "Proxies", 1), func() { keyfunc.Proxies("192.0.2.1", c.cidr) })
	}
}

func TestProxies_ArgumentsChange(t *testing.T) {
	cidrs := []string{"10.0.0.0/8"}
	p := keyfunc.Proxies(cidrs...)
	cidrs[0] = "0.0.0.0/0"
	if p.Contains(netip.MustParseAddr("192.0.2.1")) {
		t.Error("changing the arguments changed the set")
	}
}

// over returns r as a server of net/http passes it on, whose listener has an address of network.
func over(network string, r *http.Request) *http.Request {
	var local net.Addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	if network == "unix" {
		local = &net.UnixAddr{Name: "/run/app.sock", Net: network}
	}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
}

func TestProxies_Unix(t *testing.T) {
	unix, both := keyfunc.Proxies("unix"), keyfunc.Proxies("10.0.0.0/8", "unix", "unix")
	for _, h := range forwardingHeaders {
		line := h.name + ": " + h.entry("203.0.113.9")
		for _, c := range []struct {
			name    string
			proxies keyfunc.ProxySet
			r       *http.Request
			want    string // "" means ErrNoKey
		}{
			{"no name", unix, request("", line), "203.0.113.9"},
			{"@", unix, request("@", line), "203.0.113.9"},
			{"abstract name", unix, request("@proxy", line), "203.0.113.9"},
			{"path", unix, request("/run/proxy.sock", line), "203.0.113.9"},
			{"with addresses", both, request("@", line), "203.0.113.9"},
			{"an address of both", both, request("10.0.0.1:1", line), "203.0.113.9"},
			{"server on a socket", unix, over("unix", request("@", line)), "203.0.113.9"},
			{"any name on a socket", unix, over("unix", request(`C:\proxy`, line)), "203.0.113.9"},
			{"no header", unix, request("@"), ""},
			{"malformed header", unix, request("@", h.name+": x,"), ""},
			{"not in the set", keyfunc.Proxies("127.0.0.1"), request("@", line), ""},
			{"empty set", keyfunc.ProxySet{}, request("@", line), ""},
			{"server on TCP", unix, over("tcp", request("@", line)), ""},
			{"server on TCP, no peer", unix, over("tcp", request("", line)), ""},
			{"no socket", unix, request("localhost:1", line), ""},
			{"a peer with an address", unix, request("198.51.100.7:1", line), "198.51.100.7"},
			{"a name like an address", unix, over("unix", request("198.51.100.7:1", line)), "203.0.113.9"},
			{"a name like an address of the set", keyfunc.Proxies("10.0.0.0/8"), over("unix", request("10.0.0.1:1", line)), ""},
		} {
			t.Run(h.name+"/"+c.name, func(t *testing.T) {
				if f := h.keyBy(c.proxies); c.want == "" {
					wantMalformed(t, f, c.r)
				} else {
					wantKey(t, f, c.r, c.want)
				}
			})
		}
	}
	// The client may have made up all entries but the one that the proxy appends.
	wantKey(t, keyfunc.XForwardedFor(unix), request("@", "X-Forwarded-For: 6.6.6.6, 203.0.113.9"), "203.0.113.9")
	wantKey(t, keyfunc.XForwardedFor(both), request("@", "X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.2"), "203.0.113.9")
	if unix.Contains(netip.Addr{}) || unix.ContainsKey("") || unix.ContainsKey("unix") {
		t.Error("the set contains an address")
	}
}

// A real server on a Unix socket. A client that gives its end of the socket a name like an address has no address.
func TestProxies_UnixServer(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := net.Listen("unix", "s")
	testkit.Must(t, err)
	trusted, remote := keyfunc.XForwardedFor(keyfunc.Proxies("unix")), keyfunc.RemoteIP()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := trusted(r.Context(), r)
		wrong, noKey := remote(r.Context(), r)
		fmt.Fprintf(w, "%s %s %v %q %v", r.RemoteAddr, key, err, wrong, errors.Is(noKey, keyfunc.ErrNoKey))
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	for name, peer := range map[string]string{"": "@", "198.51.100.7:80": "198.51.100.7:80", "198.51.100.8": "198.51.100.8"} {
		client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.DialUnix("unix", &net.UnixAddr{Name: name, Net: "unix"}, &net.UnixAddr{Name: "s", Net: "unix"})
		}}}
		r := must(http.NewRequestWithContext(t.Context(), "GET", "http://app/", nil))
		r.Header.Set("X-Forwarded-For", "6.6.6.6, 203.0.113.9")
		response, err := client.Do(r)
		testkit.Must(t, err)
		got, err := io.ReadAll(response.Body)
		if want := peer + ` 203.0.113.9 <nil> "" true`; string(got) != want || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
		_ = response.Body.Close()
		client.CloseIdleConnections()
	}
}

func TestLastHops(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		peer  string
		lines []string
		want  string
	}{
		{"one entry", 1, "198.51.100.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"made-up entries", 1, "198.51.100.1:1", []string{"6.6.6.6, 7.7.7.7, 203.0.113.9"}, "203.0.113.9"},
		{"made-up lines", 1, "198.51.100.1:1", []string{"6.6.6.6", "7.7.7.7, 203.0.113.9"}, "203.0.113.9"},
		{"private client", 1, "10.0.0.1:1", []string{"6.6.6.6, 10.0.0.2"}, "10.0.0.2"},
		{"two hops", 2, "198.51.100.1:1", []string{"6.6.6.6, 203.0.113.9, 198.51.100.2"}, "203.0.113.9"},
		{"two hops in lines", 2, "198.51.100.1:1", []string{"6.6.6.6", "203.0.113.9", "198.51.100.2"}, "203.0.113.9"},
		{"three hops", 3, "198.51.100.1:1", []string{"6.6.6.6, 203.0.113.9, 198.51.100.3, 198.51.100.2"}, "203.0.113.9"},
		{"a hop is missing", 2, "198.51.100.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"32 hops", 32, "198.51.100.1:1", []string{chain(32)}, "10.9.9.9"},
		{"31 hops", 31, "198.51.100.1:1", []string{chain(32)}, "10.0.0.2"},
		{"no header", 1, "198.51.100.1:1", nil, "198.51.100.1"},
		{"not an address", 1, "198.51.100.1:1", []string{"203.0.113.9, unknown"}, "198.51.100.1"},
		{"not an address, second", 2, "198.51.100.1:1", []string{"203.0.113.9, unknown, 198.51.100.2"}, "198.51.100.2"},
		{"Unix socket", 1, "@", []string{"6.6.6.6, 203.0.113.9"}, "203.0.113.9"},
		{"Unix socket, no header", 1, "@", nil, ""},
	} {
		for _, h := range forwardingHeaders[:2] {
			t.Run(h.name+"/"+c.name, func(t *testing.T) {
				r := request(c.peer)
				for _, line := range c.lines {
					entries := strings.Split(line, ", ")
					for i := range entries {
						entries[i] = h.entry(entries[i])
					}
					r.Header.Add(h.name, strings.Join(entries, ", "))
				}
				if f := h.keyBy(keyfunc.LastHops(c.n)); c.want == "" {
					wantMalformed(t, f, r)
				} else {
					wantKey(t, f, r, c.want)
				}
			})
		}
	}
	f := keyfunc.HeaderIP("Fly-Client-IP", keyfunc.LastHops(1))
	wantKey(t, f, request("198.51.100.1:1", "Fly-Client-Ip: 203.0.113.9"), "203.0.113.9")
	wantMalformed(t, f, request("198.51.100.1:1", "Fly-Client-Ip: 203.0.113.9", "Fly-Client-Ip: 6.6.6.6"))
	if p := keyfunc.LastHops(1); p.Contains(netip.MustParseAddr("198.51.100.1")) || p.ContainsKey("198.51.100.1") {
		t.Error("the set contains an address")
	}
}

// A set that contains the addresses of many clients is accepted, with a warning.
func TestProxies_Wide(t *testing.T) {
	for _, c := range []struct {
		cidr  string
		warns bool
	}{
		{"0.0.0.0/0", true}, {"128.0.0.0/1", true}, {"16.0.0.0/7", true}, {"::/0", true}, {"2000::/3", true}, {"::ffff:0.0.0.0/96", true},
		{"10.0.0.0/8", false}, {"fc00::/7", false}, {"192.0.2.1", false}, {"2001:db8::/32", false}, {"unix", false},
	} {
		for name, f := range map[string]func(){
			"Proxies": func() { keyfunc.Proxies("192.0.2.0/24", c.cidr) }, "ParseProxies": func() { must(keyfunc.ParseProxies(c.cidr)) },
		} {
			log := logged(f)
			if warns := strings.Contains(log, "level=WARN") && strings.Contains(log, name+":") && strings.Contains(log, c.cidr); warns != c.warns || strings.Count(log, "\n") > 1 {
				t.Errorf("%s(%s) logs %q, want a warning: %t", name, c.cidr, log, c.warns)
			}
		}
	}
}
