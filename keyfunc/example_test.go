package keyfunc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

// show prints the key of a request, as a limiter would get it.
func show(f keyfunc.Func, r *http.Request) {
	key, err := f(r.Context(), r)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(key)
}

// aliceToken is a token that an identity provider has signed.
func aliceToken() string { return token(`"sub":"alice","iss":"https://id.example.com"`) }

// verify returns the key with which tokens are signed.
func verify(*jwt.Token) (any, error) { return secret, nil }

func Example() {
	ip := keyfunc.XForwardedFor(keyfunc.Proxies("10.0.0.0/8"))
	user := keyfunc.JWTSubject(verify, []string{"HS256"}, keyfunc.Issuer("https://id.example.com"))
	who := keyfunc.FirstOf(user, ip)

	r := request("10.0.0.1:4711", "X-Forwarded-For: 203.0.113.9")
	show(who, r)
	r.Header.Set("Authorization", "Bearer "+aliceToken())
	show(who, r)
	// Output:
	// 203.0.113.9
	// user@22:https://id.example.com:alice
}

// A Func is a function: anything in a request can be the key.
func ExampleFunc() {
	owners := map[string]string{"key-of-ann": "ann"} // stands for a database
	owner := func(_ context.Context, r *http.Request) (string, error) {
		name, ok := owners[r.Header.Get("X-API-Key")]
		if !ok {
			return "", &keyfunc.NoKeyError{Detail: "no API key in X-API-Key"} // a client may read it
		}
		return keyfunc.UserKey(name), nil
	}
	show(owner, request("203.0.113.9:4711", "X-Api-Key: key-of-ann"))
	show(owner, request("203.0.113.9:4711", "X-Api-Key: guess"))
	// Output:
	// user:ann
	// keyfunc: no key: no API key in X-API-Key
}

func ExampleRemoteIP() {
	ip := keyfunc.RemoteIP()
	show(ip, request("203.0.113.9:4711", "X-Forwarded-For: 6.6.6.6"))
	show(ip, request("[2001:db8:1:2:3:4:5:6]:4711"))
	show(ip, request("[::ffff:203.0.113.9]:4711"))
	show(ip, request("@")) // a Unix socket
	// Output:
	// 203.0.113.9
	// 2001:db8:1:2::/64
	// 203.0.113.9
	// keyfunc: no key: the remote address of the request is not an IP address
}

func ExampleIPv6Prefix() {
	site := keyfunc.RemoteIP(keyfunc.IPv6Prefix(48))
	show(site, request("[2001:db8:1:2:3:4:5:6]:4711"))
	// Output: 2001:db8:1::/48
}

func ExampleIPv4Prefix() {
	network := keyfunc.RemoteIP(keyfunc.IPv4Prefix(24))
	show(network, request("203.0.113.9:4711"))
	// Output: 203.0.113.0/24
}

func ExampleProxies() {
	private := keyfunc.Proxies("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.1", "::1", "fc00::/7")
	show(keyfunc.XForwardedFor(private), request("192.168.0.1:4711", "X-Forwarded-For: 203.0.113.9"))
	// Output: 203.0.113.9
}

func ExampleParseProxies() {
	_, err := keyfunc.ParseProxies("10.0.0.1/8")
	fmt.Println(err)
	// Output: keyfunc: ParseProxies: "10.0.0.1/8" has bits set beyond its prefix: write "10.0.0.0/8" for the network or "10.0.0.1" for the one address
}

// A proxy on the same machine reaches the application through a Unix socket.
func ExampleProxies_unix() {
	ip := keyfunc.XForwardedFor(keyfunc.Proxies("unix"))
	show(ip, request("@", "X-Forwarded-For: 6.6.6.6, 203.0.113.9"))
	// Output: 203.0.113.9
}

// The platform appends the address of its peer, and no other connection can reach the application.
func ExampleLastHops() {
	ip := keyfunc.XForwardedFor(keyfunc.LastHops(1))
	show(ip, request("169.254.1.1:4711", "X-Forwarded-For: 6.6.6.6, 203.0.113.9"))
	// Output: 203.0.113.9
}

func ExampleXForwardedFor() {
	ip := keyfunc.XForwardedFor(keyfunc.Proxies("10.0.0.0/8"))
	// The client claimed to be 6.6.6.6; the proxies added the rest.
	show(ip, request("10.0.0.1:4711", "X-Forwarded-For: 6.6.6.6, 203.0.113.9, 10.0.0.2"))
	// A client that reaches the application directly is not believed.
	show(ip, request("198.51.100.7:4711", "X-Forwarded-For: 6.6.6.6"))
	// Output:
	// 203.0.113.9
	// 198.51.100.7
}

