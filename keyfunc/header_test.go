package keyfunc_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// wantDetail checks that the error is a NoKeyError with this Detail.
func wantDetail(t *testing.T, f keyfunc.Func, r *http.Request, detail string) {
	t.Helper()
	wantMalformed(t, f, r)
	_, err := ask(f, r)
	var none *keyfunc.NoKeyError
	if !errors.As(err, &none) || none.Detail != detail {
		t.Errorf("error %v; want a NoKeyError with %q", err, detail)
	}
}

func TestHeader(t *testing.T) {
	const missing, repeated = "no value in the header field X-API-Key", "the header field X-API-Key occurs more than once"
	for _, c := range []struct {
		name        string
		lines       []string
		key, detail string
	}{
		{"one line", []string{"X-Api-Key: abc"}, "header:x-api-key:abc", ""},
		{"case of the value", []string{"X-Api-Key: ABC"}, "header:x-api-key:ABC", ""},
		{"a list", []string{"X-Api-Key: a, b"}, "header:x-api-key:a, b", ""},
		{"a colon", []string{"X-Api-Key: a:b"}, "header:x-api-key:a:b", ""},
		{"absent", []string{"X-Api-Keys: abc"}, "", missing},
		{"empty", []string{"X-Api-Key: "}, "", missing},
		{"twice", []string{"X-Api-Key: abc", "X-Api-Key: victim"}, "", repeated},
		{"twice the same", []string{"X-Api-Key: abc", "X-Api-Key: abc"}, "", repeated},
		{"twice, first empty", []string{"X-Api-Key: ", "X-Api-Key: abc"}, "", repeated},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantValue(t, keyfunc.Header("X-API-Key"), request("", c.lines...), c.key, c.detail)
		})
	}
}

// Only a gateway can set the field. For other peers it is missing, also beside an address.
func TestHeaderFrom(t *testing.T) {
	const missing, repeated = "no value in the header field X-Org-ID", "the header field X-Org-ID occurs more than once"
	gateways := keyfunc.Proxies("10.0.0.0/24", "2001:db8::/32")
	for _, c := range []struct {
		name        string
		from        keyfunc.ProxySet
		peer        string
		lines       []string
		key, detail string
	}{
		{"a gateway", gateways, "10.0.0.7:1", []string{"X-Org-Id: acme"}, "header:x-org-id:acme", ""},
		{"a gateway in IPv6", gateways, "[2001:db8::7]:1", []string{"X-Org-Id: acme"}, "header:x-org-id:acme", ""},
		{"a mapped gateway", gateways, "[::ffff:10.0.0.7]:1", []string{"X-Org-Id: acme"}, "header:x-org-id:acme", ""},
		{"a gateway without it", gateways, "10.0.0.7:1", nil, "", missing},
		{"a gateway, twice", gateways, "10.0.0.7:1", []string{"X-Org-Id: acme", "X-Org-Id: evil"}, "", repeated},
		{"another peer", gateways, "10.0.1.7:1", []string{"X-Org-Id: acme"}, "", missing},
		{"another peer, twice", gateways, "10.0.1.7:1", []string{"X-Org-Id: acme", "X-Org-Id: evil"}, "", missing},
		{"another peer without it", gateways, "203.0.113.9:1", nil, "", missing},
		{"a forged gateway", gateways, "203.0.113.9:1", []string{"X-Org-Id: acme", "X-Forwarded-For: 10.0.0.7"}, "", missing},
		{"no address", gateways, "10.0.0.7.example", []string{"X-Org-Id: acme"}, "", missing},
		{"a socket", gateways, "@10.0.0.7:1", []string{"X-Org-Id: acme"}, "", missing},
		{"a trusted socket", keyfunc.Proxies("unix"), "@", []string{"X-Org-Id: acme"}, "header:x-org-id:acme", ""},
		{"a platform", keyfunc.LastHops(1), "203.0.113.9:1", []string{"X-Org-Id: acme"}, "header:x-org-id:acme", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := keyfunc.HeaderFrom("X-Org-ID", c.from)
			log := logged(func() { wantValue(t, f, request(c.peer, c.lines...), c.key, c.detail) })
			if log != "" {
				t.Errorf("%s was logged", log)
			}
			if c.detail == missing {
				wantKey(t, keyfunc.FirstOf(f, constant("beside")), request(c.peer, c.lines...), "beside")
			}
		})
	}
}

