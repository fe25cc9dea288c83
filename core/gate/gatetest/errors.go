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
	"github.com/weir-go/weir/core/memstore"
)

type failingHandler = func(w http.ResponseWriter, r *http.Request) error

// testErrors checks when RefundIf is asked about a request whose handler returns an error.
func (s *suite) testErrors(t *testing.T) {
	fail := func(http.ResponseWriter, *http.Request) error { return errSecret }
	for _, c := range []struct {
		name    string
		handler failingHandler
		answer  http.HandlerFunc // to the error; nil if nobody answers
		status  int
		asked   string
		taken   int
	}{
		{"no error", func(w http.ResponseWriter, r *http.Request) error { fails(403)(w, r); return nil }, says(500), 403, "[403]", 0},
		{"answered", fail, says(422), 422, "[422]", 0},
		{"answered by Flush", fail, func(w http.ResponseWriter, r *http.Request) { fails(418)(w, r); w.(http.Flusher).Flush() }, 418, "[418]", 0},
		{"not answered", fail, nil, 200, "[]", 1},
		{"after an answer", func(w http.ResponseWriter, _ *http.Request) error { _, _ = io.WriteString(w, "x"); return errSecret }, says(500), 200, "[200]", 0},
		{"after a Flush", func(w http.ResponseWriter, _ *http.Request) error { w.(http.Flusher).Flush(); return errSecret }, says(500), 200, "[200]", 0},
		{"after Hijack", takeOver, func(http.ResponseWriter, *http.Request) {}, 204, "[101]", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, j := hundred(memstore.New()), new(judge)
			done := make(chan struct{}) // a server does not wait for handlers that took over a connection
			h := s.buildFailing(l, constant("k"), []gate.Option{j.option()}, c.handler, c.answer)
			got := exchange(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(done)
				h.ServeHTTP(w, r)
			}), request("GET", "/"))
			<-done
			if got.status != c.status || j.asked() != c.asked || taken(t, l, "k") != c.taken {
				t.Errorf("the answer is %d, RefundIf was asked about %s and %d are taken; want %d, %s and %d",
					got.status, j.asked(), taken(t, l, "k"), c.status, c.asked, c.taken)
			}
		})
	}
	for name, answer := range map[string]http.HandlerFunc{"answered": says(401), "not answered": nil} {
		t.Run("100 failures at once, "+name, func(t *testing.T) {
			var ran atomic.Int64
			l := core.Must(core.New(memstore.New(), core.SlidingLog("five", core.PerHour(5))))
			succeeded := gate.RefundIf(func(status int) bool { return status < 400 })
			h := s.buildFailing(l, constant("k"), []gate.Option{succeeded}, func(http.ResponseWriter, *http.Request) error {
				ran.Add(1)
				return errSecret
			}, answer)
			atOnce(100, func() { h.ServeHTTP(httptest.NewRecorder(), request("POST", "/login")) })
			if ran.Load() != 5 {
				t.Errorf("the handler ran %d times, want 5", ran.Load())
			}
		})
	}
	t.Run("refunded before the answer", func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.SlidingLog("one", core.PerHour(1))))
		server := httptest.NewServer(s.buildFailing(l, constant("k"), []gate.Option{new(judge).option()}, fail, says(404)))
		defer server.Close()
		for i := range 20 {
			if got := send(t, server, request("GET", "/")); got.status != http.StatusNotFound {
				t.Fatalf("request %d has status %d, want 404: the one before is refunded when its answer is here", i, got.status)
			}
		}
	})
}

// says answers with a body: Gin learns of a status without one when all middlewares have returned.
func says(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fails(status)(w, r)
		_, _ = io.WriteString(w, "x")
	}
}

// takeOver takes over the connection, answers and fails.
func takeOver(w http.ResponseWriter, _ *http.Request) error {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	return errSecret
}