func ExampleForwarded() {
	ip := keyfunc.Forwarded(keyfunc.Proxies("10.0.0.0/8"))
	show(ip, request("10.0.0.1:4711", `Forwarded: for="[2001:db8:1:2::3]:4711";proto=https, for=10.0.0.2`))
	// An open quote: the header is malformed, and the request has no key.
	show(ip, request("10.0.0.1:4711", `Forwarded: for=6.6.6.6;ext=", for=203.0.113.9`))
	// Output:
	// 2001:db8:1:2::/64
	// keyfunc: no key: the Forwarded header is malformed
}

func ExampleHeaderIP() {
	ip := keyfunc.HeaderIP("CF-Connecting-IP", keyfunc.Proxies("173.245.48.0/20")) // and the other ranges
	show(ip, request("173.245.48.1:4711", "CF-Connecting-IP: 203.0.113.9"))
	show(ip, request("198.51.100.7:4711", "CF-Connecting-IP: 6.6.6.6"))
	// Output:
	// 203.0.113.9
	// 198.51.100.7
}

func ExampleJWTSubject() {
	user := keyfunc.JWTSubject(verify, []string{"HS256"},
		keyfunc.Issuer("https://id.example.com"),
		keyfunc.Leeway(time.Minute),
		keyfunc.Cache(10_000),
	)
	show(user, request("203.0.113.9:4711", "Authorization: Bearer "+aliceToken()))

	r := request("203.0.113.9:4711", "Authorization: Bearer "+aliceToken()+"x")
	_, err := user(r.Context(), r)
	fmt.Println(err)
	fmt.Println(errors.Is(err, keyfunc.ErrNoToken), errors.Is(err, keyfunc.ErrNoKey))
	// Output:
	// user@22:https://id.example.com:alice
	// keyfunc: no key: no valid token: signature or algorithm not accepted
	// true true
}

// The user and the plan of a request, from one verification of its token.
func ExampleJWT() {
	tokens := keyfunc.NewJWT(verify, []string{"HS256"}, keyfunc.Issuer("https://id.example.com"))
	user, plan := tokens.Subject(), tokens.Claim("plan")
	tenant := keyfunc.Join(keyfunc.Constant("tenant"), tokens.Claim("tenant"))

	pro := token(`"sub":"alice","iss":"https://id.example.com","plan":"pro","tenant":"acme"`)
	r := request("203.0.113.9:4711", "Authorization: Bearer "+pro)
	show(user, r)
	show(plan, r)   // the name of a plan
	show(tenant, r) // a key
	show(plan, request("203.0.113.9:4711", "Authorization: Bearer "+aliceToken()))
	// Output:
	// user@22:https://id.example.com:alice
	// pro
	// join:15:constant:tenant4:acme
	// keyfunc: no key: the token has no usable claim "plan"
}

func ExampleTokenFrom() {
	session := keyfunc.TokenFrom(func(r *http.Request) string {
		cookie, err := r.Cookie("session")
		if err != nil {
			return ""
		}
		return cookie.Value
	})
	user := keyfunc.JWTSubject(verify, []string{"HS256"}, session)
	show(user, request("203.0.113.9:4711", "Cookie: session="+aliceToken()))
	// Output: user@22:https://id.example.com:alice
}

func ExampleContextSubject() {
	type userKey struct{}
	user := keyfunc.ContextSubject(userKey{})

	// An authentication middleware stores the claims after it has verified a token.
	r := request("203.0.113.9:4711")
	claims := &jwt.RegisteredClaims{Issuer: "https://id.example.com", Subject: "alice"}
	show(user, r.WithContext(context.WithValue(r.Context(), userKey{}, claims)))
	show(user, r)
	// Output:
	// user@22:https://id.example.com:alice
	// keyfunc: no key: no valid token: nothing stored in the context
}

// Values that clients choose: use them after authentication, or beside a limit by address.
func ExampleHeader() {
	r := request("203.0.113.9:4711", "X-Api-Key: 4f2a", "Cookie: session=91c0; theme=dark")
	r.SetBasicAuth("alice", "secret")
	r.SetPathValue("tenant", "acme") // as http.ServeMux does for the pattern /{tenant}/users
	show(keyfunc.Header("X-API-Key"), r)
	show(keyfunc.Cookie("session"), r)
	show(keyfunc.BasicAuthUser(), r)
	show(keyfunc.PathValue("tenant"), r)

	r.Header.Add("Cookie", "session=other")
	show(keyfunc.Cookie("session"), r)
	// Output:
	// header:x-api-key:4f2a
	// cookie:session:91c0
	// basic:alice
	// path:tenant:acme
	// keyfunc: no key: the cookie session occurs more than once
}

