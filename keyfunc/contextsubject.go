package keyfunc

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc/internal/token"
)

var (
	errNothingStored = &tokenError{reason: "nothing stored in the context"}
	errUnverified    = &tokenError{reason: "the stored one is not verified"}
)

// ContextSubject returns a Func that derives the key from the user that an authentication
// middleware has verified and stored in the context under key. The Func looks in ctx, the context
// of the framework (c.Set of Gin and Echo), and then in r.Context(). It verifies nothing itself, so
// the middleware must run before the limiter.
//
// The stored value may be:
//
//   - a *jwt.Token, which must be Valid
//   - any jwt.Claims: jwt.MapClaims, jwt.RegisteredClaims, *T if T embeds jwt.RegisteredClaims
//   - a map[string]any with the claims
//   - a string, or a type whose kind is string: the subject, with no issuer
//
// The key is the one that [JWTSubject] returns for the same iss and sub, with the same maximum
// lengths. The error is [ErrNoToken] if no value is stored, the token is not Valid, there is no
// subject, or the value has another type, which the error names.
//
// ContextSubject panics if key is nil or cannot be compared.
func ContextSubject(key any) Func {
	if key == nil || !reflect.ValueOf(key).Comparable() {
		panic(fmt.Sprintf("keyfunc: ContextSubject: a key of type %T cannot be looked up", key))
	}
	return func(ctx context.Context, r *http.Request) (string, error) {
		value := ctx.Value(key)
		if value == nil {
			value = r.Context().Value(key)
		}
		return storedKey(value)
	}
}

// storedKey returns the key of a value that a middleware has stored.
func storedKey(value any) (string, error) {
	// A nil pointer in an interface would make the methods of claims panic.
	v := reflect.ValueOf(value)
	if value == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return "", errNothingStored
	}
	switch value := value.(type) {
	case *jwt.Token:
		if !value.Valid {
			return "", errUnverified
		}
		return storedKey(value.Claims)
	case jwt.Claims:
		return userKey(token.User(value))
	case map[string]any:
		return userKey(token.User(jwt.MapClaims(value)))
	}
	if v.Kind() == reflect.String {
		return userKey("", v.String(), token.CheckUser("", v.String()))
	}
	return "", &tokenError{reason: fmt.Sprintf("the context holds a %T", value)}
}
