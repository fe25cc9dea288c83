package requestbody

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	errNotJSON  = &Error{Detail: "the Content-Type of the body is not JSON", Unread: true}
	errNoObject = &Error{Detail: "the body is not one JSON object"}

	// Causes of errNoObject.
	errNotUTF8 = errors.New("invalid UTF-8")
	errNull    = errors.New("null is no object")
)

// An Object is the type of a struct with one field, into which encoding/json decodes an object.
type Object struct{ reflect.Type }

// ObjectWith returns the Object whose field is called name. ok is false if there is none.
func ObjectWith(name string) (o Object, ok bool) {
	o = Object{reflect.StructOf([]reflect.StructField{{
		Name: "Field", Type: reflect.TypeFor[jsonMembers](), Tag: reflect.StructTag("json:" + strconv.Quote(name+",")),
	}})}
	sample, _ := json.Marshal(map[string]int{name: 0})
	m, err := o.members(sample)
	return o, err == nil && m.n > 0
}

// Read returns the field of the JSON object in the body of r, of at most 64 KiB. The error is an [Error], also if
// the body is no such object.
func (o Object) Read(ctx context.Context, r *http.Request) (Field, error) {
	if !hasBody(ctx, r) {
		return Field{}, nil
	}
	mediaType, _, err := contentType(r)
	switch {
	case err != nil:
		return Field{}, err
	case !isJSON(mediaType):
		return Field{}, errNotJSON
	}
	data, err := use(ctx, r)
	if err != nil {
		return Field{}, err
	}
	m, err := o.members(data)
	if err != nil {
		return Field{}, errNoObject.with(err)
	}
	absent := m.n == 0 || string(m.last) == "null" || string(m.last) == `""`
	return Field{Value: identifier(m.last), Read: true, Repeated: m.n > 1, Unused: !absent}, nil
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

// members returns the members of the object in data for the field of o.
func (o Object) members(data []byte) (m jsonMembers, err error) {
	if !utf8.Valid(data) {
		return m, errNotUTF8
	}
	into := reflect.New(o.Type)
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
