package keyfunc_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

func TestJWTSubject(t *testing.T) {
	for _, c := range []struct{ name, members, want string }{
		{"subject", `"sub":"alice"`, "user:alice"},
		{"subject and issuer", `"sub":"alice","iss":"https://id.example.com"`, "user@22:https://id.example.com:alice"},
		{"empty issuer", `"sub":"alice","iss":""`, "user:alice"},
		{"exact case", `"sub":"a","SUB":"victim","Sub":"victim","ISS":"other"`, "user:a"},
		{"exact case, other order", `"SUB":"victim","sub":"a"`, "user:a"},
		{"escapes", `"s\u0075b":"\u0061lice"`, "user:alice"},
		{"spaces are part of it", `"sub":" alice "`, "user: alice "},
		{"colons", `"sub":"b:c","iss":"a"`, "user@1:a:b:c"},
		{"colons elsewhere", `"sub":"c","iss":"a:b"`, "user@3:a:b:c"},
		{"NUL and braces", `"sub":"\u0000{}"`, "user:\x00{}"},
		{"other claims", `"aud":["x"],"sub":"alice","nested":{"sub":"victim","sub":"victim"},"list":[{"sub":1}],"n":1e400`, ""},
		{"nested members may repeat", `"sub":"alice","nested":{"sub":"victim","sub":"victim"},"list":[{"sub":1}]`, "user:alice"},
		{"512 bytes", `"sub":"` + strings.Repeat("s", 512) + `"`, "user:" + strings.Repeat("s", 512)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				wantError(t, userFunc(), bearer(token(c.members)), keyfunc.ErrNoToken)
				return
			}
			wantKey(t, userFunc(), bearer(token(c.members)), c.want)
			wantKey(t, userFunc(keyfunc.Cache(1)), bearer(token(c.members)), c.want)
		})
	}
}

// The middleware that stores and the function that verifies agree on the key.
func TestJWTSubjectAndContextSubjectAgree(t *testing.T) {
	for _, claims := range []jwt.MapClaims{
		{"sub": "alice"}, {"sub": "alice", "iss": ""}, {"sub": "alice", "iss": "i"}, {"sub": "a:b", "iss": "c:d"}, {"sub": "é\x00", "iss": "日本"},
	} {
		claims["exp"] = inAnHour()
		verified, err := ask(userFunc(), bearer(sign(t, jwt.SigningMethodHS256, secret, claims)))
		if err != nil {
			t.Fatal(err)
		}
		if fromContext, err := stored(claims); err != nil || fromContext != verified {
			t.Errorf("%v: keys %q and %q, %v", claims, verified, fromContext, err)
		}
	}
}

