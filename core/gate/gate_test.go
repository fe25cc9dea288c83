package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
)

var check, deny = functions{}.Check, functions{}.Deny

func anyKey(context.Context, *http.Request) (string, error) { return "k", nil }

func header() http.Header { return http.Header{} }

func get(target string) *http.Request { return httptest.NewRequest("GET", target, nil) }

// once admits one request a day.
func once() *core.Limiter {
	return core.Must(core.New(memstore.New(), core.SlidingLog("once", core.PerDay(1))))
}

func TestGate_Admit_Rejection(t *testing.T) {
	g := newGate("test", once(), anyKey, nil)
	r := get("/path")
	admitted, _, rejection := g.Admit(r.Context(), header(), r, "")
	if rejection != nil {
		t.Fatal(rejection)
	}
	if _, decided := FromContext(admitted.Context()); !decided {
		t.Error("the admitted request has no decision")
	}
	_, _, rejection = g.Admit(r.Context(), header(), r, "")
	if rejection == nil || !rejection.Denied() || !errors.Is(rejection, ErrDenied) || rejection.Decision.Len() != 1 {
		t.Fatalf("the rejection is %+v", rejection)
	}
	if got := rejection.Error(); got != `weir: 429: Policy "once" allows 1 request per 86400 s. Retry in 86400 s.` {
		t.Errorf("the text is %s", got)
	}

	secret := errors.New("secret")
	failing := func(context.Context, *http.Request) (string, error) {
		return "", fmt.Errorf("%w: %w", keyfunc.ErrNoKey, secret)
	}
	_, _, rejection = newGate("test", once(), failing, nil).Admit(r.Context(), header(), r, "")
	if rejection == nil || rejection.Denied() || !errors.Is(rejection, secret) || errors.Is(rejection, ErrDenied) || rejection.Decision.Len() != 0 {
		t.Fatalf("the rejection is %+v", rejection)
	}
	if got := rejection.Error(); got != "weir: 400: The request does not say who sent it." {
		t.Errorf("the text is %s", got)
	}
}

// The detail of a problem says which value is missing, if the key function does. It has nothing of the
// text of an error.
func TestGate_Admit_NoKey(t *testing.T) {
	for want, err := range map[string]error{
		"The request does not say who sent it: no API key in X-API-Key.": &keyfunc.NoKeyError{Detail: "no API key in X-API-Key"},
		"The request does not say who sent it: no name.":                 fmt.Errorf("secret: %w", &keyfunc.NoKeyError{Detail: "no name"}),
		"The request does not say who sent it.":                          fmt.Errorf("secret: %w", keyfunc.ErrNoKey),
		"Sign-in is required.":                                           fmt.Errorf("secret: %w", keyfunc.ErrNoToken),
	} {
		failing := func(context.Context, *http.Request) (string, error) { return "", err }
		r := get("/")
		_, _, rejection := newGate("test", once(), failing, nil).Admit(r.Context(), header(), r, "")
		if rejection.Problem.Detail != want {
			t.Errorf("the detail is %q, want %q", rejection.Problem.Detail, want)
		}
	}
}
