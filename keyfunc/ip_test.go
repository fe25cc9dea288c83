package keyfunc_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

func TestRemoteIP(t *testing.T) {
	for _, c := range []struct{ peer, want string }{
		{"203.0.113.9:1234", "203.0.113.9"},
		{"203.0.113.9:0", "203.0.113.9"},
		{"203.0.113.9", "203.0.113.9"},
		{" \t203.0.113.9:80\t ", "203.0.113.9"},
		{"0.0.0.0:80", "0.0.0.0"},
		{"[2001:db8:1:2:3:4:5:6]:1234", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:3:4:5:6]", "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"[fe80::1%eth0]:80", "fe80::/64"},
		{"fe80::1%Ethernet 2", "fe80::/64"},
		{"[::1]:80", "::/64"},
		{"[::ffff:203.0.113.9]:80", "203.0.113.9"},
		{"[::ffff:203.0.113.9%eth0]:80", "203.0.113.9"},
		{"::ffff:cb00:7109", "203.0.113.9"},
		{"[2001:db8::1.2.3.4]:80", "2001:db8::/64"},
	} {
		t.Run(c.peer, func(t *testing.T) {
			wantKey(t, keyfunc.RemoteIP(), request(c.peer, "X-Forwarded-For: 6.6.6.6", "X-Real-Ip: 6.6.6.6"), c.want)
		})
	}
}

// notAddresses are texts that some parsers take for an address.
var notAddresses = []string{
	"", " ", "@", "/run/app.sock", "<nil>", "localhost", "localhost:80", "unknown", "_hidden",
	"010.0.0.1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "0x7f.1", "0x7f000001", "2130706433", "1.2.3.4.", "１.2.3.4",
	"1.2.3.4:", "1.2.3.4:http", "1.2.3.4:65536", "1.2.3.4:+80", "1.2.3.4:123456", ":80", "1.2.3.4 5.6.7.8",
	"[1.2.3.4]", "[1.2.3.4]:80", "1.2.3.4%eth0", "1.2.3.4%eth0:80", "fe80::1%", "[fe80::1%]:80",
	"[::1", "::1]", "::1]:80", "[::1]80", "[::1]:", "[::1]:x", "[[::1]]", "[]", "[]:80", "12345::", ":::", "1::2::3",
	"1.2.3.4,5.6.7.8", "fe80::1%a,5.6.7.8", "fe80::1%a\x00", "\"1.2.3.4\"", "1.2.3.4\n", "1.2.3.4/32", "::/64",
	"fe80::1%" + strings.Repeat("z", 200), strings.Repeat("1", 1<<20),
}

// A request without a peer address has no key, and headers cannot lend it one.
func TestNoAddressIsNoKey(t *testing.T) {
	everyone := keyfunc.Proxies("0.0.0.0/0", "::/0")
	for name, f := range map[string]keyfunc.Func{
		"RemoteIP":      keyfunc.RemoteIP(),
		"XForwardedFor": keyfunc.XForwardedFor(everyone),
		"Forwarded":     keyfunc.Forwarded(everyone),
		"HeaderIP":      keyfunc.HeaderIP("X-Real-IP", everyone),
	} {
		t.Run(name, func(t *testing.T) {
			for _, peer := range notAddresses {
				r := request(peer, "X-Forwarded-For: 1.2.3.4", "Forwarded: for=1.2.3.4", "X-Real-IP: 1.2.3.4")
				wantError(t, f, r, keyfunc.ErrNoKey)
				if _, err := ask(f, r); len(peer) > 3 && strings.Contains(err.Error(), peer) {
					t.Errorf("the error quotes the address: %v", err)
				}
			}
		})
	}
}

