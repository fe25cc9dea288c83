package keyfunc_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// FUTURE and PAST stand for an hour from now and an hour ago.
func TestJWTSubject_Payload(t *testing.T) {
	dates := strings.NewReplacer("FUTURE", fmt.Sprint(time.Now().Add(time.Hour).Unix()), "PAST", fmt.Sprint(time.Now().Add(-time.Hour).Unix()))
	for reason, payloads := range map[string][]string{
		"": {
			`{"sub":"a","exp":FUTURE}`, ` { "sub" : "a" , "exp" : FUTURE.5 } `, `{"sub":"a","exp":253402300799}`, `{"sub":"a","exp":4e9}`,
			`{"sub":"a","exp":FUTURE,"nbf":0}`, `{"sub":"a","exp":FUTURE,"nbf":PAST,"iat":FUTURE}`,
		},
		"malformed": {
			``, `null`, `[]`, `"sub"`, `7`, `{`, `{"sub"`, `{"sub":`, `{"sub":"a","exp":FUTURE`, `{"sub":"a","exp":FUTURE]`,
			`{"sub":"a","exp":FUTURE}}`, `{"sub":"a","exp":FUTURE} {}`, `{"sub":"a","exp":FUTURE}x`,
			`{"sub":"a" "exp":FUTURE}`, `{"sub":"a",,"exp":FUTURE}`, `{"sub":"a","exp":FUTURE,}`, `{sub:"a","exp":FUTURE}`, `{1:1,"sub":"a","exp":FUTURE}`,
			`{"sub":"a","exp":0x7fffffff}`, `{"sub":"a","exp":0FUTURE}`, `{"sub":"a","exp":FUTURE,"x":}`, `{"sub":"a","exp":FUTURE,"x":tru}`,
			`{"sub":"a","exp":1e400}`, `{"sub":"a","exp":FUTURE,"n":1e400}`, "\ufeff{\"sub\":\"a\",\"exp\":FUTURE}",
			"{\"sub\":\"a\xff\",\"exp\":FUTURE}", "{\"sub\":\"a\",\"x\":\"\xff\",\"exp\":FUTURE}", "{\"sub\":\"a\",\"\xff\":1,\"exp\":FUTURE}",
		},
		"repeated member": {
			`{"sub":"a","sub":"victim","exp":FUTURE}`, `{"sub":"a","s\u0075b":"a","exp":FUTURE}`, `{"sub":"a","iss":"i","iss":"j","exp":FUTURE}`,
			`{"sub":"a","exp":PAST,"exp":FUTURE}`, `{"sub":"a","x":1,"x":2,"exp":FUTURE}`, `{"sub":"a","":1,"":2,"exp":FUTURE}`,
		},
		"no usable expiry": {
			`{"sub":"a"}`, `{"sub":"a","EXP":FUTURE}`, `{"sub":"a","exp":0}`, `{"sub":"a","exp":-0}`, `{"sub":"a","exp":0.0}`, `{"sub":"a","exp":0.5}`,
			`{"sub":"a","exp":-1}`, `{"sub":"a","exp":1e300}`, `{"sub":"a","exp":1e20}`, `{"sub":"a","exp":253402300800}`, `{"sub":"a","exp":FUTURE000}`,
			`{"sub":"a","exp":9223372036854775807}`, `{"sub":"a","exp":18446744073709551616}`, `{"sub":"a","exp":null}`, `{"sub":"a","exp":"FUTURE"}`,
			`{"sub":"a","exp":"never"}`, `{"sub":"a","exp":true}`, `{"sub":"a","exp":[FUTURE]}`, `{"sub":"a","exp":{}}`,
		},
		"expired":       {`{"sub":"a","exp":1}`, `{"sub":"a","exp":PAST}`},
		"not valid yet": {`{"sub":"a","exp":FUTURE,"nbf":FUTURE}`},
		"no usable not-before time": {
			`{"sub":"a","exp":FUTURE,"nbf":1e300}`, `{"sub":"a","exp":FUTURE,"nbf":null}`, `{"sub":"a","exp":FUTURE,"nbf":"0"}`,
			`{"sub":"a","exp":FUTURE,"nbf":-1}`, `{"sub":"a","exp":FUTURE,"nbf":-0}`,
		},
	} {
		for _, payload := range payloads {
			t.Run(payload, func(t *testing.T) {
				r := bearer(hs256(secret, goodHeader, dates.Replace(payload)))
				if reason == "" {
					wantKey(t, userFunc(), r, "user:a")
				} else {
					wantNoToken(t, userFunc(), r, reason)
				}
			})
		}
	}
}

