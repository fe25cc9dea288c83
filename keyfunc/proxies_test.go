package keyfunc_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

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
		if err != nil {
			t.Fatal(err)
		}
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
		wantPanic(t, "keyfunc: Proxies: ", func() { keyfunc.Proxies("192.0.2.1", c.cidr) })
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
