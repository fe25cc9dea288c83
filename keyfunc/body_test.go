package keyfunc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
	maxBody  = 64 << 10
)

// withBody gives r a body, and a method that has one.
func withBody(r *http.Request, body string) *http.Request {
	r.Method = http.MethodPost
	r.URL = &url.URL{Path: "/login"}
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(strings.NewReader(body))
	return r
}

// post returns a request with a body. contentType may be "".
func post(contentType, body string) *http.Request {
	r := withBody(request(""), body)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

// multi returns a multipart form and its Content-Type. A field whose name ends with "@" is a file.
func multi(t *testing.T, fields ...string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		part, err := w.CreateFormField(fields[i])
		if name, ok := strings.CutSuffix(fields[i], "@"); ok {
			part, err = w.CreateFormFile(name, "file.txt")
		}
		testkit.Must(t, err)
		_, _ = io.WriteString(part, fields[i+1])
	}
	testkit.Must(t, w.Close())
	return w.FormDataContentType(), b.String()
}

func TestFormValue(t *testing.T) {
	const (
		invalid  = "the body is not a valid form"
		noForm   = "the body is not a form"
		badType  = "the Content-Type is malformed"
		missing  = `no value in the form field "user"`
		repeated = `more than one value for the form field "user"`
		inQuery  = `the form field "user" is in the URL`
		badQuery = "the query of the URL is not valid"
		long     = "the body is longer than 64 KiB"
	)
	filled := func(n int) string { return "user=alice&x=" + strings.Repeat("x", n-len("user=alice&x=")) }
	type row struct {
		name, body, query string
		key, detail       string
		change            func(*http.Request)
	}
	rows := []row{
		{name: "one field", body: "user=alice", key: "body:user:alice"},
		{name: "among others", body: "a=b&user=alice&&c", key: "body:user:alice"},
		{name: "escaped value", body: "user=al%69ce+b%3Ac", key: "body:user:alice b:c"},
		{name: "escaped name", body: "%75ser=alice", key: "body:user:alice"},
		{name: "equals signs", body: "user=a=b=", key: "body:user:a=b="},
		{name: "not UTF-8", body: "user=%ff", key: "body:user:\xff"},
		{name: "case of the name", body: "User=x&user=alice", key: "body:user:alice"},
		{name: "another query", body: "user=alice", query: "users=x&a=b", key: "body:user:alice"},
		{name: "64 KiB", body: filled(maxBody), key: "body:user:alice"},
		{name: "parameters of the type", body: "user=alice", key: "body:user:alice", change: contentTypes("Application/X-WWW-Form-Urlencoded; charset=utf-8")},
		{name: "PUT", body: "user=alice", key: "body:user:alice", change: method("PUT")},
		{name: "PATCH", body: "user=alice", key: "body:user:alice", change: method("PATCH")},
		{name: "identity", body: "user=alice", key: "body:user:alice", change: encoding("Identity")},
		{name: "parsed before", body: "user=alice", query: "a=b", key: "body:user:alice", change: func(r *http.Request) { _ = r.ParseForm() }},
		{name: "no URL", body: "user=alice", key: "body:user:alice", change: func(r *http.Request) { r.URL = nil }},

		{name: "absent", body: "users=alice", detail: missing},
		{name: "empty", body: "user=", detail: missing},
		{name: "no equals sign", body: "user", detail: missing},
		{name: "empty body", body: "", detail: missing},
		{name: "no body", body: "", detail: missing, change: func(r *http.Request) { r.Body = nil }},
		{name: "twice", body: "user=alice&user=victim", detail: repeated},
		{name: "twice, escaped", body: "user=alice&us%65r=victim", detail: repeated},
		{name: "twice, first empty", body: "user=&user=victim", detail: repeated},
		{name: "in the query", body: "user=alice", query: "user=victim", detail: inQuery},
		{name: "in the query, escaped", body: "user=alice", query: "us%65r", detail: inQuery},
		{name: "in the query only", body: "", query: "user=victim", detail: inQuery},
		{name: "semicolon", body: "user=alice;x=y", detail: invalid},
		{name: "semicolon elsewhere", body: "user=alice&a;user=victim", detail: invalid},
		{name: "bad escape", body: "user=alice&a=%zz", detail: invalid},
		{name: "bad escape of a name", body: "user=alice&%u=a", detail: invalid},
		{name: "bad query", body: "user=alice", query: "a=%", detail: badQuery},
		{name: "semicolon in the query", body: "user=alice", query: "a;user=victim", detail: badQuery},
		{name: "JSON and a form", body: `{"user":"victim","a":"&user=alice&"}`, detail: invalid},
		{name: "white space and JSON", body: "\r\n\t {\"user\":\"victim\"}", detail: invalid},
		{name: "JSON and a form, parsed", body: `{"user":"victim","a":"&user=alice&"}`, detail: invalid, change: func(r *http.Request) { _ = r.ParseForm() }},
		{name: "10000 fields", body: "user=alice" + strings.Repeat("&a", 9999), key: "body:user:alice"},
		{name: "10001 fields", body: "user=alice" + strings.Repeat("&a", 10000), detail: invalid},
		{name: "64 KiB and a byte", body: filled(maxBody + 1), detail: long},
		{name: "64 KiB and a byte in chunks", body: filled(maxBody + 1), detail: long, change: chunked},
		{name: "a field after 64 KiB", body: filled(maxBody) + "&user=victim", detail: long, change: chunked},
		{name: "GET", body: "user=alice", detail: noForm, change: method("GET")},
		{name: "DELETE", body: "user=alice", detail: noForm, change: method("DELETE")},
		{name: "post", body: "user=alice", detail: noForm, change: method("post")},
		{name: "no type", body: "user=alice", detail: noForm, change: contentTypes()},
		{name: "empty type", body: "user=alice", detail: badType, change: contentTypes("")},
		{name: "JSON", body: "user=alice", detail: noForm, change: contentTypes(jsonType)},
		{name: "two types", body: "user=alice", detail: badType, change: contentTypes(formType, jsonType)},
		{name: "malformed type", body: "user=alice", detail: badType, change: contentTypes(formType + "; charset")},
		{name: "multipart without boundary", body: "user=alice", detail: badType, change: contentTypes("multipart/form-data")},
		{name: "compressed", body: "user=alice", detail: "the body has a Content-Encoding", change: encoding("gzip")},
		{name: "identity and compressed", body: "user=alice", detail: "the body has a Content-Encoding", change: encoding("identity", "gzip")},
		{name: "broken", body: "user=alice", detail: "the body cannot be read", change: func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("user=alice"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		}},
		{name: "parsed, twice", body: "user=alice&user=victim", detail: repeated, change: func(r *http.Request) { _ = r.ParseForm() }},
		{name: "another Form", body: "user=alice", detail: repeated, change: func(r *http.Request) { r.Form = url.Values{"user": {"victim"}} }},
		{name: "an empty Form", body: "user=alice", detail: repeated, change: func(r *http.Request) { r.Form = url.Values{} }},
	}
	for _, c := range []struct {
		name        string
		fields      []string
		key, detail string
	}{
		{"one field", []string{"a", "b", "user", "alice"}, "body:user:alice", ""},
		{"a file", []string{"user", "alice", "photo@", "\x00\r\n"}, "body:user:alice", ""},
		{"line breaks", []string{"user", "a\r\nb"}, "body:user:a\r\nb", ""},
		{"twice", []string{"user", "alice", "user", "victim"}, "", repeated},
		{"absent", []string{"users", "alice"}, "", missing},
		{"empty", []string{"user", ""}, "", missing},
		{"is a file", []string{"user@", "alice"}, "", invalid},
		{"also a file", []string{"user", "alice", "user@", "victim"}, "", invalid},
		{"too long", []string{"user", "alice", "photo@", strings.Repeat("x", maxBody)}, "", long},
	} {
		contentType, body := multi(t, c.fields...)
		rows = append(rows, row{name: "multipart/" + c.name, body: body, key: c.key, detail: c.detail, change: contentTypes(contentType)})
		if c.name == "one field" {
			cut := body[:len(body)-4] // without the end of the last boundary
			rows = append(rows, row{name: "multipart/cut off", body: cut, detail: invalid, change: contentTypes(contentType)})
			rows = append(rows, row{name: "multipart/JSON before it", body: `{"user":"victim"}` + "\r\n" + body, detail: invalid, change: contentTypes(contentType)})
			rows = append(rows, row{name: "multipart/line breaks before it", body: "\r\n" + body, key: c.key, change: contentTypes(contentType)})
			rows = append(rows, row{name: "multipart/in the query", body: body, query: "user=victim", detail: inQuery, change: contentTypes(contentType)})
			rows = append(rows, row{name: "multipart/parsed before", body: body, key: c.key, change: func(r *http.Request) {
				r.Header.Set("Content-Type", contentType)
				_ = r.ParseMultipartForm(1 << 20)
			}})
		}
	}
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			r := post(formType, c.body)
			r.URL.RawQuery = c.query
			if c.change != nil {
				c.change(r)
			}
			form, postForm, multipartForm := r.Form, r.PostForm, r.MultipartForm
			f := keyfunc.FormValue("user")
			wantValue(t, f, r, c.key, c.detail)
			wantValue(t, f, r, c.key, c.detail) // another gate
			if len(r.Form) != len(form) || len(r.PostForm) != len(postForm) || r.MultipartForm != multipartForm {
				t.Error("the request has a parsed form")
			}
			if c.key != "" && r.URL != nil {
				wantFormHandlers(t, r, strings.TrimPrefix(c.key, "body:user:"))
			}
		})
	}
}

