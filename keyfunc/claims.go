package keyfunc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

// maxNumericDate is the end of the year 9999. Greater dates are mistakes or
// attacks (milliseconds, 1e300), and do not survive the conversion to a
// time.Time on every platform.
const maxNumericDate = 253402300799

var errMalformed = &tokenError{reason: "malformed"}

// claims is what identifies the user, and until when.
type claims struct {
	iss, sub string
	exp      time.Time
}

// parseClaims reads the claims that a key depends on, by their exact names:
// encoding/json would take "SUB" for "sub" when decoding into a struct.
func parseClaims(payload []byte) (claims, error) {
	members, err := parseObject(payload)
	if err != nil {
		return claims{}, err
	}
	var c claims
	var ok bool
	if c.sub, ok = parseString(members["sub"]); !ok {
		return claims{}, errNoSubject
	}
	if raw, there := members["iss"]; there {
		if c.iss, ok = parseString(raw); !ok {
			return claims{}, errBadIssuer
		}
	}
	exp, ok := parseNumericDate(members["exp"])
	if !ok || exp == 0 {
		return claims{}, &tokenError{reason: "no usable expiry"}
	}
	c.exp = time.Unix(exp, 0)
	if raw, there := members["nbf"]; there {
		if _, ok := parseNumericDate(raw); !ok {
			return claims{}, &tokenError{reason: "no usable not-before time"}
		}
	}
	return c, nil
}

// parseObject splits a JSON object into its members. It refuses what is not
// UTF-8, and repeated names (RFC 7515 and RFC 7519, section 4 of each): two
// parsers may believe two different ones.
func parseObject(data []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, errMalformed
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errMalformed
	}
	members := make(map[string]json.RawMessage, 8)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, errMalformed
		}
		name, _ := token.(string) // the decoder lets nothing else through here
		if _, there := members[name]; there {
			return nil, &tokenError{reason: "repeated member"}
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errMalformed
		}
		members[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, errMalformed
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errMalformed
	}
	return members, nil
}

// parseString returns false for what is not there and what is not a string,
// null included.
func parseString(raw json.RawMessage) (string, bool) {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", false
	}
	return *s, true
}

// parseNumericDate returns whole seconds since the Unix epoch (RFC 7519
// section 2), rounded down.
func parseNumericDate(raw json.RawMessage) (int64, bool) {
	// ParseFloat takes more than JSON has (hexadecimal, "inf"), but every value
	// that begins like a number has been through a JSON decoder.
	if len(raw) == 0 || raw[0] < '0' || raw[0] > '9' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f > maxNumericDate {
		return 0, false
	}
	return int64(f), true
}
