package keyfunc

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxIdentity bounds the bytes of an issuer and of a subject. OpenID Connect
// allows 255 characters for a subject.
const maxIdentity = 512

var (
	errNoSubject   = &tokenError{reason: "no subject"}
	errLongSubject = &tokenError{reason: "subject or issuer too long"}
	errBadIssuer   = &tokenError{reason: "issuer is not a string"}
	errBadSubject  = &tokenError{reason: "subject or issuer is not valid text"}
)

// userKey is the key of a subject. The same sub from two issuers is two users,
// and the length keeps an issuer from reaching into the subject.
func userKey(iss, sub string) (string, error) {
	if len(iss) > maxIdentity || len(sub) > maxIdentity {
		return "", errLongSubject
	}
	if strings.TrimSpace(sub) == "" {
		return "", errNoSubject
	}
	if iss == "" {
		return "user:" + sub, nil
	}
	return "user@" + strconv.Itoa(len(iss)) + ":" + iss + ":" + sub, nil
}

// claimedKey is userKey for strings that come from JSON. Decoders put U+FFFD
// in place of what is not text, which makes one subject of many.
func claimedKey(iss, sub string) (string, error) {
	if strings.ContainsRune(iss, utf8.RuneError) || strings.ContainsRune(sub, utf8.RuneError) {
		return "", errBadSubject
	}
	return userKey(iss, sub)
}
