package gate

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// base is a policy without limiters.
type base struct{}

func (base) ForRequest(*http.Request) *core.Limiter { return nil }

// A gate with Routes rejects a path that has a dot segment only when it is decoded.
func TestGate_Admit_EncodedDots(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerSecond(1000))))
	var failed error
	let := OnError(func(_ *http.Request, err error, status int) int { failed = err; return 0 })
	for target, want := range map[string]int{
		"/": 0, "/a/../b": 0, "/./a": 0, "/a..b": 0, "/a%2e": 0, "/...": 0, "/%2e%2e%2e": 0, "/a%2Fb": 0, "/%252e%252e/a": 0, "/a?b=/%2e%2e/": 0,
		"/%2e": 400, "/%2e%2e/a": 400, "/a/.%2e": 400, "/a%2F..": 400, "/a%2f.%2fb": 400, "/..%2Fa": 400, "/%2E./a": 400, "/%2F%2e%2e%2F": 400,
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		r := get("/")
		r.URL = u
		status := func(opts ...Option) int {
			_, _, rejection := newGate("test", l, anyKey, opts).Admit(t.Context(), header(), r, "")
			if rejection == nil {
				return 0
			}
			return rejection.Problem.Status
		}
		if got := status(Routes(base{})); got != want {
			t.Errorf("%s: got status %d, want %d", target, got, want)
		}
		if got := status(); got != 0 {
			t.Errorf("%s without Routes: got status %d", target, got)
		}
		failed = nil
		if got := status(Routes(base{}), let); got != 0 || (want != 0) != errors.Is(failed, ErrPath) {
			t.Errorf("%s with OnError: got status %d, error %v", target, got, failed)
		}
	}
}
