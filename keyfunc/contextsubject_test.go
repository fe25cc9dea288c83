package keyfunc_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

type (
	subjectKey struct{}
	userID     string
	// appClaims is what applications embed the registered claims for.
	appClaims struct {
		Role string `json:"role"`
		jwt.RegisteredClaims
	}
	// frameworkContext answers as a *gin.Context does: string keys are its own.
	frameworkContext struct {
		context.Context
		values map[string]any
	}
)

func (c frameworkContext) Value(key any) any {
	if name, ok := key.(string); ok {
		if v, ok := c.values[name]; ok {
			return v
		}
	}
	return c.Context.Value(key)
}

func stored(value any) (string, error) {
	return keyfunc.ContextSubject(subjectKey{})(context.WithValue(context.Background(), subjectKey{}, value), request(""))
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
		{"no issuer", jwt.MapClaims{"sub": "alice"}, "user:alice"},
		{"empty issuer", jwt.MapClaims{"iss": "", "sub": "alice"}, "user:alice"},
		{"string", "alice", "user:alice"},
		{"type of kind string", userID("alice"), "user:alice"},
		{"any bytes", "a\xff:\x00", "user:a\xff:\x00"},
		{"exact case", jwt.MapClaims{"sub": "a", "SUB": "victim"}, "user:a"},
		{"512 bytes", strings.Repeat("s", 512), "user:" + strings.Repeat("s", 512)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := stored(c.value); err != nil || got != c.want {
				t.Errorf("key = %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestContextSubjectRefuses(t *testing.T) {
	alice := jwt.MapClaims{"sub": "alice"}
	for name, value := range map[string]any{
		"nothing":                nil,
		"unverified token":       &jwt.Token{Claims: alice},
		"nil token":              (*jwt.Token)(nil),
		"token without claims":   &jwt.Token{Valid: true},
		"token with nil claims":  &jwt.Token{Valid: true, Claims: (*appClaims)(nil)},
		"nil claims":             (*appClaims)(nil),
		"nil map":                map[string]any(nil),
		"nil map claims":         jwt.MapClaims(nil),
		"no sub":                 jwt.MapClaims{"iss": "i"},
		"null sub":               jwt.MapClaims{"sub": nil},
		"number":                 jwt.MapClaims{"sub": 7.0},
		"sub in another case":    jwt.MapClaims{"SUB": "alice"},
		"empty sub":              jwt.MapClaims{"sub": ""},
		"blank sub":              jwt.MapClaims{"sub": " \t\u00a0"},
		"issuer that is none":    jwt.MapClaims{"sub": "alice", "iss": 7.0},
		"damaged sub":            jwt.MapClaims{"sub": "a\ufffd"},
		"damaged iss":            jwt.MapClaims{"sub": "a", "iss": "\xff"},
		"empty string":           "",
		"blank string":           "  ",
		"long sub":               strings.Repeat("s", 513),
		"long iss":               jwt.MapClaims{"sub": "a", "iss": strings.Repeat("i", 513)},
		"a number":               42,
		"bytes":                  []byte("alice"),
		"a value that is no key": struct{ Name string }{"alice"},
		"a token by value":       jwt.Token{Valid: true, Claims: alice},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := stored(value)
			if key != "" || !errors.Is(err, keyfunc.ErrNoToken) || !errors.Is(err, keyfunc.ErrNoKey) {
				t.Fatalf("key = %q, %v; want ErrNoToken", key, err)
			}
			if strings.Contains(err.Error(), "alice") || strings.Contains(err.Error(), "sss") {
				t.Errorf("the error quotes the subject: %v", err)
			}
		})
	}
	if _, err := stored(42); !strings.Contains(err.Error(), "int") {
		t.Errorf("error %q does not name the type", err)
	}
}

func TestContextSubjectLooksInBothContexts(t *testing.T) {
	r := request("")
	r = r.WithContext(context.WithValue(r.Context(), subjectKey{}, "from the request"))
	f := keyfunc.ContextSubject(subjectKey{})
	other := context.WithValue(context.Background(), subjectKey{}, "from the framework")
	for _, c := range []struct {
		ctx  context.Context
		want string
	}{
		{context.Background(), "user:from the request"},
		{r.Context(), "user:from the request"},
		{other, "user:from the framework"},
	} {
		if got, err := f(c.ctx, r); err != nil || got != c.want {
			t.Errorf("key = %q, %v; want %q", got, err, c.want)
		}
	}
	// What the framework holds counts even if it is of no use.
	void := context.WithValue(context.Background(), subjectKey{}, &jwt.Token{})
	if got, err := f(void, r); !errors.Is(err, keyfunc.ErrNoToken) {
		t.Errorf("key = %q, %v; want ErrNoToken", got, err)
	}
	// String keys as frameworks have them.
	ctx := frameworkContext{context.Background(), map[string]any{"sub": "alice"}}
	if got, err := keyfunc.ContextSubject("sub")(ctx, r); err != nil || got != "user:alice" {
		t.Errorf("key = %q, %v", got, err)
	}
}

func TestContextSubjectPanics(t *testing.T) {
	for _, key := range []any{nil, []string{"sub"}, map[string]int{}, struct{ k any }{[]int{1}}} {
		wantPanic(t, "keyfunc: ContextSubject: ", func() { keyfunc.ContextSubject(key) })
	}
}