func TestJWTSubjectRefusesClaims(t *testing.T) {
	future := fmt.Sprint(time.Now().Add(time.Hour).Unix())
	past := fmt.Sprint(time.Now().Add(-time.Hour).Unix())
	for _, payload := range []string{
		// No subject.
		`{"exp":` + future + `}`,
		`{"sub":null,"exp":` + future + `}`,
		`{"sub":7,"exp":` + future + `}`,
		`{"sub":true,"exp":` + future + `}`,
		`{"sub":["alice"],"exp":` + future + `}`,
		`{"sub":{"sub":"alice"},"exp":` + future + `}`,
		`{"sub":"","exp":` + future + `}`,
		`{"sub":" \t\u00a0","exp":` + future + `}`,
		`{"SUB":"alice","exp":` + future + `}`,
		`{"sub":"` + strings.Repeat("s", 513) + `","exp":` + future + `}`,
		// Not text.
		`{"sub":"\ud800","exp":` + future + `}`,
		`{"sub":"a\ufffd","exp":` + future + `}`,
		"{\"sub\":\"a\xff\",\"exp\":" + future + "}",
		"{\"sub\":\"a\",\"x\":\"\xff\",\"exp\":" + future + "}",
		`{"sub":"a","iss":"\udfff","exp":` + future + `}`,
		// Repeated members.
		`{"sub":"a","sub":"victim","exp":` + future + `}`,
		`{"sub":"a","s\u0075b":"a","exp":` + future + `}`,
		`{"sub":"a","iss":"i","iss":"j","exp":` + future + `}`,
		`{"sub":"a","exp":` + past + `,"exp":` + future + `}`,
		`{"sub":"a","x":1,"x":2,"exp":` + future + `}`,
		// Issuers that are none.
		`{"sub":"a","iss":null,"exp":` + future + `}`,
		`{"sub":"a","iss":7,"exp":` + future + `}`,
		`{"sub":"a","iss":["i"],"exp":` + future + `}`,
		`{"sub":"a","iss":"` + strings.Repeat("i", 513) + `","exp":` + future + `}`,
		// Expiry.
		`{"sub":"a"}`,
		`{"sub":"a","EXP":` + future + `}`,
		`{"sub":"a","exp":0}`, `{"sub":"a","exp":-0}`, `{"sub":"a","exp":0.0}`, `{"sub":"a","exp":0.5}`, `{"sub":"a","exp":-1}`,
		`{"sub":"a","exp":1}`, `{"sub":"a","exp":` + past + `}`,
		`{"sub":"a","exp":1e300}`, `{"sub":"a","exp":1e400}`, `{"sub":"a","exp":1e20}`, `{"sub":"a","exp":253402300800}`, `{"sub":"a","exp":` + future + `000}`,
		`{"sub":"a","exp":9223372036854775807}`, `{"sub":"a","exp":18446744073709551616}`,
		`{"sub":"a","exp":null}`, `{"sub":"a","exp":"` + future + `"}`, `{"sub":"a","exp":"never"}`, `{"sub":"a","exp":true}`, `{"sub":"a","exp":[` + future + `]}`, `{"sub":"a","exp":{}}`,
		// Not before.
		`{"sub":"a","exp":` + future + `,"nbf":` + future + `}`,
		`{"sub":"a","exp":` + future + `,"nbf":1e300}`, `{"sub":"a","exp":` + future + `,"nbf":null}`, `{"sub":"a","exp":` + future + `,"nbf":"0"}`, `{"sub":"a","exp":` + future + `,"nbf":-1}`,
		// Not an object.
		``, `null`, `[]`, `"sub"`, `7`, `{`, `{"sub":"a","exp":` + future, `{"sub":"a","exp":` + future + `}}`, `{"sub":"a","exp":` + future + `} {}`,
		`{"sub":"a" "exp":` + future + `}`, `{"sub":"a",,"exp":` + future + `}`, `{"sub":"a","exp":` + future + `,}`, `{sub:"a","exp":` + future + `}`, `{"sub":"a","exp":0x7fffffff}`, `{"sub":"a","exp":` + future + `,"x":}`,
	} {
		t.Run(payload, func(t *testing.T) {
			wantError(t, userFunc(), bearer(hs256(secret, goodHeader, payload)), keyfunc.ErrNoToken)
		})
	}
	// They fail for what they are, not for how they are made.
	for _, payload := range []string{
		`{"sub":"a","exp":` + future + `}`, ` { "sub" : "a" , "exp" : ` + future + `.5 } `, `{"sub":"a","exp":253402300799}`, `{"sub":"a","exp":4e9}`,
		`{"sub":"a","exp":` + future + `,"nbf":0}`, `{"sub":"a","exp":` + future + `,"nbf":` + past + `,"iat":` + future + `}`,
	} {
		wantKey(t, userFunc(), bearer(hs256(secret, goodHeader, payload)), "user:a")
	}
}