// wantValue checks the key, or the Detail of the error if key is empty.
func wantValue(t *testing.T, f keyfunc.Func, r *http.Request, key, detail string) {
	t.Helper()
	if key == "" {
		wantDetail(t, f, r, detail)
	} else {
		wantKey(t, f, r, key)
	}
}

func TestCookie(t *testing.T) {
	const missing, repeated = "no value in the cookie session", "the cookie session occurs more than once"
	for _, c := range []struct {
		name        string
		lines       []string
		key, detail string
	}{
		{"one cookie", []string{"Cookie: session=abc"}, "cookie:session:abc", ""},
		{"among others", []string{"Cookie: a=b; session=abc; Session=x"}, "cookie:session:abc", ""},
		{"quoted", []string{`Cookie: session="a b"`}, "cookie:session:a b", ""},
		{"absent", nil, "", missing},
		{"empty", []string{"Cookie: session="}, "", missing},
		{"invalid", []string{"Cookie: session=a\\b"}, "", missing},
		{"twice", []string{"Cookie: session=abc; session=victim"}, "", repeated},
		{"in two lines", []string{"Cookie: session=abc", "Cookie: session=abc"}, "", repeated},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request("", c.lines...)
			wantValue(t, keyfunc.Cookie("session"), r, c.key, c.detail)
			if cookie, err := r.Cookie("session"); c.key != "" && (err != nil || "cookie:session:"+cookie.Value != c.key) {
				t.Errorf("the handler reads %v, %v; want the value of %q", cookie, err, c.key)
			}
		})
	}
}

func TestBasicAuthUser(t *testing.T) {
	basic := func(text string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(text))
	}
	for _, c := range []struct {
		name  string
		lines []string
		key   string
	}{
		{"name and password", []string{basic("alice:secret")}, "basic:alice"},
		{"no password", []string{basic("alice:")}, "basic:alice"},
		{"colon in the password", []string{basic("alice:a:b")}, "basic:alice"},
		{"case of the scheme", []string{strings.Replace(basic("alice:"), "Basic", "bASIC", 1)}, "basic:alice"},
		{"absent", nil, ""},
		{"empty name", []string{basic(":secret")}, ""},
		{"no colon", []string{basic("alice")}, ""},
		{"not base64", []string{"Authorization: Basic alice:secret"}, ""},
		{"a token", []string{"Authorization: Bearer YWxpY2U6"}, ""},
		{"twice", []string{basic("alice:"), basic("victim:")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := request("", c.lines...); c.key == "" {
				reason := "no Basic credentials"
				if len(c.lines) > 1 {
					reason = "several Authorization headers"
				}
				wantNoToken(t, keyfunc.BasicAuthUser(), r, reason)
			} else {
				wantKey(t, keyfunc.BasicAuthUser(), r, c.key)
			}
		})
	}
}

// paramContext is the context of a framework with parameters of a route.
type paramContext struct {
	context.Context
	tenant string
}

func (c paramContext) Param(name string) string {
	if name != "tenant" {
		return ""
	}
	return c.tenant
}

func TestPathValue(t *testing.T) {
	for _, c := range []struct{ name, value, param, key string }{
		{"ServeMux", "acme", "", "path:tenant:acme"},
		{"framework", "", "acme", "path:tenant:acme"},
		{"both", "acme", "acme", "path:tenant:acme"},
		{"different", "acme", "victim", ""},
		{"absent", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request("")
			r.SetPathValue("tenant", c.value)
			r.SetPathValue("other", "x")
			f := keyfunc.PathValue("tenant")
			key, err := f(paramContext{r.Context(), c.param}, r)
			if key != c.key || (err == nil) != (c.key != "") || err != nil && !errors.Is(err, keyfunc.ErrNoKey) {
				t.Errorf("key = %q, %v; want %q", key, err, c.key)
			}
			if c.param == "" {
				wantValue(t, f, r, c.key, `no value for "tenant" in the path`)
			}
		})
	}
}

