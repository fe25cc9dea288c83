package keyfunc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// forwardingHeaders are the headers with the address of the client, each with the Func that reads
// it and the entry that a proxy writes for an address.
var forwardingHeaders = []struct {
	name  string
	keyBy func(keyfunc.ProxySet, ...keyfunc.IPOption) keyfunc.Func
	entry func(addr string) string
	list  bool
}{
	{"X-Forwarded-For", keyfunc.XForwardedFor, func(addr string) string { return addr }, true},
	{"Forwarded", keyfunc.Forwarded, func(addr string) string { return `for="` + addr + `"` }, true},
	{"X-Real-Ip", realIP, func(addr string) string { return addr }, false},
}

func realIP(p keyfunc.ProxySet, opts ...keyfunc.IPOption) keyfunc.Func {
	return keyfunc.HeaderIP("x-real-ip", p, opts...)
}

// proxies are the trusted proxies in the tests of headers.
var proxies = keyfunc.Proxies("10.0.0.0/8", "2001:db8:ffff::/48")

// chain returns a list with two addresses to the left of the given number of trusted ones.
func chain(trusted int) string {
	return "6.6.6.6, 203.0.113.9, 10.9.9.9" + strings.Repeat(", 10.0.0.2", trusted-1)
}

func TestForwardingHeaders(t *testing.T) {
	for _, c := range []struct {
		name, peer string
		lines      []string // entries are separated by commas
		want       string
	}{
		{"untrusted peer", "203.0.113.9:1", []string{"6.6.6.6"}, "203.0.113.9"},
		{"no header", "10.0.0.1:1", nil, "10.0.0.1"},
		{"no header, IPv6", "[2001:db8:ffff::1]:1", nil, "2001:db8:ffff::/64"},
		{"client", "10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"trusted address", "10.0.0.1:1", []string{"10.0.0.9"}, "10.0.0.9"},
		{"port", "10.0.0.1:1", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"IPv6", "10.0.0.1:1", []string{"[2001:db8:1:2::3]"}, "2001:db8:1:2::/64"},
		{"IPv6 with port", "10.0.0.1:1", []string{"[2001:db8:1:2::3]:443"}, "2001:db8:1:2::/64"},
		{"mapped client", "[::ffff:10.0.0.1]:1", []string{"[::ffff:203.0.113.9]"}, "203.0.113.9"},

		{"claims on the left", "10.0.0.1:1", []string{"6.6.6.6, 7.7.7.7, 203.0.113.9"}, "203.0.113.9"},
		{"through two proxies", "10.0.0.1:1", []string{"6.6.6.6, 203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"through IPv6 proxies", "[2001:db8:ffff::1]:1", []string{"6.6.6.6, 203.0.113.9, [2001:DB8:FFFF::2]:1"}, "203.0.113.9"},
		{"through a mapped proxy", "10.0.0.1:1", []string{"6.6.6.6, 203.0.113.9, [::ffff:10.0.0.2]"}, "203.0.113.9"},
		{"through a proxy with port", "10.0.0.1:1", []string{"6.6.6.6, 203.0.113.9:4711, 10.0.0.2:80"}, "203.0.113.9"},
		{"over all lines", "10.0.0.1:1", []string{"6.6.6.6", "203.0.113.9", "10.0.0.3, 10.0.0.2"}, "203.0.113.9"},
		{"all trusted", "10.0.0.1:1", []string{"10.0.0.4, 10.0.0.3", "10.0.0.2"}, "10.0.0.4"},
		{"no spaces", "10.0.0.1:1", []string{"6.6.6.6,203.0.113.9,10.0.0.2"}, "203.0.113.9"},
		{"spaces and tabs", "10.0.0.1:1", []string{"6.6.6.6 ,\t 203.0.113.9 \t,  10.0.0.2\t"}, "203.0.113.9"},
		{"empty header", "10.0.0.1:1", []string{","}, "10.0.0.1"},
		{"empty entry", "10.0.0.1:1", []string{"203.0.113.9, , 10.0.0.2"}, "10.0.0.2"},
		{"comma at the end", "10.0.0.1:1", []string{"203.0.113.9,"}, "10.0.0.1"},
		{"comma at the start", "10.0.0.1:1", []string{",10.0.0.2"}, "10.0.0.2"},
		{"empty line", "10.0.0.1:1", []string{"203.0.113.9", "", "10.0.0.2"}, "10.0.0.2"},
		{"31 proxies", "10.0.0.1:1", []string{chain(31)}, "203.0.113.9"},
		{"32 proxies", "10.0.0.1:1", []string{chain(32)}, "10.9.9.9"},
		{"33 proxies", "10.0.0.1:1", []string{chain(33)}, "10.0.0.2"},
		{"31 proxies in lines", "10.0.0.1:1", strings.Split(chain(31), ", "), "203.0.113.9"},
		{"32 proxies in lines", "10.0.0.1:1", strings.Split(chain(32), ", "), "10.9.9.9"},
		{"many claims", "10.0.0.1:1", []string{strings.Repeat("6.6.6.6, ", 1000) + chain(31)}, "203.0.113.9"},
	} {
		for _, h := range forwardingHeaders {
			if !h.list && (len(c.lines) > 1 || strings.Contains(strings.Join(c.lines, ""), ",")) {
				continue
			}
			t.Run(h.name+"/"+c.name, func(t *testing.T) {
				// No other header is used.
				r := request(c.peer, "X-Forwarded-For: 6.6.6.6", "Forwarded: for=6.6.6.6", "X-Real-Ip: 6.6.6.6", "True-Client-Ip: 6.6.6.6")
				r.Header.Del(h.name)
				for _, line := range c.lines {
					entries := strings.Split(line, ",")
					for i, entry := range entries {
						if addr := strings.Trim(entry, " \t"); addr != "" {
							entries[i] = strings.Replace(entry, addr, h.entry(addr), 1)
						}
					}
					r.Header.Add(h.name, strings.Join(entries, ","))
				}
				wantKey(t, h.keyBy(proxies), r, c.want)
			})
		}
	}
}

// Trust depends on the address, not on the key.
func TestForwardingHeaders_Prefix(t *testing.T) {
	for _, h := range forwardingHeaders {
		f := h.keyBy(keyfunc.Proxies("192.0.2.1"), keyfunc.IPv4Prefix(24))
		wantKey(t, f, request("192.0.2.1:1", h.name+": "+h.entry("198.51.100.7")), "198.51.100.0/24")
		wantKey(t, f, request("192.0.2.2:1", h.name+": "+h.entry("198.51.100.7")), "192.0.2.0/24")
	}
}

// A key must not be a substring of the header, which would keep the whole header in memory as long
// as the bucket.
func TestForwardingHeaders_KeyMemory(t *testing.T) {
	for _, h := range forwardingHeaders {
		r := request("10.0.0.1:1", h.name+": "+h.entry("203.0.113.9"))
		key, err := ask(h.keyBy(proxies), r)
		if err != nil || overlaps(key, r.Header.Get(h.name)) {
			t.Errorf("%s: key %q, %v shares the memory of the header", h.name, key, err)
		}
	}
}

// hugeHeaders are values of 900 KB that take long in a simple parser.
func hugeHeaders() map[string]string {
	const size = 900_000
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	return map[string]string{
		"addresses": fill("203.0.113.7, "),
		"proxies":   fill("10.0.0.2,") + "10.0.0.2",
		"commas":    fill(","),
		"spaces":    fill(" "),
		"no comma":  fill("1"),
		"one entry": "203.0.113.9," + fill(" ") + "10.0.0.2",
		"zone":      "fe80::1%" + fill("z"),
		"elements":  fill("for=203.0.113.7, "),
		"semicolon": "for=203.0.113.7" + fill(";"),
		"quote":     `for="` + fill(`\"`),
		"names":     fill("a=b;"),
		"escapes":   `for="` + strings.Repeat(`\1`, 30_000) + `"`, // just short enough to be read
	}
}

func TestForwardingHeaders_HugeValues(t *testing.T) {
	lines := map[string][]string{"many lines": strings.Split(strings.Repeat("10.0.0.2\n", 100_000), "\n")}
	for kind, value := range hugeHeaders() {
		lines[kind] = []string{value}
	}
	for _, h := range forwardingHeaders {
		f := h.keyBy(proxies)
		for kind, values := range lines {
			t.Run(h.name+"/"+kind, func(t *testing.T) {
				r := request("10.0.0.1:1")
				r.Header[h.name] = values
				// One is the key, the others the error of a bad address.
				objects, bytes := testkit.AllocatedPerCall(50, func() { _, _ = ask(f, r) })
				if objects > 3 || bytes > 1024 {
					t.Errorf("%d objects with %d bytes were allocated, want at most 3 with 1024", objects, bytes)
				}
			})
		}
	}
}

// An entry that is not an address ends the search.
func TestXForwardedFor_NotAnAddress(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"on the right", []string{"203.0.113.9, garbage"}, "10.0.0.1"},
		{"behind a proxy", []string{"203.0.113.9, garbage, 10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"in an earlier line", []string{"203.0.113.9", "unknown", "10.0.0.2"}, "10.0.0.2"},
		{"left of the client", []string{"garbage, \x00, 203.0.113.9"}, "203.0.113.9"},
		{"leading zero", []string{"203.0.113.9, 010.0.0.2"}, "10.0.0.1"},
		{"no-break space", []string{"203.0.113.9\u00a0"}, "10.0.0.1"},
		{"128 bytes with spaces", []string{"6.6.6.6," + strings.Repeat(" ", 117) + "203.0.113.9"}, "203.0.113.9"},
		{"129 bytes with spaces", []string{"6.6.6.6," + strings.Repeat(" ", 118) + "203.0.113.9"}, "10.0.0.1"},
		{"an address at the end", []string{"garbage" + strings.Repeat(" ", 150) + "203.0.113.9, 10.0.0.2"}, "10.0.0.2"},
		{"bare IPv6", []string{"2001:db8:1:2::3"}, "2001:db8:1:2::/64"},
		{"a list in a zone", []string{"fe80::1%x,10.0.0.2"}, "fe80::/64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request("10.0.0.1:1")
			r.Header["X-Forwarded-For"] = c.lines
			wantKey(t, keyfunc.XForwardedFor(proxies), r, c.want)
		})
	}
}

// A client can add a line to a header that its proxy does not overwrite.
func TestHeaderIP_NotOneAddress(t *testing.T) {
	headers := map[string][]string{
		"two lines":            {"203.0.113.9", "203.0.113.9"},
		"an empty first line":  {"", "203.0.113.9"},
		"an empty second line": {"203.0.113.9", ""},
		"a list":               {"203.0.113.9, 203.0.113.9"},
		"a list of one":        {"203.0.113.9,"},
	}
	for _, bad := range notAddresses {
		headers[fmt.Sprintf("%.40q", bad)] = []string{bad}
	}
	for name, lines := range headers {
		t.Run(name, func(t *testing.T) {
			r := request("10.0.0.1:1", "X-Forwarded-For: 6.6.6.6")
			r.Header["X-Real-Ip"] = lines
			wantMalformed(t, realIP(proxies), r)
		})
	}
}

func TestHeaderIP_Names(t *testing.T) {
	for _, name := range []string{"x-real-ip", "X-REAL-IP", "X-Real-Ip"} {
		wantKey(t, keyfunc.HeaderIP(name, proxies), request("10.0.0.1:1", "x-real-ip: 203.0.113.9"), "203.0.113.9")
	}
}
