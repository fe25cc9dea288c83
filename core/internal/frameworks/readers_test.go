package frameworks_test

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"
	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// A login is the target of decoders and binders.
type login struct {
	XMLName xml.Name `json:"-" xml:"login"`
	User    string   `json:"user" form:"user" query:"user" xml:"user"`
}

// exchanged is a request in the contexts of frameworks, which keep parts of it.
type exchanged struct {
	*http.Request
	gin  *gin.Context
	echo echo.Context
}

func exchange(r *http.Request) *exchanged {
	w := httptest.NewRecorder()
	c := gin.CreateTestContextOnly(w, theGin)
	c.Request = r
	return &exchanged{r, c, theEcho.NewContext(r, w)}
}

var theGin, theEcho = gin.New(), echo.New()

// readers are the ways in which handlers read a field called user.
var readers = map[string]func(x *exchanged) string{
	"FormValue":     func(x *exchanged) string { return x.FormValue("user") },
	"PostFormValue": func(x *exchanged) string { return x.PostFormValue("user") },
	"MultipartForm": func(x *exchanged) string {
		if err := x.ParseMultipartForm(1 << 20); err != nil {
			return ""
		}
		return url.Values(x.MultipartForm.Value).Get("user")
	},
	"MultipartReader": func(x *exchanged) string {
		parts, err := x.MultipartReader()
		if err != nil {
			return ""
		}
		for part, err := parts.NextPart(); err == nil; part, err = parts.NextPart() {
			if text, err := io.ReadAll(part); err == nil && part.FormName() == "user" {
				return string(text)
			}
		}
		return ""
	},
	"json.Decoder": func(x *exchanged) (user string) {
		var l login
		if kind := x.Header.Get("Content-Type"); kind != "" && kind != jsonType || x.Body == nil || json.NewDecoder(x.Body).Decode(&l) != nil {
			return ""
		}
		return l.User
	},
	"Gin, PostForm":   func(x *exchanged) string { return x.gin.PostForm("user") },
	"Gin, Query":      func(x *exchanged) string { return x.gin.Query("user") },
	"Gin, ShouldBind": func(x *exchanged) string { var l login; _ = x.gin.ShouldBind(&l); return l.User },
	"Gin, ShouldBindBodyWith": func(x *exchanged) string {
		if x.Body == nil {
			return ""
		}
		var l login
		_ = x.gin.ShouldBindBodyWith(&l, binding.JSON)
		return l.User
	},
	"Echo, FormValue": func(x *exchanged) string { return x.echo.FormValue("user") },
	"Echo, FormParams": func(x *exchanged) string {
		form, err := x.echo.FormParams()
		if err != nil {
			return ""
		}
		return form.Get("user")
	},
	"Echo, Bind": func(x *exchanged) string { var l login; _ = x.echo.Bind(&l); return l.User },
}

// before are middlewares that have seen the request before the key function.
var before = map[string]func(x *exchanged){
	"nothing":             func(*exchanged) {},
	"ParseForm":           func(x *exchanged) { _ = x.ParseForm() },
	"ParseMultipartForm":  func(x *exchanged) { _ = x.ParseMultipartForm(1 << 20) },
	"reads all":           func(x *exchanged) { _, _ = io.Copy(io.Discard, x.Body) },
	"ShouldBindBodyWith":  func(x *exchanged) { var l login; _ = x.gin.ShouldBindBodyWith(&l, binding.JSON) },
	"another key, a form": func(x *exchanged) { _, _ = keyfunc.FormValue("other")(x.Context(), x.Request) },
	"another key, JSON":   func(x *exchanged) { _, _ = keyfunc.JSONField("other")(x.Context(), x.Request) },
}