func TestJWTSubject_Header(t *testing.T) {
	payload := fmt.Sprintf(`{"sub":"alice","exp":%d}`, inAnHour().Unix())
	for reason, headers := range map[string][]string{
		"malformed":                           {``, `null`, `[]`, `"HS256"`, `{"alg":"HS256"`, `{"alg":"HS256"}x`, "{\"alg\":\"HS256\",\"kid\":\"\xff\"}"},
		"no key to verify it with":            {`{}`, `{"alg":null}`, `{"alg":"None"}`, `{"alg":"hs256"}`, `{"alg":["HS256"]}`, `{"ALG":"HS256"}`},
		"signature or algorithm not accepted": {`{"alg":"none"}`, `{"alg":"HS384"}`, `{"alg":"RS256"}`},
		"repeated member": {
			`{"alg":"none","alg":"HS256"}`, `{"alg":"HS256","alg":"HS256"}`, `{"alg":"HS256","kid":"a","kid":"b"}`, `{"alg":"HS256","\u0061lg":"HS256"}`,
		},
		"critical header parameter": {
			`{"alg":"HS256","crit":["exp"]}`, `{"alg":"HS256","crit":["b64"],"b64":false}`, `{"alg":"HS256","crit":[]}`, `{"alg":"HS256","crit":null}`,
		},
	} {
		for _, header := range headers {
			t.Run(header, func(t *testing.T) { wantNoToken(t, userFunc(), bearer(hs256(secret, header, payload)), reason) })
		}
	}
	wantKey(t, userFunc(), bearer(hs256(secret, `{"kid":"a","alg":"HS256"}`, payload)), "user:alice")
}

// errors.Is finds the errors of package jwt and of the Keyfunc. The text does not contain them,
// because they may quote the token.
func TestJWTSubject_Errors(t *testing.T) {
	cause := errors.New("unknown kid SENTINEL")
	broken := keyfunc.JWTSubject(func(*jwt.Token) (any, error) { return nil, cause }, []string{"HS256"})
	good := token(`"sub":"a"`)
	for _, c := range []struct {
		f      keyfunc.Func
		token  string
		reason string
		is     error
	}{
		{userFunc(), good[:len(good)-43] + strings.Repeat("A", 43), "signature or algorithm not accepted", jwt.ErrTokenSignatureInvalid},
		{userFunc(), hs256(secret, `{"alg":"SENTINEL"}`, `{"sub":"a","exp":4000000000}`), "no key to verify it with", jwt.ErrTokenUnverifiable},
		{userFunc(), hs256(secret, goodHeader, `{"sub":"a","exp":1}`), "expired", jwt.ErrTokenExpired},
		{userFunc(), token(`"sub":"a","nbf":4000000000`), "not valid yet", jwt.ErrTokenNotValidYet},
		{userFunc(), token(`"sub":["SENTINEL"]`), "no subject", jwt.ErrInvalidType},
		{userFunc(keyfunc.Issuer("i")), token(`"sub":"a","iss":"SENTINEL"`), "wrong issuer", jwt.ErrTokenInvalidIssuer},
		{userFunc(keyfunc.Issuer("i")), good, "required claim missing", jwt.ErrTokenRequiredClaimMissing},
		{userFunc(keyfunc.Audience("a")), token(`"sub":"a","aud":"SENTINEL"`), "wrong audience", jwt.ErrTokenInvalidAudience},
		{userFunc(keyfunc.Audience("a")), token(`"sub":"a","aud":["SENTINEL",7]`), "invalid", jwt.ErrInvalidType},
		{broken, good, "no key to verify it with", cause},
	} {
		t.Run(c.reason, func(t *testing.T) {
			wantNoToken(t, c.f, bearer(c.token), c.reason)
			wantError(t, c.f, bearer(c.token), c.is)
		})
	}
	if errors.Is(keyfunc.ErrNoKey, keyfunc.ErrNoToken) || !errors.Is(keyfunc.ErrNoToken, keyfunc.ErrNoKey) {
		t.Error("ErrNoKey is ErrNoToken, or ErrNoToken is not ErrNoKey; want the opposite")
	}
}

