package keyfunc

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// maxIdentity bounds the bytes of an issuer and of a subject. OpenID Connect
	// allows 255 characters for a subject.
	maxIdentity = 512

	// maxNumericDate is the end of the year 9999. Greater dates are mistakes or
	// attacks (milliseconds, 1e300), and do not survive the conversion to a
	// time.Time on every platform.
	maxNumericDate = 253402300799
)

var (
	errMalformed   = &tokenError{reason: "malformed"}
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

// claimsKey is userKey for the iss and sub of c, which come from JSON. Decoders put
// U+FFFD in place of bytes that are not text, which makes one subject of many.
func claimsKey(c jwt.Claims) (string, error) {
	sub, err := c.GetSubject()
	if err != nil {
		return "", &tokenError{reason: errNoSubject.reason, cause: err}
	}
	iss, err := c.GetIssuer()
	if err != nil {
		return "", &tokenError{reason: errBadIssuer.reason, cause: err}
	}
	if strings.ContainsRune(iss, utf8.RuneError) || strings.ContainsRune(sub, utf8.RuneError) {
		return "", errBadSubject
	}
	return userKey(iss, sub)
}

// claimedDate returns a NumericDate (RFC 7519 section 2), rounded down to whole
// seconds. It returns false for a claim that is absent or no such date.
func claimedDate(c jwt.MapClaims, name string) (time.Time, bool) {
	seconds, ok := c[name].(float64)
	if !ok || math.Signbit(seconds) || seconds > maxNumericDate {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}

// checkObject returns an error if data is not UTF-8, not a JSON object or has repeated
// names (RFC 7515 and RFC 7519, section 4 of each): two parsers may believe two
// different members of one name. Text after the object is left to package jwt.
func checkObject(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') || !utf8.Valid(data) {
		return errMalformed
	}
	names := make(map[json.Token]bool, 8)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return errMalformed
		}
		if names[name] {
			return &tokenError{reason: "repeated member"}
		}
		names[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return errMalformed
		}
	}
	return nil
}
