package gatetest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/keyfunc"
)

type failingHandler = func(w http.ResponseWriter, r *http.Request) error

// startFailing makes the application of c with a handler that returns errors.
func (s *suite) startFailing(c setup, h failingHandler, answer http.HandlerFunc) *application {
	return apptest.Start(func(l *core.Limiter, key keyfunc.Func, opts []gate.Option, _ http.HandlerFunc) http.Handler {
		return s.buildFailing(l, key, opts, h, answer)
	}, c)
}

// testErrors checks the status that RefundIf gets if the handler returns an error.
func (s *suite) testErrors(t *testing.T) {
	// failsAfter returns a handler that calls f and returns an error.
	failsAfter := func(f http.HandlerFunc) failingHandler {
		return func(w http.ResponseWriter, r *http.Request) error { f(w, r); return errSecret }
	}
	flush := func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }
	nothing := func(http.ResponseWriter, *http.Request) {}
	for _, c := range []struct {
		name    string
		handler failingHandler
		answer  http.HandlerFunc // writes the response to the error; nil for no response
		status  int
		asked   string
		taken   int
	}{
		{"no error", func(w http.ResponseWriter, r *http.Request) error { answers(403)(w, r); return nil }, answersBody(500), 403, "[403]", 0},
		{"answered", failsAfter(nothing), answersBody(422), 422, "[422]", 0},
		{"answered by Flush", failsAfter(nothing), func(w http.ResponseWriter, r *http.Request) { answers(418)(w, r); flush(w, r) }, 418, "[418]", 0},
		{"not answered", failsAfter(nothing), nil, 200, "[]", 1},
		{"after an answer", failsAfter(says("x")), answersBody(500), 200, "[200]", 0},
		{"after a Flush", failsAfter(flush), answersBody(500), 200, "[200]", 0},
		{"after Hijack", takeOver, nothing, 204, "[101]", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := make(chan struct{})
			a := s.startFailing(setup{Refund: true}, c.handler, c.answer)
			got := exchange(t, apptest.ClosesAfter(done, a), request("GET", "/"))
			<-done
			if got.Status != c.status {
				t.Errorf("the status is %d, want %d", got.Status, c.status)
			}
			a.CheckRefund(t, c.asked, c.taken)
		})
	}
	for name, answer := range map[string]http.HandlerFunc{"answered": answersBody(401), "not answered": nil} {
		t.Run("100 failures at once, "+name, func(t *testing.T) {
			var ran atomic.Int64
			a := s.startFailing(setup{
				Rules: []core.Rule{core.SlidingLog("five", core.PerHour(5))},
				Opts:  []gate.Option{succeeded},
			}, func(http.ResponseWriter, *http.Request) error { ran.Add(1); return errSecret }, answer)
			atOnce(100, func() { a.ServeHTTP(httptest.NewRecorder(), request("POST", "/login")) })
			if ran.Load() != 5 {
				t.Errorf("the handler ran %d times, want 5", ran.Load())
			}
		})
	}
	t.Run("refunded before the answer", func(t *testing.T) {
		a := s.startFailing(setup{Rules: []core.Rule{core.SlidingLog("one", core.PerHour(1))}, Refund: true}, failsAfter(nothing), answersBody(404))
		server := httptest.NewServer(a)
		defer server.Close()
		for i := range 20 {
			if got := send(t, server, request("GET", "/")); got.Status != http.StatusNotFound {
				t.Fatalf("request %d has status %d, want 404: the previous request is not refunded before its answer", i, got.Status)
			}
		}
	})
}

// answersBody returns a handler that writes a body. Without a body, Gin would send the status
// after all middlewares.
func answersBody(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answers(status)(w, r)
		_, _ = io.WriteString(w, "x")
	}
}

// takeOver hijacks the connection, writes a response and returns an error.
func takeOver(w http.ResponseWriter, _ *http.Request) error {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	return errSecret
}
