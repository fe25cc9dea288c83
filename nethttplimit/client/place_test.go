package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/nethttplimit/client"
)

// A place is taken until the response has been read, and no longer.
func TestTransport_Places(t *testing.T) {
	read := func(_ func(), r *http.Response) { _, _ = io.ReadAll(r.Body) }
	for name, c := range map[string]struct {
		method string
		status int
		body   io.ReadCloser
		end    func(cancel func(), r *http.Response) // nil if the place is free at once
	}{
		"read to the end":      {"GET", 200, io.NopCloser(strings.NewReader("text")), read},
		"an empty body":        {"GET", 200, io.NopCloser(strings.NewReader("")), read},
		"closed":               {"GET", 200, io.NopCloser(strings.NewReader("text")), func(_ func(), r *http.Response) { _ = r.Body.Close() }},
		"closed twice":         {"GET", 200, io.NopCloser(strings.NewReader("text")), func(_ func(), r *http.Response) { _, _ = r.Body.Close(), r.Body.Close() }},
		"an error of Read":     {"GET", 500, new(failing), read},
		"the end of ctx":       {"GET", 200, io.NopCloser(strings.NewReader("text")), func(cancel func(), _ *http.Response) { cancel() }},
		"without a body":       {"GET", 200, http.NoBody, nil},
		"HEAD":                 {"HEAD", 200, io.NopCloser(strings.NewReader("")), nil},
		"204":                  {"GET", 204, io.NopCloser(strings.NewReader("")), nil},
		"304":                  {"GET", 304, io.NopCloser(strings.NewReader("")), nil},
		"a limited response":   {"GET", 429, io.NopCloser(strings.NewReader("text")), read},
		"an error of the Base": {"GET", 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter(memstore.New(), core.InFlight("places", 2))
				tr := client.Transport{Limiter: l, Key: client.ByHost, Base: roundTrip(func(*http.Request) (*http.Response, error) {
					if c.status == 0 {
						return nil, io.ErrUnexpectedEOF
					}
					r := respond(c.status, "")
					r.Body = c.body
					return r, nil
				})}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := get(ctx, t)
				r.Method = c.method
				response, _ := tr.RoundTrip(r)
				if c.end != nil {
					if status := response.StatusCode; status != 429 && left(t, l, "places") != 1 {
						t.Errorf("%d places are free before the end", left(t, l, "places"))
					}
					c.end(cancel, response)
				}
				synctest.Wait()
				testkit.Must(t, l.Pause(t.Context(), "partner.example", 0))
				if left(t, l, "places") != 2 {
					t.Errorf("%d places are free after the end", left(t, l, "places"))
				}
			})
		})
	}
}

// Without places, the body of a response is the one that Base returned. The request is not changed.
func TestTransport_Unchanged(t *testing.T) {
	body := io.NopCloser(strings.NewReader("text"))
	var sent *http.Request
	tr := client.New(limiter(memstore.New(), core.TokenBucket("rate", core.PerSecond(10))), client.ByHost)
	tr.Base = roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: r}, nil
	})
	r := get(t.Context(), t)
	r.Header.Set("X-Own", "1")
	before := *r
	response, err := tr.RoundTrip(r)
	testkit.Must(t, err)
	if response.Body != body || response.Request != r {
		t.Errorf("got the body %v of the request %p, want %v of %p", response.Body, response.Request, body, r)
	}
	if fmt.Sprint(*r) != fmt.Sprint(before) || r.Context() != before.Context() || sent == r {
		t.Errorf("got %v, want %v", *r, before)
	}
}

// The connection of a 101 can be written to, and has its place until it is closed.
func TestTransport_Upgrade(t *testing.T) {
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, line)
		rest, _ := io.ReadAll(rw)
		_, _ = io.WriteString(conn, "end of "+string(rest))
	})
	l := limiter(memstore.New(), core.InFlight("places", 1))
	tr := client.New(l, func(*http.Request) string { return "partner.example" })
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	testkit.Must(t, err)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	response, err := tr.RoundTrip(r)
	testkit.Must(t, err)
	conn, ok := response.Body.(io.ReadWriteCloser)
	if !ok || response.StatusCode != 101 {
		t.Fatalf("got %d with a %T", response.StatusCode, response.Body)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Error(err)
	}
	text := make([]byte, 6)
	if _, err := io.ReadFull(conn, text); string(text) != "hello\n" || err != nil || left(t, l, "places") != 0 {
		t.Errorf("got %q, %v, and %d places", text, err, left(t, l, "places"))
	}
	if err := conn.Close(); err != nil || left(t, l, "places") != 1 {
		t.Errorf("got %v, and %d places", err, left(t, l, "places"))
	}

	// A proxy passes on that one direction has ended.
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: tr, Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Scheme, p.Out.URL.Host = r.URL.Scheme, r.URL.Host
	}})
	defer proxy.Close()
	direct, err := net.Dial("tcp", proxy.Listener.Addr().String())
	testkit.Must(t, err)
	defer direct.Close()
	_, _ = io.WriteString(direct, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	from := bufio.NewReader(direct)
	if response, err = http.ReadResponse(from, r); err != nil || response.StatusCode != 101 {
		t.Fatalf("got %v, %v through a proxy", response, err)
	}
	_, _ = io.WriteString(direct, "hello\nrest")
	testkit.Must(t, direct.(*net.TCPConn).CloseWrite())
	if rest, err := io.ReadAll(from); string(rest) != "hello\nend of rest" || err != nil {
		t.Errorf("got %q, %v through a proxy", rest, err)
	}
}

