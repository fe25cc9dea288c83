package keyfunc_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

func TestForwarded(t *testing.T) {
	f := keyfunc.Forwarded(keyfunc.Proxies("10.0.0.0/8", "2001:db8:ffff::/48"))
	for _, c := range []struct {
		name, peer string
		lines      []string
		want       string
	}{
		{"untrusted peer", "203.0.113.9:1", []string{"for=6.6.6.6"}, "203.0.113.9"},
		{"no header", "10.0.0.1:1", nil, "10.0.0.1"},
		{"one element", "10.0.0.1:1", []string{"for=203.0.113.9"}, "203.0.113.9"},
		{"all parameters", "10.0.0.1:1", []string{`by=10.0.0.1;for=203.0.113.9;host="example.com:80";proto=https;x=1`}, "203.0.113.9"},
		{"names in any case", "10.0.0.1:1", []string{"For=6.6.6.6, FOR=203.0.113.9;Proto=http"}, "203.0.113.9"},
		{"claims on the left", "10.0.0.1:1", []string{"for=6.6.6.6, for=203.0.113.9, for=10.0.0.2"}, "203.0.113.9"},
		{"over all lines", "10.0.0.1:1", []string{"for=6.6.6.6", "for=203.0.113.9", "for=10.0.0.3,for=10.0.0.2"}, "203.0.113.9"},
		{"all trusted", "10.0.0.1:1", []string{"for=10.0.0.4, for=10.0.0.3", "for=10.0.0.2"}, "10.0.0.4"},
		{"empty pairs", "10.0.0.1:1", []string{";;for=203.0.113.9;;proto=http;"}, "203.0.113.9"},
		{"white space around commas", "10.0.0.1:1", []string{" \tfor=203.0.113.9 \t,\t for=10.0.0.2\t"}, "203.0.113.9"},
		{"quoted", "10.0.0.1:1", []string{`for="203.0.113.9"`}, "203.0.113.9"},
		{"quoted pairs", "10.0.0.1:1", []string{`for="\2\03.0.113\.9"`}, "203.0.113.9"},
		{"port", "10.0.0.1:1", []string{`for="203.0.113.9:4711"`}, "203.0.113.9"},
		{"hidden port", "10.0.0.1:1", []string{`for="203.0.113.9:_a-B.1"`}, "203.0.113.9"},
		{"IPv6", "10.0.0.1:1", []string{`for="[2001:db8:1:2::3]"`}, "2001:db8:1:2::/64"},
		{"IPv6 with port", "10.0.0.1:1", []string{`for="[2001:db8:1:2::3]:443"`}, "2001:db8:1:2::/64"},
		{"IPv6 with hidden port", "10.0.0.1:1", []string{`for="[2001:db8:1:2::3]:_x"`}, "2001:db8:1:2::/64"},
		{"IPv6 proxies", "[2001:db8:ffff::1]:1", []string{`for=203.0.113.9, for="[2001:DB8:FFFF::2]:1"`}, "203.0.113.9"},
		{"mapped", "[::ffff:10.0.0.1]:1", []string{`for="[::ffff:203.0.113.9]", for="[::ffff:10.0.0.2]"`}, "203.0.113.9"},
		{"separators in quotes", "10.0.0.1:1", []string{`for=203.0.113.9;host="a, for=6.6.6.6;\""`}, "203.0.113.9"},
		{"obs-text in quotes", "10.0.0.1:1", []string{"for=203.0.113.9;x=\"\xff\t\""}, "203.0.113.9"},

		// An element that names no address ends the walk at the last address.
		{"unknown", "10.0.0.1:1", []string{"for=203.0.113.9, for=unknown, for=10.0.0.2"}, "10.0.0.2"},
		{"unknown in capitals", "10.0.0.1:1", []string{"for=203.0.113.9, for=Unknown, for=10.0.0.2"}, "10.0.0.2"},
		{"unknown with port", "10.0.0.1:1", []string{`for=203.0.113.9, for="unknown:80", for=10.0.0.2`}, "10.0.0.2"},
		{"hidden", "10.0.0.1:1", []string{"for=203.0.113.9, for=_hidden, for=10.0.0.2"}, "10.0.0.2"},
		{"hidden, escaped", "10.0.0.1:1", []string{`for=203.0.113.9, for="\_hi\dden", for=10.0.0.2`}, "10.0.0.2"},
		{"hidden with port", "10.0.0.1:1", []string{`for=203.0.113.9, for="_hidden:80", for=10.0.0.2`}, "10.0.0.2"},
		{"hidden with hidden port", "10.0.0.1:1", []string{`for=203.0.113.9, for="_hidden:_80", for=10.0.0.2`}, "10.0.0.2"},
		{"long hidden", "10.0.0.1:1", []string{`for=203.0.113.9, for=_` + strings.Repeat("1", 200) + `, for=10.0.0.2`}, "10.0.0.2"},
		{"unknown on the right", "10.0.0.1:1", []string{"for=203.0.113.9, for=unknown"}, "10.0.0.1"},
		{"element without for", "10.0.0.1:1", []string{"for=203.0.113.9, proto=http, for=10.0.0.2"}, "10.0.0.2"},
		{"empty element", "10.0.0.1:1", []string{"for=203.0.113.9, , for=10.0.0.2"}, "10.0.0.2"},
		{"empty line", "10.0.0.1:1", []string{"for=203.0.113.9", "", "for=10.0.0.2"}, "10.0.0.2"},
		{"empty header", "10.0.0.1:1", []string{""}, "10.0.0.1"},

		// Nodes to the left of the client are not read.
		{"unknown left of the client", "10.0.0.1:1", []string{"for=unknown, for=_x, for=203.0.113.9"}, "203.0.113.9"},
		{"bad nodes left of the client", "10.0.0.1:1", []string{`for=garbage, for="", for="2001:db8::1", for=203.0.113.9`}, "203.0.113.9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(c.peer, "X-Forwarded-For: 6.6.6.6", "X-Real-Ip: 6.6.6.6")
			r.Header["Forwarded"] = c.lines
			wantKey(t, f, r, c.want)
		})
	}
}

