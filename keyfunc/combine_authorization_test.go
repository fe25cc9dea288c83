package keyfunc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weir-go/weir/keyfunc"
)

// A login is the target of decoders and binders.
type login struct {
	XMLName xml.Name `json:"-" xml:"login"`
	User    string   `json:"user" form:"user" query:"user" xml:"user"`
}

// Credentials that other readers accept do not get the next key.
func TestFirstOf_Authorization(t *testing.T) {
	other := keyfunc.Constant("address")
	basic, bearer := keyfunc.FirstOf(keyfunc.BasicAuthUser(), other), keyfunc.FirstOf(keyfunc.JWTSubject(withSecret, []string{"HS256"}), other)
	for _, c := range []struct {
		field         string
		basic, bearer bool // it goes on
	}{
		{"", true, true},
		{"Digest x", true, true},
		{"Bearer x", true, true},
		{"Bearer", true, true},
		{"Basics", false, true},
		{"Basic", false, true},
		{"Basic ", false, true},
		{"Basic:YTpi", false, true},
		{"bAsIc\tYTpi", false, true},
		{"Basic  YTpi", false, true},
		{"Basic OmI=", false, true}, // no name
		{"Bearer\tx", true, false},
		{"Bearer x y", true, false},
		{"bearer x\ty", true, false},
		{"Bearer\u00a0x", true, false},
		{"Bearer  x", true, true},
	} {
		for name, is := range map[string]struct {
			f  keyfunc.Func
			on bool
		}{"Basic": {basic, c.basic}, "Bearer": {bearer, c.bearer}} {
			r := request("")
			r.Header["Authorization"] = []string{c.field}
			key, err := ask(is.f, r)
			if on := key == "constant:address"; on != is.on || on != (err == nil) {
				t.Errorf("%s, %q: got %q, %v", name, c.field, key, err)
			}
		}
	}
}

