package keyfunc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weir-go/weir/keyfunc"
)

var errBroken = errors.New("the directory is down")

func TestFirstOf(t *testing.T) {
	unknown, noToken, broken := failing(keyfunc.ErrNoKey), failing(keyfunc.ErrNoToken), failing(errBroken)
	wrapped := failing(fmt.Errorf("mine: %w", keyfunc.ErrNoKey))
	a, b, empty := constant("a"), constant("b"), constant("")
	r := request("")
	for i, fs := range [][]keyfunc.Func{{a}, {a, b}, {a, broken}, {unknown, a, b}, {noToken, wrapped, a}, {empty, a}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { wantKey(t, keyfunc.FirstOf(fs...), r, "a") })
	}
	wantError(t, keyfunc.FirstOf(unknown, broken, a), r, errBroken)
	wantError(t, keyfunc.FirstOf(unknown, failing(keyfunc.ErrNotLimited), a), r, keyfunc.ErrNotLimited)
	wantError(t, keyfunc.FirstOf(broken, noToken), r, errBroken)
	wantError(t, keyfunc.FirstOf(empty), r, keyfunc.ErrNoKey)
	for _, fs := range [][]keyfunc.Func{{noToken, unknown}, {unknown, noToken}, {unknown, noToken, unknown}} {
		wantError(t, keyfunc.FirstOf(fs...), r, keyfunc.ErrNoKey)
		wantError(t, keyfunc.FirstOf(fs...), r, keyfunc.ErrNoToken)
	}
	first, second := fmt.Errorf("first: %w", keyfunc.ErrNoToken), fmt.Errorf("second: %w", keyfunc.ErrNoToken)
	wantError(t, keyfunc.FirstOf(unknown, failing(first), failing(second)), r, first)
	if _, err := ask(keyfunc.FirstOf(unknown, wrapped), r); !errors.Is(err, keyfunc.ErrNoKey) || errors.Is(err, keyfunc.ErrNoToken) {
		t.Errorf("error %v is not of the kind of its parts", err)
	}
}

func TestFirstOf_Arguments(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(context.Background(), key{}, "value")
	r := request("")
	seen := 0
	f := func(got context.Context, gotRequest *http.Request) (string, error) {
		if got.Value(key{}) == "value" && gotRequest == r {
			seen++
		}
		return "", keyfunc.ErrNoKey
	}
	_, _ = keyfunc.FirstOf(f, f)(ctx, r)
	_, _ = keyfunc.Join(f)(ctx, r)
	if seen != 3 {
		t.Errorf("%d of 3 calls got the arguments", seen)
	}
}

func TestJoin(t *testing.T) {
	r := request("")
	for _, c := range []struct {
		parts []string
		want  string
	}{
		{[]string{"a"}, "join:1:a"},
		{[]string{"a:b", "c"}, "join:3:a:b1:c"},
		{[]string{"a", "b:c"}, "join:1:a3:b:c"},
		{[]string{"\x00{}", "é"}, "join:3:\x00{}2:é"},
	} {
		wantKey(t, keyfunc.Join(constants(c.parts...)...), r, c.want)
	}
}

// The error of Join has a partial key for a gate, and its text does not contain that key.
func TestJoin_PartialKey(t *testing.T) {
	a, b, empty := constant("a"), constant("b:1"), constant("")
	noToken, unknown, broken := failing(keyfunc.ErrNoToken), failing(keyfunc.ErrNoKey), failing(errBroken)
	never := func(context.Context, *http.Request) (string, error) { panic("called") }
	for _, c := range []struct {
		name string
		f    keyfunc.Func
		want string // "" if the error has no partial key
		err  error
	}{
		{"token first", keyfunc.Join(noToken, a), "join?-1:a", keyfunc.ErrNoToken},
		{"token last", keyfunc.Join(a, noToken), "join?1:a-", keyfunc.ErrNoToken},
		{"token in the middle", keyfunc.Join(a, noToken, b), "join?1:a-3:b:1", keyfunc.ErrNoToken},
		{"two tokens", keyfunc.Join(noToken, a, noToken, b), "join?-1:a-3:b:1", keyfunc.ErrNoToken},
		{"only a token", keyfunc.Join(noToken), "", keyfunc.ErrNoToken},
		{"two tokens alone", keyfunc.Join(noToken, noToken), "", keyfunc.ErrNoToken},
		{"no address first", keyfunc.Join(unknown, never), "", keyfunc.ErrNoKey},
		{"no address last", keyfunc.Join(a, unknown, never), "join?1:a-", keyfunc.ErrNoKey},
		{"empty", keyfunc.Join(a, empty, never), "join?1:a-", keyfunc.ErrNoKey},
		{"fault", keyfunc.Join(a, broken, never), "join?1:a-", errBroken},
		{"not limited", keyfunc.Join(a, failing(keyfunc.ErrNotLimited), never), "join?1:a-", keyfunc.ErrNotLimited},
		{"not limited after a token", keyfunc.Join(noToken, failing(keyfunc.ErrNotLimited)), "", keyfunc.ErrNoToken},
		{"fault after a token", keyfunc.Join(noToken, a, broken, never), "join?-1:a-", keyfunc.ErrNoToken},
		{"joined", keyfunc.Join(keyfunc.Join(noToken, a), b), "join??9:join?-1:a3:b:1", keyfunc.ErrNoToken},
		{"joined, unknown", keyfunc.Join(keyfunc.Join(noToken), b), "join?-3:b:1", keyfunc.ErrNoToken},
		{"first of", keyfunc.FirstOf(unknown, keyfunc.Join(noToken, a)), "join?-1:a", keyfunc.ErrNoToken},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantError(t, c.f, request(""), c.err)
			_, err := ask(c.f, request(""))
			if got := partialKey(err); got != c.want {
				t.Errorf("the partial key is %q, want %q", got, c.want)
			}
			if text := err.Error(); strings.Contains(text, "join") || strings.Contains(text, "b:1") || text != c.err.Error() && c.err != keyfunc.ErrNoKey {
				t.Errorf("the text of the error is %q, want that of %q", text, c.err)
			}
		})
	}
}

