package keyfunc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

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
