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

func BenchmarkXForwardedFor(b *testing.B) {
	f := keyfunc.XForwardedFor(cdn)
	b.Run("3 hops", func(b *testing.B) {
		benchmark(b, f, request("10.0.0.1:1234", "X-Forwarded-For: 6.6.6.6, 203.0.113.9, 104.16.1.1, 10.0.0.2"))
	})
	for name, value := range hugeHeaders() {
		b.Run("900 KB of "+name, func(b *testing.B) { benchmark(b, f, request("10.0.0.1:1234", "X-Forwarded-For: "+value)) })
	}
}

func BenchmarkForwarded(b *testing.B) {
	f := keyfunc.Forwarded(cdn)
	b.Run("3 hops", func(b *testing.B) {
		benchmark(b, f, request("10.0.0.1:1234", "Forwarded: for=6.6.6.6, for=203.0.113.9;proto=https, for=104.16.1.1, for=10.0.0.2"))
	})
	b.Run("64 KiB of elements", func(b *testing.B) {
		benchmark(b, f, request("10.0.0.1:1234", "Forwarded: "+hugeHeaders()["elements"][:64<<10-1]))
	})
	b.Run("64 KiB of names", func(b *testing.B) { // as like each other as can be
		var element strings.Builder
		for i := range 16 {
			element.WriteString(strings.Repeat("x", 4090) + string(rune('a'+i)) + "=1;")
		}
		benchmark(b, f, request("10.0.0.1:1234", "Forwarded: "+element.String()))
	})
}

func BenchmarkJWTSubject(b *testing.B) {
	public := func(*jwt.Token) (any, error) { return &rsaKey().PublicKey, nil }
	claims := jwt.MapClaims{"iss": "https://id.example.com", "sub": "241531", "aud": "api", "iat": 1700000000, "exp": inAnHour(), "scope": "read write"}
	r := bearer(sign(b, jwt.SigningMethodRS256, rsaKey(), claims))
	b.Run("RS256", func(b *testing.B) { benchmark(b, keyfunc.JWTSubject(public, []string{"RS256"}), r) })
	b.Run("RS256 with Cache", func(b *testing.B) {
		benchmark(b, keyfunc.JWTSubject(public, []string{"RS256"}, keyfunc.Cache(1000)), r)
	})
	h := bearer(sign(b, jwt.SigningMethodHS256, secret, claims))
	b.Run("HS256", func(b *testing.B) { benchmark(b, userFunc(), h) })
	b.Run("HS256 with Cache", func(b *testing.B) { benchmark(b, userFunc(keyfunc.Cache(1000)), h) })
}

func BenchmarkJoin(b *testing.B) {
	benchmark(b, keyfunc.Join(constant("user:alice"), keyfunc.RemoteIP()), request("203.0.113.9:1234"))
}
