package requestbody

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	// maxField is the maximum length in bytes of a body that is searched for a field.
	maxField = 64 << 10
	// maxPairs is the largest number of pairs that url.ParseQuery accepts.
	maxPairs = 10000
)

var (
	errType     = &Error{Detail: "the Content-Type is malformed"}
	errNoForm   = &Error{Detail: "the body is not a form", Unread: true}
	errBadForm  = &Error{Detail: "the body is not a valid form"}
	errBadQuery = &Error{Detail: "the query of the URL is not valid"}

	// Causes of errBadForm and errBadQuery.
	errManyPairs = errors.New("more than 10000 pairs")
	errSemicolon = errors.New("a semicolon in a pair")
	errFile      = errors.New("the field is a file")
	errObject    = errors.New("a handler might read the body as a JSON object")
)

// A Field is the result of a search for a field in a body.
type Field struct {
	Value    string // "" if there is none
	Read     bool   // there is a body, which was read
	Repeated bool   // there are several values, or a form that was parsed before has another one
	Unused   bool   // a value is not used: of a name in another case, or neither a text nor an integer
}

// InQuery reports whether the query of the URL has a field called name, in any case, because Bind of Echo ignores
// the case. The error is an [Error].
func InQuery(r *http.Request, name string) (found bool, err error) {
	if r.URL == nil {
		return false, nil
	}
	var v fieldValues
	if err := v.addEncoded(r.URL.RawQuery, name); err != nil {
		return false, errBadQuery.with(err)
	}
	return v.n > 0 || v.folded, nil
}

// Form returns the field called name of the form in the body of r, of at most 64 KiB. The error is an [Error], also if the
// body is no form. A form that was parsed before is used if nothing is left of the body.
func Form(ctx context.Context, r *http.Request, name string) (Field, error) {
	var v fieldValues
	there := hasBody(ctx, r)
	if there {
		if err := v.addForm(ctx, r, name); err != nil {
			return Field{}, err
		}
	}
	return Field{Value: v.last, Read: there, Repeated: v.n > 1 || !v.sameForm(r, name), Unused: v.folded}, nil
}

// hasBody reports whether r has or had a body.
func hasBody(ctx context.Context, r *http.Request) bool {
	if !IsEmpty(r) && r.ContentLength > 0 || len(r.PostForm) > 0 || r.MultipartForm != nil {
		return true
	}
	data, err := Read(ctx, r, maxField)
	return err != nil || len(data) > 0
}

// use is Read, which the function of Watch reports.
func use(ctx context.Context, r *http.Request) ([]byte, error) {
	data, err := Read(ctx, r, maxField)
	if b, ok := r.Body.(*body); ok {
		b.setUsed(true)
	}
	return data, err
}

// contentType returns the media type of the body of r, in lower case, and its parameters. The media
// type is "" if the field is absent. It is an error if the field is malformed or occurs twice, because
// the handler might read another one.
func contentType(r *http.Request) (mediaType string, params map[string]string, err error) {
	switch lines := r.Header["Content-Type"]; len(lines) {
	case 0:
		return "", nil, nil
	case 1:
		if mediaType, params, err = mime.ParseMediaType(lines[0]); err != nil {
			return "", nil, errType.with(err)
		}
		return mediaType, params, nil
	}
	return "", nil, errType
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

// addForm adds the values of a field in the body of r.
func (v *fieldValues) addForm(ctx context.Context, r *http.Request, name string) error {
	mediaType, params, err := contentType(r)
	if err != nil {
		return err
	}
	encoded := mediaType == "application/x-www-form-urlencoded" && slices.Contains(formMethods, r.Method)
	boundary, isMultipart := params["boundary"], mediaType == "multipart/form-data"
	parsed := encoded && r.PostForm != nil || isMultipart && r.MultipartForm != nil
	if isMultipart && boundary == "" {
		return errType
	}
	if !encoded && !isMultipart && len(r.PostForm) == 0 {
		return errNoForm
	}
	if parsed && isConsumed(ctx, r) {
		if err := v.addParsed(r, name); err != nil {
			return errBadForm.with(err)
		}
		return nil
	}
	data, err := use(ctx, r)
	if err != nil {
		return err
	}
	switch text := string(data); {
	case isObject(text): // such as {"user":"x","a":"&user=y"}
		err = errObject
	case encoded:
		err = v.addEncoded(text, name)
	case isMultipart:
		err = v.addMultipart(text, boundary, name)
	default: // another form was parsed
		return errNoForm
	}
	if err != nil {
		return errBadForm.with(err)
	}
	return nil
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