// Values of different functions or names never have the same key.
func TestValues_DifferentKeys(t *testing.T) {
	const value = "a:b"
	r := request("", "A: "+value, "A%3ab: "+value, "Cookie: A="+value+"; a="+value, "Content-Type: application/json")
	r.SetBasicAuth("a", "b")
	r.SetPathValue("a", value)
	r.SetPathValue("a:a", "b")
	r.SetPathValue("a%3Aa", "b")
	withBody(r, `{"a":"a:b","a:a":"b","a%3Aa":"b"}`)
	seen := map[string]int{}
	for i, f := range []keyfunc.Func{
		keyfunc.Header("A"), keyfunc.Header("A%3Ab"), keyfunc.Cookie("A"), keyfunc.Cookie("a"), keyfunc.BasicAuthUser(), keyfunc.PathValue("a"), keyfunc.PathValue("a:a"), keyfunc.PathValue("a%3Aa"),
		keyfunc.JSONField("a"), keyfunc.JSONField("a:a"), keyfunc.JSONField("a%3Aa"),
		constant(keyfunc.UserKey(value)), constant(keyfunc.SubjectKey("a", "b")), keyfunc.Constant(value),
	} {
		for _, f := range []keyfunc.Func{f, keyfunc.Join(f)} {
			key, err := ask(f, r)
			if err != nil {
				t.Fatalf("function %d: %v", i, err)
			}
			if j, ok := seen[key]; ok {
				t.Errorf("functions %d and %d have the key %q", i, j, key)
			}
			seen[key] = i
		}
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct{ key, want string }{
		{"body:User:  Alice \t", "body:User:alice"},
		{"body:User:\u00a0ÄRGER\u2003", "body:User:ärger"},
		{"body:user:\u212a", "body:user:k"}, // KELVIN SIGN
		{"body:a%3AB:X:Y ", "body:a%3AB:x:y"},
		{"header:x-api-key: ABC", "header:x-api-key:abc"},
		{"header:ABC", "header:abc"},
		{"cookie:SID:ABC", "cookie:SID:abc"},
		{"path:Tenant:ACME", "path:Tenant:acme"},
		{"basic:Alice", "basic:alice"},
		{"user:Alice", "user:alice"},
		{"user:A:B ", "user:a:b"},
		{"user@4:ID:X:Alice ", "user@4:ID:X:alice"},
		{"user@5:ID:X:Alice ", "user@5:id:x:alice"}, // no key of this package
		{"user@-1:A", "user@-1:a"},
		{"user@x:A", "user@x:a"},
		{"constant: All", "constant: All"},
		{"2001:db8:a::/64", "2001:db8:a::/64"},
		{"203.0.113.9", "203.0.113.9"},
		{" Alice", "alice"},
		{"Own: Alice", "Own:alice"},
		{"join:11:user: Alice12:constant:All", "join:10:user:alice12:constant:All"},
		{"join:8:user:\u212a11:203.0.113.9", "join:6:user:k11:203.0.113.9"},
		{"join:15:join:8:user: AB", "join:14:join:7:user:ab"},
		{"join:99:A", "join:99:a"},
		{"join:", ""},
		{"join:6:user: 1:a", ""},
		{"body:user: \t", ""},
		{"user:", ""},
		{" ", ""},
	} {
		t.Run(c.key, func(t *testing.T) {
			f := keyfunc.Fold(constant(c.key))
			wantValue(t, f, request(""), c.want, "the value that identifies the client is blank")
			if c.want != "" {
				wantKey(t, keyfunc.Fold(f), request(""), c.want)
			}
		})
	}
	t.Run("errors", func(t *testing.T) {
		fault := errors.New("fault")
		wantError(t, keyfunc.Fold(failing(fault)), request(""), fault)
		wantError(t, keyfunc.Fold(failing(keyfunc.ErrNotLimited)), request(""), keyfunc.ErrNotLimited)
		wantError(t, keyfunc.Fold(constant("")), request(""), keyfunc.ErrNoKey)
	})
}

// A text that looks like many Joins in each other takes little time and memory.
func TestFold_DeepJoin(t *testing.T) {
	testkit.WithoutRace(t)
	key := "user:A"
	for len(key) < 1<<20 {
		key = must(ask(keyfunc.Join(constant(key), constant(strings.Repeat("B", 1000))), request("")))
	}
	f := keyfunc.Fold(constant(key))
	r := request("")
	if _, n := testkit.AllocatedPerCall(17, func() { _, _ = ask(f, r) }); n > 64<<20 {
		t.Errorf("%d bytes allocated, want at most 64 MiB", n)
	}
	wantKey(t, f, r, must(ask(f, r)))
}

// A folded Join has equal keys only for equal folded parts.
func FuzzFold(f *testing.F) {
	f.Add("user:A", " B", "user:a", "b ")
	f.Add("header:X:\u212a", "1:a", "header:X:k", "1:a")
	f.Add("a:\u0130", "x", "a:i", "\u0307x")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		fold := func(key string) string {
			folded, err := ask(keyfunc.Fold(constant(key)), request(""))
			if err != nil && !errors.Is(err, keyfunc.ErrNoKey) || (err == nil) != (folded != "") {
				t.Fatalf("Fold(%q) = %q, %v", key, folded, err)
			}
			return folded
		}
		join := func(a, b string) string {
			key, err := ask(keyfunc.Fold(keyfunc.Join(constants(a, b)...)), request(""))
			if (err == nil) != (fold(a) != "" && fold(b) != "") {
				t.Fatalf("Fold(Join(%q, %q)) = %q, %v", a, b, key, err)
			}
			return key
		}
		if strings.HasPrefix(a+b+c+d, "join:") {
			return // a Join in a Join is folded up to a depth
		}
		if ab, cd := join(a, b), join(c, d); ab != "" && ab == cd && (fold(a) != fold(c) || fold(b) != fold(d)) {
			t.Fatalf("(%q, %q) and (%q, %q) have the key %q", a, b, c, d, ab)
		}
	})
}