func constants(parts ...string) []keyfunc.Func {
	fs := make([]keyfunc.Func, len(parts))
	for i, part := range parts {
		fs[i] = constant(part)
	}
	return fs
}

// partialKey returns the partial key of an error, or "".
func partialKey(err error) string {
	var partial interface{ PartialKey() string }
	if !errors.As(err, &partial) {
		return ""
	}
	return partial.PartialKey()
}

// Different lists of up to three of these parts have different keys, also if some parts are
// missing.
func TestJoin_Injective(t *testing.T) {
	parts := []string{"a", "b", "a:b", "b:c", ":", "-", "?", "-1:a", "join?-1:a", "1", "1:", "1:a", "1:a1:b", "join:", "join:1:a", "\x00", "{}", "}", "é", "10", "0:", "a1:a",
		"203.0.113.9", "user:203.0.113.9", strings.Repeat("x", 10), strings.Repeat("x", 100)}
	seen := map[string][]string{}
	check := func(list ...string) {
		for missing := range 1<<len(list) - 1 {
			if missing > 0 && len(list) == 3 && len(strings.Join(list, "")) > 5 {
				return // enough of them
			}
			fs, name := constants(list...), slices.Clone(list)
			for i := range fs {
				if missing>>i&1 == 1 {
					fs[i], name[i] = failing(keyfunc.ErrNoToken), "(missing)"
				}
			}
			key, err := ask(keyfunc.Join(fs...), request(""))
			if missing > 0 {
				key = partialKey(err)
			}
			if other, ok := seen[key]; key == "" || ok && !slices.Equal(other, name) {
				t.Fatalf("%q and %q have the key %q (%v)", name, other, key, err)
			}
			seen[key] = name
		}
	}
	for _, a := range parts {
		check(a)
		for _, b := range parts {
			check(a, b)
			for _, c := range parts {
				check(a, b, c)
			}
		}
	}
}

// Keys of different kinds are never equal: an address differs from a user of that name, and a
// joined pair from any text that looks like it.
func TestFunc_KindsOfKeys(t *testing.T) {
	for _, name := range []string{"1.2.3.4", "2001:db8::/64", "join:1:a", "user:a", "user@1:b:a", "@1:b:a"} {
		r := storing(t, name)
		r.RemoteAddr = "1.2.3.4:80"
		user, err := ask(subject, r)
		if err != nil || !strings.HasPrefix(user, "user:") {
			t.Errorf("key of %q is %q, %v", name, user, err)
		}
		ip, _ := ask(keyfunc.RemoteIP(), r)
		joined, _ := ask(keyfunc.Join(keyfunc.RemoteIP()), r)
		if user == ip || user == joined || ip == joined {
			t.Errorf("%q: two of the keys %q, %q, %q are equal", name, user, ip, joined)
		}
	}
}

func TestFirstOf_ArgumentsChange(t *testing.T) {
	a := constant("a")
	fs := []keyfunc.Func{a}
	first, joined := keyfunc.FirstOf(fs...), keyfunc.Join(fs...)
	fs[0] = nil
	wantKey(t, first, request(""), "a")
	wantKey(t, joined, request(""), "join:1:a")
}

func TestConstant(t *testing.T) {
	for _, peer := range []string{"192.0.2.1:1", "[2001:db8::1]:2", "@"} {
		wantKey(t, keyfunc.Constant("all"), request(peer), "constant:all")
	}
}

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
