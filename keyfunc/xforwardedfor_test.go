package keyfunc_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

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
