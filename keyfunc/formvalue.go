package keyfunc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

// maxPairs is the largest number of pairs that url.ParseQuery accepts.
const maxPairs = 10000

var (
	errNoForm   = &NoKeyError{Detail: "the body is not a form"}
	errBadForm  = unusable("the body is not a valid form")
	errBadQuery = unusable("the query of the URL is not valid")
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
//   - the method is not POST, PUT or PATCH, or the Content-Type is neither
//     application/x-www-form-urlencoded nor multipart/form-data, or occurs twice
//   - the body has a Content-Encoding or is longer than 64 KiB, with all its fields and files
//   - any part of the form or of the query of the URL is malformed, such as a semicolon or "%zz"
//   - the field is absent, is empty, is a file or has several values
//   - the query of the URL has a parameter with this name, which r.FormValue might return
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
	prefix := keyPrefix("body", name)
	missing := &NoKeyError{Detail: fmt.Sprintf("no value in the form field %q", name)}
	repeated := unusable(fmt.Sprintf("more than one value for the form field %q", name))
	inQuery := unusable(fmt.Sprintf("the form field %q is in the URL", name))
	return func(_ context.Context, r *http.Request) (string, error) {
		switch found, ok := inURL(r, name, equal); {
		case !ok:
			return "", errBadQuery
		case found:
			return "", inQuery
		case r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodPatch:
			return "", errNoForm
		}
		values, err := formValues(r, name)
		switch {
		case err != nil:
			return "", err
		case values.n > 1 || r.Form != nil && (len(r.Form[name]) != values.n || values.n == 1 && r.Form[name][0] != values.last):
			return "", repeated
		case values.last == "":
			return "", missing
		}
		return prefix + values.last, nil
	}
}

// fieldValues are the values of one field of a form.
type fieldValues struct {
	n    int
	last string
}

func (v *fieldValues) add(value string) { v.n, v.last = v.n+1, value }

// formValues returns the values of a field in the body of r.
func formValues(r *http.Request, name string) (v fieldValues, err error) {
	if r.PostForm != nil {
		for _, value := range r.PostForm[name] {
			v.add(value)
		}
		return v, nil
	}
	mediaType, params, ok := contentType(r)
	boundary := params["boundary"]
	switch {
	case !ok || mediaType == "multipart/form-data" && boundary == "":
		return v, errType
	case mediaType != "application/x-www-form-urlencoded" && mediaType != "multipart/form-data":
		return v, errNoForm
	}
	data, err := readBody(r)
	if err != nil {
		return v, err
	}
	if mediaType == "multipart/form-data" {
		v, ok = multipartValues(data, boundary, name)
	} else {
		v, ok = encodedValues(string(data), name, equal)
	}
	if !ok {
		return fieldValues{}, errBadForm
	}
	return v, nil
}

// inURL reports whether the query of the URL has a field whose key same finds equal to name. ok is false if
// the query is malformed.
func inURL(r *http.Request, name string, same func(key, name string) bool) (found, ok bool) {
	if r.URL == nil || r.URL.RawQuery == "" {
		return false, true
	}
	v, ok := encodedValues(r.URL.RawQuery, name, same)
	return v.n > 0, ok
}

func equal(a, b string) bool { return a == b }

// encodedValues returns the values of a field in s, a query or a form in the same format. same compares
// its key with name. ok is false if url.ParseQuery returns an error. Unlike ParseQuery, it does not store the other fields.
func encodedValues(s, name string, same func(key, name string) bool) (v fieldValues, ok bool) {
	if strings.Count(s, "&") >= maxPairs {
		return v, false
	}
	for s != "" {
		var pair string
		pair, s, _ = strings.Cut(s, "&")
		if pair == "" {
			continue
		}
		if strings.Contains(pair, ";") {
			return fieldValues{}, false
		}
		key, value, _ := strings.Cut(pair, "=")
		key, err1 := url.QueryUnescape(key)
		value, err2 := url.QueryUnescape(value)
		if err1 != nil || err2 != nil {
			return fieldValues{}, false
		}
		if same(key, name) {
			v.add(value)
		}
	}
	return v, true
}

// multipartValues returns the values of a field in data, the body of a multipart form. ok is false
// if the form is malformed, or if the field is a file.
func multipartValues(data []byte, boundary, name string) (v fieldValues, ok bool) {
	parts := multipart.NewReader(bytes.NewReader(data), boundary)
	for {
		part, err := parts.NextPart()
		if err == io.EOF { // a wrapped EOF means that the last boundary is missing
			return v, true
		}
		if err != nil {
			return fieldValues{}, false
		}
		if part.FormName() != name {
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil || part.FileName() != "" {
			return fieldValues{}, false
		}
		v.add(string(value))
	}
}
