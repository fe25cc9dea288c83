package keyfunc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

type (
	subjectKey struct{}
	userID     string
	// appClaims embeds the registered claims, like the types of applications.
	appClaims struct {
		Role string `json:"role"`
		jwt.RegisteredClaims
	}
	// frameworkContext has string keys of its own, like a *gin.Context.
	frameworkContext struct {
		context.Context
		values map[string]any
	}
)

func (c frameworkContext) Value(key any) any {
	name, _ := key.(string)
	return c.values[name]
}

var subject = keyfunc.ContextSubject(subjectKey{})

// storing returns a request with value in its context, as stored by a middleware.
func storing(t *testing.T, value any) *http.Request {
	return request("").WithContext(context.WithValue(t.Context(), subjectKey{}, value))
}

func TestContextSubject(t *testing.T) {
	registered := jwt.RegisteredClaims{Issuer: "https://id.example.com", Subject: "alice"}
	mapped := jwt.MapClaims{"iss": "https://id.example.com", "sub": "alice"}
	const want = "user@22:https://id.example.com:alice"
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"token of map claims", &jwt.Token{Valid: true, Claims: mapped}, want},
		{"token of registered claims", &jwt.Token{Valid: true, Claims: registered}, want},
		{"token of own claims", &jwt.Token{Valid: true, Claims: &appClaims{RegisteredClaims: registered}}, want},
		{"map claims", mapped, want},
		{"registered claims", registered, want},
		{"pointer to registered claims", &registered, want},
		{"own claims", appClaims{RegisteredClaims: registered}, want},
		{"pointer to own claims", &appClaims{RegisteredClaims: registered}, want},
		{"plain map", map[string]any(mapped), want},
		{"string", "alice", "user:alice"},
		{"type of kind string", userID("alice"), "user:alice"},
		{"any bytes", "a\xff:\x00", "user:a\xff:\x00"},
		{"512 bytes", strings.Repeat("s", 512), "user:" + strings.Repeat("s", 512)},
	} {
		t.Run(c.name, func(t *testing.T) { wantKey(t, subject, storing(t, c.value), c.want) })
	}
}

func TestContextSubject_Rejected(t *testing.T) {
	alice := jwt.MapClaims{"sub": "alice"}
	const nothing, unverified = "nothing stored in the context", "the stored one is not verified"
	for _, c := range []struct {
		name   string
		value  any
		reason string
	}{
		{"nothing", nil, nothing},
		{"nil token", (*jwt.Token)(nil), nothing},
		{"nil claims", (*appClaims)(nil), nothing},
		{"token without claims", &jwt.Token{Valid: true}, nothing},
		{"token with nil claims", &jwt.Token{Valid: true, Claims: (*appClaims)(nil)}, nothing},
		{"unverified token", &jwt.Token{Claims: alice}, unverified},
		{"nil map", map[string]any(nil), "no subject"},
		{"nil map claims", jwt.MapClaims(nil), "no subject"},
		{"empty string", "", "no subject"},
		{"blank string", "  ", "no subject"},
		{"long string", strings.Repeat("s", 513), "subject or issuer too long"},
		{"a number", 42, "the context holds a int"},
		{"bytes", []byte("alice"), "the context holds a []uint8"},
		{"a value that is no key", struct{ Name string }{"alice"}, "the context holds a struct { Name string }"},
		{"a token by value", jwt.Token{Valid: true, Claims: alice}, "the context holds a jwt.Token"},
	} {
		t.Run(c.name, func(t *testing.T) { wantNoToken(t, subject, storing(t, c.value), c.reason) })
	}
}

func TestContextSubject_BothContexts(t *testing.T) {
	r := storing(t, "from the request")
	framework := storing(t, "from the framework").Context()
	unverified := storing(t, &jwt.Token{}).Context() // found before the value of the request, although it is not valid
	for _, c := range []struct {
		ctx  context.Context
		f    keyfunc.Func
		want string
	}{
		{t.Context(), subject, "user:from the request"},
		{r.Context(), subject, "user:from the request"},
		{framework, subject, "user:from the framework"},
		{unverified, subject, ""},
		{frameworkContext{t.Context(), map[string]any{"sub": "alice"}}, keyfunc.ContextSubject("sub"), "user:alice"},
	} {
		if got, err := c.f(c.ctx, r); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("key = %q, %v; want %q", got, err, c.want)
		}
	}
}