func TestSpellingsOfOneAddressAreOneKey(t *testing.T) {
	var v6, v4 []string
	for _, host := range []string{
		"2001:db8::a:1", "2001:DB8::A:1", "2001:0db8::000a:0001", "2001:db8:0:0:0:0:a:1", "2001:db8:0::a:1",
		"2001:0DB8:0000:0000:0000:0000:000A:0001", "2001:db8:0:0::a:1", "2001:db8::0:a:1", "2001:db8::0.10.0.1", "2001:Db8::0:0:a:1",
	} {
		v6 = append(v6, host, host+"%eth0", "["+host+"]", "["+host+"]:443", "["+host+"%1]:65535", " "+host+"\t")
	}
	for _, host := range []string{
		"::ffff:203.0.113.9", "::FFFF:203.0.113.9", "::ffff:cb00:7109", "::ffff:CB00:7109", "0:0:0:0:0:ffff:203.0.113.9",
		"0000:0000:0000:0000:0000:ffff:cb00:7109", "::0:ffff:203.0.113.9", "0::ffff:203.0.113.9", "0:0::ffff:cb00:7109",
	} {
		v4 = append(v4, host, host+"%eth0", "["+host+"]", "["+host+"]:443", "["+host+"%1]:1", "\t"+host)
	}
	v4 = append(v4, "203.0.113.9", "203.0.113.9:1", "203.0.113.9:00080", " 203.0.113.9 ")

	proxy := keyfunc.Proxies("192.0.2.1")
	exact := keyfunc.IPv6Prefix(128)
	for want, spellings := range map[string][]string{"2001:db8::a:1": v6, "203.0.113.9": v4} {
		if len(spellings) < 50 {
			t.Fatalf("only %d spellings of %s", len(spellings), want)
		}
		for _, s := range spellings {
			wantKey(t, keyfunc.RemoteIP(exact), request(s), want)
			wantKey(t, keyfunc.XForwardedFor(proxy, exact), request("192.0.2.1:1", "X-Forwarded-For: 6.6.6.6, "+s), want)
			wantKey(t, keyfunc.HeaderIP("X-Real-IP", proxy, exact), request("192.0.2.1:1", "X-Real-IP: "+s), want)
			// And each is the same peer where trust is concerned.
			wantKey(t, keyfunc.XForwardedFor(keyfunc.Proxies(want)), request(s, "X-Forwarded-For: 198.51.100.7"), "198.51.100.7")
		}
	}
}

func TestAddressesOfOneSubnetShareAKey(t *testing.T) {
	f := keyfunc.RemoteIP()
	for range 1000 {
		peer := fmt.Sprintf("[2001:db8:1:2:%x:%x:%x:%x]:443", rand.IntN(1<<16), rand.IntN(1<<16), rand.IntN(1<<16), rand.IntN(1<<16))
		wantKey(t, f, request(peer), "2001:db8:1:2::/64")
	}
	wantKey(t, f, request("[2001:db8:1:3::1]:443"), "2001:db8:1:3::/64")
}

func TestMappedAddressesDoNotCollapse(t *testing.T) {
	f := keyfunc.RemoteIP()
	seen := map[string]bool{}
	for i := range 256 {
		key, err := ask(f, request(fmt.Sprintf("[::ffff:203.0.113.%d]:80", i)))
		if err != nil || seen[key] {
			t.Fatalf("key %q, %v; want one that no other address has", key, err)
		}
		seen[key] = true
	}
}

