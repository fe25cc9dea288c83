package stacks_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// Clients that hang up, reset their connections, send bodies slowly or many requests at once, and handlers
// that panic, hijack or stream do not make more requests run at the same time than there are places, and
// take no place when they have ended.
func TestPlaces_HostileClients(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) core.Store{
		"memory": func(*testing.T) core.Store { return memstore.New() },
		"Redis": func(t *testing.T) core.Store {
			return redisstore.New(redistest.NewServer(t).Client(), "test", redisstore.Timeout(10*time.Second))
		},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/%d", name, map[bool]int{false: 1, true: 2}[http2]), func(t *testing.T) {
				testHostileClients(t, open(t), http2)
			})
		}
	}
}

func testHostileClients(t *testing.T, store core.Store, http2 bool) {
	const places, clients, each = 8, 64, 6
	l := testkit.Limiter(t, store, core.InFlight("exports", places).Hold(time.Minute)) // no lease ends during the test
	var running, most, ran atomic.Int64
	var handlers sync.WaitGroup
	server := httptest.NewUnstartedServer(nethttplimit.New(l, keyfunc.Constant("k"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		defer running.Add(-1)
		n := running.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		ran.Add(1)
		act(w, r)
	})))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if server.EnableHTTP2 = http2; http2 {
		server.StartTLS()
	} else {
		server.Start()
	}
	testkit.Concurrently(clients, func(int) {
		for range each {
			switch {
			case rand.N(8) == 0: // a client that waits
				if resp, err := server.Client().Get(server.URL); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			case http2:
				abuse2(server)
			default:
				abuse1(server.Listener.Addr().String())
			}
		}
	})
	server.Close() // waits for the handlers, except for those of hijacked connections
	handlers.Wait()
	t.Logf("%d of %d requests ran, at most %d at the same time", ran.Load(), clients*each, most.Load())
	if most.Load() > places || ran.Load() < places {
		t.Errorf("%d requests ran, at most %d at the same time, want at least %d, and at most %d", ran.Load(), most.Load(), places, places)
	}
	for deadline := time.Now().Add(10 * time.Second); testkit.Used(t, l, "k")[0] > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d places are taken 10 s after all requests have ended, want 0", testkit.Used(t, l, "k")[0])
		}
	}
}

// act is a handler that ends in a random way.
func act(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	switch rand.N(7) {
	case 0: // a short response
		_, _ = io.WriteString(w, "ok\n")
	case 1: // the body, until the client stops
		_, _ = io.Copy(io.Discard, r.Body)
	case 2:
		panic(http.ErrAbortHandler)
	case 3: // a panic in the middle of the response
		_, _ = io.WriteString(w, "part")
		_ = rc.Flush()
		panic(http.ErrAbortHandler)
	case 4: // a stream, until the client hangs up or at most for a moment
		ctx, cancel := context.WithTimeout(r.Context(), 3*time.Millisecond)
		defer cancel()
		for ctx.Err() == nil {
			if _, err := io.WriteString(w, "data: x\n\n"); err != nil || rc.Flush() != nil {
				return
			}
		}
	case 5: // a response larger than the buffers
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<17))
	case 6:
		conn, rw, err := rc.Hijack()
		if err != nil { // HTTP/2
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Millisecond))
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(io.Discard, rw)
	}
}

// abuse1 sends requests of HTTP/1.1 on one connection, and leaves at a random point.
func abuse1(addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Millisecond))
	const get, post = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
	send := func(s string) { _, _ = io.WriteString(conn, s) } // an error means that the server has hung up
	switch rand.N(6) {
	case 0:
		send(get)
	case 1: // part of a request
		send(get[:rand.N(len(get))])
	case 2: // part of a body
		send(post + strings.Repeat("x", rand.N(99)))
	case 3: // a slow body
		send(post)
		for range 100 {
			send("x")
		}
	case 4: // requests in a pipeline
		send(strings.Repeat(get, 1+rand.N(5)))
	case 5:
		send("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello")
	}
	switch rand.N(4) {
	case 0: // read a response
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	case 1: // read a part of it
		_, _ = conn.Read(make([]byte, 1+rand.N(200)))
	case 2: // hang up at once
	case 3: // reset the connection
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
}

// abuse2 sends a request of HTTP/2, and cancels it at a random point.
func abuse2(server *httptest.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), rand.N(40*time.Millisecond))
	defer cancel()
	client := server.Client()
	if rand.N(4) == 0 { // a connection of its own, which is closed
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
		defer tr.CloseIdleConnections()
		client = &http.Client{Transport: tr}
	}
	var body io.Reader
	if rand.N(2) == 0 {
		body = io.MultiReader(strings.NewReader("x"), slowBody{ctx})
	}
	r, err := http.NewRequestWithContext(ctx, "POST", server.URL, body)
	if err != nil {
		return
	}
	resp, err := client.Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if rand.N(2) == 0 {
		_, _ = io.Copy(io.Discard, resp.Body)
	}
}

// A slowBody ends with its context.
type slowBody struct{ ctx context.Context }

func (b slowBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}