func TestUserKey(t *testing.T) {
	for _, c := range []struct{ issuer, subject, want string }{
		{"", "alice", "user:alice"},
		{"", "203.0.113.9", "user:203.0.113.9"},
		{"", " alice", "user: alice"},
		{"https://id.example.com", "alice", "user@22:https://id.example.com:alice"},
		{"a:b", "c", "user@3:a:b:c"},
		{"a", "b:c", "user@1:a:b:c"},
		{"", "", ""},
		{"", " \t", ""},
		{"a", "", ""},
	} {
		if got := keyfunc.SubjectKey(c.issuer, c.subject); got != c.want {
			t.Errorf("SubjectKey(%q, %q) = %q, want %q", c.issuer, c.subject, got, c.want)
		}
		if got := keyfunc.UserKey(c.subject); c.issuer == "" && got != c.want {
			t.Errorf("UserKey(%q) = %q, want %q", c.subject, got, c.want)
		}
		if c.want == "" {
			continue
		}
		members := `"sub":"` + c.subject + `"`
		if c.issuer != "" {
			members += `,"iss":"` + c.issuer + `"`
		}
		wantKey(t, userFunc(), bearer(token(members)), c.want)
	}
	type userKey struct{}
	r := request("")
	wantKey(t, keyfunc.ContextSubject(userKey{}), r.WithContext(context.WithValue(r.Context(), userKey{}, "alice")), keyfunc.UserKey("alice"))
}

func TestNoKeyError(t *testing.T) {
	for detail, text := range map[string]string{"": "keyfunc: no key", "no API key in X-API-Key": "keyfunc: no key: no API key in X-API-Key"} {
		var err error = &keyfunc.NoKeyError{Detail: detail}
		if err.Error() != text {
			t.Errorf("text %q, want %q", err, text)
		}
		if !errors.Is(err, keyfunc.ErrNoKey) || errors.Is(err, keyfunc.ErrNoToken) || errors.Is(err, keyfunc.ErrNotLimited) {
			t.Errorf("error %v is not just an ErrNoKey", err)
		}
	}
	// FirstOf and Join keep it.
	none := &keyfunc.NoKeyError{Detail: "none"}
	wantDetail(t, keyfunc.FirstOf(failing(none), failing(keyfunc.ErrNoKey)), request(""), "none")
	wantDetail(t, keyfunc.Join(constant("a"), failing(none)), request(""), "none")
	tokens := keyfunc.NewJWT(withSecret, []string{"HS256"})
	wantDetail(t, tokens.Claim("plan"), bearer(token(`"sub":"alice"`)), `the token has no usable claim "plan"`)
}
