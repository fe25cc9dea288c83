package keyfunc_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

// checkIPKey checks that key is the canonical text of an address or prefix.
func checkIPKey(t *testing.T, key string) {
	t.Helper()
	if addr, err := netip.ParseAddr(key); err == nil && addr.Is4() && addr.String() == key {
		return
	}
	if p, err := netip.ParsePrefix(key); err == nil && p.Addr().Is6() && !p.Addr().Is4In6() && p.Bits() == 64 && p.Masked().String() == key {
		return
	}
	t.Fatalf("%q is no key of an address", key)
}

// keyOf returns the key of RemoteIP for an address.
func keyOf(t *testing.T, addr string) string {
	t.Helper()
	key, err := ask(keyfunc.RemoteIP(), request(addr))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// isAddress reports whether RemoteIP accepts s as a peer.
func isAddress(s string) bool {
	_, err := ask(keyfunc.RemoteIP(), request(s))
	return err == nil
}

// isTrusted reports whether the headers of s change the key.
func isTrusted(s string) bool {
	f := keyfunc.HeaderIP("X-Real-IP", proxies)
	a, errA := ask(f, request(s, "X-Real-IP: 192.0.2.1"))
	b, errB := ask(f, request(s, "X-Real-IP: 192.0.2.2"))
	return errA == nil && errB == nil && a != b
}

// fuzzHeader compares keyBy with a simple form of the rule of XForwardedFor and Forwarded. split
// returns the entries of the lines. address returns the address of an entry, or "" if there is
// none. Both return false for a malformed header.
func fuzzHeader(f *testing.F, header string, keyBy keyfunc.Func, values []string, split func(lines []string) ([]string, bool), address func(entry string) (string, bool)) {
	for _, value := range values {
		f.Add("10.0.0.1:1234", value)
		f.Add("203.0.113.1:1234", value)
	}
	f.Add("[2001:db8:ffff::1%eth0]:80", values[1])
	f.Add("@", values[1])
	client := func(peer string, lines []string) (string, bool) {
		if !isAddress(peer) || !isTrusted(peer) {
			return peer, isAddress(peer)
		}
		entries, ok := split(lines)
		last := peer
		for i := len(entries) - 1; ok && i >= 0 && i >= len(entries)-32; i-- {
			var addr string
			if addr, ok = address(entries[i]); addr == "" {
				break
			}
			if last = addr; !isTrusted(addr) {
				break
			}
		}
		return last, ok
	}
	f.Fuzz(func(t *testing.T, peer, value string) {
		r := request(peer)
		r.Header[header] = strings.Split(value, "\n")
		key, err := ask(keyBy, r)
		addr, ok := client(peer, r.Header[header])
		if !ok {
			if !errors.Is(err, keyfunc.ErrNoKey) || errors.Is(err, keyfunc.ErrNoToken) || key != "" {
				t.Fatalf("peer %q, header %q: key %q, error %v; want ErrNoKey", peer, value, key, err)
			}
			return
		}
		checkIPKey(t, key)
		if want := keyOf(t, addr); key != want || err != nil {
			t.Fatalf("peer %q, header %q: key %q, %v; want %q", peer, value, key, err, want)
		}
	})
}

func FuzzXForwardedFor(f *testing.F) {
	fuzzHeader(f, "X-Forwarded-For", keyfunc.XForwardedFor(proxies), []string{
		"", "203.0.113.9", "6.6.6.6, 203.0.113.9, 10.0.0.2", "6.6.6.6\n203.0.113.9\n10.0.0.3, 10.0.0.2", "10.0.0.4,10.0.0.3", "203.0.113.9, garbage, 10.0.0.2",
		"203.0.113.9:80, [2001:db8:ffff::1]:443, 10.0.0.2", "::ffff:203.0.113.9, ::ffff:10.0.0.2", "fe80::1%eth0, 10.0.0.2", ",,,", " \t, \t", "1.2.3, 010.0.0.1, 10.0.0.2",
		strings.Repeat("10.0.0.2,", 40), strings.Repeat(" ", 200) + "203.0.113.9", "203.0.113.9" + strings.Repeat(" ", 117) + ",10.0.0.2", "6" + strings.Repeat(" ", 150) + "203.0.113.9", "[::1], ::1%, 10.0.0.2:99999",
	}, func(lines []string) ([]string, bool) {
		return strings.Split(strings.Join(lines, ","), ","), true
	}, func(entry string) (string, bool) {
		if !isAddress(entry) {
			return "", true
		}
		return entry, true
	})
}

// The grammar of RFC 7239 section 4 as regular expressions over the bytes of a
// line, each byte being the rune of that number.
const (
	tokenRE  = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	quotedRE = `"(?:[\t \x21\x23-\x5b\x5d-\x7e\x{80}-\x{ff}]|\\[\t -\x7e\x{80}-\x{ff}])*"`
	pairRE   = tokenRE + "=(?:" + tokenRE + "|" + quotedRE + ")"
	elemRE   = "(?:" + pairRE + ")?(?:;(?:" + pairRE + ")?)*"
)

var (
	lineRE  = regexp.MustCompile(`^[ \t]*` + elemRE + `(?:[ \t]*,[ \t]*` + elemRE + `)*[ \t]*$`)
	pieceRE = regexp.MustCompile(`(` + tokenRE + `)=(` + tokenRE + `|` + quotedRE + `)|,`)
)

// forwardedFor is a slow and simple reader of the lines. It returns the node of every element, or
// "" for an element without one.
func forwardedFor(lines []string) (nodes []string, ok bool) {
	if len(strings.Join(lines, ","))+1 > 64<<10 {
		return nil, false
	}
	for _, line := range lines {
		runes := make([]rune, 0, len(line))
		for _, b := range []byte(line) {
			runes = append(runes, rune(b))
		}
		if !lineRE.MatchString(string(runes)) {
			return nil, false
		}
		node, names := "", map[string]bool{}
		for _, m := range pieceRE.FindAllStringSubmatch(string(runes), -1) {
			if m[0] == "," {
				nodes, node, names = append(nodes, node), "", map[string]bool{}
				continue
			}
			name := strings.ToLower(m[1])
			if names[name] || len(names) == 16 {
				return nil, false
			}
			names[name] = true
			if name == "for" {
				node = m[2]
			}
		}
		nodes = append(nodes, node)
	}
	return nodes, true
}

const portRE = `(?::(?:[0-9]{1,5}|_[A-Za-z0-9._-]+))?$`

var (
	noAddressRE = regexp.MustCompile(`^(?:(?i:unknown)|_[A-Za-z0-9._-]+)` + portRE)
	addressRE   = regexp.MustCompile(`^(?:([0-9.]+)|\[([^\[\]]+)\])` + portRE)
)

// nodeAddress returns the address in a node, in the form of X-Forwarded-For, or "" for a node
// without one. It returns false for a text that is not a node.
func nodeAddress(node string) (addr string, ok bool) {
	if node == "" {
		return "", true
	}
	if strings.HasPrefix(node, `"`) {
		if strings.Contains(node, `\`) && len(node) > 130 {
			return "", false // longer than any address
		}
		node = regexp.MustCompile(`(?s)\\(.)`).ReplaceAllString(node[1:len(node)-1], "$1")
	}
	if noAddressRE.MatchString(node) {
		_, port, _ := strings.Cut(node, ":")
		n, err := strconv.Atoi(port)
		return "", err != nil || n <= 65535
	}
	m := addressRE.FindStringSubmatch(node)
	if m == nil || m[2] != "" && !strings.Contains(m[2], ":") || strings.TrimSpace(m[2]) != m[2] {
		return "", false
	}
	if i := strings.LastIndex(node, ":_"); i >= 0 {
		node = node[:i]
	}
	return node, isAddress(node)
}

func FuzzForwarded(f *testing.F) {
	fuzzHeader(f, "Forwarded", keyfunc.Forwarded(proxies), []string{
		"", "for=203.0.113.9", `by=10.0.0.1;for="203.0.113.9:80";proto=https;host="a:1"`, "for=6.6.6.6, for=203.0.113.9\nfor=10.0.0.2", `for="[2001:db8:1:2::3]:443"`,
		`for=6.6.6.6;ext=", for=198.51.100.7`, `for=6.6.6.6;x="a\", for=203.0.113.9`, `for="\2\0\3.0.113.9"`, "for=unknown, for=_hidden, for=10.0.0.2", `for="10.0.0.3:_x"`,
		";;for=203.0.113.9;;", ",,", "for=1.2.3.4;FOR=5.6.7.8", "for = 1.2.3.4", "for=1.2.3.4; x=1", "for=[::1]", "for=\"\xff\"", "for=1.2.3.4;x=\"\x00\"", `for=""`, `for="\ 1.2.3.4"`,
		"a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1;j=1;k=1;l=1;m=1;n=1;o=1;p=1;q=1", strings.Repeat("for=10.0.0.2,", 40) + "for=10.0.0.2", "for=203.0.113.9, for=garbage, for=10.0.0.2", `for="unknown:80"`, `for="_x:_y"`, `for="_x:99999"`, `for="2001:db8::1"`, `for=1.2.3.4;x="` + "\n" + `";for=5.6.7.8`,
	}, forwardedFor, nodeAddress)
}

// split is the inverse of Join. Because it exists, different parts have different keys.
func split(key string) (parts []string, ok bool) {
	rest, ok := strings.CutPrefix(key, "join:")
	for ok && rest != "" {
		var digits string
		digits, rest, ok = strings.Cut(rest, ":")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n > len(rest) {
			return nil, false
		}
		parts, rest = append(parts, rest[:n]), rest[n:]
	}
	return parts, ok
}

func FuzzJoin(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("1:a", "b", "1", "a1:b")
	f.Add("join:1:a", "x", "a", "1:x")
	f.Add("\x00", "{}", "\x00{", "}")
	f.Add("203.0.113.9", "user:a", "203.0.113.9user:", "a")
	f.Add("", "a", "a", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		join := func(parts ...string) string {
			key, err := ask(keyfunc.Join(constants(parts...)...), request(""))
			if slices.Contains(parts, "") {
				if !errors.Is(err, keyfunc.ErrNoKey) {
					t.Fatalf("Join(%q) = %q, %v; want ErrNoKey", parts, key, err)
				}
				return ""
			}
			got, ok := split(key)
			if err != nil || !ok || !slices.Equal(got, parts) {
				t.Fatalf("Join(%q) = %q, %v, which reads as %q", parts, key, err, got)
			}
			return key
		}
		if ab, cd := join(a, b), join(c, d); ab != "" && ab == cd && (a != c || b != d) {
			t.Fatalf("(%q, %q) and (%q, %q) have the key %q", a, b, c, d, ab)
		}
		join(a)
		join(a, b, c, d)
	})
}