// A login limits the failures of each user, however the name is written and sent.
func ExampleFormValue() {
	user := keyfunc.Fold(keyfunc.FirstOf(keyfunc.FormValue("user"), keyfunc.JSONField("user")))
	show(user, post("application/x-www-form-urlencoded", "user=Alice&password=guess"))
	show(user, post("application/json", `{"user":" alice ","password":"guess"}`))
	// encoding/json would decode the second name.
	show(keyfunc.JSONField("user"), post("application/json", `{"user":"decoy","USER":"alice"}`))
	// Output:
	// body:user:alice
	// body:user:alice
	// keyfunc: no key: the JSON field "user" occurs more than once
}

func ExampleJSONField() {
	account := keyfunc.JSONField("account")
	r := post("application/json", `{"account":4711,"amount":10}`)
	show(account, r)
	body, _ := io.ReadAll(r.Body) // the handler reads the whole body
	fmt.Println(string(body))
	// Output:
	// body:account:4711
	// {"account":4711,"amount":10}
}

// A key function of an application tells the client which value is missing. The text of the error is
// for the client, too, and contains nothing of the request.
func ExampleNoKeyError() {
	account := func(_ context.Context, r *http.Request) (string, error) {
		if id := r.URL.Query().Get("account"); id != "" {
			return "account:" + id, nil
		}
		return "", &keyfunc.NoKeyError{Detail: "the parameter account is missing"}
	}
	r := httptest.NewRequest("GET", "/orders", nil)
	_, err := account(r.Context(), r)
	var missing *keyfunc.NoKeyError
	if errors.As(err, &missing) {
		fmt.Println(missing.Detail)
	}
	fmt.Println(errors.Is(err, keyfunc.ErrNoKey))
	// Output:
	// the parameter account is missing
	// true
}

// The proxies are those of a configuration.
func ExampleProxySet() {
	proxies, err := keyfunc.ParseProxies(strings.Fields("10.0.0.0/8 fd00::/8")...)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(proxies.Contains(netip.MustParseAddr("10.1.2.3")))
	show(keyfunc.XForwardedFor(proxies), request("10.1.2.3:4711", "X-Forwarded-For: 203.0.113.9"))
	// Output:
	// true
	// 203.0.113.9
}

// The keys that an operator resets.
func ExampleUserKey() {
	fmt.Println(keyfunc.UserKey("alice"))
	fmt.Println(keyfunc.SubjectKey("https://id.example.com", "alice")) // of a JSON Web Token
	fmt.Println(keyfunc.CanonicalIP("[2001:db8:1:2:3:4:5:6]:4711"))
	// Output:
	// user:alice
	// user@22:https://id.example.com:alice
	// 2001:db8:1:2::/64 <nil>
}

func ExampleFirstOf() {
	who := keyfunc.FirstOf(keyfunc.JWTSubject(verify, []string{"HS256"}), keyfunc.RemoteIP())
	show(who, request("203.0.113.9:4711", "Authorization: Bearer "+aliceToken()))
	show(who, request("203.0.113.9:4711", "Authorization: Bearer forged"))
	// Output:
	// user@22:https://id.example.com:alice
	// 203.0.113.9
}

func ExampleJoin() {
	route := func(_ context.Context, r *http.Request) (string, error) { return "route:" + r.Pattern, nil }
	each := keyfunc.Join(route, keyfunc.RemoteIP())
	r := request("203.0.113.9:4711")
	r.Pattern = "GET /search"
	show(each, r)
	// Output: join:17:route:GET /search11:203.0.113.9
}

// A middleware in front stores the role of the user. Administrators have no limit.
func ExampleFunc_notLimited() {
	user := keyfunc.ContextSubject("user")
	limited := func(ctx context.Context, r *http.Request) (string, error) {
		if ctx.Value("role") == "admin" {
			return "", keyfunc.ErrNotLimited
		}
		return user(ctx, r)
	}

	r := request("203.0.113.9:4711")
	//lint:ignore SA1029 frameworks such as Gin have keys that are strings
	r = r.WithContext(context.WithValue(r.Context(), "user", "alice"))
	show(limited, r)
	//lint:ignore SA1029 frameworks such as Gin have keys that are strings
	r = r.WithContext(context.WithValue(r.Context(), "role", "admin"))
	show(limited, r)
	// Output:
	// user:alice
	// keyfunc: the caller is not limited
}