func TestJWTSubjectRefusesHeaders(t *testing.T) {
	payload := fmt.Sprintf(`{"sub":"alice","exp":%d}`, time.Now().Add(time.Hour).Unix())
	for _, header := range []string{
		``, `null`, `[]`, `{}`, `"HS256"`, `{"alg":null}`, `{"alg":"HS256"`, `{"alg":"HS256"}x`,
		`{"alg":"none"}`, `{"alg":"None"}`, `{"alg":"hs256"}`, `{"alg":"HS384"}`, `{"alg":"RS256"}`, `{"alg":["HS256"]}`, `{"ALG":"HS256"}`,
		`{"alg":"none","alg":"HS256"}`, `{"alg":"HS256","alg":"HS256"}`, `{"alg":"HS256","kid":"a","kid":"b"}`, `{"alg":"HS256","\u0061lg":"HS256"}`,
		`{"alg":"HS256","crit":["exp"]}`, `{"alg":"HS256","crit":["b64"],"b64":false}`, `{"alg":"HS256","crit":[]}`, `{"alg":"HS256","crit":null}`,
		"{\"alg\":\"HS256\",\"kid\":\"\xff\"}",
	} {
		t.Run(header, func(t *testing.T) {
			wantError(t, userFunc(), bearer(hs256(secret, header, payload)), keyfunc.ErrNoToken)
		})
	}
	wantKey(t, userFunc(), bearer(hs256(secret, `{"kid":"a","alg":"HS256"}`, payload)), "user:alice")
}

func TestJWTSubjectRefusesTexts(t *testing.T) {
	good := token(`"sub":"alice"`)
	wantKey(t, userFunc(), bearer(good), "user:alice")
	parts := strings.Split(good, ".")
	flipped := []byte(good)
	flipped[len(good)-5] ^= 1
	for _, text := range []string{
		".", "..", "...", "a.b.c", parts[0] + ".A." + parts[2], "A." + parts[1] + "." + parts[2], good + ".", "." + good, good + "." + parts[2], parts[0] + "." + parts[1], parts[0] + "." + parts[1] + ".",
		good + "=", good[:len(good)-1], string(flipped), good + " " + good, good + "," + good, good + "\n", parts[0] + "\r\n." + parts[1] + "." + parts[2],
		parts[0] + "." + parts[1] + "." + parts[2][:5] + "\n" + parts[2][5:], "Bearer " + good, "\x00", "é", hs256([]byte("another key"), goodHeader, `{"sub":"alice","exp":9999999999}`),
	} {
		wantError(t, userFunc(), bearer(text), keyfunc.ErrNoToken)
	}
	// The last character of 43 has two bits that the decoder ignores unless told otherwise.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := strings.IndexByte(alphabet, good[len(good)-1])
	wantError(t, userFunc(), bearer(good[:len(good)-1]+string(alphabet[i|1])), keyfunc.ErrNoToken)
}

func TestJWTSubjectRefusesLongTokens(t *testing.T) {
	decoded := false
	f := keyfunc.JWTSubject(func(*jwt.Token) (any, error) { decoded = true; return secret, nil }, []string{"HS256"})
	payload := fmt.Sprintf(`{"sub":"alice","exp":%d}`, time.Now().Add(time.Hour).Unix())
	pad := func(size int) string {
		// No base64 text has a length of 1 modulo 4, so two parts have to give.
		for kid := range 3 {
			header := fmt.Sprintf(`{"alg":"HS256","kid":"%s"}`, strings.Repeat("x", kid))
			for n := (size-300)*3/4 + 60; n < size; n++ {
				s := hs256(secret, header, payload+strings.Repeat(" ", n))
				if len(s) == size {
					return s
				}
				if len(s) > size {
					break
				}
			}
		}
		t.Fatalf("there is no token of %d bytes", size)
		return ""
	}
	wantKey(t, f, bearer(pad(4096)), "user:alice")
	decoded = false
	for _, size := range []int{4097, 1 << 20} {
		r := bearer(pad(size))
		wantError(t, f, r, keyfunc.ErrNoToken)
		if n := allocatedPerCall(func() { _, _ = ask(f, r) }); n > 256 || decoded {
			t.Errorf("a token of %d bytes costs %d bytes; decoded: %v", size, n, decoded)
		}
	}
}

