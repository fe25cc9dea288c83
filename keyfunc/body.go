package keyfunc

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/weir-go/weir/internal/requestbody"
)

// FormValue returns a Func that derives the key from the field called name of the form in the body,
// such as the user of a login: "body:", the name, a colon and the value. A client chooses the
// value, so use FormValue beside a limit by address (gate.And). For names that the application
// looks up without regard to case, use [Fold]. The key is that of [JSONField] for the same value.
//
//	user := keyfunc.Fold(keyfunc.FormValue("user"))
//
// The key is the value that r.FormValue, r.PostFormValue, c.PostForm of Gin and c.FormValue of Echo
// return, or the request has no key. The error is a [NoKeyError] if
//
//   - the Content-Type is neither multipart/form-data, nor application/x-www-form-urlencoded with the
//     method POST, PUT or PATCH, or occurs twice
//   - the body has a Content-Encoding, which Decompress of Echo leaves behind (delete it there), or is longer than
//     64 KiB, with all its fields and files, or was read before by code that has not parsed the form
//   - any part of the form or of the query of the URL is malformed, such as a semicolon or "%zz"
//   - the body begins with a brace: a handler that ignores the Content-Type would read it as JSON
//   - the field is absent, is empty, is a file or has several values
//   - the query of the URL has a parameter with this name, which r.FormValue might return
//
// errors.As finds an [*http.MaxBytesError] in the error of a long body, and the error of the reader of a body
// that cannot be read. [FirstOf] goes on only if no value can be found by a handler that reads JSON, or that
// chooses a decoder by the Content-Type as net/http, Gin and Echo do.
//
// FormValue reads the body before the limit is decided, so set the timeouts of the [http.Server].
// The handler can read the body as if nothing had happened, with limits of its own. If a middleware
// has parsed the form already, FormValue uses r.PostForm.
//
// FormValue panics if name is empty.
func FormValue(name string) Func {
	if name == "" {
		panic("keyfunc: FormValue: the name is empty")
	}
	find := func(ctx context.Context, r *http.Request) (requestbody.Field, error) {
		return requestbody.Form(ctx, r, name)
	}
	return bodyField(name, find, fieldDetails{
		missing:  "no value in the form field %q",
		inQuery:  "the form field %q is in the URL",
		repeated: "more than one value for the form field %q",
		unused:   "the form field %q is written in another case",
	})
}

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
	object, ok := requestbody.ObjectWith(name)
	if !ok {
		panic(fmt.Sprintf("keyfunc: JSONField: no field of a struct can be called %q in JSON", name))
	}
	return bodyField(name, object.Read, fieldDetails{
		missing:  "no value in the JSON field %q",
		inQuery:  "the field %q is in the URL",
		repeated: "the JSON field %q occurs more than once",
		unused:   "no text or integer in the JSON field %q",
	})
}

// fieldDetails are the texts of the NoKeyErrors about a field, with %q for its name.
type fieldDetails struct{ missing, inQuery, repeated, unused string }

// bodyField returns a Func that derives the key from the field called name, which find finds in the body.
func bodyField(name string, find func(context.Context, *http.Request) (requestbody.Field, error), d fieldDetails) Func {
	prefix := keyPrefix("body", name)
	absent := &NoKeyError{Detail: fmt.Sprintf(d.missing, name)}
	missing := absent.about(readBody)
	inQuery := unusable(fmt.Sprintf(d.inQuery, name))
	repeated := unusable(fmt.Sprintf(d.repeated, name))
	unused := unusable(fmt.Sprintf(d.unused, name))
	return func(ctx context.Context, r *http.Request) (string, error) {
		switch found, err := requestbody.InQuery(r, name); { // a handler that binds a form or a query would use it
		case err != nil:
			return "", bodyError(err)
		case found:
			return "", inQuery
		}
		switch field, err := find(ctx, r); {
		case err != nil:
			return "", bodyError(err)
		case field.Repeated:
			return "", repeated
		case field.Value != "":
			return prefix + field.Value, nil
		case field.Unused:
			return "", unused
		case field.Read:
			return "", missing
		}
		return "", absent
	}
}

// bodyError returns the NoKeyError for err, an error of package requestbody.
func bodyError(err error) *NoKeyError {
	e := err.(*requestbody.Error)
	use := noBody
	if e.Unread {
		use = unreadBody
	}
	return &NoKeyError{Detail: e.Detail, unusable: !e.Unread, body: use, cause: e.Unwrap()}
}
