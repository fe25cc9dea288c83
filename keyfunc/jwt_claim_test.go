package keyfunc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func TestJWT_Claim(t *testing.T) {
	long := strings.Repeat("p", 512)
	for _, c := range []struct{ name, member, want string }{
		{"text", `"plan":"pro"`, "pro"},
		{"as it is", `"plan":" Pro\u0000é "`, " Pro\x00é "},
		{"512 bytes", `"plan":"` + long + `"`, long},
		{"exact case", `"PLAN":"free","plan":"pro","Plan":"free"`, "pro"},
		{"absent", `"plans":"pro"`, ""},
		{"other case", `"Plan":"pro"`, ""},
		{"nested", `"nested":{"plan":"pro"}`, ""},
		{"empty", `"plan":""`, ""},
		{"513 bytes", `"plan":"` + long + `p"`, ""},
		{"invalid text", `"plan":"pro\ud800"`, ""},
		{"replacement character", `"plan":"pro\ufffd"`, ""},
		{"null", `"plan":null`, ""},
		{"number", `"plan":1`, ""},
		{"boolean", `"plan":true`, ""},
		{"array", `"plan":["pro"]`, ""},
		{"object", `"plan":{"plan":"pro"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := bearer(token(`"sub":"alice",` + c.member))
			plain, cached := newJWT(), newJWT(keyfunc.Cache(1))
			for _, f := range []keyfunc.Func{
				keyfunc.JWTClaim("plan", withSecret, []string{"HS256"}), plain.Claim("plan"), plain.Claim("plan"), cached.Claim("plan"), cached.Claim("plan"),
			} {
				if c.want == "" {
					wantMalformed(t, f, r)
				} else {
					wantKey(t, f, r, c.want)
				}
			}
			wantKey(t, plain.Subject(), r, "user:alice")
		})
	}
	wantKey(t, newJWT().Claim("sub"), bearer(token(`"sub":"alice","iss":"i"`)), "alice")
	wantNoToken(t, newJWT().Claim("plan"), request(""), "the request has none")
	wantNoToken(t, newJWT().Claim("plan"), bearer(token(`"plan":"pro"`)), "no subject")
}

func newJWT(opts ...keyfunc.JWTOption) *keyfunc.JWT {
	return keyfunc.NewJWT(withSecret, []string{"HS256"}, opts...)
}

// countingJWT returns a JWT, and the number of its verifications of tokens that are signed with the
// key that withKey returns.
func countingJWT(withKey jwt.Keyfunc, opts ...keyfunc.JWTOption) (*keyfunc.JWT, *atomic.Int64) {
	var verified atomic.Int64
	return keyfunc.NewJWT(func(t *jwt.Token) (any, error) {
		verified.Add(1)
		return withKey(t)
	}, []string{"HS256"}, opts...), &verified
}

// A token is verified once for a request in a gate, and again for the next request. With the option
// Cache, only invalid tokens are verified again.
func TestJWT_OneVerification(t *testing.T) {
	good, forged := token(`"sub":"alice","plan":"pro"`), hs256([]byte("forged"), goodHeader, `{"sub":"alice","plan":"pro","exp":4000000000}`)
	late := hs256(secret, goodHeader, fmt.Sprintf(`{"sub":"alice","plan":"pro","exp":%d}`, time.Now().Add(-time.Minute).Unix()))
	cache, leeway := keyfunc.Cache(10), keyfunc.Leeway(time.Hour)
	for _, c := range []struct {
		name     string
		token    string
		opts     []keyfunc.JWTOption
		verified int64 // after three requests
	}{
		{"good", good, nil, 3},
		{"good, cached", good, []keyfunc.JWTOption{cache}, 1},
		{"forged", forged, nil, 3},
		{"forged, cached", forged, []keyfunc.JWTOption{cache}, 3},
		{"accepted by leeway", late, []keyfunc.JWTOption{leeway}, 3},
		{"accepted by leeway, cached", late, []keyfunc.JWTOption{leeway, cache}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			tokens, verified := countingJWT(withSecret, c.opts...)
			anonymous := keyfunc.Constant("anonymous")
			user, plan := keyfunc.FirstOf(tokens.Subject(), anonymous), keyfunc.FirstOf(tokens.Claim("plan"), anonymous)
			l := core.Must(core.New(memstore.New(), core.TokenBucket("api", core.PerMinute(100)).Plan("pro", core.PerMinute(100))))
			h := nethttplimit.New(l, keyfunc.RemoteIP(), gate.And(l, user), gate.And(l, plan), gate.Plan(tokens.Claim("plan")))(http.NotFoundHandler())
			for range 3 {
				r := httptest.NewRequest("GET", "/", nil)
				r.Header.Set("Authorization", "Bearer "+c.token)
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			if n := verified.Load(); n != c.verified {
				t.Errorf("verified %d times, want %d", n, c.verified)
			}
			want := []string{"user:alice", "pro"}
			if c.token == forged {
				want = []string{"constant:anonymous"}
			}
			for _, key := range want {
				if d, err := l.Peek(t.Context(), key); err != nil || d.State(0).Used() != 3 {
					t.Errorf("%q was charged %d, %v; want 3", key, d.State(0).Used(), err)
				}
			}
		})
	}
}

// A result is used for the same request, token and claims, for a second.
func TestJWT_NewVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := secret
		tokens, verified := countingJWT(func(*jwt.Token) (any, error) { return key, nil })
		user, plan := tokens.Subject(), tokens.Claim("plan")
		r := bearer(token(`"sub":"alice","plan":"pro","late":"claim"`))
		forged := func(n int) {
			for range n {
				wantNoToken(t, user, bearer("forged"), "malformed")
			}
		}
		for _, c := range []struct {
			name     string
			before   func()
			want     string // the plan; "" if the token is invalid
			verified int64  // so far
		}{
			{"first", func() {}, "pro", 1},
			{"within a second", func() { time.Sleep(time.Second - 1) }, "pro", 1},
			{"after a second", func() { time.Sleep(time.Nanosecond) }, "pro", 2},
			{"another request", func() { r = r.WithContext(t.Context()) }, "pro", 3},
			{"another token", func() { r.Header.Set("Authorization", "Bearer "+token(`"sub":"bob","plan":"free","late":"claim"`)) }, "free", 4},
			{"another claim", func() { wantKey(t, tokens.Claim("late"), r, "claim") }, "free", 5},
			{"after 1023 others", func() { forged(1023) }, "free", 5},
			{"after 1024 others", func() { forged(1) }, "free", 6},
			{"key withdrawn", func() { time.Sleep(time.Second); key = longSecret }, "", 7},
			{"key withdrawn, within a second", func() { time.Sleep(time.Second - 1) }, "", 7},
			{"key restored", func() { time.Sleep(time.Nanosecond); key = secret }, "free", 8},
		} {
			c.before()
			got, _ := ask(plan, r)
			if n := verified.Load(); got != c.want || n != c.verified {
				t.Errorf("%s: got %q after %d verifications, want %q after %d", c.name, got, n, c.want, c.verified)
			}
		}
	})
}

// A result is not used after the token has expired. Keyfuncs may take a while.
func TestJWT_Expiry(t *testing.T) {
	for _, leeway := range []time.Duration{0, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			tokens, verified := countingJWT(func(*jwt.Token) (any, error) { time.Sleep(2 * time.Second); return secret, nil }, keyfunc.Leeway(leeway))
			user, plan := tokens.Subject(), tokens.Claim("plan")
			time.Sleep(500 * time.Millisecond)
			r := bearer(token(`"sub":"alice","plan":"pro"`)) // expires 500 ms early
			time.Sleep(time.Hour - 3*time.Second)
			wantKey(t, user, r, "user:alice") // verified 500 ms before exp
			time.Sleep(500*time.Millisecond + leeway - 1)
			wantKey(t, plan, r, "pro")
			if n := verified.Load(); n != 1 {
				t.Errorf("leeway %v: verified %d times, want once", leeway, n)
			}
			time.Sleep(time.Nanosecond)
			wantError(t, plan, r, jwt.ErrTokenExpired)
		})
	}
}

// Entries of the cache from before a call of Claim lack that claim.
func TestJWT_CacheBeforeClaim(t *testing.T) {
	tokens, verified := countingJWT(withSecret, keyfunc.Cache(1))
	r := bearer(token(`"sub":"alice","plan":"pro","role":"admin"`))
	wantKey(t, tokens.Claim("plan"), r, "pro")
	for range 2 {
		wantKey(t, tokens.Claim("role"), r, "admin")
		wantKey(t, tokens.Claim("plan"), r, "pro")
	}
	if n := verified.Load(); n != 2 {
		t.Errorf("verified %d times, want 2", n)
	}
}

// No request gets the claim of another, whether the requests are new or used again.
func TestJWT_ConcurrentUse(t *testing.T) {
	plain, _ := countingJWT(withSecret)
	cached, _ := countingJWT(withSecret, keyfunc.Cache(8))
	testkit.Concurrently(64, func(g int) {
		r := bearer(token(fmt.Sprintf(`"sub":"%d","plan":"plan %[1]d"`, g)))
		for i := range 50 {
			if i%2 == 0 {
				r = r.WithContext(context.Background())
			}
			for _, tokens := range []*keyfunc.JWT{plain, cached} {
				wantKey(t, tokens.Subject(), r, fmt.Sprintf("user:%d", g))
				wantKey(t, tokens.Claim("plan"), r, fmt.Sprintf("plan %d", g))
				wantMalformed(t, tokens.Claim(fmt.Sprint("claim ", i%4)), r)
			}
		}
	})
}

// A JWT does not keep requests in memory, and forgets the results of old requests.
func TestJWT_Bounded(t *testing.T) {
	testkit.WithoutRace(t)
	tokens := newJWT()
	user := tokens.Subject()
	flood := func(n int) {
		for i := range n {
			_, _ = ask(user, expiring(fmt.Sprint(i), 3600))
		}
	}
	flood(2000)
	before := testkit.Heap()
	flood(10_000)
	if after := testkit.Heap(); after > before+256<<10 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	runtime.KeepAlive(tokens)
}

// JWTSubject and ContextSubject return the same key for the same claims.
func TestClaims_Key(t *testing.T) {
	for _, c := range []struct{ name, members, want string }{
		{"subject", `"sub":"alice"`, "user:alice"},
		{"subject and issuer", `"sub":"alice","iss":"https://id.example.com"`, "user@22:https://id.example.com:alice"},
		{"empty issuer", `"sub":"alice","iss":""`, "user:alice"},
		{"exact case", `"sub":"a","SUB":"victim","Sub":"victim","ISS":"other"`, "user:a"},
		{"exact case, other order", `"SUB":"victim","sub":"a"`, "user:a"},
		{"escapes", `"s\u0075b":"\u0061lice"`, "user:alice"},
		{"spaces", `"sub":" alice "`, "user: alice "},
		{"colons in the subject", `"sub":"b:c","iss":"a"`, "user@1:a:b:c"},
		{"colons in the issuer", `"sub":"c","iss":"a:b"`, "user@3:a:b:c"},
		{"NUL and braces", `"sub":"\u0000{}"`, "user:\x00{}"},
		{"beyond ASCII", `"sub":"é","iss":"日本"`, "user@6:日本:é"},
		{"repeated members in others", `"sub":"alice","nested":{"sub":"victim","sub":"victim"},"list":[{"sub":1}]`, "user:alice"},
		{"512 bytes", `"sub":"` + strings.Repeat("s", 512) + `"`, "user:" + strings.Repeat("s", 512)},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantKey(t, userFunc(), bearer(token(c.members)), c.want)
			wantKey(t, userFunc(keyfunc.Cache(1)), bearer(token(c.members)), c.want)
			wantKey(t, subject, storing(t, mapClaims(t, c.members)), c.want)
		})
	}
	for reason, claims := range map[string][]string{
		"no subject": {
			``, `"iss":"i"`, `"sub":null`, `"sub":7`, `"sub":true`, `"sub":["alice"]`, `"sub":{"sub":"alice"}`,
			`"sub":""`, `"sub":" \t\u00a0"`, `"SUB":"alice"`,
		},
		"issuer is not a string":              {`"sub":"alice","iss":null`, `"sub":"alice","iss":7`, `"sub":"alice","iss":["i"]`},
		"subject or issuer is not valid text": {`"sub":"\ud800"`, `"sub":"a\ufffd"`, `"sub":"alice","iss":"\udfff"`},
		"subject or issuer too long": {
			`"sub":"` + strings.Repeat("s", 513) + `"`, `"sub":"alice","iss":"` + strings.Repeat("i", 513) + `"`,
		},
	} {
		for _, members := range claims {
			t.Run(members, func(t *testing.T) {
				wantNoToken(t, userFunc(), bearer(token(members)), reason)
				wantNoToken(t, subject, storing(t, mapClaims(t, members)), reason)
			})
		}
	}
}

// mapClaims are the claims in members.
func mapClaims(t *testing.T, members string) jwt.MapClaims {
	t.Helper()
	claims := jwt.MapClaims{}
	if err := json.Unmarshal([]byte("{"+members+"}"), &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}
