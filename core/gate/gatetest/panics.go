package gatetest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
)

// testPanics checks that a panic of the application passes, and that the next
// request is served.
func (s *suite) testPanics(t *testing.T) {
	hit := func(r *http.Request) { // panics where the request asks for it
		if at := r.Header.Get("X-Panic"); at != "" {
			panic(at)
		}
	}
	for _, c := range []struct {
		name string
		err  error // of the Store
		key  keyfunc.Func
		opts []gate.Option
		h    http.HandlerFunc
	}{
		{name: "handler", h: func(_ http.ResponseWriter, r *http.Request) { hit(r) }},
		{name: "key function", key: func(_ context.Context, r *http.Request) (string, error) { hit(r); return "k", nil }},
		{name: "Skip", opts: []gate.Option{gate.Skip(func(r *http.Request) bool { hit(r); return false })}},
		{name: "Cost", opts: []gate.Option{gate.Cost(func(r *http.Request) int { hit(r); return 1 })}},
		{name: "OnError", err: errSecret, opts: []gate.Option{gate.OnError(func(r *http.Request, _ error, status int) int { hit(r); return status })}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var store core.Store = memstore.New()
			if c.err != nil {
				store = &script{err: c.err}
			}
			if c.key == nil {
				c.key = constant("k")
			}
			if c.h == nil {
				c.h = new(probe).ServeHTTP
			}
			h := s.build(core.Must(core.New(store, burst)), c.key, c.opts, c.h)
			for range 3 {
				r := request("GET", "/")
				r.Header.Set("X-Panic", c.name)
				if got := caught(func() { h.ServeHTTP(httptest.NewRecorder(), r) }); got != c.name {
					t.Errorf("panicked with %v, want %q to pass", got, c.name)
				}
				if got := record(t, h, request("GET", "/")); got.status != http.StatusOK {
					t.Errorf("the next request has status %d", got.status)
				}
			}
		})
	}
}

// caught is what f panicked with.
func caught(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// testConstruction checks that what could never work panics before the first
// request, naming the function.
func (s *suite) testConstruction(t *testing.T) {
	store := memstore.New()
	l := core.Must(core.New(store, burst))
	elsewhere := core.Must(core.New(memstore.New(), burst))
	k := constant("k")
	for _, c := range []struct {
		name    string
		limiter *core.Limiter
		key     keyfunc.Func
		opts    []gate.Option
		want    string
	}{
		{"nil limiter", nil, k, nil, `^\w+limit: New: limiter is nil$`},
		{"nil key function", l, nil, nil, `^\w+limit: New: key function is nil$`},
		{"nil option", l, k, []gate.Option{gate.ExposeHeaders(), nil}, `^\w+limit: New: option 1 is nil$`},
		{"two stores", l, k, []gate.Option{gate.And(elsewhere, k)}, `^\w+limit: New: gate.And: the limiters are on different stores`},
		{"third store", l, k, []gate.Option{gate.And(l, k), gate.And(elsewhere, k)}, `different stores`},
		{"OnDenied of another", l, k, []gate.Option{adapter.Denied("irislimit", func(int) {})},
			`^\w+limit: New: irislimit.OnDenied is an option for irislimit.New only$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := caught(func() { s.build(c.limiter, c.key, c.opts, new(probe).ServeHTTP) })
			text, ok := got.(string)
			if !ok || !regexp.MustCompile(c.want).MatchString(text) {
				t.Errorf("panicked with %v, want %s", got, c.want)
			}
		})
	}
	t.Run("same store", func(t *testing.T) {
		second := core.Must(core.New(store, daily))
		if got := caught(func() {
			s.build(l, k, []gate.Option{gate.And(second, k), gate.And(l, k)}, new(probe).ServeHTTP)
		}); got != nil {
			t.Errorf("limiters on one store: %v", got)
		}
	})
}