// wantFormHandlers checks the value that handlers get.
func wantFormHandlers(t *testing.T, r *http.Request, want string) {
	t.Helper()
	again := r.Clone(r.Context())
	if r.PostForm == nil {
		data, err := io.ReadAll(r.Body)
		testkit.Must(t, err)
		r.Body, again.Body = io.NopCloser(bytes.NewReader(data)), io.NopCloser(bytes.NewReader(data))
	}
	if got := r.PostFormValue("user"); got != want {
		t.Errorf("PostFormValue = %q, want %q", got, want)
	}
	if got := again.FormValue("user"); got != want {
		t.Errorf("FormValue = %q, want %q", got, want)
	}
}

func contentTypes(types ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header["Content-Type"] = types }
}

func method(m string) func(*http.Request) { return func(r *http.Request) { r.Method = m } }

func encoding(lines ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header["Content-Encoding"] = lines }
}

func query(raw string) func(*http.Request) { return func(r *http.Request) { r.URL.RawQuery = raw } }

func chunked(r *http.Request) { r.ContentLength = -1 }

func TestJSONField(t *testing.T) {
	const (
		notJSON  = "the Content-Type of the body is not JSON"
		invalid  = "the body is not one JSON object"
		badType  = "the Content-Type is malformed"
		missing  = `no value in the JSON field "Usk"`
		other    = `no text or integer in the JSON field "Usk"`
		inQuery  = `the field "Usk" is in the URL`
		repeated = `the JSON field "Usk" occurs more than once`
		long     = "the body is longer than 64 KiB"
	)
	filled := func(n int) string {
		return `{"Usk":"alice"` + strings.Repeat(" ", n-len(`{"Usk":"alice"}`)) + "}"
	}
	for _, c := range []struct {
		name, body  string
		key, detail string
		change      func(*http.Request)
	}{
		{name: "one field", body: `{"Usk":"alice"}`, key: "body:Usk:alice"},
		{name: "among others", body: ` {"a":{"Usk":"x","b":[{"Usk":1}]},"Usk":"alice","c":null} ` + "\n", key: "body:Usk:alice"},
		{name: "case of the name", body: `{"uSK":"alice"}`, key: "body:Usk:alice"},
		{name: "KELVIN SIGN", body: "{\"us\u212a\":\"alice\"}", key: "body:Usk:alice"},
		{name: "LONG S", body: "{\"u\u017fk\":\"alice\"}", key: "body:Usk:alice"},
		{name: "escapes", body: `{"\u0055sk":"\u0061lice\n\ud83d\ude00"}`, key: "body:Usk:alice\n\U0001F600"},
		{name: "NUL", body: `{"Usk":"a\u0000"}`, key: "body:Usk:a\x00"},
		{name: "integer", body: `{"Usk":12345678901234567890123}`, key: "body:Usk:12345678901234567890123"},
		{name: "zero", body: `{"Usk":0}`, key: "body:Usk:0"},
		{name: "negative", body: `{"Usk":-17}`, key: "body:Usk:-17"},
		{name: "64 KiB", body: filled(maxBody), key: "body:Usk:alice"},
		{name: "no type", body: `{"Usk":"alice"}`, key: "body:Usk:alice", change: contentTypes()},
		{name: "another JSON", body: `{"Usk":"alice"}`, key: "body:Usk:alice", change: contentTypes("application/vnd.api+JSON; charset=utf-8")},
		{name: "GET", body: `{"Usk":"alice"}`, key: "body:Usk:alice", change: method("GET")},
		{name: "another name", body: `{"Usk":"alice","Usk ":"x","Us_k":"x"}`, key: "body:Usk:alice"},

		{name: "absent", body: `{"a":"alice"}`, detail: missing},
		{name: "empty object", body: `{}`, detail: missing},
		{name: "nested", body: `{"a":{"Usk":"alice"}}`, detail: missing},
		{name: "empty", body: `{"Usk":""}`, detail: missing},
		{name: "null", body: `{"Usk":null}`, detail: missing},
		{name: "true", body: `{"Usk":true}`, detail: other},
		{name: "array", body: `{"Usk":["alice"]}`, detail: other},
		{name: "object", body: `{"Usk":{"Usk":"alice"}}`, detail: other},
		{name: "1.0", body: `{"Usk":1.0}`, detail: other},
		{name: "1e3", body: `{"Usk":1e3}`, detail: other},
		{name: "1E3", body: `{"Usk":1E3}`, detail: other},
		{name: "-0", body: `{"Usk":-0}`, detail: other},
		{name: "lone surrogate", body: `{"Usk":"a\ud800"}`, detail: other},
		{name: "U+FFFD", body: "{\"Usk\":\"a\uFFFD\"}", detail: other},
		{name: "twice", body: `{"Usk":"x","Usk":"victim"}`, detail: repeated},
		{name: "twice the same", body: `{"Usk":"x","Usk":"x"}`, detail: repeated},
		{name: "twice, other case", body: `{"Usk":"x","USK":"victim"}`, detail: repeated},
		{name: "twice, KELVIN SIGN", body: "{\"Usk\":\"x\",\"us\u212a\":\"victim\"}", detail: repeated},
		{name: "twice, LONG S", body: "{\"Usk\":\"x\",\"u\u017fk\":\"victim\"}", detail: repeated},
		{name: "twice, escaped", body: `{"Usk":"x","u\u017f\u212a":"victim"}`, detail: repeated},
		{name: "twice, second null", body: `{"Usk":"x","usk":null}`, detail: repeated},
		{name: "text after the object", body: `{"Usk":"x"} x`, detail: invalid},
		{name: "two objects", body: `{"Usk":"x"}{"Usk":"victim"}`, detail: invalid},
		{name: "array of objects", body: `[{"Usk":"x"}]`, detail: invalid},
		{name: "string", body: `"Usk"`, detail: invalid},
		{name: "empty body", body: ``, detail: missing},
		{name: "no body", body: ``, detail: missing, change: func(r *http.Request) { r.Body = nil }},
		{name: "http.NoBody", body: ``, detail: missing, change: func(r *http.Request) { r.Body = http.NoBody }},
		{name: "not closed", body: `{"Usk":"x"`, detail: invalid},
		{name: "comma at the end", body: `{"Usk":"x",}`, detail: invalid},
		{name: "no quotes", body: `{Usk:"x"}`, detail: invalid},
		{name: "byte order mark", body: "\uFEFF" + `{"Usk":"x"}`, detail: invalid},
		{name: "not UTF-8, value", body: "{\"Usk\":\"x\xff\"}", detail: invalid},
		{name: "not UTF-8, name", body: "{\"Usk\":\"x\",\"Us\xff\":1}", detail: invalid},
		{name: "a form in the object", body: `{"Usk":"x","a":"&Usk=victim&"}`, detail: notJSON, change: contentTypes(formType)},
		{name: "XML in the object", body: `{"Usk":"x","a":"<a><Usk>victim</Usk></a>"}`, detail: notJSON, change: contentTypes("text/xml")},
		{name: "two types", body: `{"Usk":"x"}`, detail: badType, change: contentTypes(jsonType, formType)},
		{name: "malformed type", body: `{"Usk":"x"}`, detail: badType, change: contentTypes("application/json; charset")},
		{name: "in the query", body: `{"Usk":"x"}`, detail: inQuery, change: query("a=1&USK=victim")},
		{name: "malformed query", body: `{"Usk":"x"}`, detail: "the query of the URL is not valid", change: query("a=%zz")},
		{name: "another query", body: `{"Usk":"alice"}`, key: "body:Usk:alice", change: query("a=1")},
		{name: "compressed", body: `{"Usk":"x"}`, detail: "the body has a Content-Encoding", change: encoding("br")},
		{name: "64 KiB and a byte", body: filled(maxBody + 1), detail: long},
		{name: "64 KiB and a byte in chunks", body: filled(maxBody + 1), detail: long, change: chunked},
		{name: "10000 levels", body: `{"Usk":"alice","a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + "}", key: "body:Usk:alice"},
		{name: "10001 levels", body: `{"Usk":"alice","a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + "}", detail: invalid},
		{name: "broken", body: `{"Usk":"x"}`, detail: "the body cannot be read", change: func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"Usk":"x"}`), iotest.ErrReader(io.ErrUnexpectedEOF)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := post(jsonType, c.body)
			if c.change != nil {
				c.change(r)
			}
			f := keyfunc.JSONField("Usk")
			wantValue(t, f, r, c.key, c.detail)
			wantValue(t, f, r, c.key, c.detail) // another gate
		})
	}
}

// The same field has the same key in a form and in JSON.
func TestJSONField_SameKeyAsFormValue(t *testing.T) {
	user := keyfunc.Fold(keyfunc.FirstOf(keyfunc.FormValue("user"), keyfunc.JSONField("user")))
	wantKey(t, user, post(formType, "user=Alice"), "body:user:alice")
	wantKey(t, user, post(jsonType, `{"user":" alice"}`), "body:user:alice")
	wantKey(t, user, post(jsonType, `{"user":7}`), "body:user:7")
	wantKey(t, user, post(formType, "user=7"), "body:user:7")
	wantDetail(t, user, post("", "user=alice"), "the body is not one JSON object")
}

// A value that a handler might read in another way ends FirstOf, so that a client cannot choose the limit of
// the next function.
func TestFirstOf_Unusable(t *testing.T) {
	fallback := keyfunc.Constant("address")
	form, json := keyfunc.FirstOf(keyfunc.FormValue("user"), fallback), keyfunc.FirstOf(keyfunc.JSONField("user"), fallback)
	for name, c := range map[string]struct {
		f    keyfunc.Func
		r    *http.Request
		ends bool
	}{
		"form, absent":        {form, post(formType, "a=1"), false},
		"form, empty":         {form, post(formType, "user="), false},
		"form, JSON":          {form, post(jsonType, `{"user":"x"}`), true},
		"form, twice":         {form, post(formType, "user=victim&user=x"), true},
		"form, malformed":     {form, post(formType, "user=victim&a=;"), true},
		"form, two types":     {form, typed(post(formType, "user=victim"), formType, jsonType), true},
		"form, long":          {form, post(formType, "user=victim&a="+strings.Repeat("x", maxBody)), true},
		"form, GET and query": {form, httptest.NewRequest("GET", "/?user=victim", nil), true},
		"form, GET":           {form, httptest.NewRequest("GET", "/", nil), false},
		"JSON, absent":        {json, post(jsonType, `{}`), false},
		"JSON, null":          {json, post(jsonType, `{"user":null}`), false},
		"JSON, no body":       {json, httptest.NewRequest("GET", "/", nil), false},
		"JSON, a form":        {json, post(formType, "user=x"), true},
		"JSON, twice":         {json, post(jsonType, `{"user":"victim","USER":"x"}`), true},
		"JSON, number":        {json, post(jsonType, `{"user":1.0}`), true},
		"JSON, array":         {json, post(jsonType, `[{"user":"victim"}]`), true},
		"JSON, query":         {json, httptest.NewRequest("GET", "/?user=victim", nil), true},
		"Basic, twice":        {keyfunc.FirstOf(keyfunc.BasicAuthUser(), fallback), withHeader("Authorization", "Basic YTpi", "Basic YTpi"), true},
		"Basic, absent":       {keyfunc.FirstOf(keyfunc.BasicAuthUser(), fallback), withHeader("Authorization", "Bearer x"), false},
		"Bearer, twice":       {keyfunc.FirstOf(keyfunc.JWTSubject(func(*jwt.Token) (any, error) { return nil, errors.New("x") }, []string{"RS256"}), fallback), withHeader("Authorization", "Bearer x", "Bearer x"), true},
		"header, twice":       {keyfunc.FirstOf(keyfunc.Header("X-User"), fallback), withHeader("X-User", "victim", "x"), true},
		"cookie, twice":       {keyfunc.FirstOf(keyfunc.Cookie("u"), fallback), withHeader("Cookie", "u=victim; u=x"), true},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := c.f(t.Context(), c.r)
			if c.ends != errors.Is(err, keyfunc.ErrNoKey) || c.ends == (key == "constant:address") {
				t.Errorf("got %q, %v, want an error: %t", key, err, c.ends)
			}
		})
	}
}

func typed(r *http.Request, types ...string) *http.Request {
	contentTypes(types...)(r)
	return r
}

func withHeader(name string, lines ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header[name] = lines
	return r
}

// The memory for a body is bounded by its length.
func TestBody_Memory(t *testing.T) {
	testkit.WithoutRace(t)
	many := func(begin, repeated, end string) string {
		return begin + strings.Repeat(repeated, (maxBody-len(begin)-len(end))/len(repeated)) + end
	}
	contentType, multipartBody := multi(t, "user", "alice")
	boundary := multipartBody[:strings.Index(multipartBody, "\r\n")]
	part := boundary + "\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n"
	for _, c := range []struct{ name, contentType, body string }{
		{"pairs", formType, many("user=alice", "&a", "")},
		{"escapes", formType, many("user=", "%41", "")},
		{"members", jsonType, many(`{"user":"alice"`, `,"a":1`, "}")},
		{"depth", jsonType, many(`{"user":"alice","a":`, "[", "")},
		{"one string", jsonType, many(`{"user":"`, `\u0041`, `"}`)},
		{"numbers", jsonType, many(`{"user":1`, "1", "}")},
		{"parts", contentType, many("", part, multipartBody)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := keyfunc.FirstOf(keyfunc.FormValue("user"), keyfunc.JSONField("user"))
			_, n := testkit.AllocatedPerCall(17, func() { _, _ = ask(f, post(c.contentType, c.body)) })
			if n > 3<<20 {
				t.Errorf("%d bytes allocated, want at most 3 MiB", n)
			}
		})
	}
}

// A closer reports whether it was closed.
type closer struct {
	io.Reader
	closed int
}

func (c *closer) Close() error {
	c.closed++
	return errors.New("closed")
}

// A handler reads the body as if no key function had.
func TestBody_Replay(t *testing.T) {
	broken := errors.New("broken")
	for _, size := range []int{0, 1, 511, 512, 513, 4096, maxBody - 1, maxBody, maxBody + 1, maxBody + 2, 3 * maxBody} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole":      func(r io.Reader) io.Reader { return r },
			"halves":     iotest.HalfReader,
			"with error": iotest.DataErrReader,
			"bytes":      iotest.OneByteReader,
			"broken":     func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(broken)) },
		} {
			t.Run(fmt.Sprintf("%s/%d bytes", name, size), func(t *testing.T) {
				want := bytes.Repeat([]byte("user=alice&"), size/11+1)[:size]
				original := &closer{Reader: wrap(bytes.NewReader(want))}
				r := post(formType, "")
				r.Body, r.ContentLength = original, -1
				form, object := keyfunc.FormValue("user"), keyfunc.JSONField("user")
				_, _ = ask(form, r)
				body := r.Body
				_, _ = ask(form, r)
				r.Header.Set("Content-Type", jsonType)
				_, _ = ask(object, r)
				if r.Body != body || r.ContentLength != -1 {
					t.Errorf("the second key function has replaced the body, or the length is %d", r.ContentLength)
				}
				got, err := io.ReadAll(iotest.HalfReader(r.Body))
				if !bytes.Equal(got, want) {
					t.Errorf("the handler reads %d bytes, want the %d of the client", len(got), len(want))
				}
				if wantErr := map[bool]error{true: broken}[name == "broken"]; err != wantErr {
					t.Errorf("the handler gets the error %v, want %v", err, wantErr)
				}
				if n, again := r.Body.Read(make([]byte, 1)); n != 0 || again == nil {
					t.Errorf("after the end, Read = %d, %v", n, again)
				}
				if err := r.Body.Close(); original.closed != 1 || err == nil || err.Error() != "closed" {
					t.Errorf("Close = %v, and has closed the original %d times, want once", err, original.closed)
				}
				if n, err := r.Body.Read(make([]byte, 1)); n != 0 || err != http.ErrBodyReadAfterClose {
					t.Errorf("after Close, Read = %d, %v", n, err)
				}
			})
		}
	}
}

// A key function behind a handler that has read a part of the body sees the rest, as the next
// handler does.
func TestBody_PartlyRead(t *testing.T) {
	r := post(formType, "user=alice&user=bob")
	f := keyfunc.FormValue("user")
	wantDetail(t, f, r, `more than one value for the form field "user"`)
	if _, err := io.ReadFull(r.Body, make([]byte, len("user=alice&"))); err != nil {
		t.Fatal(err)
	}
	wantKey(t, f, r, "body:user:bob")
	if got, err := io.ReadAll(r.Body); string(got) != "user=bob" || err != nil {
		t.Errorf("the handler reads %q, %v", got, err)
	}
}

// A long body is rejected without being read if its length is known.
func TestBody_KnownLength(t *testing.T) {
	r := post(formType, "")
	r.ContentLength = maxBody + 1
	original := io.NopCloser(iotest.ErrReader(errors.New("read")))
	r.Body = original
	wantDetail(t, keyfunc.FormValue("user"), r, "the body is longer than 64 KiB")
	if r.Body != original {
		t.Error("the body was replaced")
	}
}

// Transports close a body while they read it.
func TestBody_ConcurrentClose(t *testing.T) {
	for range 100 {
		r := post(formType, "user=alice")
		wantKey(t, keyfunc.FormValue("user"), r, "body:user:alice")
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = io.ReadAll(iotest.OneByteReader(r.Body)) })
		wg.Go(func() { _ = r.Body.Close() })
		wg.Wait()
	}
}

// Limits of the handler and of the server apply as before.
func TestBody_Server(t *testing.T) {
	user := keyfunc.FormValue("user")
	keys := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := ask(user, r)
		keys <- fmt.Sprint(key, err)
		r.Body = http.MaxBytesReader(w, r.Body, 100<<10)
		data, err := io.ReadAll(r.Body)
		var tooLong *http.MaxBytesError
		if errors.As(err, &tooLong) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		fmt.Fprint(w, len(data))
	}))
	defer server.Close()
	for _, c := range []struct {
		name, body, key string
		status          int
		read            string
	}{
		{"short", "user=alice", "body:user:alice<nil>", 200, "10"},
		{"100 KiB", strings.Repeat("x", 100<<10), "keyfunc: no key: the body is longer than 64 KiB", 200, "102400"},
		{"longer", strings.Repeat("x", 300<<10), "keyfunc: no key: the body is longer than 64 KiB", 413, "102400"},
	} {
		for _, length := range []string{"length", "chunks"} {
			t.Run(c.name+"/"+length, func(t *testing.T) {
				body := io.Reader(strings.NewReader(c.body))
				if length == "chunks" {
					body = iotest.HalfReader(body)
				}
				request := must(http.NewRequestWithContext(t.Context(), "POST", server.URL, body))
				request.Header.Set("Content-Type", formType)
				request.Header.Set("Expect", "100-continue")
				response, err := server.Client().Do(request)
				testkit.Must(t, err)
				defer response.Body.Close()
				data, _ := io.ReadAll(response.Body)
				if key := <-keys; key != c.key || response.StatusCode != c.status || string(data) != c.read {
					t.Errorf("key %q, status %d, %s bytes; want %q, %d, %s", key, response.StatusCode, data, c.key, c.status, c.read)
				}
			})
		}
	}
}

// An application chooses its response by the cause of an error.
func TestBody_Causes(t *testing.T) {
	form, field := keyfunc.FormValue("user"), keyfunc.JSONField("user")
	broken := func(err error) func(*http.Request) {
		return func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(err)) }
	}
	limited := func(r *http.Request) { r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 5) }
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	as := func(target any) func(error) bool { return func(err error) bool { return errors.As(err, target) } }
	for _, c := range []struct {
		name   string
		f      keyfunc.Func
		r      *http.Request
		change func(*http.Request)
		has    func(error) bool
	}{
		{"MaxBytesReader", form, post(formType, "user=alice"), limited, as(new(*http.MaxBytesError))},
		{"MaxBytesReader, JSON", field, post(jsonType, `{"user":"alice"}`), limited, as(new(*http.MaxBytesError))},
		{"64 KiB", form, post(formType, "user="+strings.Repeat("x", maxBody)), nil, as(new(*http.MaxBytesError))},
		{"64 KiB in chunks", field, post(jsonType, strings.Repeat(" ", maxBody+1)), chunked, as(new(*http.MaxBytesError))},
		{"a timeout", form, post(formType, "user=alice"), broken(os.ErrDeadlineExceeded), is(os.ErrDeadlineExceeded)},
		{"a connection", field, post(jsonType, `{}`), broken(io.ErrUnexpectedEOF), is(io.ErrUnexpectedEOF)},
		{"an escape", form, post(formType, "user=%zz"), nil, as(new(url.EscapeError))},
		{"an escape of the query", field, post(jsonType, `{}`), query("a=%zz"), as(new(url.EscapeError))},
		{"JSON", field, post(jsonType, `{"user":}`), nil, as(new(*json.SyntaxError))},
		{"no object", field, post(jsonType, `[]`), nil, as(new(*json.UnmarshalTypeError))},
		{"a type", form, post(formType+"; charset", "user=alice"), nil, is(mime.ErrInvalidMediaParameter)},
		{"FirstOf", keyfunc.FirstOf(form, constant("next")), post(formType, "user=alice"), limited, as(new(*http.MaxBytesError))},
		{"Join and Fold", keyfunc.Fold(keyfunc.Join(constant("a"), form)), post(formType, "user=alice"), limited, as(new(*http.MaxBytesError))},
	} {
		if c.change != nil {
			c.change(c.r)
		}
		if _, err := ask(c.f, c.r); !errors.Is(err, keyfunc.ErrNoKey) || !c.has(err) {
			t.Errorf("%s: the error is %v, which lacks its cause", c.name, err)
		}
	}
}
