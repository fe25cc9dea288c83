package gatetest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// place returns a setup whose limiter admits one request at a time.
func place(t *testing.T, refund bool) setup {
	return setup{Limiter: testkit.Limiter(t, memstore.New(), core.InFlight("place", 1)), Refund: refund}
}

// testInFlight checks that a request has its place until its handler has returned, in whatever way, and not
// longer.
func (s *suite) testInFlight(t *testing.T) {
	for name, refund := range map[string]bool{"": false, "RefundIf, ": true} {
		for way, c := range map[string]struct {
			begin, end http.HandlerFunc // before and after the client looks at the place
			hangUp     bool             // the client hangs up in between, and the handler notices it
		}{
			"returns":            {nil, says("ok\n"), false},
			"returns nothing":    {nil, nil, false},
			"panics":             {nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
			"panics late":        {flushes, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
			"client hangs up":    {nil, says("ok\n"), true},
			"stream":             {flushes, says("ok\n"), false},
			"stream is hung up":  {flushes, says("ok\n"), true},
			"hijacks":            {func(w http.ResponseWriter, _ *http.Request) { hijack(t, w) }, nil, false},
			"hijacks and panics": {func(w http.ResponseWriter, _ *http.Request) { hijack(t, w) }, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
		} {
			t.Run(name+way, func(t *testing.T) {
				entered, leave, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
				set := place(t, refund)
				set.Handler = func(w http.ResponseWriter, r *http.Request) {
					if c.begin != nil {
						c.begin(w, r)
					}
					entered <- struct{}{}
					if c.hangUp {
						<-r.Context().Done()
					}
					<-leave
					if c.end != nil {
						c.end(w, r)
					}
				}
				a := s.start(set)
				server := httptest.NewServer(apptest.ClosesAfter(done, a))
				defer server.Close()
				conn, err := net.Dial("tcp", server.Listener.Addr().String())
				testkit.Must(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				testkit.Must(t, err)
				<-entered
				if c.hangUp {
					conn.Close()
				}
				a.CheckTaken(t, "k", 1)
				a.Gets(t, 429)
				close(leave)
				<-done
				a.CheckTaken(t, "k", 0)
			})
		}
		if s.buildFailing == nil {
			continue
		}
		for way, answer := range map[string]http.HandlerFunc{"error": answersBody(422), "error without a response": nil} {
			t.Run(name+way, func(t *testing.T) {
				var a *application
				a = s.startFailing(place(t, refund), func(http.ResponseWriter, *http.Request) error {
					a.CheckTaken(t, "k", 1)
					return errSecret
				}, answer)
				exchange(t, a, request("GET", "/"))
				a.CheckTaken(t, "k", 0)
			})
		}
	}
	t.Run("next request", s.testNextPlace)
}

// testNextPlace checks that the place of a memory store is free before a client has a short response that
// was not flushed, so that the client can send its next request.
func (s *suite) testNextPlace(t *testing.T) {
	a := s.start(place(t, false))
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		server := httptest.NewUnstartedServer(a)
		if server.EnableHTTP2 = http2; http2 {
			server.StartTLS()
		} else {
			server.Start()
		}
		for i := range 50 {
			resp, err := server.Client().Get(server.URL)
			testkit.Must(t, err)
			if got := apptest.ReadReply(t, resp); got.Status != http.StatusOK {
				t.Fatalf("%s: request %d has status %d: the place of the previous request was not freed before its answer", name, i, got.Status)
			}
		}
		server.Close()
	}
}

func flushes(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }

// hijack takes over the connection, which stays open until the end of the test.
func hijack(t *testing.T, w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Errorf("Hijack: %v", err)
		return
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
}
