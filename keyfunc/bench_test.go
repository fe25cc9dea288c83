package keyfunc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

func benchmark(b *testing.B, f keyfunc.Func, r *http.Request) {
	if key, err := ask(f, r); err != nil {
		b.Fatal(key, err)
	}
	ctx := r.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = f(ctx, r)
	}
}

func BenchmarkRemoteIP(b *testing.B) {
	for name, peer := range map[string]string{"IPv4": "203.0.113.9:1234", "IPv6": "[2001:db8:1:2:3:4:5:6]:1234"} {
		b.Run(name, func(b *testing.B) { benchmark(b, keyfunc.RemoteIP(), request(peer)) })
	}
}

// cdn is a set of the size that networks of proxies publish.
var cdn = keyfunc.Proxies(
	"10.0.0.0/8", "103.21.244.0/22", "103.22.200.0/22", "103.31.4.0/22", "104.16.0.0/13", "104.24.0.0/14", "108.162.192.0/18",
	"131.0.72.0/22", "141.101.64.0/18", "162.158.0.0/15", "172.64.0.0/13", "173.245.48.0/20", "188.114.96.0/20", "190.93.240.0/20",
	"197.234.240.0/22", "198.41.128.0/17", "2400:cb00::/32", "2606:4700::/32", "2803:f800::/32", "2405:b500::/32", "2405:8100::/32",
)

func BenchmarkForwardingHeaders(b *testing.B) {
	for _, h := range forwardingHeaders {
		values := map[string]string{"client": h.entry("203.0.113.9")}
		if h.list {
			values["3 hops"] = strings.Join([]string{h.entry("6.6.6.6"), h.entry("203.0.113.9"), h.entry("104.16.1.1"), h.entry("10.0.0.2")}, ", ")
		}
		for name, value := range values {
			b.Run(h.name+"/"+name, func(b *testing.B) { benchmark(b, h.keyBy(cdn), request("10.0.0.1:1234", h.name+": "+value)) })
		}
	}
}

func BenchmarkXForwardedFor_hugeValues(b *testing.B) {
	for name, value := range hugeHeaders() {
		b.Run(name, func(b *testing.B) {
			benchmark(b, keyfunc.XForwardedFor(cdn), request("10.0.0.1:1234", "X-Forwarded-For: "+value))
		})
	}
}

func BenchmarkForwarded_64KiB(b *testing.B) {
	var names strings.Builder // as like each other as can be
	for i := range 16 {
		names.WriteString(strings.Repeat("x", 4090) + string(rune('a'+i)) + "=1;")
	}
	for name, value := range map[string]string{"elements": hugeHeaders()["elements"][:64<<10-1], "names": names.String()} {
		b.Run(name, func(b *testing.B) {
			benchmark(b, keyfunc.Forwarded(cdn), request("10.0.0.1:1234", "Forwarded: "+value))
		})
	}
}

func BenchmarkJWTSubject(b *testing.B) {
	claims := jwt.MapClaims{"iss": "https://id.example.com", "sub": "241531", "aud": "api", "iat": 1700000000, "exp": inAnHour(), "scope": "read write"}
	for _, c := range []struct {
		method          jwt.SigningMethod
		private, public any
	}{
		{jwt.SigningMethodRS256, rsaKey(), &rsaKey().PublicKey},
		{jwt.SigningMethodHS256, secret, secret},
	} {
		r := bearer(sign(b, c.method, c.private, claims))
		for name, opts := range map[string][]keyfunc.JWTOption{"": nil, " with Cache": {keyfunc.Cache(1000)}} {
			f := keyfunc.JWTSubject(returning(c.public), []string{c.method.Alg()}, opts...)
			b.Run(c.method.Alg()+name, func(b *testing.B) { benchmark(b, f, r) })
		}
	}
}

func BenchmarkJoin(b *testing.B) {
	benchmark(b, keyfunc.Join(constant("user:alice"), keyfunc.RemoteIP()), request("203.0.113.9:1234"))
}
