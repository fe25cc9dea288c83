package keyfunc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

// cdn is a set of proxies as large as the published lists of CDNs.
var cdn = keyfunc.Proxies(
	"10.0.0.0/8", "103.21.244.0/22", "103.22.200.0/22", "103.31.4.0/22", "104.16.0.0/13", "104.24.0.0/14", "108.162.192.0/18",
	"131.0.72.0/22", "141.101.64.0/18", "162.158.0.0/15", "172.64.0.0/13", "173.245.48.0/20", "188.114.96.0/20", "190.93.240.0/20",
	"197.234.240.0/22", "198.41.128.0/17", "2400:cb00::/32", "2606:4700::/32", "2803:f800::/32", "2405:b500::/32", "2405:8100::/32",
)

func BenchmarkFunc(b *testing.B) {
	fromProxy := func(line string) *http.Request { return request("10.0.0.1:1234", line) }
	xForwardedFor, forwarded := keyfunc.XForwardedFor(cdn), keyfunc.Forwarded(cdn)
	claims := jwt.MapClaims{"iss": "https://id.example.com", "sub": "241531", "aud": "api", "iat": 1700000000, "exp": inAnHour(), "scope": "read write"}
	rs256 := bearer(sign(b, jwt.SigningMethodRS256, rsaKey(), claims))
	hs256 := bearer(sign(b, jwt.SigningMethodHS256, secret, claims))
	public := returning(&rsaKey().PublicKey)
	tokens := keyfunc.NewJWT(public, []string{"RS256"})
	user, scope := tokens.Subject(), tokens.Claim("scope")
	both := func(ctx context.Context, r *http.Request) (string, error) { // of a new request
		r = r.WithContext(ctx)
		_, _ = user(ctx, r)
		return scope(ctx, r)
	}
	var names strings.Builder // as like each other as can be
	for i := range 16 {
		names.WriteString(strings.Repeat("x", 4090) + string(rune('a'+i)) + "=1;")
	}
	type benchmark struct {
		name string
		f    keyfunc.Func
		r    *http.Request
	}
	benchmarks := []benchmark{
		{"RemoteIP/IPv4", keyfunc.RemoteIP(), request("203.0.113.9:1234")},
		{"RemoteIP/IPv6", keyfunc.RemoteIP(), request("[2001:db8:1:2:3:4:5:6]:1234")},
		{"XForwardedFor/3 hops", xForwardedFor, fromProxy("X-Forwarded-For: 6.6.6.6, 203.0.113.9, 104.16.1.1, 10.0.0.2")},
		{"Forwarded/3 hops", forwarded, fromProxy("Forwarded: for=6.6.6.6, for=203.0.113.9;proto=https, for=104.16.1.1, for=10.0.0.2")},
		{"Forwarded/64 KiB of elements", forwarded, fromProxy("Forwarded: " + hugeHeaders()["elements"][:64<<10-1])},
		{"Forwarded/64 KiB of names", forwarded, fromProxy("Forwarded: " + names.String())},
		{"JWTSubject/RS256", keyfunc.JWTSubject(public, []string{"RS256"}), rs256},
		{"JWTSubject/RS256 with Cache", keyfunc.JWTSubject(public, []string{"RS256"}, keyfunc.Cache(1000)), rs256},
		{"JWT/RS256, Subject and Claim", both, rs256},
		{"JWTSubject/HS256", userFunc(), hs256},
		{"JWTSubject/HS256 with Cache", userFunc(keyfunc.Cache(1000)), hs256},
		{"FormValue", keyfunc.Fold(keyfunc.FormValue("user")), post(formType, "user=alice&password=guess")}, // of a body that was read before
		{"JSONField", keyfunc.Fold(keyfunc.JSONField("user")), post(jsonType, `{"user":"alice","password":"guess"}`)},
		{"Join", keyfunc.Join(constant("user:alice"), keyfunc.RemoteIP()), request("203.0.113.9:1234")},
	}
	for name, value := range hugeHeaders() {
		benchmarks = append(benchmarks, benchmark{"XForwardedFor/900 KB of " + name, xForwardedFor, fromProxy("X-Forwarded-For: " + value)})
	}
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			ctx := c.r.Context()
			if key, err := c.f(ctx, c.r); err != nil {
				b.Fatal(key, err)
			}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.f(ctx, c.r)
			}
		})
	}
}
