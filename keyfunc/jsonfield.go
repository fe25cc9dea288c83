package keyfunc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

var (
	errNotJSON  = &NoKeyError{Detail: "the Content-Type of the body is not JSON"}
	errNoObject = unusable("the body is not one JSON object")
)

// JSONField returns a Func that derives the key from the field called name of the JSON object in
// the body, such as the user of a login: "body:", the name, a colon and the value, a string or an
// integer of any size. A client chooses the value, so use JSONField beside a limit by address
// (gate.And). For names that the application looks up without regard to case, use [Fold]. The key
// is that of [FormValue] for the same value: FirstOf(FormValue("user"), JSONField("user")) counts
// the logins of a user together, whichever encoding they have.
//
// Only the top level of the object counts. As in encoding/json, the case of the name does not
// matter, so that {"user":"x","USER":"victim"} contains the field twice. The key is the value that
// encoding/json decodes into a field of a struct, or the request has no key. The error is a
// [NoKeyError] if
//
//   - the Content-Type is neither absent nor application/json, text/json or one that ends with
//     +json, or occurs twice
//   - the body has a Content-Encoding or is longer than 64 KiB
//   - the body is anything but one JSON object in UTF-8 that encoding/json accepts
//   - the field is absent or occurs twice, or the query of the URL has a parameter with this name or is
//     malformed: a handler that binds forms and queries, too, might use that parameter
//   - the value is neither a string nor an integer (1.0, 1e3 and -0 are no integers), is empty, or
//     contains U+FFFD, the sign of an invalid escape
//
// A handler must not decode integers above 2^53 into a float64 or any, which rounds them: a client
// could then use several keys for one value. The same is true of fields with the option "string" of
// encoding/json: "7" and "007" are two keys for one integer.
//
// A handler must decode JSON only if the Content-Type is JSON. One that always does would read another
// value than FirstOf(FormValue("user"), JSONField("user")) from a body that is valid in both formats.
//
// JSONField reads the body before the limit is decided, so set the timeouts of the [http.Server].
// The handler can read the body as if nothing had happened.
//
// JSONField panics if name is empty, is not UTF-8 or contains U+FFFD.
func JSONField(name string) Func {
	if name == "" {
		panic("keyfunc: JSONField: the name is empty")
	}
	if strings.ContainsRune(name, utf8.RuneError) {
		panic(fmt.Sprintf("keyfunc: JSONField: %q is not valid text", name))
	}
	prefix := keyPrefix("body", name)
	missing := &NoKeyError{Detail: fmt.Sprintf("no value in the JSON field %q", name)}
	otherType := unusable(fmt.Sprintf("no text or integer in the JSON field %q", name))
	inQuery := unusable(fmt.Sprintf("the field %q is in the URL", name))
	repeated := unusable(fmt.Sprintf("the JSON field %q occurs more than once", name))
	return func(_ context.Context, r *http.Request) (string, error) {
		switch found, ok := inURL(r, name, strings.EqualFold); { // a handler that binds a form or a query would use it
		case !ok:
			return "", errBadQuery
		case found:
			return "", inQuery
		}
		mediaType, _, ok := contentType(r)
		switch {
		case !ok:
			return "", errType
		case !isJSON(mediaType):
			return "", errNotJSON
		}
		data, err := readBody(r)
		if err != nil {
			return "", err
		}
		if len(data) == 0 {
			return "", missing
		}
		value, n, ok := member(data, name)
		switch {
		case !ok:
			return "", errNoObject
		case n > 1:
			return "", repeated
		}
		switch text := identifier(value); {
		case text != "":
			return prefix + text, nil
		case n == 0 || string(value) == "null" || string(value) == `""`:
			return "", missing
		}
		return "", otherType
	}
}

// isJSON reports whether a handler that chooses a decoder by the media type would choose JSON.
// Another decoder could find another value in the same bytes.
func isJSON(mediaType string) bool {
	return mediaType == "" || mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

// member returns how many members of the object in data encoding/json would decode into a field
// called name, and the value of the last of them. ok is false if data is not one valid object.
func member(data []byte, name string) (value json.RawMessage, n int, ok bool) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, 0, false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, 0, false
	}
	var other json.RawMessage
	for d.More() {
		token, err := d.Token()
		key, isName := token.(string)
		if err != nil || !isName {
			return nil, 0, false
		}
		target := &other
		if strings.EqualFold(key, name) { // the comparison of encoding/json
			target = &value
			n++
		}
		if err := d.Decode(target); err != nil {
			return nil, 0, false
		}
	}
	return value, n, true
}

// identifier returns the text of a JSON string or integer, or "" for any other value.
func identifier(value json.RawMessage) string {
	if len(value) == 0 {
		return ""
	}
	if value[0] == '"' {
		var text string
		if err := json.Unmarshal(value, &text); err != nil || strings.ContainsRune(text, utf8.RuneError) {
			return ""
		}
		return text
	}
	text := string(value)
	digits := strings.TrimPrefix(text, "-")
	if strings.Trim(digits, "0123456789") != "" || text == "-0" {
		return ""
	}
	return text
}
