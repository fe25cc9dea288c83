package requestkey

import (
	"context"
	"net/http"
	"testing"
)

func TestFrom(t *testing.T) {
	type key int
	r := new(http.Request)
	for _, k := range []key{1, 2, 2} {
		Register(k)
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		want *http.Request
	}{
		"no request":        {t.Context(), nil},
		"first key":         {context.WithValue(t.Context(), key(1), r), r},
		"second key":        {context.WithValue(t.Context(), key(2), r), r},
		"a key that is not": {context.WithValue(t.Context(), key(3), r), nil},
		"another type":      {context.WithValue(context.WithValue(t.Context(), key(1), "r"), key(2), r), r},
		"nil":               {context.WithValue(context.WithValue(t.Context(), key(1), (*http.Request)(nil)), key(2), r), r},
	} {
		if got := From(c.ctx); got != c.want {
			t.Errorf("%s: got %p, want %p", name, got, c.want)
		}
		if n := testing.AllocsPerRun(100, func() { From(c.ctx) }); n > 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}
