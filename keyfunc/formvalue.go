package keyfunc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/requestbody"
)

// maxPairs is the largest number of pairs that url.ParseQuery accepts.
const maxPairs = 10000

var (
	errNoForm   = (&NoKeyError{Detail: "the body is not a form"}).about(unreadBody)
	errBadForm  = unusable("the body is not a valid form")
	errBadQuery = unusable("the query of the URL is not valid")

	// Causes of errBadForm and errBadQuery.
	errManyPairs = errors.New("more than 10000 pairs")
	errSemicolon = errors.New("a semicolon in a pair")
	errFile      = errors.New("the field is a file")
	errObject    = errors.New("a handler might read the body as a JSON object")
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
	prefix := keyPrefix("body", name)
	missing := &NoKeyError{Detail: fmt.Sprintf("no value in the form field %q", name)}
	repeated := unusable(fmt.Sprintf("more than one value for the form field %q", name))
	inQuery := unusable(fmt.Sprintf("the form field %q is in the URL", name))
	otherCase := unusable(fmt.Sprintf("the form field %q is written in another case", name))
	return func(ctx context.Context, r *http.Request) (string, error) {
		switch found, err := inURL(r, name); {
		case err != nil:
			return "", err
		case found:
			return "", inQuery
		}
		var values fieldValues
		use, err := values.addForm(ctx, r, name)
		switch {
		case err != nil:
			return "", err
		case values.n > 1 || !values.sameForm(r, name):
			return "", repeated
		case values.last != "":
			return prefix + values.last, nil
		case values.folded:
			return "", otherCase
		}
		return "", missing.about(use)
	}
}

// inURL reports whether the query of the URL has a field called name, in any case, because Bind of Echo ignores
// the case.
func inURL(r *http.Request, name string) (found bool, err error) {
	if r.URL == nil {
		return false, nil
	}
	var v fieldValues
	if err := v.addEncoded(r.URL.RawQuery, name); err != nil {
		return false, errBadQuery.with(err)
	}
	return v.n > 0 || v.folded, nil
}

// fieldValues are the values of one field of a form.
type fieldValues struct {
	n      int
	last   string
	folded bool // a field has the name in another case
}

// has reports whether key is the name of the field.
func (v *fieldValues) has(key, name string) bool {
	v.folded = v.folded || key != name && strings.EqualFold(key, name)
	return key == name
}

func (v *fieldValues) add(value string) { v.n, v.last = v.n+1, value }

// sameForm reports whether r.Form has the value of v, or has none because it was not parsed, or only by
// ParseForm, which does not read a multipart form.
func (v *fieldValues) sameForm(r *http.Request, name string) bool {
	switch all := r.Form[name]; {
	case r.Form == nil, len(all) == 0 && r.PostForm != nil && r.MultipartForm == nil && len(r.PostForm[name]) == 0:
		return true
	default:
		return len(all) == v.n && (v.n == 0 || all[0] == v.last)
	}
}

// addForm adds the values of a field in the body of r. The error is a NoKeyError if the body is no form. A
// form that was parsed before is used if nothing is left of the body.
func (v *fieldValues) addForm(ctx context.Context, r *http.Request, name string) (use bodyUse, err error) {
	if !hasBody(ctx, r) {
		return noBody, nil
	}
	mediaType, params, err := contentType(r)
	if err != nil {
		return noBody, err
	}
	encoded := mediaType == "application/x-www-form-urlencoded" && slices.Contains(formMethods, r.Method)
	boundary, isMultipart := params["boundary"], mediaType == "multipart/form-data"
	parsed := encoded && r.PostForm != nil || isMultipart && r.MultipartForm != nil
	if isMultipart && boundary == "" {
		return noBody, errType
	}
	if !encoded && !isMultipart && len(r.PostForm) == 0 {
		return unreadBody, errNoForm
	}
	if parsed && requestbody.IsConsumed(ctx, r, maxBody) {
		if err := v.addParsed(r, name); err != nil {
			return noBody, errBadForm.with(err)
		}
		return readBody, nil
	}
	data, err := bytesOf(ctx, r)
	if err != nil {
		return noBody, err
	}
	switch text := string(data); {
	case isObject(text): // such as {"user":"x","a":"&user=y"}
		err = errObject
	case encoded:
		err = v.addEncoded(text, name)
	case isMultipart:
		err = v.addMultipart(text, boundary, name)
	default: // another form was parsed
		return unreadBody, errNoForm
	}
	if err != nil {
		return noBody, errBadForm.with(err)
	}
	return readBody, nil
}

// addParsed adds the values of a field in the forms that were parsed.
func (v *fieldValues) addParsed(r *http.Request, name string) error {
	if r.MultipartForm != nil {
		// The error is about a MultipartReader. Otherwise, nothing is parsed again.
		if err := r.ParseMultipartForm(0); err != nil {
			return err
		}
		for key := range r.MultipartForm.File {
			if v.has(key, name) {
				return errFile
			}
		}
	}
	for key, values := range r.PostForm {
		if isObject(key) {
			return errObject
		}
		if v.has(key, name) {
			for _, value := range values {
				v.add(value)
			}
		}
	}
	return nil
}

// isObject reports whether text begins as a JSON object.
func isObject(text string) bool { return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") }

// formMethods are the methods for which [http.Request.ParseForm] reads the body.
var formMethods = []string{http.MethodPost, http.MethodPut, http.MethodPatch}

// addEncoded adds the values of a field in s, a query or a form in the same format. It returns an error if
// url.ParseQuery does. Unlike ParseQuery, it does not store the other fields.
func (v *fieldValues) addEncoded(s, name string) error {
	if strings.Count(s, "&") >= maxPairs {
		return errManyPairs
	}
	for s != "" {
		var pair string
		pair, s, _ = strings.Cut(s, "&")
		if pair == "" {
			continue
		}
		if strings.Contains(pair, ";") {
			return errSemicolon
		}
		key, value, _ := strings.Cut(pair, "=")
		key, err1 := url.QueryUnescape(key)
		value, err2 := url.QueryUnescape(value)
		if err := cmp.Or(err1, err2); err != nil {
			return err
		}
		if v.has(key, name) {
			v.add(value)
		}
	}
	return nil
}

// addMultipart adds the values of a field in data, the body of a multipart form. It returns an error if the
// form is malformed, or if the field is a file.
func (v *fieldValues) addMultipart(data, boundary, name string) error {
	parts := multipart.NewReader(strings.NewReader(data), boundary)
	for {
		part, err := parts.NextPart()
		if err == io.EOF { // a wrapped EOF means that the last boundary is missing
			return nil
		}
		if err != nil {
			return err
		}
		if !v.has(part.FormName(), name) {
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		if part.FileName() != "" {
			return errFile
		}
		v.add(string(value))
	}
}