func TestPrefixOptions(t *testing.T) {
	for _, c := range []struct {
		opt        keyfunc.IPOption
		peer, want string
	}{
		{keyfunc.IPv6Prefix(128), "[2001:db8:a:b:c:d:e:f]:1", "2001:db8:a:b:c:d:e:f"},
		{keyfunc.IPv6Prefix(56), "[2001:db8:a:bcd:c:d:e:f]:1", "2001:db8:a:b00::/56"},
		{keyfunc.IPv6Prefix(48), "[2001:db8:a:b:c:d:e:f]:1", "2001:db8:a::/48"},
		{keyfunc.IPv6Prefix(32), "[2001:db8:a:b:c:d:e:f]:1", "2001:db8::/32"},
		{keyfunc.IPv6Prefix(32), "203.0.113.9:1", "203.0.113.9"},
		{keyfunc.IPv6Prefix(32), "[::ffff:203.0.113.9]:1", "203.0.113.9"},
		{keyfunc.IPv4Prefix(32), "203.0.113.9:1", "203.0.113.9"},
		{keyfunc.IPv4Prefix(24), "203.0.113.9:1", "203.0.113.0/24"},
		{keyfunc.IPv4Prefix(8), "[::ffff:203.0.113.9]:1", "203.0.0.0/8"},
		{keyfunc.IPv4Prefix(24), "[2001:db8:a:b:c:d:e:f]:1", "2001:db8:a:b::/64"},
	} {
		wantKey(t, keyfunc.RemoteIP(c.opt), request(c.peer), c.want)
	}
	wantKey(t, keyfunc.RemoteIP(keyfunc.IPv6Prefix(48), keyfunc.IPv6Prefix(128)), request("2001:db8::1"), "2001:db8::1")
	// Trust is a matter of the address, not of the key.
	f := keyfunc.XForwardedFor(keyfunc.Proxies("192.0.2.1"), keyfunc.IPv4Prefix(24))
	wantKey(t, f, request("192.0.2.1:1", "X-Forwarded-For: 192.0.2.7"), "192.0.2.0/24")
	wantKey(t, f, request("192.0.2.2:1", "X-Forwarded-For: 198.51.100.7"), "192.0.2.0/24")
}

func TestPrefixOptionsPanic(t *testing.T) {
	for _, bits := range []int{-1, 0, 31, 129} {
		wantPanic(t, "keyfunc: IPv6Prefix: ", func() { keyfunc.IPv6Prefix(bits) })
	}
	for _, bits := range []int{-1, 0, 7, 33} {
		wantPanic(t, "keyfunc: IPv4Prefix: ", func() { keyfunc.IPv4Prefix(bits) })
	}
	p := keyfunc.ProxySet{}
	wantPanic(t, "keyfunc: RemoteIP: option 0 is nil", func() { keyfunc.RemoteIP(nil) })
	wantPanic(t, "keyfunc: XForwardedFor: option 0 is nil", func() { keyfunc.XForwardedFor(p, nil) })
	wantPanic(t, "keyfunc: Forwarded: option 0 is nil", func() { keyfunc.Forwarded(p, nil) })
	wantPanic(t, "keyfunc: HeaderIP: option 0 is nil", func() { keyfunc.HeaderIP("X-Real-IP", p, nil) })
}

func TestRemoteIPAllocations(t *testing.T) {
	for _, c := range []struct {
		peer string
		max  float64
	}{
		{"203.0.113.9:1234", 0},
		{"203.0.113.9", 0},
		{"[::ffff:203.0.113.9]:1234", 1},
		{"[2001:db8:1:2:3:4:5:6]:1234", 1},
	} {
		f, r := keyfunc.RemoteIP(), request(c.peer)
		if n := testing.AllocsPerRun(100, func() { _, _ = ask(f, r) }); n > c.max {
			t.Errorf("%s: %v allocations, want at most %v", c.peer, n, c.max)
		}
	}
}

// The text of an IPv4 peer is returned as it is, so it has to be canonical.
func TestIPv4TextIsCanonical(t *testing.T) {
	f := keyfunc.RemoteIP()
	for range 1000 {
		addr := netip.AddrFrom4([4]byte{byte(rand.Int()), byte(rand.Int()), byte(rand.Int()), byte(rand.Int())})
		wantKey(t, f, request(addr.String()+":80"), addr.String())
		padded := fmt.Sprintf("%03d.%d.%d.%d", addr.As4()[0]%100, addr.As4()[1], addr.As4()[2], addr.As4()[3])
		wantError(t, f, request(padded), keyfunc.ErrNoKey)
	}
}
