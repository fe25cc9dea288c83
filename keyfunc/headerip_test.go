package keyfunc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

func TestHeaderIP(t *testing.T) {
	f := keyfunc.HeaderIP("cf-connecting-ip", keyfunc.Proxies("10.0.0.0/8"))
	for _, c := range []struct {
		name, peer string
		lines      []string
		want       string
	}{
		{"trusted peer", "10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"untrusted peer", "192.0.2.1:1", []string{"203.0.113.9"}, "192.0.2.1"},
		{"mapped peer", "[::ffff:10.0.0.1]:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"IPv6", "10.0.0.1:1", []string{"2001:db8:1:2::3"}, "2001:db8:1:2::/64"},
		{"port and spaces", "10.0.0.1:1", []string{" [2001:db8:1:2::3]:80\t"}, "2001:db8:1:2::/64"},
		{"an address in the set", "10.0.0.1:1", []string{"10.0.0.9"}, "10.0.0.9"},
		{"no header", "10.0.0.1:1", nil, "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.peer, "X-Forwarded-For: 6.6.6.6", "Forwarded: for=6.6.6.6", "X-Real-Ip: 6.6.6.6")
			r.Header["Cf-Connecting-Ip"] = c.lines
			wantKey(t, f, r, c.want)
		})
	}
}

// A proxy that adds the header and does not overwrite it lets a client spoil it.
func TestHeaderIP_NotOneAddress(t *testing.T) {
	f := keyfunc.HeaderIP("cf-connecting-ip", keyfunc.Proxies("10.0.0.0/8"))
	headers := map[string][]string{
		"empty":                {""},
		"two lines":            {"203.0.113.9", "203.0.113.9"},
		"an empty first line":  {"", "203.0.113.9"},
		"an empty second line": {"203.0.113.9", ""},
		"a list":               {"203.0.113.9, 203.0.113.9"},
		"a list of one":        {"203.0.113.9,"},
		"a list in a zone":     {"fe80::1%a,203.0.113.9"},
		"unknown":              {"unknown"},
	}
	for _, bad := range notAddresses {
		headers[fmt.Sprintf("%.40q", bad)] = []string{bad}
	}
	for name, lines := range headers {
		t.Run(name, func(t *testing.T) {
			r := request("10.0.0.1:1", "X-Forwarded-For: 6.6.6.6")
			r.Header["Cf-Connecting-Ip"] = lines
			wantMalformed(t, f, r)
			r.RemoteAddr = "192.0.2.1:1"
			wantKey(t, f, r, "192.0.2.1")
		})
	}
}

func TestHeaderIPNames(t *testing.T) {
	for _, name := range []string{"", " ", "X Real IP", "X-Real-IP:", "X-Réal-IP", "X-Real-IP\n", "a,b"} {
		wantPanic(t, "keyfunc: HeaderIP: ", func() { keyfunc.HeaderIP(name, keyfunc.ProxySet{}) })
	}
	for _, name := range []string{"X-Forwarded-For", "x-forwarded-for", "X-FORWARDED-FOR"} {
		wantPanic(t, "keyfunc: HeaderIP: X-Forwarded-For is a list: use XForwardedFor", func() { keyfunc.HeaderIP(name, keyfunc.ProxySet{}) })
	}
	for _, name := range []string{"Forwarded", "forwarded"} {
		wantPanic(t, "keyfunc: HeaderIP: Forwarded has a syntax of its own: use Forwarded", func() { keyfunc.HeaderIP(name, keyfunc.ProxySet{}) })
	}
	for _, name := range []string{"x-real-ip", "X-REAL-IP", "X-Real-Ip"} {
		f := keyfunc.HeaderIP(name, keyfunc.Proxies("10.0.0.1"))
		wantKey(t, f, request("10.0.0.1:1", strings.ToLower(name)+": 203.0.113.9"), "203.0.113.9")
	}
}
