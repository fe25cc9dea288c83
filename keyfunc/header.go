package keyfunc

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

var (
	errNoCredentials  = &tokenError{reason: "no Basic credentials"}
	errBadCredentials = &tokenError{reason: errNoCredentials.reason, unusable: true}
)

// Header returns a Func that derives the key from the header field called name, such as an API key:
// "header:", the name in lower case, a colon and the value. A client chooses the value, so a client
// that changes it evades the limit: use Header after a middleware that has verified the value, or
// beside a limit by address (gate.And).
//
// The error is a [NoKeyError] if the field is absent or empty, or occurs more than once. Header
// panics if name is not the name of a header field, and for Host, which net/http removes from the
// header.
func Header(name string) Func { return header("Header", name, nil) }

// HeaderFrom is [Header] for a header field that only the gateways in p set, such as the identity that an API gateway
// has verified. They must overwrite or remove the field of the client. The keys are those of Header. For every other
// peer, the error is a [NoKeyError], whether the field is there or not, and [FirstOf] goes on. With [LastHops], every
// peer is a gateway:
//
//	org := keyfunc.HeaderFrom("X-Org-ID", keyfunc.Proxies("10.0.0.0/24"))
//
// HeaderFrom panics like Header, and if p is empty.
func HeaderFrom(name string, p ProxySet) Func {
	if p.isEmpty() {
		panic("keyfunc: HeaderFrom: the set of gateways is empty")
	}
	return header("HeaderFrom", name, func(r *http.Request) bool {
		peer, _ := peerOf(r)
		return p.trustsPeer(r, peer)
	})
}

// header returns a Func for the header field called name. It has no key for a request that is not trusted.
func header(caller, name string, trusts func(*http.Request) bool) Func {
	if !isToken(name) {
		panic(fmt.Sprintf("keyfunc: %s: %q is not the name of a header field", caller, name))
	}
	field := http.CanonicalHeaderKey(name)
	if field == "Host" {
		panic("keyfunc: " + caller + ": Host is not in the header of a request: write a Func that uses r.Host")
	}
	prefix := keyPrefix("header", strings.ToLower(name))
	missing := &NoKeyError{Detail: "no value in the header field " + name}
	repeated := unusable("the header field " + name + " occurs more than once")
	return func(_ context.Context, r *http.Request) (string, error) {
		lines := r.Header[field]
		switch {
		case trusts != nil && !trusts(r):
			return "", missing
		case len(lines) > 1:
			return "", repeated
		case len(lines) == 0 || lines[0] == "":
			return "", missing
		}
		return prefix + lines[0], nil
	}
}

// Cookie returns a Func that derives the key from the cookie called name: "cookie:", the name, a
// colon and the value. A client chooses the value, so a client that
// changes or deletes its cookie evades the limit: use Cookie after a middleware that has verified
// the value, or beside a limit by address (gate.And).
//
// The value is that of r.Cookie, with its escapes decoded as by [url.QueryUnescape], if all of them are
// valid: %61bc and abc have one key, because c.Cookie of Gin decodes escapes, too.
//
// The error is a [NoKeyError] if the cookie is absent or empty, or occurs more than once. Cookie
// panics if name is not the name of a cookie.
func Cookie(name string) Func {
	if !isToken(name) {
		panic(fmt.Sprintf("keyfunc: Cookie: %q is not the name of a cookie", name))
	}
	prefix := keyPrefix("cookie", name)
	missing := &NoKeyError{Detail: "no value in the cookie " + name}
	repeated := unusable("the cookie " + name + " occurs more than once")
	return func(_ context.Context, r *http.Request) (string, error) {
		cookies := r.CookiesNamed(name)
		switch {
		case len(cookies) > 1:
			return "", repeated
		case len(cookies) == 0 || cookies[0].Value == "":
			return "", missing
		}
		return prefix + decoded(cookies[0].Value, url.QueryUnescape), nil
	}
}

// BasicAuthUser returns a Func that derives the key from the user name in the "Authorization:
// Basic" header field (RFC 7617): "basic:" and the name. It does not verify the password, and a
// client chooses the name: use BasicAuthUser after a middleware that has verified the password, or
// beside a limit by address (gate.And). Before the verification, the key limits the guesses of one
// user's password.
//
// The error is an [ErrNoToken] if the field is absent or malformed, occurs more than once, or has
// an empty name. If the field begins with Basic, [FirstOf] does not go on, because some frameworks accept
// malformed credentials. A gate then responds with 401 and "WWW-Authenticate: Bearer", for which browsers
// do not ask for a password. For another challenge, set that field of the response in a middleware
// around the gate, which keeps it:
//
//	w.Header().Set("WWW-Authenticate", `Basic realm="shop", charset="UTF-8"`)
func BasicAuthUser() Func {
	return func(_ context.Context, r *http.Request) (string, error) {
		if len(r.Header["Authorization"]) > 1 {
			return "", errSeveral
		}
		name, _, ok := r.BasicAuth()
		switch field := r.Header.Get("Authorization"); {
		case ok && name != "":
			return "basic:" + name, nil
		case len(field) >= len("Basic") && strings.EqualFold(field[:len("Basic")], "Basic"):
			return "", errBadCredentials
		}
		return "", errNoCredentials
	}
}

// PathValue returns a Func that derives the key from the wildcard called name of the route of a
// request: "path:", the name, a colon and the value. A client chooses the value, so PathValue limits
// the requests for one resource, such as a tenant, and not those of one client.
//
// The value is that of r.PathValue, which a [http.ServeMux] sets for the handlers of its routes, or
// of the method Param(string) string of ctx, as in Gin and Echo. The gate must be inside the route,
// and not around the router. Routers that set neither need a Func of their own. Escapes in the value are
// decoded as by [url.PathUnescape], if all of them are valid: chi and Echo leave them, so handlers may decode
// the value, and %61cme and acme have one key. The error is a [NoKeyError] if there is no value, or if
// r.PathValue and Param have different values.
//
// PathValue panics if name is empty.
func PathValue(name string) Func {
	if name == "" {
		panic("keyfunc: PathValue: the name is empty")
	}
	prefix := keyPrefix("path", name)
	missing := &NoKeyError{Detail: fmt.Sprintf("no value for %q in the path", name)}
	differ := unusable(fmt.Sprintf("two values for %q in the path", name))
	return func(ctx context.Context, r *http.Request) (string, error) {
		value := decoded(r.PathValue(name), url.PathUnescape)
		if p, ok := ctx.(interface{ Param(name string) string }); ok {
			param := decoded(p.Param(name), url.PathUnescape)
			if value != "" && param != "" && param != value {
				return "", differ
			}
			value = cmp.Or(value, param)
		}
		if value == "" {
			return "", missing
		}
		return prefix + value, nil
	}
}

// decoded returns text with its escapes decoded, or as it is if one of them is not valid.
func decoded(text string, unescape func(string) (string, error)) string {
	if plain, err := unescape(text); err == nil {
		return plain
	}
	return text
}

// keyPrefix returns the beginning of the keys of a function: its word, a colon, the name of the
// value, in which % and colons are escaped, and a colon. Different words or names have different
// prefixes, none of which is the beginning of another.
func keyPrefix(word, name string) string {
	return word + ":" + strings.NewReplacer("%", "%25", ":", "%3A").Replace(name) + ":"
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2, such as the name of a header
// field or cookie.
func isToken(s string) bool { return s != "" && strings.Trim(s, tokenChars) == "" }