// A body that cannot end one direction says so.
func TestTransport_CloseWrite(t *testing.T) {
	tr := client.New(limiter(memstore.New(), core.InFlight("places", 1)), client.ByHost)
	tr.Base = roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 101, Body: struct {
			io.ReadWriter
			io.Closer
		}{new(bytes.Buffer), new(closing)}}, nil
	})
	r, err := tr.RoundTrip(get(t.Context(), t))
	testkit.Must(t, err)
	defer r.Body.Close()
	if w, ok := r.Body.(interface{ CloseWrite() error }); !ok || !errors.Is(w.CloseWrite(), http.ErrNotSupported) {
		t.Errorf("got a %T", r.Body)
	}
}

// A Base with a fault keeps no place, and its results are passed on.
func TestTransport_FaultOfBase(t *testing.T) {
	ok := respond(200, "")
	for name, c := range map[string]struct {
		base     roundTrip
		response *http.Response
		err      error
	}{
		"neither": {func(*http.Request) (*http.Response, error) { return nil, nil }, nil, nil},
		"both":    {func(*http.Request) (*http.Response, error) { return ok, io.EOF }, ok, io.EOF},
		"a panic": {func(*http.Request) (*http.Response, error) { panic("base") }, nil, nil},
		"Goexit":  {func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter(memstore.New(), core.InFlight("places", 1))
			tr := &client.Transport{Limiter: l, Key: client.ByHost, Base: c.base}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() {
					if p := recover(); p != nil && p != "base" {
						t.Errorf("panic: %v", p)
					}
				}()
				response, err := tr.RoundTrip(get(t.Context(), t))
				if response != c.response || err != c.err {
					t.Errorf("got %v, %v, want %v, %v", response, err, c.response, c.err)
				}
			}()
			<-ended
			if left(t, l, "places") != 1 {
				t.Error("the place is not free")
			}
		})
	}
}

// A body with a place has the trailers of the response, and ends with http.Client.Timeout.
func TestTransport_Body(t *testing.T) {
	ended := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-End")
		_, _ = io.WriteString(w, "text")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/open" {
			<-ended
		}
		w.Header().Set("X-End", "end")
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	defer close(ended)
	l := limiter(memstore.New(), core.InFlight("places", 1))
	tr := &client.Transport{Limiter: l, Key: func(*http.Request) string { return "partner.example" }}
	for _, base := range []http.RoundTripper{s.Client().Transport, &http.Transport{TLSClientConfig: s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}} {
		tr.Base = base
		r, err := (&http.Client{Transport: tr}).Get(s.URL)
		testkit.Must(t, err)
		text, err := io.ReadAll(r.Body)
		if string(text) != "text" || err != nil || r.Trailer.Get("X-End") != "end" || left(t, l, "places") != 1 {
			t.Errorf("%s: got %q, %v, %v, and %d places", r.Proto, text, err, r.Trailer, left(t, l, "places"))
		}
		r, err = (&http.Client{Transport: tr, Timeout: 100 * time.Millisecond}).Get(s.URL + "/open")
		testkit.Must(t, err)
		text, err = io.ReadAll(r.Body)
		if string(text) != "text" || !errors.Is(err, context.DeadlineExceeded) || left(t, l, "places") != 1 {
			t.Errorf("%s: got %q, %v, and %d places", r.Proto, text, err, left(t, l, "places"))
		}
	}
}

// Many goroutines with one Transport free their places.
func TestTransport_Concurrent(t *testing.T) {
	var sent atomic.Int64
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if sent.Add(1)%7 == 0 {
			w.Header().Set("Retry-After", "0.01")
			w.WriteHeader(429)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
	})
	l := limiter(memstore.New(), core.InFlight("places", 4))
	tr := &client.Transport{Limiter: l, Key: func(*http.Request) string { return "partner.example" }, Retries: 9}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for range 3 {
				r, err := (&http.Client{Transport: tr, Timeout: time.Minute}).Get(url)
				if err != nil || r.StatusCode != 200 {
					t.Errorf("got %v, %v", r, err)
					return
				}
				switch i % 3 {
				case 0:
					_, _ = io.Copy(io.Discard, r.Body)
				case 1:
					wg.Go(func() { _, _ = io.Copy(io.Discard, r.Body) })
				}
				_ = r.Body.Close()
			}
		})
	}
	wg.Wait()
	if left(t, l, "places") != 4 {
		t.Errorf("%d places are free, want 4", left(t, l, "places"))
	}
}
