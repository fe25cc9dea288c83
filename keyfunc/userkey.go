package keyfunc

import (
	"strconv"
	"strings"
)

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