// FirstOf never goes on to the next key if a handler finds a value: otherwise a client would choose the limit
// of the next key for the value.
func TestFirstOf_Readers(t *testing.T) {
	testkit.WithoutRace(t)
	gin.SetMode(gin.ReleaseMode)
	contentType, multipartBody := multi(t, "user", "victim")
	otherType, otherBody := multi(t, "USER", "victim")
	emptyType, emptyBody := multi(t, "a", "1")
	bodies := map[string][2]string{
		"none": {"", ""}, "none, JSON": {jsonType, ""},
		"form": {formType, "user=victim"}, "form, upper case": {formType, "USER=victim"}, "form, without": {formType, "a=1"},
		"multipart": {contentType, multipartBody}, "multipart, upper case": {otherType, otherBody}, "multipart, without": {emptyType, emptyBody},
		"JSON": {jsonType, `{"user":"victim"}`}, "JSON, upper case": {jsonType, `{"USER":"victim"}`}, "JSON, without": {jsonType, `{"a":1}`},
		"XML": {"application/xml", "<login><user>victim</user></login>"}, "text/xml": {"text/xml", "<login><user>victim</user></login>"},
		"no type": {"", `{"user":"victim"}`}, "text": {"text/plain", `{"user":"victim"}`}, "JSON as a form": {formType, `{"user":"victim"}`},
	}
	form, field, other := keyfunc.FormValue("user"), keyfunc.JSONField("user"), keyfunc.Constant("address")
	functions := map[string]keyfunc.Func{
		"form": keyfunc.FirstOf(form, other), "JSON": keyfunc.FirstOf(field, other),
		"form and JSON": keyfunc.FirstOf(form, field, other), "JSON and form": keyfunc.FirstOf(field, form, other),
		"nested": keyfunc.FirstOf(keyfunc.FirstOf(keyfunc.JWTSubject(withSecret, []string{"HS256"}), form, field), other),
		"folded": keyfunc.FirstOf(keyfunc.Fold(keyfunc.FirstOf(form, field)), other),
		"joined": keyfunc.FirstOf(keyfunc.Join(other, form), other),
	}
	count, next := 0, map[string]bool{}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE", "post"} {
		for body, c := range bodies {
			for _, query := range []string{"", "a=1", "user=victim", "USER=victim"} {
				for _, length := range []int64{int64(len(c[1])), -1} {
					request := func(middleware func(*exchanged)) *exchanged {
						r := post(c[0], c[1])
						r.Method, r.URL.RawQuery, r.ContentLength = method, query, length
						if length == 0 {
							r.Body = http.NoBody
						}
						x := exchange(r)
						middleware(x)
						return x
					}
					for middleware, m := range before {
						for name, f := range functions {
							x := request(m)
							key, err := f(x.gin, x.Request)
							count++
							if err != nil || key != "constant:address" {
								continue
							}
							next[body+", "+name] = true
							for reader, read := range readers {
								x := request(m)
								_, _ = f(x.gin, x.Request)
								if got := read(x); got != "" {
									t.Errorf("%s, body %s, query %q, length %d, after %s, %s: %s finds %q", method, body, query, length, middleware, name, reader, got)
								}
							}
						}
					}
				}
			}
		}
	}
	// Without a value, it does go on.
	for _, name := range []string{"none, form", "none, JSON, form", "form, without, form", "multipart, without, form", "JSON, without, JSON", "JSON, without, form and JSON", "form, without, JSON and form", "JSON, without, nested"} {
		if !next[name] {
			t.Errorf("%s: FirstOf does not return the next key", name)
		}
	}
	t.Log(count, "requests")
}

// A multipart form has its key also after ParseForm, which leaves it to handlers such as c.PostForm of Gin.
func TestFormValue_ParseForm(t *testing.T) {
	for _, method := range []string{"GET", "POST", "DELETE"} {
		contentType, body := multi(t, "user", "alice")
		r := post(contentType, body)
		r.Method = method
		testkit.Must(t, r.ParseForm())
		wantKey(t, keyfunc.FormValue("user"), r, "body:user:alice")
		if got := exchange(r).gin.PostForm("user"); got != "alice" {
			t.Errorf("%s: PostForm of Gin returns %q", method, got)
		}
	}
}

// Each value that a handler reads has one key, however a client writes it.
func TestValues_Spellings(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	for name, c := range map[string]struct {
		f         keyfunc.Func
		spellings []string
		set       func(r *http.Request, text string)
		read      func(x *exchanged) string
	}{
		"a cookie, Gin": {
			keyfunc.Cookie("sid"), []string{"a/bc", "%61/bc", "a%2fbc", "a%2Fb%63", `"a/bc"`},
			func(r *http.Request, text string) { r.Header.Set("Cookie", "sid="+text) },
			func(x *exchanged) string { s, _ := x.gin.Cookie("sid"); return s },
		},
		"a value of the path, decoded by the handler": {
			keyfunc.PathValue("tenant"), []string{"a/b", "%61/b", "a%2Fb", "a%2f%62"},
			func(r *http.Request, text string) { r.SetPathValue("tenant", text) },
			func(x *exchanged) string { s, _ := url.PathUnescape(x.PathValue("tenant")); return s },
		},
		"Basic": {
			keyfunc.BasicAuthUser(), []string{"Basic YTpi", "basic YTpi", "BASIC YTpj"},
			func(r *http.Request, text string) { r.Header.Set("Authorization", text) },
			func(x *exchanged) string { s, _, _ := x.BasicAuth(); return s },
		},
	} {
		keys, values := map[string]bool{}, map[string]bool{}
		for _, text := range c.spellings {
			r := request("")
			c.set(r, text)
			keys[must(ask(c.f, r))], values[c.read(exchange(r))] = true, true
		}
		if len(keys) != 1 || len(values) != 1 {
			t.Errorf("%s: the keys are %v, and the handler reads %v; want one of each", name, keys, values)
		}
	}
	for _, text := range []string{"%", "%zz", "50%", "a%2"} { // no escape
		wantKey(t, keyfunc.Cookie("sid"), request("", "Cookie: sid="+text), "cookie:sid:"+text)
	}
}
