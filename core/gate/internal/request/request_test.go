package request

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/weir-go/weir/core"
)

// A fake is a Record that does nothing. It has a size, so that two of them differ.
type fake struct{ _ int }

func (*fake) Outer() Record                   { return nil }
func (*fake) Decision() core.Decision         { return core.Decision{} }
func (*fake) Settle(*core.Limiter, int) error { return nil }

// withRecord returns a request whose context has r.
func withRecord(r Record) *http.Request {
	req := httptest.NewRequest("GET", "/", nil)
	return req.WithContext(context.WithValue(req.Context(), Key{}, r))
}

func TestFrom(t *testing.T) {
	key, want := new(int), new(fake)
	RegisterKey(key)
	under := func(r *http.Request) context.Context { return context.WithValue(t.Context(), key, r) }
	for name, c := range map[string]struct {
		ctx  context.Context
		want Record
	}{
		"no record":                         {t.Context(), nil},
		"the context of a request":          {withRecord(want).Context(), want},
		"a request under a key":             {under(withRecord(want)), want},
		"a request without a record":        {under(httptest.NewRequest("GET", "/", nil)), nil},
		"no request under the key":          {under(nil), nil},
		"a record of its own and a request": {context.WithValue(under(withRecord(new(fake))), Key{}, want), want},
	} {
		if got := From(c.ctx); got != c.want {
			t.Errorf("%s: the record is %v, want %v", name, got, c.want)
		}
	}
}

// A key that several goroutines register at once is registered once.
func TestRegisterKey_Concurrent(t *testing.T) {
	a, b := new(int), new(int)
	before := len(*requestKeys.list.Load())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			RegisterKey(a)
			RegisterKey(b)
			From(t.Context())
		})
	}
	wg.Wait()
	if got := len(*requestKeys.list.Load()) - before; got != 2 {
		t.Errorf("%d keys are registered, want 2", got)
	}
}
