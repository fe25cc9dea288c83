package gatetest

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/keyfunc"
)

// stuck returns a Store that answers when the request ends, with err or the error of its
// context. It closes entered, unless that is nil, when it is called.
func stuck(entered chan struct{}, err error) *storetest.Fake {
	return new(storetest.Fake).Set(func(ctx context.Context, _ []driver.Charge, _ storetest.Call) error {
		if entered != nil {
			close(entered)
		}
		<-ctx.Done()
		return cmp.Or(err, ctx.Err())
	})
}

// quiet keeps expected faults out of the log and changes nothing.
var quiet = gate.OnError(func(_ *http.Request, _ error, status int) int { return status })

func (s *suite) testEnded(t *testing.T) {
	letThrough := gate.OnError(func(*http.Request, error, int) int { return 0 })
	for _, c := range []struct {
		name string
		opts []gate.Option
		err  error
	}{
		{name: "hangs up"},
		{name: "hangs up, closed", opts: []gate.Option{gate.FailClosed()}},
		{name: "hangs up, all errors let through", opts: []gate.Option{letThrough}},
		{name: "hangs up while the store fails", err: core.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) { s.testHangUp(t, c.opts, c.err) })
	}
	t.Run("before the gate", func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), burst))
		p := new(probe)
		h := s.build(l, constant("k"), nil, p.ServeHTTP)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		lines := logged(t, func() {
			if got := record(t, h, request("GET", "/").WithContext(ctx)); got.status != http.StatusServiceUnavailable {
				t.Errorf("status is %d, want 503", got.status)
			}
		})
		if p.ran() > 0 || lines != "" {
			t.Errorf("the handler ran %d times, the log is %q; a request that has ended is no failure, and no way past the limit", p.ran(), lines)
		}
	})
	t.Run("out of time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := core.Must(core.New(stuck(nil, nil), burst))
			p := new(probe)
			h := s.build(l, constant("k"), nil, p.ServeHTTP)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if got := record(t, h, request("GET", "/").WithContext(ctx)); got.status != http.StatusServiceUnavailable || p.ran() > 0 {
				t.Errorf("status is %d and the handler ran %d times; want 503 and none", got.status, p.ran())
			}
		})
	})
	t.Run("in the key function", func(t *testing.T) {
		l := core.Must(core.New(&script{}, burst))
		ctx, cancel := context.WithCancel(t.Context())
		key := func(ctx context.Context, _ *http.Request) (string, error) { cancel(); return "", errSecret }
		p := new(probe)
		h := s.build(l, key, nil, p.ServeHTTP)
		lines := logged(t, func() {
			if got := record(t, h, request("GET", "/").WithContext(ctx)); got.status != http.StatusServiceUnavailable {
				t.Errorf("status is %d, want 503", got.status)
			}
		})
		if p.ran() > 0 || lines != "" {
			t.Errorf("the handler ran %d times, the log is %q; want neither", p.ran(), lines)
		}
	})
}

// testHangUp lets a client go while the Store is thinking.
func (s *suite) testHangUp(t *testing.T, opts []gate.Option, err error) {
	entered := make(chan struct{})
	p := new(probe)
	h := s.build(core.Must(core.New(stuck(entered, err), burst)), keyfunc.RemoteIP(), opts, p.ServeHTTP)
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(w, r)
	}))
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
			t.Errorf("the client got %s although it went away", resp.Status)
		}
		<-done
	})
	if p.ran() > 0 {
		t.Error("the handler ran: hanging up would be a way past the limit")
	}
	if strings.Contains(lines, "store") {
		t.Errorf("the log is %q: a client that goes away is no failure of the store", lines)
	}
}
