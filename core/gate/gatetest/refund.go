package gatetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/apptest"
)

func (s *suite) testRefund(t *testing.T) {
	t.Run("statuses", s.testRefundStatuses)
	t.Run("panics", s.testRefundPanics)
	for _, c := range hangUps {
		t.Run("hangs up, "+c.name, func(t *testing.T) { s.testRefundHangUp(t, c) })
	}
	t.Run("refunded before the answer", func(t *testing.T) {
		a := s.start(setup{Rules: []core.Rule{core.SlidingLog("one", core.PerHour(1))}, Refund: true})
		server := httptest.NewServer(a)
		defer server.Close()
		for i := range 20 {
			if got := send(t, server, request("POST", "/login")); got.Status != http.StatusOK {
				t.Fatalf("request %d has status %d: the previous request was not refunded before its answer", i, got.Status)
			}
		}
	})
}

// testRefundStatuses compares the status that RefundIf gets with the status of the response.
func (s *suite) testRefundStatuses(t *testing.T) {
	// then returns a handler that calls first, and afterwards tries to write status.
	then := func(status int, first func(w http.ResponseWriter)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { first(w); answers(status)(w, r) }
	}
	copies := func(n int64) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = io.Copy(w, io.LimitReader(strings.NewReader("body"), n)) }
	}
	for _, c := range []struct {
		name    string
		method  string
		handler http.HandlerFunc
	}{
		{"no content", "GET", answers(204)},
		{"redirect", "GET", answers(303)}, // without a Location, which a client would follow
		{"not modified", "GET", answers(304)},
		{"not found", "GET", answers(404)},
		{"broken", "POST", answers(500)},
		{"odd", "GET", answers(599)},
		{"HEAD", "HEAD", answers(403)},
		{"Write", "GET", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }},
		{"empty Write", "GET", then(500, func(w http.ResponseWriter) { _, _ = w.Write(nil) })},
		{"WriteString", "GET", then(500, func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") })},
		{"Flush", "GET", then(500, func(w http.ResponseWriter) { w.(http.Flusher).Flush() })},
		{"controller", "GET", then(500, func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() })},
		{"ReadFrom", "GET", then(500, copies(4))},
		{"ReadFrom nothing", "GET", then(404, copies(0))}, // not too late
		{"long ReadFrom", "GET", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 1<<20)))
		}},
		{"two statuses", "GET", then(500, func(w http.ResponseWriter) { w.WriteHeader(202); _, _ = w.Write([]byte("x")) })},
		{"early hints", "GET", then(422, func(w http.ResponseWriter) { w.WriteHeader(103) })},
		{"range", "GET", func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Range", "bytes=1-2")
			http.ServeContent(w, r, "f.txt", time.Time{}, strings.NewReader("body"))
		}},
		{"recovered", "GET", then(400, func(http.ResponseWriter) { caught(func() { panic("inside") }) })},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.start(setup{Refund: true, Handler: c.handler})
			got := exchange(t, a, request(c.method, "/"))
			a.CheckRefund(t, fmt.Sprintf("[%d]", got.Status), 0)
		})
	}
	// An adapter may know that the framework will send 200. If it does not know, nothing is refunded.
	for name, handler := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {}, "early hints only": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103) },
	} {
		t.Run(name, func(t *testing.T) {
			a := s.start(setup{Refund: true, Handler: handler})
			exchange(t, a, request("GET", "/"))
			if len(a.Asked()) == 0 {
				a.CheckRefund(t, "[]", 1)
			} else {
				a.CheckRefund(t, "[200]", 0)
			}
		})
	}
}

// testRefundPanics checks that a panic counts as 500 and is not recovered.
func (s *suite) testRefundPanics(t *testing.T) {
	boom := errors.New("boom")
	for name, before := range map[string]http.HandlerFunc{
		"at once": func(http.ResponseWriter, *http.Request) {}, "after an answer": answers(204),
	} {
		t.Run(name, func(t *testing.T) {
			a := s.start(setup{Refund: true, Handler: func(w http.ResponseWriter, r *http.Request) { before(w, r); panic(boom) }})
			if got := caught(func() { a.Get(t) }); got != boom {
				t.Errorf("panicked with %v, want %v to pass", got, boom)
			}
			a.CheckRefund(t, "[500]", 0)
		})
	}
}

// A hangUp is a request whose client closes the connection while its handler runs.
type hangUp struct {
	name    string
	request string // as it is sent
	more    string // follows while the handler runs
	reads   bool   // the handler reads the body
	noticed bool   // net/http ends the context of the request
}

// net/http notices that a client of HTTP/1.1 has hung up only while a handler reads the body, and
// from the end of the body until the client sends something.
var hangUps = []hangUp{
	{"GET", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "", false, true},
	{"GET, the next request behind it", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET", false, false},
	{"POST without a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "", false, true},
	{"POST, body read", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", "", true, true},
	{"POST, chunked body read", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", "", true, true},
	{"POST, part of a body read", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbody", "", true, true},
	{"POST, body unread", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", "", false, false},
	{"POST, chunked body unread", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", "", false, false},
	{"POST, part of a body unread", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbody", "", false, false},
}

// testRefundHangUp checks the behaviour that [gate.RefundIf] documents for clients that hang up: a
// request is not refunded if net/http notices, and treated as if the client had stayed if not.
func (s *suite) testRefundHangUp(t *testing.T, c hangUp) {
	entered, gone, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a := s.start(setup{Refund: true, Handler: func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		if c.reads {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		<-gone
		if c.noticed {
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
				t.Error("the context did not end within 10 s after the client hung up")
			}
		}
		answers(502)(w, r)
	}})
	server := httptest.NewServer(apptest.ClosesAfter(done, a))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, c.request); err != nil {
		t.Fatal(err)
	}
	<-entered
	if _, err := io.WriteString(conn, c.more); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	close(gone)
	<-done
	if c.noticed {
		a.CheckRefund(t, "[]", 1)
	} else {
		a.CheckRefund(t, "[502]", 0)
	}
}