// FuzzJWTSubject sends any text as a token, and any header and claims with a valid signature.
// Package jwt must accept every token that JWTSubject accepts, and ContextSubject must return the
// same key for its claims.
func FuzzJWTSubject(f *testing.F) {
	const payload = `{"sub":"alice","iss":"i","exp":4000000000}`
	f.Add("Bearer a.b.c", goodHeader, payload)
	f.Add("Bearer "+hs256(secret, goodHeader, payload), `{"alg":"none"}`, `{"sub":"a","SUB":"victim","exp":4e9}`)
	f.Add("bearer  ..", `{"alg":"HS256","crit":["exp"]}`, `{"sub":"a","sub":"victim","exp":4000000000}`)
	f.Add("Basic eDp5", `{"alg":"HS256","alg":"none"}`, `{"sub":"a","exp":1e300}`)
	f.Add("", `null`, `{"sub":"\ud800","exp":4000000000,"nbf":null}`)
	f.Add("Bearer \x00", `{"alg":["HS256"]}`, `[{"sub":"a","exp":4000000000}]`)
	f.Add("Bearer e30.e30.", `{"alg":"HS256","kid":{"a":[1,{}]}}`, `{"sub":" ","exp":"4000000000","aud":[1]}`)
	plain, cached := userFunc(), userFunc(keyfunc.Cache(4))
	shared := keyfunc.NewJWT(withSecret, []string{"HS256"}).Subject()
	f.Fuzz(func(t *testing.T, authorization, header, payload string) {
		for _, value := range []string{authorization, "Bearer " + hs256(secret, header, payload)} {
			r := request("")
			r.Header["Authorization"] = []string{value}
			key, err := ask(plain, r)
			for _, f := range []keyfunc.Func{cached, cached, shared, shared} {
				if again, errAgain := ask(f, r); again != key || (err == nil) != (errAgain == nil) {
					t.Fatalf("with cache %q, %v; without %q, %v", again, errAgain, key, err)
				}
			}
			if err != nil {
				if key != "" || !errors.Is(err, keyfunc.ErrNoToken) {
					t.Fatalf("key %q, error %v", key, err)
				}
				continue
			}
			_, text, _ := strings.Cut(value, " ")
			claims := jwt.MapClaims{}
			parsed, err := jwt.ParseWithClaims(strings.Trim(text, " "), claims, withSecret, jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired())
			if err != nil || !parsed.Valid || parsed.Header["crit"] != nil {
				t.Fatalf("accepted %q, which package jwt does not: %v", value, err)
			}
			if exp := claims["exp"].(float64); exp < float64(time.Now().Unix()) || exp > 253402300799 {
				t.Fatalf("accepted exp %v", exp)
			}
			wantKey(t, subject, storing(t, claims), key)
		}
	})
}

