package token

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// maxIdentity bounds the bytes of an issuer, a subject and the text of any other claim. OpenID
	// Connect allows 255 characters for a subject.
	maxIdentity = 512

	// maxNumericDate is the end of the year 9999. Greater dates are mistakes or attacks
	// (milliseconds, 1e300), and some platforms cannot convert them to a time.Time.
	maxNumericDate = 253402300799
)

var (
	errMalformed   = &Error{reason: "malformed"}
	errNoSubject   = &Error{reason: "no subject"}
	errLongSubject = &Error{reason: "subject or issuer too long"}
	errBadIssuer   = &Error{reason: "issuer is not a string"}
	errBadSubject  = &Error{reason: "subject or issuer is not valid text"}
)

// User returns the iss and sub of c, or an [Error]. It rejects U+FFFD, which JSON decoders put in place of
// invalid bytes, because different subjects could become equal.
func User(c jwt.Claims) (iss, sub string, err error) {
	if sub, err = c.GetSubject(); err != nil {
		return "", "", errNoSubject.with(err)
	}
	if iss, err = c.GetIssuer(); err != nil {
		return "", "", errBadIssuer.with(err)
	}
	if strings.ContainsRune(iss, utf8.RuneError) || strings.ContainsRune(sub, utf8.RuneError) {
		return "", "", errBadSubject
	}
	return iss, sub, CheckUser(iss, sub)
}

// CheckUser returns an [Error] if iss or sub is too long, or sub is blank.
func CheckUser(iss, sub string) error {
	switch {
	case len(iss) > maxIdentity || len(sub) > maxIdentity:
		return errLongSubject
	case strings.TrimSpace(sub) == "":
		return errNoSubject
	}
	return nil
}

// claimedTexts returns the texts of the claims with these names. A text is empty if the claim is
// absent, is not a string, is too long or contains U+FFFD.
func claimedTexts(c jwt.MapClaims, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	texts := make([]string, len(names))
	for i, name := range names {
		if text, _ := c[name].(string); len(text) <= maxIdentity && !strings.ContainsRune(text, utf8.RuneError) {
			texts[i] = text
		}
	}
	return texts
}

// claimedDate returns a NumericDate (RFC 7519 section 2), rounded down to whole
// seconds. It returns false if the claim is absent or not a NumericDate.
func claimedDate(c jwt.MapClaims, name string) (time.Time, bool) {
	seconds, ok := c[name].(float64)
	if !ok || math.Signbit(seconds) || seconds > maxNumericDate {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}

// checkObject returns an error if data is not UTF-8, is not a JSON object or contains a name twice
// (RFC 7515 and RFC 7519, section 4 of each): one parser may take the first member with the name,
// and another parser the second. Package jwt checks the text after the object.
func checkObject(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') || !utf8.Valid(data) {
		return errMalformed.with(err)
	}
	names := make(map[json.Token]bool, 8)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return errMalformed.with(err)
		}
		if names[name] {
			return &Error{reason: "repeated member"}
		}
		names[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return errMalformed.with(err)
		}
	}
	return nil
}
