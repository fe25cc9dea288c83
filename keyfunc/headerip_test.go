package keyfunc_test

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/keyfunc"
)

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
	for name, want := range map[string]string{
		"":                "\"\" is not the name of a header",
		" ":               "",
		"X Real IP":       "",
		"X-Real-IP:":      "",
		"X-Réal-IP":       "\"X-Réal-IP\" is not the name of a header",
		"X-Real-IP\n":     "",
		"a,b":             "",
		"X-Forwarded-For": "X-Forwarded-For is a list: use XForwardedFor",
		"x-FORWARDED-for": "X-Forwarded-For is a list: use XForwardedFor",
		"Forwarded":       "Forwarded has a syntax of its own: use Forwarded",
		"forwarded":       "Forwarded has a syntax of its own: use Forwarded",
	} {
		wantPanic(t, "keyfunc: HeaderIP: "+want, func() { keyfunc.HeaderIP(name, proxies) })
	}
	for _, name := range []string{"x-real-ip", "X-REAL-IP", "X-Real-Ip"} {
		wantKey(t, keyfunc.HeaderIP(name, proxies), request("10.0.0.1:1", "x-real-ip: 203.0.113.9"), "203.0.113.9")
	}
}