// Combinations of functions, and bodies that are unusual: the key, or "" for an error.
func TestFirstOf_Bodies(t *testing.T) {
	form, field, ip, header := keyfunc.FormValue("user"), keyfunc.JSONField("user"), constant("ip"), keyfunc.Header("X-User")
	notLimited := failing(keyfunc.ErrNotLimited)
	own := func(_ context.Context, r *http.Request) (string, error) {
		data, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(data))
		var l login
		if json.Unmarshal(data, &l) != nil || l.User == "" {
			return "", keyfunc.ErrNoKey
		}
		return keyfunc.UserKey(l.User), err
	}
	ownReader := func(_ context.Context, r *http.Request) (string, error) {
		var l login
		err := json.NewDecoder(r.Body).Decode(&l)
		return keyfunc.UserKey(l.User), err
	}
	of := keyfunc.FirstOf
	loginJSON, loginForm, loginXML := func() *http.Request { return post(jsonType, `{"user":"ann"}`) }, func() *http.Request { return post(formType, "user=ann") },
		func() *http.Request { return post("application/xml", "<login><user>ann</user></login>") }
	without := func() *http.Request { return post(jsonType, `{"a":1}`) }
	empty := func(change ...func(*http.Request)) func() *http.Request {
		return func() *http.Request {
			r := post("", "")
			for _, c := range change {
				c(r)
			}
			return r
		}
	}
	contentType, multipartBody := multi(t, "user", "ann")
	fileType, fileBody := multi(t, "user@", "ann")
	for _, c := range []struct {
		name string
		f    keyfunc.Func
		r    func() *http.Request
		want string
	}{
		{"JSON, then not limited", of(form, notLimited), loginJSON, ""},
		{"no body, then not limited", of(form, notLimited), empty(), "not limited"},
		{"JSON, nested behind a header", of(of(header, form), ip), loginJSON, ""},
		{"JSON, nested before a header", of(of(form, header), ip), loginJSON, ""},
		{"XML, nested", of(of(header, form, field), ip), loginXML, ""},
		{"JSON without, nested behind a header", of(of(header, field), form, ip), without, "ip"},
		{"form, nested behind a header", of(of(header, field), form, ip), loginForm, "body:user:ann"},
		{"JSON, joined", of(form, keyfunc.Join(field, ip)), loginJSON, "join:13:body:user:ann2:ip"},
		{"JSON, joined both", of(keyfunc.Join(form, ip), keyfunc.Join(field, ip), ip), loginJSON, "join:13:body:user:ann2:ip"},
		{"JSON, own function", of(form, own), loginJSON, "user:ann"},
		{"JSON, own function that does not restore", of(form, ownReader), loginJSON, "user:ann"},
		{"JSON, own function finds nothing", of(form, own, ip), without, "ip"},
		{"JSON, a key without the body", of(form, constant("user:ann")), loginJSON, ""},
		{"blank", of(keyfunc.Fold(form), field, ip), func() *http.Request { return post(formType, "user=+") }, "ip"},
		{"empty, length unknown, form", of(form, ip), empty(chunked), "ip"},
		{"empty, length unknown, JSON", of(field, ip), empty(chunked, contentTypes(jsonType)), "ip"},
		{"empty, length unknown, both", of(form, field, ip), empty(chunked, contentTypes(formType)), "ip"},
		{"length 0 with a body", of(form, ip), func() *http.Request { r := loginForm(); r.ContentLength = 0; return r }, "body:user:ann"},
		{"length 0 with another body", of(form, ip), func() *http.Request { r := loginXML(); r.ContentLength = 0; return r }, ""},
		{"no body, no boundary", of(form, ip), empty(method("GET"), contentTypes("multipart/form-data")), "ip"},
		{"no body, two types", of(form, field, ip), empty(method("GET"), contentTypes(jsonType, jsonType)), "ip"},
		{"no body, an empty type", of(form, field, ip), empty(method("GET"), contentTypes("")), "ip"},
		{"XML with a suffix", of(form, field, ip), func() *http.Request {
			return post("application/xml+json", `{"user":"x","a":"<login><user>ann</user></login>"}`)
		}, ""},
		{"text with a suffix", of(field, ip), func() *http.Request { return post("text/xml+json", `{"user":"x"}`) }, ""},
		{"JSON with a suffix", of(field, ip), func() *http.Request { return post("application/problem+json", `{"user":"ann"}`) }, "body:user:ann"},
		{"a MultipartReader", of(form, ip), func() *http.Request {
			r := post(contentType, multipartBody)
			_, _ = r.MultipartReader()
			return r
		}, "body:user:ann"},
		{"a MultipartReader that has read", of(form, ip), func() *http.Request {
			r := post(contentType, multipartBody)
			_, _ = r.MultipartReader()
			_, _ = io.Copy(io.Discard, r.Body)
			return r
		}, ""},
		{"read before", of(form, ip), func() *http.Request {
			r := loginForm()
			_, _ = io.Copy(io.Discard, r.Body)
			return r
		}, ""},
		{"read before, JSON", of(field, ip), func() *http.Request {
			r := loginJSON()
			_, _ = io.Copy(io.Discard, r.Body)
			return r
		}, ""},
		{"parsed and restored", of(form, ip), func() *http.Request {
			const body = `{"user":"ann","a":"%zz"}`
			r := post(formType, body)
			_ = r.ParseForm()
			r.Body = io.NopCloser(strings.NewReader(body))
			return r
		}, ""},
		{"parsed, longer than 64 KiB", of(form, ip), func() *http.Request {
			r := post(formType, "user=ann&a="+strings.Repeat("x", maxBody))
			_ = r.ParseForm()
			return r
		}, "body:user:ann"},
		{"parsed and closed", of(form, ip), func() *http.Request {
			r := post(contentType, multipartBody)
			_ = r.ParseMultipartForm(1 << 20)
			r.Body = io.NopCloser(iotest.ErrReader(http.ErrBodyReadAfterClose))
			return r
		}, "body:user:ann"},
		{"parsed, a compressed form", of(form, ip), func() *http.Request {
			r := loginForm()
			_ = r.ParseForm()
			r.Header.Set("Content-Encoding", "gzip") // which a middleware has decoded
			return r
		}, "body:user:ann"},
		{"parsed, a file", of(form, ip), func() *http.Request {
			r := post(fileType, fileBody)
			_ = r.ParseMultipartForm(1 << 20)
			return r
		}, ""},
		{"parsed, JSON is asked", of(field, ip), func() *http.Request {
			r := post(contentType, multipartBody)
			r.ContentLength = -1
			_ = r.ParseMultipartForm(1 << 20)
			return r
		}, ""},
		{"in another case in the URL", of(form, ip), func() *http.Request { r := loginForm(); r.URL.RawQuery = "USER=victim"; return r }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ask(c.f, c.r())
			switch {
			case errors.Is(err, keyfunc.ErrNotLimited) && !errors.Is(err, keyfunc.ErrNoKey):
				got = "not limited"
			case err != nil && !errors.Is(err, keyfunc.ErrNoKey):
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
