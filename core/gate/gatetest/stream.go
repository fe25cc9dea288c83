package gatetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// testStreams checks that a gate is not in the way of a handler that does more
// with its connection than write an answer.
func (s *suite) testStreams(t *testing.T) {
	l := core.Must(core.New(memstore.New(), burst))
	serve := func(t *testing.T, h http.HandlerFunc) *httptest.Server {
		server := httptest.NewServer(s.build(l, constant("k"), nil, h))
		t.Cleanup(server.Close)
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
	t.Run("flusher", func(t *testing.T) {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if _, ok := w.(http.Flusher); !ok {
				t.Errorf("%T is no http.Flusher", w)
			}
		})
		send(t, server, request("GET", "/"))
	})
	t.Run("hijack", func(t *testing.T) {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Errorf("Hijack: %v", err)
				return
			}
			defer conn.Close()
			line, _ := rw.ReadString('\n')
			fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n%s", strings.ToUpper(line))
		})
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nhello\n")
		got, err := io.ReadAll(conn)
		if err != nil || !strings.HasSuffix(string(got), "\r\n\r\nHELLO\n") {
			t.Errorf("the connection says %q, %v; want it to shout", got, err)
		}
	})
	t.Run("deadlines", func(t *testing.T) {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			rc := http.NewResponseController(w)
			soon := time.Now().Add(time.Minute)
			for what, err := range map[string]error{
				"SetReadDeadline": rc.SetReadDeadline(soon), "SetWriteDeadline": rc.SetWriteDeadline(soon),
				"EnableFullDuplex": rc.EnableFullDuplex(),
			} {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
		send(t, server, request("GET", "/"))
	})
}

// checkEvents reads three events, the next only after the one before.
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
	if got := resp.Header.Get("RateLimit"); got == "" {
		t.Error("a stream has no RateLimit field")
	}
}