func TestJWTSubjectReadsOneAuthorizationHeader(t *testing.T) {
	good := token(`"sub":"alice"`)
	f := userFunc()
	for _, value := range []string{"Bearer " + good, "bearer " + good, "BEARER " + good, "Bearer   " + good + " "} {
		wantKey(t, f, request("", "Authorization: "+value), "user:alice")
	}
	for _, value := range []string{"", "Bearer", "Bearer ", "Bearer    ", good, "Basic " + good, "Bearer" + good, "Bearer\t" + good, " Bearer " + good, "Bearer: " + good, "Token " + good, "BearerX " + good} {
		wantError(t, f, request("", "Authorization: "+value), keyfunc.ErrNoToken)
	}
	wantError(t, f, request(""), keyfunc.ErrNoToken)
	wantError(t, f, request("", "Authorization: Bearer "+good, "Authorization: Bearer "+good), keyfunc.ErrNoToken)
	wantError(t, f, request("", "Authorization: Bearer "+good, "Authorization: Basic eDp5"), keyfunc.ErrNoToken)
	wantError(t, f, request("", "Authorization: Bearer "+good, "Authorization: "), keyfunc.ErrNoToken)
	wantError(t, f, request("", "Proxy-Authorization: Bearer "+good, "Cookie: token="+good), keyfunc.ErrNoToken)
}

func TestJWTOptions(t *testing.T) {
	claims := `"sub":"alice","iss":"https://id.example.com","aud":["api","web"]`
	const want = "user@22:https://id.example.com:alice"
	for _, opts := range [][]keyfunc.JWTOption{
		nil,
		{keyfunc.Issuer("https://id.example.com")},
		{keyfunc.Audience("api")},
		{keyfunc.Audience("other", "web")},
		{keyfunc.Issuer("other"), keyfunc.Issuer("https://id.example.com"), keyfunc.Audience("api")},
	} {
		wantKey(t, userFunc(opts...), bearer(token(claims)), want)
	}
	for _, opts := range [][]keyfunc.JWTOption{
		{keyfunc.Issuer("https://id.example.com/")},
		{keyfunc.Issuer("HTTPS://id.example.com")},
		{keyfunc.Audience("other")},
		{keyfunc.Audience("api web")},
	} {
		wantError(t, userFunc(opts...), bearer(token(claims)), keyfunc.ErrNoToken)
	}
	wantError(t, userFunc(keyfunc.Issuer("i")), bearer(token(`"sub":"alice"`)), keyfunc.ErrNoToken)
	for _, aud := range []string{``, `,"aud":null`, `,"aud":[]`, `,"aud":""`, `,"aud":7`, `,"aud":["api",7]`, `,"AUD":"api"`} {
		wantError(t, userFunc(keyfunc.Audience("api")), bearer(token(`"sub":"alice"`+aud)), keyfunc.ErrNoToken)
	}
	wantKey(t, userFunc(keyfunc.Audience("api")), bearer(token(`"sub":"alice","aud":"api"`)), "user:alice")
}

func TestTokenFrom(t *testing.T) {
	f := userFunc(keyfunc.TokenFrom(func(r *http.Request) string {
		c, err := r.Cookie("session")
		if err != nil {
			return ""
		}
		return c.Value
	}))
	good := token(`"sub":"alice"`)
	wantKey(t, f, request("", "Cookie: session="+good), "user:alice")
	wantError(t, f, request("", "Cookie: other="+good), keyfunc.ErrNoToken)
	wantError(t, f, bearer(good), keyfunc.ErrNoToken)
	wantError(t, f, request("", "Cookie: session="+strings.Repeat("x", 5000)), keyfunc.ErrNoToken)
}