// A client that could choose to be counted as its proxy would have a second
// limit, and could exhaust the one of the proxy's own requests.
func TestForwarded_SyntaxError(t *testing.T) {
	f := keyfunc.Forwarded(keyfunc.Proxies("10.0.0.0/8"))
	for _, bad := range []string{
		`for=6.6.6.6;ext=", for=198.51.100.7`,
		`for=6.6.6.6;ext="a\", for=198.51.100.7`,
		`for=6.6.6.6;ext="`, `for=6.6.6.6;ext="\`, `for="6.6.6.6`, `for=6.6.6.6"`, `"for"=6.6.6.6`, `for="6.6.6.6"x`, `for="6.6.6.6""x"`,
		`for`, `for;proto=http`, `for=`, `for=;proto=http`, `for=,`, `=6.6.6.6`, `for==6.6.6.6`, `=`, `"`,
		`for = 6.6.6.6`, `for= 6.6.6.6`, `for =6.6.6.6`, `for=6.6.6.6; proto=http`, `for=6.6.6.6 ;proto=http`, `for=6.6.6.6 for=7.7.7.7`,
		`for=[2001:db8::1]`, `for=2001:db8::1`, `for=6.6.6.6:80`, `for=6.6.6.6/32`, `for=6.6.6.6;host=a:80`, `for=(6.6.6.6)`, `6.6.6.6`,
		`for=6.6.6.6;for=7.7.7.7`, `for=6.6.6.6;FOR=6.6.6.6`, `proto=http;for=6.6.6.6;Proto=http`, `x=1;x=1`,
		"for=6.6.6.6\x00", "for=\"6.6.6.6\x00\"", "for=\"6.6.6.6\x7f\"", "for=6.6.6.6\n", "for=6.6.6.6;x=\"\\\x00\"", "f\xc3\xb6r=6.6.6.6", "for=6.6.6.\xd9\xa6", "for=6.6.6.6\u00a0",
		"a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1;j=1;k=1;l=1;m=1;n=1;o=1;p=1;q=1",
	} {
		for _, lines := range [][]string{
			{bad},
			{bad + ", for=203.0.113.9"},
			{"for=203.0.113.9, " + bad},
			{bad, "for=203.0.113.9"},
			{"for=203.0.113.9", bad},
			{"for=203.0.113.9", bad, "for=10.0.0.2"},
		} {
			r := request("10.0.0.1:1", "X-Forwarded-For: 6.6.6.6")
			r.Header["Forwarded"] = lines
			wantMalformed(t, f, r)
			r.RemoteAddr = "203.0.113.9:1"
			wantKey(t, f, r, "203.0.113.9")
		}
	}
}

// wantMalformed checks that a request has no key, which is not for want of a token.
func wantMalformed(t *testing.T, f keyfunc.Func, r *http.Request) {
	t.Helper()
	wantError(t, f, r, keyfunc.ErrNoKey)
	if _, err := ask(f, r); errors.Is(err, keyfunc.ErrNoToken) {
		t.Errorf("error %v is ErrNoToken; want a plain ErrNoKey", err)
	}
}

