package gatetest

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
)

// testStreams checks that a handler can use its connection as without a gate, with RefundIf and
// without.
func (s *suite) testStreams(t *testing.T) {
	s.testStream(t, setup{}, "[]", 4)
	t.Run("refunded", func(t *testing.T) {
		s.testStream(t, setup{Refund: true, Rules: []core.Rule{apptest.Hundred, core.InFlight("place", 9)}}, "[101 101 200 200]", 0)
	})
	t.Run("optional methods", s.testMethods)
	t.Run("wrapped", s.testWrapped)
}

// testStream sends every kind of stream through the gate of c, and compares the statuses that
// RefundIf got: a hijacked connection counts as 101.
func (s *suite) testStream(t *testing.T, c setup, asked string, taken int) {
	var handle http.HandlerFunc
	c.Handler = func(w http.ResponseWriter, r *http.Request) { handle(w, r) }
	a := s.start(c)
	// serve returns a server whose request h handles. The test that calls it ends after the
	// handler.
	serve := func(t *testing.T, h http.HandlerFunc) *httptest.Server {
		done := make(chan struct{})
		handle = h
		server := httptest.NewServer(apptest.ClosesAfter(done, a))
		t.Cleanup(func() {
			server.Close()
			<-done
		})
		return server
	}
	t.Run("server-sent events", func(t *testing.T) {
		proceed := make(chan struct{})
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Errorf("Flush: %v", err)
				}
				select {
				case <-proceed: // the client has read it
				case <-r.Context().Done():
					return
				}
			}
		})
		checkEvents(t, server, proceed)
	})
	for name, switched := range map[string]bool{"hijack": false, "hijack after 101": true} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if switched {
					w.WriteHeader(http.StatusSwitchingProtocols)
					if w, ok := w.(interface{ WriteHeaderNow() }); ok {
						w.WriteHeaderNow() // as websocket libraries do with Gin
					}
				}
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Errorf("Hijack: %v", err)
					return
				}
				defer conn.Close()
				line, _ := rw.ReadString('\n')
				if !switched {
					fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
				}
				fmt.Fprint(conn, strings.ToUpper(line))
			})
			shout(t, server)
		})
	}
	t.Run("deadlines", func(t *testing.T) {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			rc := http.NewResponseController(w)
			soon := time.Now().Add(time.Minute)
			for method, err := range map[string]error{
				"SetReadDeadline": rc.SetReadDeadline(soon), "SetWriteDeadline": rc.SetWriteDeadline(soon),
				"EnableFullDuplex": rc.EnableFullDuplex(),
			} {
				if err != nil {
					t.Errorf("%s: %v", method, err)
				}
			}
			w.WriteHeader(http.StatusOK)
		})
		send(t, server, request("GET", "/"))
	})
	a.CheckRefund(t, asked, taken)
}

// shout upgrades a connection, sends hello and expects HELLO.
func shout(t *testing.T, server *httptest.Server) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nhello\n")
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 101 ") || !strings.HasSuffix(string(got), "\r\n\r\nHELLO\n") {
		t.Errorf("the connection says %q, %v; want 101 and HELLO", got, err)
	}
}

// testMethods compares the optional methods of the ResponseWriter with RefundIf and without: over
// HTTP/1.1, HTTP/2 and with test writers.
func (s *suite) testMethods(t *testing.T) {
	methods := func(c setup, serve func(http.Handler)) (found []string) {
		c.Handler = func(w http.ResponseWriter, _ *http.Request) { found = methodsOf(w) }
		serve(s.start(c))
		return found
	}
	for name, serve := range map[string]func(http.Handler){
		"HTTP/1.1": func(h http.Handler) { exchange(t, h, request("GET", "/")) },
		"recorder": func(h http.Handler) { record(t, h, request("GET", "/")) },
		"nothing":  func(h http.Handler) { h.ServeHTTP(&sink{header: http.Header{}}, request("GET", "/")) },
		"HTTP/2": func(h http.Handler) {
			server := httptest.NewUnstartedServer(h)
			server.EnableHTTP2 = true
			server.StartTLS()
			defer server.Close()
			resp, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.ProtoMajor != 2 {
				t.Errorf("the protocol is %s, want HTTP/2", resp.Proto)
			}
		},
	} {
		with, without := methods(setup{Refund: true}, serve), methods(setup{}, serve)
		if !slices.Equal(with, without) {
			t.Errorf("%s: with RefundIf there are %v, without it %v", name, with, without)
		}
	}
}

// testWrapped counts the ResponseWriters between the handler and the server: only RefundIf adds
// one, and [http.ResponseController] can unwrap all.
func (s *suite) testWrapped(t *testing.T) {
	layers := func(c setup) (n int) {
		server := httptest.NewRecorder()
		c.Handler = func(w http.ResponseWriter, _ *http.Request) {
			for w != http.ResponseWriter(server) {
				n++
				u, ok := w.(interface{ Unwrap() http.ResponseWriter })
				if !ok {
					t.Fatalf("a %T cannot be unwrapped", w)
				}
				w = u.Unwrap()
			}
		}
		s.start(c).ServeHTTP(server, request("GET", "/"))
		return n
	}
	without := layers(setup{Opts: []gate.Option{skipped}})
	for name, c := range map[string]struct {
		setup
		want int
	}{
		"by default": {setup{}, without},
		"in flight":  {place(t, false), without},
		"RefundIf":   {setup{Refund: true}, without + 1},
	} {
		if got := layers(c.setup); got != c.want {
			t.Errorf("%s: the handler has %d writers around that of the server, want %d", name, got, c.want)
		}
	}
}

func methodsOf(w http.ResponseWriter) (found []string) {
	has := map[string]bool{}
	_, has["Flush"] = w.(http.Flusher)
	_, has["FlushError"] = w.(interface{ FlushError() error })
	_, has["Hijack"] = w.(http.Hijacker)
	_, has["Push"] = w.(http.Pusher)
	_, has["ReadFrom"] = w.(io.ReaderFrom)
	_, has["WriteString"] = w.(io.StringWriter)
	_, has["CloseNotify"] = w.(interface{ CloseNotify() <-chan bool })
	maps.DeleteFunc(has, func(_ string, has bool) bool { return !has })
	return slices.Sorted(maps.Keys(has))
}

// checkEvents reads three events. The server sends each after the previous one was read.
func checkEvents(t *testing.T, server *httptest.Server, proceed chan<- struct{}) {
	t.Helper()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) {
			t.Fatalf("event %d is %q, %v", i, lines.Text(), lines.Err())
		}
		lines.Scan() // the empty line
		proceed <- struct{}{}
	}
	if lines.Scan() { // to the end, because closing earlier would hang up
		t.Errorf("after the events there is %q", lines.Text())
	}
	if got := resp.Header.Get("RateLimit"); got == "" {
		t.Error("a stream has no RateLimit field")
	}
}