func TestLeeway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().Unix()
		r := bearer(hs256(secret, goodHeader, fmt.Sprintf(`{"sub":"alice","nbf":%d,"exp":%d}`, now+60, now+120)))
		exact, lenient := userFunc(), userFunc(keyfunc.Leeway(30*time.Second), keyfunc.Cache(10))

		wantError(t, lenient, r, keyfunc.ErrNoToken)
		time.Sleep(30 * time.Second) // 30 s before nbf
		wantError(t, exact, r, keyfunc.ErrNoToken)
		wantKey(t, lenient, r, "user:alice")
		time.Sleep(30 * time.Second) // nbf
		wantKey(t, exact, r, "user:alice")
		time.Sleep(60*time.Second - time.Nanosecond) // just before exp
		wantKey(t, exact, r, "user:alice")
		time.Sleep(time.Nanosecond)
		wantError(t, exact, r, keyfunc.ErrNoToken)
		wantKey(t, lenient, r, "user:alice")
		time.Sleep(30 * time.Second)
		wantError(t, lenient, r, keyfunc.ErrNoToken)
	})
}

func TestJWTSubjectPanics(t *testing.T) {
	for _, algorithms := range [][]string{nil, {}, {"none"}, {"NONE"}, {"RS256", "None"}, {""}, {"HS257"}, {"rs256"}, {"RS256", "ES999"}} {
		wantPanic(t, "keyfunc: JWTSubject: ", func() { keyfunc.JWTSubject(withSecret, algorithms) })
	}
	for _, none := range []string{"none", "None", "NONE"} {
		wantPanic(t, `keyfunc: JWTSubject: "none" is no signature`, func() { keyfunc.JWTSubject(withSecret, []string{none}) })
	}
	wantPanic(t, "keyfunc: JWTSubject: the Keyfunc is nil", func() { keyfunc.JWTSubject(nil, []string{"RS256"}) })
	wantPanic(t, "keyfunc: JWTSubject: option 1 is nil", func() { userFunc(keyfunc.Cache(1), nil) })
	wantPanic(t, "keyfunc: Issuer: ", func() { keyfunc.Issuer("") })
	wantPanic(t, "keyfunc: Audience: ", func() { keyfunc.Audience() })
	wantPanic(t, "keyfunc: Audience: ", func() { keyfunc.Audience("api", "") })
	wantPanic(t, "keyfunc: Leeway: -1s is negative", func() { keyfunc.Leeway(-time.Second) })
	wantPanic(t, "keyfunc: TokenFrom: ", func() { keyfunc.TokenFrom(nil) })
	wantPanic(t, "keyfunc: Cache: 0 entries", func() { keyfunc.Cache(0) })
	wantPanic(t, "keyfunc: Cache: -1 entries", func() { keyfunc.Cache(-1) })

	algorithms := []string{"HS256"}
	f := keyfunc.JWTSubject(withSecret, algorithms)
	algorithms[0] = "RS256"
	wantKey(t, f, bearer(token(`"sub":"alice"`)), "user:alice")
}

// An invalid token with FirstOf(user, ip) is that address: neither free nor a
// bucket that all invalid tokens share.
func TestInvalidTokenIsTheAddress(t *testing.T) {
	f := keyfunc.FirstOf(userFunc(), keyfunc.RemoteIP())
	for _, c := range []struct{ peer, token, want string }{
		{"203.0.113.9:1", token(`"sub":"alice"`), "user:alice"},
		{"203.0.113.9:1", token(`"sub":""`), "203.0.113.9"},
		{"203.0.113.9:1", "forged", "203.0.113.9"},
		{"203.0.113.10:1", "forged", "203.0.113.10"},
		{"203.0.113.9:1", hs256(secret, goodHeader, `{"sub":"alice","exp":1}`), "203.0.113.9"},
	} {
		wantKey(t, f, request(c.peer, "Authorization: Bearer "+c.token), c.want)
	}
	wantKey(t, f, request("203.0.113.9:1"), "203.0.113.9")
	wantError(t, f, request("@", "Authorization: Bearer forged"), keyfunc.ErrNoToken)
}
