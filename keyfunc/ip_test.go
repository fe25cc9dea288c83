package keyfunc_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// canonicalIP is a Func that calls CanonicalIP for the peer of a request.
func canonicalIP(opts ...keyfunc.IPOption) keyfunc.Func {
	return func(_ context.Context, r *http.Request) (string, error) {
		return keyfunc.CanonicalIP(r.RemoteAddr, opts...)
	}
}

func TestRemoteIP(t *testing.T) {
	v4, v6 := keyfunc.IPv4Prefix, keyfunc.IPv6Prefix
	for _, c := range []struct {
		peer, want string
		opts       []keyfunc.IPOption
	}{
		{"203.0.113.9:1234", "203.0.113.9", nil},
		{"203.0.113.9:0", "203.0.113.9", nil},
		{"203.0.113.9", "203.0.113.9", nil},
		{" \t203.0.113.9:80\t ", "203.0.113.9", nil},
		{"0.0.0.0:80", "0.0.0.0", nil},
		{"[2001:db8:1:2:3:4:5:6]:1234", "2001:db8:1:2::/64", nil},
		{"[2001:db8:1:2:ffff:ffff:ffff:ffff]", "2001:db8:1:2::/64", nil},
		{"2001:db8:1:3::", "2001:db8:1:3::/64", nil},
		{"[fe80::1%eth0]:80", "fe80::/64", nil},
		{"fe80::1%Ethernet 2", "fe80::/64", nil},
		{"[::1]:80", "::/64", nil},
		{"[::ffff:203.0.113.9]:80", "203.0.113.9", nil},
		{"[::ffff:203.0.113.10%eth0]:80", "203.0.113.10", nil},
		{"::ffff:cb00:7109", "203.0.113.9", nil},
		{"[2001:db8::1.2.3.4]:80", "2001:db8::/64", nil},

		{"[2001:db8:a:b:c:d:e:f]:1", "2001:db8:a:b:c:d:e:f", []keyfunc.IPOption{v6(128)}},
		{"[2001:db8:a:bcd:c:d:e:f]:1", "2001:db8:a:b00::/56", []keyfunc.IPOption{v6(56)}},
		{"[2001:db8:a:b:c:d:e:f]:1", "2001:db8:a::/48", []keyfunc.IPOption{v6(48)}},
		{"[2001:db8:a:b:c:d:e:f]:1", "2001:db8::/32", []keyfunc.IPOption{v6(32)}},
		{"203.0.113.9:1", "203.0.113.9", []keyfunc.IPOption{v6(32)}},
		{"[::ffff:203.0.113.9]:1", "203.0.113.9", []keyfunc.IPOption{v6(32)}},
		{"203.0.113.9:1", "203.0.113.9", []keyfunc.IPOption{v4(32)}},
		{"203.0.113.9:1", "203.0.113.0/24", []keyfunc.IPOption{v4(24)}},
		{"[::ffff:203.0.113.9]:1", "203.0.0.0/8", []keyfunc.IPOption{v4(8)}},
		{"[2001:db8:a:b:c:d:e:f]:1", "2001:db8:a:b::/64", []keyfunc.IPOption{v4(24)}},
		{"2001:db8::1", "2001:db8::1", []keyfunc.IPOption{v6(48), v6(128)}},
	} {
		r := request(c.peer, "X-Forwarded-For: 6.6.6.6", "Forwarded: for=6.6.6.6", "X-Real-Ip: 6.6.6.6")
		wantKey(t, keyfunc.RemoteIP(c.opts...), r, c.want)
		wantKey(t, canonicalIP(c.opts...), r, c.want)
	}
}

// notAddresses are texts that some parsers accept as addresses.
var notAddresses = []string{
	"", " ", "@", "/run/app.sock", "<nil>", "localhost", "localhost:80", "unknown", "_hidden",
	"010.0.0.1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "0x7f.1", "0x7f000001", "2130706433", "1.2.3.4.", "１.2.3.4",
	"1.2.3.4:", "1.2.3.4:http", "1.2.3.4:65536", "1.2.3.4:+80", "1.2.3.4:000080", "1.2.3.4:123456", ":80", "1.2.3.4 5.6.7.8",
	"[1.2.3.4]", "[1.2.3.4]:80", "1.2.3.4%eth0", "1.2.3.4%eth0:80", "fe80::1%", "[fe80::1%]:80",
	"[::1", "::1]", "::1]:80", "[::1]80", "[::1]:", "[::1]:x", "[[::1]]", "[]", "[]:80", "12345::", ":::", "1::2::3",
	"1.2.3.4,5.6.7.8", "fe80::1%a,5.6.7.8", "fe80::1%a\x00", "\"1.2.3.4\"", "1.2.3.4\n", "1.2.3.4/32", "::/64",
	"fe80::1%" + strings.Repeat("z", 200), strings.Repeat("1", 1<<20),
}

