package adapter

import (
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"testing"
)

func TestCopyBack(t *testing.T) {
	form, other := &multipart.Form{Value: map[string][]string{"a": {"1"}}}, new(multipart.Form)
	values, otherValues := url.Values{"a": {"1"}}, url.Values{"b": {"2"}}
	type fields struct {
		multipart      *multipart.Form
		form, postForm url.Values
		pattern        string
	}
	for name, c := range map[string]struct{ original, inner, want fields }{
		"nothing":         {fields{}, fields{}, fields{}},
		"all":             {fields{}, fields{form, values, values, "GET /"}, fields{form, values, values, "GET /"}},
		"another pattern": {fields{pattern: "/"}, fields{pattern: "GET /a"}, fields{pattern: "GET /a"}},
		"another request": {fields{form, values, values, "/"}, fields{}, fields{form, values, values, "/"}},
		"other forms":     {fields{form, values, values, "/"}, fields{other, otherValues, otherValues, "/"}, fields{form, values, values, "/"}},
	} {
		request := func(f fields) *http.Request {
			r := httptest.NewRequest("GET", "/", nil)
			r.MultipartForm, r.Form, r.PostForm, r.Pattern = f.multipart, f.form, f.postForm, f.pattern
			return r
		}
		original := request(c.original)
		CopyBack(original, request(c.inner))
		CopyBack(original, original)
		CopyBack(original, nil)
		if got := (fields{original.MultipartForm, original.Form, original.PostForm, original.Pattern}); !reflect.DeepEqual(got, c.want) || got.multipart != c.want.multipart {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
