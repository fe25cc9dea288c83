package gatetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

func (s *suite) testRefund(t *testing.T) {
	t.Run("statuses", s.testRefundStatuses)
	t.Run("panics", s.testRefundPanics)
	t.Run("failures only", s.testFailuresOnly)
	t.Run("ended", s.testRefundEnded)
	t.Run("not admitted", s.testRefundNothing)
	t.Run("store fails", s.testRefundFails)
	t.Run("RefundIf is false", func(t *testing.T) {
		a := s.start(setup{refund: true, handler: answers(404)})
		a.keep = true
		exchange(t, a, request("GET", "/"))
		a.checkRefund(t, "[404]", 1)
	})
	t.Run("two identities", func(t *testing.T) {
		a := s.start(setup{refund: true, opts: []gate.Option{costs(3)}, and: constant("b")})
		exchange(t, a, request("GET", "/"))
		a.checkRefund(t, "[200]", 0)
		a.checkTaken(t, "b", 0)
	})
	t.Run("two gates with one limiter", func(t *testing.T) {
		var inner *application
		inner = s.start(setup{refund: true, handler: func(w http.ResponseWriter, r *http.Request) {
			inner.checkTaken(t, "k", 9)
			answers(200)(w, r)
		}})
		outer := s.start(setup{limiter: inner.limiter, refund: true, handler: inner.ServeHTTP})
		if _, err := inner.limiter.AllowN(t.Context(), "k", 7); err != nil {
			t.Fatal(err)
		}
		exchange(t, outer, request("GET", "/"))
		inner.checkRefund(t, "[200]", 7)
		outer.checkRefund(t, "[200]", 7)
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
			a := s.start(setup{refund: true, handler: c.handler})
			got := exchange(t, a, request(c.method, "/"))
			a.checkRefund(t, fmt.Sprintf("[%d]", got.status), 0)
		})
	}
	// An adapter may know that the framework will send 200. If it does not know, nothing is refunded.
	for name, handler := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {}, "early hints only": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103) },
	} {
		t.Run(name, func(t *testing.T) {
			a := s.start(setup{refund: true, handler: handler})
			exchange(t, a, request("GET", "/"))
			if len(a.asked) == 0 {
				a.checkRefund(t, "[]", 1)
			} else {
				a.checkRefund(t, "[200]", 0)
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
			a := s.start(setup{refund: true, handler: func(w http.ResponseWriter, r *http.Request) { before(w, r); panic(boom) }})
			if got := caught(func() { a.get(t) }); got != boom {
				t.Errorf("panicked with %v, want %v to pass", got, boom)
			}
			a.checkRefund(t, "[500]", 0)
		})
	}
	t.Run("in RefundIf", func(t *testing.T) {
		asked := 0
		a := s.start(setup{opts: []gate.Option{gate.RefundIf(func(int) bool { asked++; panic(boom) })}})
		for i := range 2 {
			if got := caught(func() { a.get(t) }); got != boom || asked != i+1 {
				t.Errorf("panicked with %v after %d calls, want %v to pass after %d", got, asked, boom, i+1)
			}
		}
	})
}

// testFailuresOnly is a login that admits five failures.
func (s *suite) testFailuresOnly(t *testing.T) {
	login := func(h http.HandlerFunc) *application {
		return s.start(setup{
			rules:   []core.Rule{core.SlidingLog("five", core.PerHour(5)), core.TokenBucket("bucket", core.PerHour(5))},
			opts:    []gate.Option{succeeded},
			handler: h,
		})
	}
	t.Run("500 failures at once", func(t *testing.T) {
		var rejected atomic.Int64
		a := login(answers(401))
		atOnce(500, func() {
			w := httptest.NewRecorder()
			a.ServeHTTP(w, request("POST", "/login"))
			if w.Code == http.StatusTooManyRequests {
				rejected.Add(1)
			}
		})
		a.checkRan(t, 5)
		if n := rejected.Load(); n != 495 {
			t.Errorf("%d are denied, want 495", n)
		}
	})
	t.Run("100 successes in a row", func(t *testing.T) {
		a := login(nil)
		server := httptest.NewServer(a)
		defer server.Close()
		for i := range 100 {
			if got := send(t, server, request("POST", "/login")); got.status != http.StatusOK {
				t.Fatalf("success %d has status %d: the previous request was not refunded before its answer", i, got.status)
			}
		}
		a.checkTaken(t, "k", 0)
	})
	t.Run("in turns", func(t *testing.T) {
		status := 0
		a := login(func(w http.ResponseWriter, r *http.Request) { answers(status)(w, r) })
		for _, status = range []int{403, 204, 403, 204, 403, 204, 403, 204, 403, 429, 429} {
			a.gets(t, status)
		}
	})
}