// A request without a peer address has no key, even if a header has an address.
func TestRemoteIP_NoAddress(t *testing.T) {
	everyone := keyfunc.Proxies("0.0.0.0/0", "::/0")
	funcs := map[string]keyfunc.Func{"RemoteIP": keyfunc.RemoteIP(), "CanonicalIP": canonicalIP()}
	for _, h := range forwardingHeaders {
		funcs[h.name] = h.keyBy(everyone)
	}
	for name, f := range funcs {
		t.Run(name, func(t *testing.T) {
			for _, peer := range notAddresses {
				r := request(peer, "X-Forwarded-For: 1.2.3.4", "Forwarded: for=1.2.3.4", "X-Real-IP: 1.2.3.4")
				wantError(t, f, r, keyfunc.ErrNoKey)
				if _, err := ask(f, r); len(peer) > 3 && strings.Contains(err.Error(), peer) {
					t.Errorf("error %q quotes the address", err)
				}
			}
		})
	}
}

func TestRemoteIP_SpellingsOfOneAddress(t *testing.T) {
	proxy := keyfunc.Proxies("192.0.2.1")
	exact := keyfunc.IPv6Prefix(128)
	for want, hosts := range map[string][]string{
		"2001:db8::a:1": {
			"2001:db8::a:1", "2001:DB8::A:1", "2001:0db8::000a:0001", "2001:db8:0:0:0:0:a:1", "2001:db8:0::a:1",
			"2001:0DB8:0000:0000:0000:0000:000A:0001", "2001:db8:0:0::a:1", "2001:db8::0:a:1", "2001:db8::0.10.0.1", "2001:Db8::0:0:a:1",
		},
		"203.0.113.9": {
			"::ffff:203.0.113.9", "::FFFF:203.0.113.9", "::ffff:cb00:7109", "::ffff:CB00:7109", "0:0:0:0:0:ffff:203.0.113.9",
			"0000:0000:0000:0000:0000:ffff:cb00:7109", "::0:ffff:203.0.113.9", "0::ffff:203.0.113.9", "0:0::ffff:cb00:7109",
		},
	} {
		spellings := []string{want}
		if want == "203.0.113.9" {
			spellings = append(spellings, "203.0.113.9:1", "203.0.113.9:00080", " 203.0.113.9 ")
		}
		for _, host := range hosts {
			spellings = append(spellings, host, host+"%eth0", "["+host+"]", "["+host+"]:443", "["+host+"%1]:65535", " "+host+"\t")
		}
		for _, s := range spellings {
			wantKey(t, keyfunc.RemoteIP(exact), request(s), want)
			wantKey(t, keyfunc.XForwardedFor(proxy, exact), request("192.0.2.1:1", "X-Forwarded-For: 6.6.6.6, "+s), want)
			wantKey(t, keyfunc.HeaderIP("X-Real-IP", proxy, exact), request("192.0.2.1:1", "X-Real-IP: "+s), want)
			// Each spelling is also the same trusted proxy.
			wantKey(t, keyfunc.XForwardedFor(keyfunc.Proxies(want)), request(s, "X-Forwarded-For: 198.51.100.7"), "198.51.100.7")
		}
	}
}

// TestRemoteIP_RandomIPv4 compares with package netip and with CanonicalIP.
func TestRemoteIP_RandomIPv4(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := []string{"0", "7", "10", "255", "99", "256", "00", "01", "1234", "", "a", "/", "65535", "65536", "000080", "+1"}
	separators := []string{".", ".", ".", ":", "", ":.", "."}
	pick := func(from []string) string { return from[min(r.IntN(len(from)), r.IntN(len(from)))] } // rather the first ones
	accepted := 0
	for range 200_000 {
		text := pick(numbers)
		for i := range 4 {
			separator := "."
			if i == 3 {
				separator = ":"
			}
			if r.IntN(20) == 0 {
				separator = pick(separators)
			}
			text += separator + pick(numbers)
		}
		host, port, found := strings.Cut(text, ":")
		want := ""
		if addr, err := netip.ParseAddr(host); err == nil {
			if _, err := strconv.ParseUint(port, 10, 16); !found || err == nil && len(port) <= 5 {
				want = addr.String()
				accepted++
			}
		}
		got, err := ask(keyfunc.RemoteIP(), request(text))
		canonical, _ := keyfunc.CanonicalIP(text)
		if got != want || canonical != want || (err == nil) != (want != "") {
			t.Fatalf("%q: the keys are %q, %q, and the error is %v; want %q", text, got, canonical, err, want)
		}
	}
	if accepted < 10_000 {
		t.Errorf("only %d texts are addresses", accepted)
	}
}

func TestRemoteIP_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	for peer, most := range map[string]float64{
		"203.0.113.9:1234":            0,
		"203.0.113.9":                 0,
		"[::ffff:203.0.113.9]:1234":   1,
		"[2001:db8:1:2:3:4:5:6]:1234": 1,
	} {
		f, r := keyfunc.RemoteIP(), request(peer)
		if n := testing.AllocsPerRun(100, func() { _, _ = ask(f, r) }); n > most {
			t.Errorf("%s: %v allocations, want at most %v", peer, n, most)
		}
	}
}