// A Keyfunc written for jwt.Parse gets the token that jwt.Parse would pass to it.
func TestJWTSubject_KeyfuncArgument(t *testing.T) {
	f := keyfunc.JWTSubject(func(token *jwt.Token) (any, error) {
		if iss, _ := token.Claims.(jwt.MapClaims)["iss"].(string); iss != "i" || token.Header["alg"] != "HS256" || token.Valid {
			return nil, errors.New("unknown issuer")
		}
		return secret, nil
	}, []string{"HS256"})
	wantKey(t, f, bearer(token(`"sub":"alice","iss":"i"`)), "user@1:i:alice")
	wantError(t, f, bearer(token(`"sub":"alice","iss":"j"`)), keyfunc.ErrNoToken)
}

// A panic of the Keyfunc is not recovered, and no lock stays held.
func TestJWTSubject_KeyfuncPanic(t *testing.T) {
	panics := true
	f := keyfunc.JWTSubject(func(*jwt.Token) (any, error) {
		if panics {
			panic("mine")
		}
		return secret, nil
	}, []string{"HS256"}, keyfunc.Cache(1))
	r := bearer(token(`"sub":"alice"`))
	testkit.Panics(t, "mine", func() { _, _ = ask(f, r) })
	panics = false
	wantKey(t, f, r, "user:alice")
}

func TestJWTSubject_Text(t *testing.T) {
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

func TestJWTSubject_LongToken(t *testing.T) {
	testkit.WithoutRace(t)
	const limit = 4 << 10
	f := userFunc()
	wantNoToken(t, f, bearer(strings.Repeat("a", limit)), "malformed")
	for _, size := range []int{limit + 1, 1 << 20} {
		r := bearer(strings.Repeat("a", size))
		wantNoToken(t, f, r, "longer than 4 KiB")
		if _, n := testkit.AllocatedPerCall(50, func() { _, _ = ask(f, r) }); n > 256 {
			t.Errorf("a token of %d bytes costs %d bytes, want at most 256", size, n)
		}
	}
}

func TestJWTSubject_AuthorizationHeader(t *testing.T) {
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

func TestJWTOption(t *testing.T) {
	const full = `"sub":"alice","iss":"https://id.example.com","aud":["api","web"]`
	const key = "user@22:https://id.example.com:alice"
	issuer, audience := keyfunc.Issuer, keyfunc.Audience
	for _, c := range []struct {
		opts         []keyfunc.JWTOption
		claims, want string // "" if the token is rejected
	}{
		{nil, full, key},
		{[]keyfunc.JWTOption{issuer("https://id.example.com")}, full, key},
		{[]keyfunc.JWTOption{issuer("https://id.example.com/")}, full, ""},
		{[]keyfunc.JWTOption{issuer("HTTPS://id.example.com")}, full, ""},
		{[]keyfunc.JWTOption{issuer("i")}, `"sub":"alice"`, ""},
		{[]keyfunc.JWTOption{issuer("other"), issuer("https://id.example.com"), audience("api")}, full, key},
		{[]keyfunc.JWTOption{audience("api")}, full, key},
		{[]keyfunc.JWTOption{audience("api")}, `"sub":"alice","aud":"api"`, "user:alice"},
		{[]keyfunc.JWTOption{audience("other", "web")}, full, key},
		{[]keyfunc.JWTOption{audience("other")}, full, ""},
		{[]keyfunc.JWTOption{audience("api web")}, full, ""},
		{[]keyfunc.JWTOption{audience("api")}, `"sub":"alice"`, ""},
		{[]keyfunc.JWTOption{audience("api")}, `"sub":"alice","aud":null`, ""},
		{[]keyfunc.JWTOption{audience("api")}, `"sub":"alice","aud":[]`, ""},
		{[]keyfunc.JWTOption{audience("api")}, `"sub":"alice","aud":7`, ""},
		{[]keyfunc.JWTOption{audience("api")}, `"sub":"alice","aud":["api",7]`, ""},
		{[]keyfunc.JWTOption{audience("api")}, `"sub":"alice","AUD":"api"`, ""},
	} {
		r := bearer(token(c.claims))
		if c.want == "" {
			wantError(t, userFunc(c.opts...), r, keyfunc.ErrNoToken)
		} else {
			wantKey(t, userFunc(c.opts...), r, c.want)
		}
	}
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

// A change of the slice of algorithms has no effect.
func TestJWTSubject_ArgumentsChange(t *testing.T) {
	algorithms := []string{"HS256"}
	f := keyfunc.JWTSubject(withSecret, algorithms)
	algorithms[0] = "RS256"
	wantKey(t, f, bearer(token(`"sub":"alice"`)), "user:alice")
}

// FirstOf(user, ip) charges an invalid token to its address.
func TestFirstOf_InvalidToken(t *testing.T) {
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