// A proxy writes the nodes that are read, so these are faults of a proxy.
func TestForwarded_BadNode(t *testing.T) {
	f := keyfunc.Forwarded(keyfunc.Proxies("10.0.0.0/8"))
	for name, node := range map[string]string{
		"empty":                       `""`,
		"garbage":                     "garbage",
		"bare IPv6":                   `"2001:db8:1:2::3"`,
		"bare IPv6 with hidden port":  `"2001:db8::1:_x"`,
		"IPv4 in brackets":            `"[10.0.0.3]"`,
		"two ports":                   `"10.0.0.3:80:_x"`,
		"two hidden ports":            `"10.0.0.3:_x:_y"`,
		"empty port":                  `"10.0.0.3:"`,
		"empty hidden port":           `"10.0.0.3:_"`,
		"bad hidden port":             `"10.0.0.3:_a b"`,
		"unknown with empty port":     `"unknown:"`,
		"unknown with bad port":       `"unknown:x"`,
		"hidden with two ports":       `"_hidden:80:80"`,
		"an underscore":               "_",
		"only a hidden port":          `":_x"`,
		"space in quotes":             `" 10.0.0.3"`,
		"quoted pair of a space":      `"10.0.0.3\ "`,
		"leading zero":                "10.0.0.03",
		"long":                        strings.Repeat("1", 200),
		"long and escaped":            `"\_` + strings.Repeat("1", 200) + `"`,
		"address between other texts": `"x 10.0.0.3"`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, value := range []string{"for=" + node, "for=203.0.113.9, for=" + node, "for=203.0.113.9, for=" + node + ", for=10.0.0.2"} {
				wantMalformed(t, f, request("10.0.0.1:1", "Forwarded: "+value))
			}
		})
	}
}

// An open quote in the client's line does not swallow what the proxy added.
func TestForwarded_QuoteOverTwoLines(t *testing.T) {
	f := keyfunc.Forwarded(keyfunc.Proxies("10.0.0.0/8"))
	wantMalformed(t, f, request("10.0.0.1:1", `Forwarded: for=6.6.6.6;x="`, `Forwarded: for=203.0.113.9;by="`))
	wantMalformed(t, f, request("10.0.0.1:1", `Forwarded: for=6.6.6.6;x="`, `Forwarded: ";for=203.0.113.9`))
}

func TestForwardedBounds(t *testing.T) {
	f := keyfunc.Forwarded(keyfunc.Proxies("10.0.0.0/8"))
	chain := func(trusted int) string {
		return "for=203.0.113.9, for=10.9.9.9" + strings.Repeat(", for=10.0.0.2", trusted-1)
	}
	wantKey(t, f, request("10.0.0.1:1", "Forwarded: "+chain(31)), "203.0.113.9")
	wantKey(t, f, request("10.0.0.1:1", "Forwarded: "+chain(32)), "10.9.9.9")
	wantKey(t, f, request("10.0.0.1:1", "Forwarded: "+chain(33)), "10.0.0.2")
	wantKey(t, f, request("10.0.0.1:1", "Forwarded: "+strings.Repeat("for=6.6.6.6, ", 1000)+chain(31)), "203.0.113.9")

	// 64 KiB with the comma that each line counts for, and one byte more.
	fill := func(size int) string {
		const end = ", for=203.0.113.9"
		return `x="` + strings.Repeat("x", size-len(`x=""`)-len(end)-1) + `"` + end
	}
	wantKey(t, f, request("10.0.0.1:1", "Forwarded: "+fill(64<<10)), "203.0.113.9")
	wantMalformed(t, f, request("10.0.0.1:1", "Forwarded: "+fill(64<<10+1)))
	wantKey(t, f, request("10.0.0.1:1", "Forwarded: "+fill(32<<10), "Forwarded: "+fill(32<<10)), "203.0.113.9")
	wantMalformed(t, f, request("10.0.0.1:1", "Forwarded: "+fill(32<<10), "Forwarded: "+fill(32<<10+1)))

	sixteen := "a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1;j=1;k=1;l=1;m=1;n=1;o=1"
	wantKey(t, f, request("10.0.0.1:1", "Forwarded: "+sixteen+";for=203.0.113.9"), "203.0.113.9")
	wantMalformed(t, f, request("10.0.0.1:1", "Forwarded: "+sixteen+";p=1;for=203.0.113.9"))
}
