package keyfunc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	errNotJSON  = (&NoKeyError{Detail: "the Content-Type of the body is not JSON"}).about(unreadBody)
	errNoObject = unusable("the body is not one JSON object")

	// Causes of errNoObject.
	errNotUTF8 = errors.New("invalid UTF-8")
	errNull    = errors.New("null is no object")
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
//   - the Content-Type is neither absent nor application/json, text/json or one such as
//     application/problem+json, or occurs twice
//   - the body has a Content-Encoding, which Decompress of Echo leaves behind (delete it there), is longer than
//     64 KiB, or was read before
//   - the body is anything but one JSON object in UTF-8 that encoding/json accepts
//   - the field is absent or occurs twice, or the query of the URL has a parameter with this name or is
//     malformed: a handler that binds forms and queries, too, might use that parameter
//   - the value is neither a string nor an integer (1.0, 1e3 and -0 are no integers), is empty, or
//     contains U+FFFD, the sign of an invalid escape
//
// errors.As finds an [*http.MaxBytesError] in the error of a long body, and the error of the reader of a body
// that cannot be read. [FirstOf] goes on only if no value can be found by a handler that reads JSON, or that
// chooses a decoder by the Content-Type as net/http, Gin and Echo do.
//
// A handler must not decode integers above 2^53 into a float64 or any, which rounds them: a client
// could then use several keys for one value. The same is true of fields with the option "string" of
// encoding/json: "7" and "007" are two keys for one integer.
//
// JSONField reads the body before the limit is decided, so set the timeouts of the [http.Server].
// The handler can read the body as if nothing had happened.
//
// JSONField panics if name cannot be in the json tag of a field of a struct: it consists of letters, digits,
// spaces and the characters !#$%&()*+-./:;<=>?@[]^_{|}~ of ASCII.
func JSONField(name string) Func {
	if name == "" {
		panic("keyfunc: JSONField: the name is empty")
	}
	if strings.ContainsRune(name, utf8.RuneError) {
		panic(fmt.Sprintf("keyfunc: JSONField: %q is not valid text", name))
	}
	object := objectWith(name)
	prefix := keyPrefix("body", name)
	missing := &NoKeyError{Detail: fmt.Sprintf("no value in the JSON field %q", name)}
	otherType := unusable(fmt.Sprintf("no text or integer in the JSON field %q", name))
	inQuery := unusable(fmt.Sprintf("the field %q is in the URL", name))
	repeated := unusable(fmt.Sprintf("the JSON field %q occurs more than once", name))
	return func(ctx context.Context, r *http.Request) (string, error) {
		switch found, err := inURL(r, name); { // a handler that binds a form or a query would use it
		case err != nil:
			return "", err
		case found:
			return "", inQuery
		}
		if !hasBody(ctx, r) {
			return "", missing
		}
		mediaType, _, err := contentType(r)
		switch {
		case err != nil:
			return "", err
		case !isJSON(mediaType):
			return "", errNotJSON
		}
		data, err := bytesOf(ctx, r)
		if err != nil {
			return "", err
		}
		m, err := members(data, object)
		switch {
		case err != nil:
			return "", errNoObject.with(err)
		case m.n > 1:
			return "", repeated
		}
		switch text := identifier(m.last); {
		case text != "":
			return prefix + text, nil
		case m.n == 0 || string(m.last) == "null" || string(m.last) == `""`:
			return "", missing.about(readBody)
		}
		return "", otherType
	}
}

// isJSON reports whether a handler that chooses a decoder by the media type would choose JSON.
// Another decoder could find another value in the same bytes: Echo reads application/xml+json as XML.
func isJSON(mediaType string) bool {
	switch mediaType {
	case "", "application/json", "text/json":
		return true
	}
	return strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json") && !strings.HasPrefix(mediaType, "application/xml")
}

// jsonMembers are the members of an object that encoding/json decodes into one field of a struct.
type jsonMembers struct {
	n    int
	last json.RawMessage
}

// UnmarshalJSON adds a member. encoding/json calls it for each of them.
func (m *jsonMembers) UnmarshalJSON(value []byte) error {
	m.n++
	m.last = append(m.last[:0], value...)
	return nil
}

// objectWith returns the type of a struct whose field is called name. It panics if there is none.
func objectWith(name string) reflect.Type {
	object := reflect.StructOf([]reflect.StructField{{
		Name: "Field", Type: reflect.TypeFor[jsonMembers](), Tag: reflect.StructTag("json:" + strconv.Quote(name+",")),
	}})
	sample, _ := json.Marshal(map[string]int{name: 0})
	if m, err := members(sample, object); err != nil || m.n == 0 {
		panic(fmt.Sprintf("keyfunc: JSONField: no field of a struct can be called %q in JSON", name))
	}
	return object
}

// members returns the members of the object in data for the field of a struct of the type object.
func members(data []byte, object reflect.Type) (m jsonMembers, err error) {
	if !utf8.Valid(data) {
		return m, errNotUTF8
	}
	into := reflect.New(object)
	if err := json.Unmarshal(data, into.Interface()); err != nil {
		return m, err
	}
	if bytes.TrimLeft(data, " \t\r\n")[0] != '{' { // encoding/json accepts null for every type
		return m, errNull
	}
	return into.Elem().Field(0).Interface().(jsonMembers), nil
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
