package keyfunc_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

// JWTSubject and ContextSubject return the same key for the same claims.
func TestClaims_Key(t *testing.T) {
	for _, c := range []struct{ name, members, want string }{
		{"subject", `"sub":"alice"`, "user:alice"},
		{"subject and issuer", `"sub":"alice","iss":"https://id.example.com"`, "user@22:https://id.example.com:alice"},
		{"empty issuer", `"sub":"alice","iss":""`, "user:alice"},
		{"exact case", `"sub":"a","SUB":"victim","Sub":"victim","ISS":"other"`, "user:a"},
		{"exact case, other order", `"SUB":"victim","sub":"a"`, "user:a"},
		{"escapes", `"s\u0075b":"\u0061lice"`, "user:alice"},
		{"spaces", `"sub":" alice "`, "user: alice "},
		{"colons in the subject", `"sub":"b:c","iss":"a"`, "user@1:a:b:c"},
		{"colons in the issuer", `"sub":"c","iss":"a:b"`, "user@3:a:b:c"},
		{"NUL and braces", `"sub":"\u0000{}"`, "user:\x00{}"},
		{"beyond ASCII", `"sub":"é","iss":"日本"`, "user@6:日本:é"},
		{"repeated members in others", `"sub":"alice","nested":{"sub":"victim","sub":"victim"},"list":[{"sub":1}]`, "user:alice"},
		{"512 bytes", `"sub":"` + strings.Repeat("s", 512) + `"`, "user:" + strings.Repeat("s", 512)},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantKey(t, userFunc(), bearer(token(c.members)), c.want)
			wantKey(t, userFunc(keyfunc.Cache(1)), bearer(token(c.members)), c.want)
			wantKey(t, subject, storing(t, mapClaims(t, c.members)), c.want)
		})
	}
	for reason, claims := range map[string][]string{
		"no subject": {
			``, `"iss":"i"`, `"sub":null`, `"sub":7`, `"sub":true`, `"sub":["alice"]`, `"sub":{"sub":"alice"}`,
			`"sub":""`, `"sub":" \t\u00a0"`, `"SUB":"alice"`,
		},
		"issuer is not a string":              {`"sub":"alice","iss":null`, `"sub":"alice","iss":7`, `"sub":"alice","iss":["i"]`},
		"subject or issuer is not valid text": {`"sub":"\ud800"`, `"sub":"a\ufffd"`, `"sub":"alice","iss":"\udfff"`},
		"subject or issuer too long": {
			`"sub":"` + strings.Repeat("s", 513) + `"`, `"sub":"alice","iss":"` + strings.Repeat("i", 513) + `"`,
		},
	} {
		for _, members := range claims {
			t.Run(members, func(t *testing.T) {
				wantNoToken(t, userFunc(), bearer(token(members)), reason)
				wantNoToken(t, subject, storing(t, mapClaims(t, members)), reason)
			})
		}
	}
}

// mapClaims are the claims in members.
func mapClaims(t *testing.T, members string) jwt.MapClaims {
	t.Helper()
	claims := jwt.MapClaims{}
	if err := json.Unmarshal([]byte("{"+members+"}"), &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}
