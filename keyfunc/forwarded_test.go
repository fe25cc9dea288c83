package keyfunc_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

func TestForwarded(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"all parameters", `by=10.0.0.1;for=203.0.113.9;host="example.com:80";proto=https;x=1`, "203.0.113.9"},
		{"names in any case", "For=6.6.6.6, FOR=203.0.113.9;Proto=http", "203.0.113.9"},
		{"empty pairs", ";;for=203.0.113.9;;proto=http;", "203.0.113.9"},
		{"white space around commas", " \tfor=203.0.113.9 \t,\t for=10.0.0.2\t", "203.0.113.9"},
		{"quoted", `for="203.0.113.9"`, "203.0.113.9"},
		{"quoted pairs", `for="\2\03.0.113\.9"`, "203.0.113.9"},
		{"hidden port", `for="203.0.113.9:_a-B.1"`, "203.0.113.9"},
		{"IPv6 with hidden port", `for="[2001:db8:1:2::3]:_x"`, "2001:db8:1:2::/64"},
		{"separators in quotes", `for=203.0.113.9;host="a, for=6.6.6.6;\""`, "203.0.113.9"},
		{"obs-text in quotes", "for=203.0.113.9;x=\"\xff\t\"", "203.0.113.9"},

		// An element without an address ends the search.
		{"unknown", "for=203.0.113.9, for=unknown, for=10.0.0.2", "10.0.0.2"},
		{"unknown in capitals", "for=203.0.113.9, for=Unknown, for=10.0.0.2", "10.0.0.2"},
		{"unknown with port", `for=203.0.113.9, for="unknown:80", for=10.0.0.2`, "10.0.0.2"},
		{"hidden", "for=203.0.113.9, for=_hidden, for=10.0.0.2", "10.0.0.2"},
		{"hidden, escaped", `for=203.0.113.9, for="\_hi\dden", for=10.0.0.2`, "10.0.0.2"},
		{"hidden with port", `for=203.0.113.9, for="_hidden:80", for=10.0.0.2`, "10.0.0.2"},
		{"hidden with hidden port", `for=203.0.113.9, for="_hidden:_80", for=10.0.0.2`, "10.0.0.2"},
		{"long hidden", `for=203.0.113.9, for=_` + strings.Repeat("1", 200) + `, for=10.0.0.2`, "10.0.0.2"},
		{"unknown on the right", "for=203.0.113.9, for=unknown", "10.0.0.1"},
		{"element without for", "for=203.0.113.9, proto=http, for=10.0.0.2", "10.0.0.2"},

		// Nodes to the left of the client are not read.
		{"unknown left of the client", "for=unknown, for=_x, for=203.0.113.9", "203.0.113.9"},
		{"bad nodes left of the client", `for=garbage, for="", for="2001:db8::1", for=203.0.113.9`, "203.0.113.9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantKey(t, keyfunc.Forwarded(proxies), request("10.0.0.1:1", "Forwarded: "+c.value), c.want)
		})
	}
}

// The key must not be the address of the proxy: the client would have a second limit, and could
// exhaust that of the proxy's own requests.
func TestForwarded_SyntaxError(t *testing.T) {
	f := keyfunc.Forwarded(proxies)
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

// Only nodes that a proxy has written are read, so an invalid node is a fault of the proxy.
func TestForwarded_BadNode(t *testing.T) {
	f := keyfunc.Forwarded(proxies)
	for _, node := range []string{
		`""`, "garbage", `"x 10.0.0.3"`, `" 10.0.0.3"`, `"10.0.0.3\ "`, "10.0.0.03", `"[10.0.0.3]"`, `"2001:db8:1:2::3"`, `"2001:db8::1:_x"`,
		`"10.0.0.3:"`, `"10.0.0.3:_"`, `"10.0.0.3:_a b"`, `"10.0.0.3:80:_x"`, `"10.0.0.3:_x:_y"`, `":_x"`,
		"_", `"_hidden:80:80"`, `"unknown:"`, `"unknown:x"`,
		strings.Repeat("1", 200), `"\_` + strings.Repeat("1", 200) + `"`,
	} {
		for _, value := range []string{"for=" + node, "for=203.0.113.9, for=" + node, "for=203.0.113.9, for=" + node + ", for=10.0.0.2"} {
			t.Run(value, func(t *testing.T) { wantMalformed(t, f, request("10.0.0.1:1", "Forwarded: "+value)) })
		}
	}
}

// A quote in the client's line that is not closed does not hide the line of the proxy.
func TestForwarded_QuoteOverTwoLines(t *testing.T) {
	f := keyfunc.Forwarded(proxies)
	wantMalformed(t, f, request("10.0.0.1:1", `Forwarded: for=6.6.6.6;x="`, `Forwarded: for=203.0.113.9;by="`))
	wantMalformed(t, f, request("10.0.0.1:1", `Forwarded: for=6.6.6.6;x="`, `Forwarded: ";for=203.0.113.9`))
}

func TestForwarded_Bounds(t *testing.T) {
	f := keyfunc.Forwarded(proxies)
	// 64 KiB with one comma for each line, and one byte more.
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