// FuzzJSONField compares JSONField with the decoders of encoding/json: whenever it returns a key,
// they see exactly that value.
func FuzzJSONField(f *testing.F) {
	for _, body := range []string{
		`{"user":"alice"}`, `{"user":"x","USER":"victim"}`, `{"user":"x","u\u017fer":"victim"}`, "{\"u\u017fer\":\"victim\",\"user\":null}", `{"user":12345678901234567890}`,
		`{"user":-0}`, `{"user":1e3}`, `{"user":1.0}`, `{"user":"\ud800"}`, "{\"user\":\"\xff\"}", `{"user":"x"}{"user":"victim"}`, `{"user":"x"} ]`, `{"a":{"user":"x"},"user":"y"}`,
		`[{"user":"x"}]`, `{"user":["x"]}`, `{"user":"x",}`, `{"u\u0073er":"\u0061"}`, ` {"":{},"user" : "x" } `, `{"user":"x","user":"x"}`, `null`, ``, "\uFEFF{}", `{"user":"a\u0000b"}`,
	} {
		f.Add(body)
	}
	user := keyfunc.JSONField("user")
	f.Fuzz(func(t *testing.T, body string) {
		r := post(jsonType, body)
		key, err := ask(user, r)
		if data, readErr := io.ReadAll(r.Body); string(data) != body || readErr != nil {
			t.Fatalf("the handler reads %q, %v; want %q", data, readErr, body)
		}
		var exact any // the same value if all names differ also without regard to case
		members := map[string]any{}
		valid := json.Unmarshal([]byte(body), &members) == nil && members != nil
		n := 0
		for name, value := range members {
			if strings.EqualFold(name, "user") {
				n, exact = n+1, value
			}
		}
		if err != nil {
			text, isText := exact.(string)
			if repeats := strings.Count(body, ":") > len(members); valid && n == 1 && isText && text != "" && !repeats && !strings.Contains(body, `\`) && !strings.ContainsRune(body, '\uFFFD') {
				t.Fatalf("no key for %q: %v", body, err)
			}
			wantMalformed(t, user, post(jsonType, body))
			return
		}
		value, ok := strings.CutPrefix(key, "body:user:")
		if !ok || value == "" {
			t.Fatalf("key %q", key)
		}
		for _, decode := range []func(any) error{
			func(v any) error { return json.Unmarshal([]byte(body), v) },
			func(v any) error { return json.NewDecoder(strings.NewReader(body)).Decode(v) },
		} {
			var text struct {
				User string `json:"user"`
			}
			var number struct {
				User json.Number `json:"user"`
			}
			if err := decode(&text); err != nil {
				if err := decode(&number); err != nil || number.User.String() != value {
					t.Fatalf("key %q of %q; the handler sees %q, %v", key, body, number.User, err)
				}
			} else if text.User != value {
				t.Fatalf("key %q of %q; the handler sees %q", key, body, text.User)
			}
		}
	})
}

// FuzzFormValue compares FormValue with net/http: whenever it returns a key, handlers see exactly
// that value.
func FuzzFormValue(f *testing.F) {
	const multipartType = "multipart/form-data; boundary=b"
	for _, c := range []struct{ contentType, query, body string }{
		{formType, "", "user=alice"}, {formType, "user=victim", "user=alice"}, {formType, "a=b", "us%65r=al%69ce+b"}, {formType, "", "user=alice&user=victim"},
		{formType, "", "user=alice;user=victim"}, {formType, "a;user=victim", "user=alice"}, {formType, "%75ser=victim", "user=alice"}, {formType, "%75Ser=victim", "user=alice"}, {formType, "", "user=%zz&user=victim"},
		{formType, "%", "user=alice"}, {formType, "", "user=alice&%=a"}, {formType, "", "&&user=a=b&"}, {formType + "; charset=utf-16", "", "user=alice"}, {jsonType, "", "user=alice"},
		{multipartType, "", "--b\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nalice\r\n--b--\r\n"},
		{multipartType, "", "--b\r\nContent-Disposition: form-data; name=user\r\n\r\nalice\r\n--b\r\nContent-Disposition: form-data; name=user; filename=f\r\n\r\nvictim\r\n--b--"},
		{multipartType, "", "x\r\n--b\r\nContent-Disposition: form-data; name*=utf-8''us%65r\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\na=6Cice\r\n--b--"},
		{multipartType, "user=victim", "--b\nContent-Disposition: form-data; name=user\n\nalice\n--b--"},
		{"multipart/form-data", "", "--"}, {"multipart/form-data; boundary=\"\"", "", "----"}, {"", "", "user=alice"},
	} {
		f.Add(c.contentType, c.query, c.body)
	}
	user := keyfunc.FormValue("user")
	f.Fuzz(func(t *testing.T, contentType, query, body string) {
		send := func() *http.Request {
			r := post(contentType, body)
			r.URL.RawQuery = query
			return r
		}
		r := send()
		key, err := ask(user, r)
		if r.Form != nil || r.PostForm != nil || r.MultipartForm != nil {
			t.Fatal("the request has a parsed form")
		}
		parsed := send()
		formErr := parsed.ParseMultipartForm(1 << 20)
		if err != nil {
			wantMalformed(t, user, send())
			isObject := strings.HasPrefix(strings.TrimLeft(body, " \t\r\n"), "{")
			folded := slices.ContainsFunc(slices.Collect(maps.Keys(parsed.URL.Query())), func(name string) bool { return name != "user" && strings.EqualFold(name, "user") })
			parsable := !isObject && !folded && send().ParseForm() == nil && (formErr == nil || errors.Is(formErr, http.ErrNotMultipart))
			isFile := parsed.MultipartForm != nil && len(parsed.MultipartForm.File["user"]) > 0
			if values := parsed.Form["user"]; parsable && !isFile && len(values) == 1 && values[0] != "" && len(parsed.PostForm["user"]) == 1 {
				t.Fatalf("no key for %q, %q, %q: %v", contentType, query, body, err)
			}
			return
		}
		value, ok := strings.CutPrefix(key, "body:user:")
		if !ok || value == "" {
			t.Fatalf("key %q", key)
		}
		again := send()
		again.Body = r.Body
		for name, got := range map[string]string{
			"PostFormValue": send().PostFormValue("user"), "FormValue": send().FormValue("user"), "FormValue after FormValue": again.FormValue("user"), "PostForm": parsed.PostForm.Get("user"),
		} {
			if got != value {
				t.Fatalf("key %q of %q, %q, %q; %s sees %q", key, contentType, query, body, name, got)
			}
		}
		if values := parsed.Form["user"]; len(values) != 1 {
			t.Fatalf("key %q of %q, %q, %q; Form has %q", key, contentType, query, body, values)
		}
	})
}
