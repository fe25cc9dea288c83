package gatetest

import (
	"context"
	"net/http"
	"regexp"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/keyfunc"
)

// testPanics checks that a panic of the application is not recovered, and that the next request is
// served.
func (s *suite) testPanics(t *testing.T) {
	bad := true
	boom := func() {
		if bad {
			panic("boom")
		}
	}
	for name, c := range map[string]setup{
		"handler":      {Handler: func(http.ResponseWriter, *http.Request) { boom() }},
		"key function": {Key: func(context.Context, *http.Request) (string, error) { boom(); return "k", nil }},
		"Skip":         {Opts: []gate.Option{gate.Skip(func(context.Context, *http.Request) bool { boom(); return false })}},
		"Cost":         {Opts: []gate.Option{gate.Cost(func(context.Context, *http.Request) int { boom(); return 1 })}},
		"RefundIf":     {Handler: answers(200), Opts: []gate.Option{gate.RefundIf(func(int) bool { boom(); return false })}},
		"OnError":      {Err: errSecret, Opts: []gate.Option{gate.OnError(func(_ *http.Request, _ error, status int) int { boom(); return status })}},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.start(c)
			for range 3 {
				bad = true
				if got := caught(func() { a.Get(t) }); got != "boom" {
					t.Errorf("panicked with %v, want boom to pass", got)
				}
				bad = false
				a.Gets(t, 200)
			}
		})
	}
}

// testConstruction checks that invalid arguments panic before the first request, with the name of
// the function.
func (s *suite) testConstruction(t *testing.T) {
	store := memory()
	l, second := core.Must(core.New(store, apptest.Hundred)), core.Must(core.New(store, core.SlidingLog("second", core.PerDay(1))))
	elsewhere := core.Must(core.New(memory(), apptest.Hundred))
	k := constant("k")
	for name, c := range map[string]struct {
		limiter *core.Limiter
		key     keyfunc.Func
		opts    []gate.Option
		want    string // a regular expression; no panic if empty
	}{
		"nil limiter":           {nil, k, nil, adapterName + `: New: limiter is nil$`},
		"nil key function":      {l, nil, nil, adapterName + `: New: key function is nil$`},
		"nil option":            {l, k, []gate.Option{gate.ExposeHeaders(), nil}, adapterName + `: New: option 1 is nil$`},
		"one store":             {l, k, []gate.Option{gate.And(second, k), gate.And(l, k)}, ""},
		"two stores":            {l, k, []gate.Option{gate.And(elsewhere, k)}, adapterName + `: New: gate.And: the limiters are on different stores`},
		"third store":           {l, k, []gate.Option{gate.And(l, k), gate.And(elsewhere, k)}, `different stores`},
		"OnRejected of another": {l, k, []gate.Option{adapter.Rejected("irislimit", func(int) {})}, adapterName + `: New: irislimit.OnRejected is an option for irislimit.New only$`},
		"OnDenied of another":   {l, k, []gate.Option{adapter.Denied("irislimit", func(int) {})}, adapterName + `: New: irislimit.OnDenied is an option for irislimit.New only$`},
	} {
		t.Run(name, func(t *testing.T) {
			got := caught(func() { s.build(c.limiter, c.key, c.opts, says("ok\n")) })
			text, _ := got.(string)
			if (got == nil) != (c.want == "") || !regexp.MustCompile(c.want).MatchString(text) {
				t.Errorf("panicked with %v, want %q", got, c.want)
			}
		})
	}
}