// Requests that end before their handlers are not refunded: otherwise a client could pass the limit
// by hanging up.
func (s *suite) testRefundEnded(t *testing.T) {
	for name, end := range map[string]func(){"returns": func() {}, "panics": func() { panic("late") }} {
		t.Run("the handler "+name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			a := s.start(setup{refund: true, handler: func(w http.ResponseWriter, r *http.Request) {
				answers(204)(w, r)
				cancel()
				end()
			}})
			caught(func() { a.ServeHTTP(httptest.NewRecorder(), request("GET", "/").WithContext(ctx)) })
			a.checkRefund(t, "[]", 1)
		})
	}
	t.Run("out of time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := s.start(setup{refund: true, handler: func(http.ResponseWriter, *http.Request) { time.Sleep(2 * time.Second) }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			record(t, a, request("GET", "/").WithContext(ctx))
			a.checkRefund(t, "[]", 1)
		})
	})
	for _, c := range hangUps {
		t.Run("hangs up, "+c.name, func(t *testing.T) { s.testRefundHangUp(t, c) })
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
	a := s.start(setup{refund: true, handler: func(w http.ResponseWriter, r *http.Request) {
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
	server := httptest.NewServer(closesAfter(done, a))
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
		a.checkRefund(t, "[]", 1)
	} else {
		a.checkRefund(t, "[502]", 0)
	}
}

// closesAfter returns a handler that closes done after h, because a server does not wait for
// handlers whose connection is closed.
func closesAfter(done chan<- struct{}, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(w, r)
	})
}

// Requests that were not charged are not refunded.
func (s *suite) testRefundNothing(t *testing.T) {
	over := states{"hundred": denied(time.Second)}
	for name, c := range map[string]setup{
		"denied":              {states: over},
		"skipped":             {states: over, opts: []gate.Option{skipped}},
		"undecided":           {err: errSecret, opts: []gate.Option{quiet}},
		"undecided, closed":   {err: errSecret, opts: []gate.Option{quiet, gate.FailClosed()}},
		"no key":              {states: over, key: noKey(keyfunc.ErrNoKey)},
		"no key, let through": {states: over, key: noKey(keyfunc.ErrNoKey), opts: []gate.Option{letThrough}},
	} {
		t.Run(name, func(t *testing.T) {
			c.refund = true
			a := s.start(c)
			exchange(t, a, request("GET", "/"))
			if n := a.store.Charges(driver.Undo) + a.store.Charges(driver.Credit); n > 0 || len(a.asked) > 0 {
				t.Errorf("RefundIf got %v, and there were %d refunds; want none", a.asked, n)
			}
		})
	}
	t.Run("a cost of zero", func(t *testing.T) {
		a := s.start(setup{refund: true, opts: []gate.Option{costs(0)}})
		exchange(t, a, request("GET", "/"))
		if n := a.store.Calls(); n != 1 {
			t.Errorf("the Store was called %d times, want once", n)
		}
		a.checkRefund(t, "[200]", 0)
	})
}

// testRefundFails checks that the response does not depend on the refund.
func (s *suite) testRefundFails(t *testing.T) {
	tooLate := gate.OnError(func(_ *http.Request, err error, status int) int {
		t.Errorf("OnError got %v, %d; want no call after the answer", err, status)
		return status
	})
	for name, opts := range map[string][]gate.Option{"": nil, "with OnError": {tooLate}, "closed": {gate.FailClosed()}} {
		t.Run("logged "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := s.start(setup{store: undoFails(), key: constant("key-of-a-person"), opts: opts, refund: true})
				lines := logged(t, func() {
					everySecond(3, 5, func() {
						if got := record(t, a, request("GET", "/?token=secret")); got.status != 200 || got.body != "ok\n" {
							t.Errorf("the answer is %d %q, want 200 ok", got.status, got.body)
						}
					})
				})
				checkLines(t, lines, 3, "weir: the cost of a request could not be refunded")
				a.checkTaken(t, "key-of-a-person", 15)
			})
		})
	}
	t.Run("the client leaves with its answer", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := onUndo(func(refund context.Context) error { cancel(); return refund.Err() })
		a := s.start(setup{store: store, refund: true})
		record(t, a, request("GET", "/").WithContext(ctx))
		a.checkRefund(t, "[200]", 0)
	})
}
