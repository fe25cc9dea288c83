package gatetest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// Requests that end before they are decided. They are no failure of the Store, and their handlers
// do not run: otherwise a client could pass the limit by hanging up.
func (s *suite) testEnded(t *testing.T) {
	for name, c := range map[string]struct {
		opts []gate.Option
		err  error
	}{
		"hangs up":                         {},
		"hangs up, closed":                 {opts: []gate.Option{gate.FailClosed()}},
		"hangs up, all errors let through": {opts: []gate.Option{letThrough}},
		"hangs up while the store fails":   {err: core.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) { s.testHangUp(t, c.opts, c.err) })
	}
	// ends sends a request with ctx, which ends before the response.
	ends := func(t *testing.T, c setup, ctx context.Context) {
		t.Helper()
		a := s.start(c)
		lines := logged(t, func() {
			if got := record(t, a, request("GET", "/").WithContext(ctx)); got.status != http.StatusServiceUnavailable {
				t.Errorf("status is %d, want 503", got.status)
			}
		})
		a.checkRan(t, 0)
		if lines != "" {
			t.Errorf("the log is %q, want none", lines)
		}
	}
	t.Run("before the gate", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ends(t, setup{}, ctx)
	})
	t.Run("out of time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			ends(t, setup{store: stuck(make(chan struct{}), nil)}, ctx)
		})
	})
	t.Run("in the key function", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		key := func(context.Context, *http.Request) (string, error) { cancel(); return "", errSecret }
		ends(t, setup{key: key}, ctx)
	})
}

// A client hangs up while the Store decides.
func (s *suite) testHangUp(t *testing.T, opts []gate.Option, err error) {
	entered, done := make(chan struct{}), make(chan struct{})
	a := s.start(setup{store: stuck(entered, err), opts: opts})
	server := httptest.NewServer(closesAfter(done, a))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	req, reqErr := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if reqErr != nil {
		t.Fatal(reqErr)
	}
	lines := logged(t, func() {
		if resp, err := server.Client().Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("the client got %s after it hung up", resp.Status)
		}
		<-done
	})
	a.checkRan(t, 0)
	if strings.Contains(lines, "store") {
		t.Errorf("the log is %q, want nothing about the Store", lines)
	}
}
