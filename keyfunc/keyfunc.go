package keyfunc

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

// Func returns the key that a request is charged to. A Func must be safe for concurrent use.
//
// ctx is the context of the framework that serves the request. It may contain more values than
// r.Context(), for example those stored with Set of a *gin.Context. Only [ContextSubject] and
// [PathValue] use ctx.
//
// The key is not empty if the error is nil. The error is [ErrNoKey] if the request does not contain
// the address, token or other value for the key, and [ErrNotLimited] if the limiter does not apply
// to the request. Any other error means that the key could not be determined.
type Func func(ctx context.Context, r *http.Request) (string, error)

// Constant returns a Func with the same key for all requests, for a limit of the whole system. The
// key never equals the key of a user or an address. Constant panics if name is empty.
func Constant(name string) Func {
	if name == "" {
		panic("keyfunc: Constant: the name is empty")
	}
	key := "constant:" + name
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}

// UserKey returns the key of a user: "user:" and the name. It is the key that [ContextSubject] returns
// for a text, and [JWT.Subject] for a token without an iss. For tokens with an iss, use [SubjectKey].
// It never equals the key of an address ([CanonicalIP]) or of another function of this package.
//
// Own key functions return it for a user that they have verified. Operators use it to look up or reset
// the limits of a user, if it is the key that the gate has charged: with [BasicAuthUser] the key is
// "basic:ann", with [FormValue] "body:user:ann" (see the table in the package comment).
//
// The result is "" if name is empty or contains only white space. A gate responds to an empty key
// with 400, so that requests without a user do not share a bucket.
func UserKey(name string) string { return SubjectKey("", name) }

// SubjectKey returns the key of the user with these iss and sub claims, as [JWT.Subject] and
// [ContextSubject] return it. The key is "user@", the length of issuer in bytes, a colon, issuer, a
// colon and subject, or the [UserKey] of subject if issuer is empty. The result is "" if subject is
// empty or contains only white space.
func SubjectKey(issuer, subject string) string {
	if strings.TrimSpace(subject) == "" {
		return ""
	}
	if issuer == "" {
		return "user:" + subject
	}
	return "user@" + strconv.Itoa(len(issuer)) + ":" + issuer + ":" + subject
}
