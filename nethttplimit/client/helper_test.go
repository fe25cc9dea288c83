package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// header returns the header with the given lines.
func header(lines string) http.Header {
	h := make(http.Header)
	for line := range strings.Lines(lines) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			h.Add(name, value)
		}
	}
	return h
}

// limiter returns a limiter on s with a Pause and rules.
func limiter(s core.Store, rules ...core.Rule) *core.Limiter {
	return core.Must(core.New(s, append([]core.Rule{core.Pause("pause")}, rules...)...))
}

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return f(r)
}

// respond returns a response with a status, the lines of a header, and a body of 4 bytes.
func respond(status int, lines string) *http.Response {
	return &http.Response{StatusCode: status, Header: header(lines), Body: io.NopCloser(strings.NewReader("body"))}
}

// always is a server with one answer.
func always(status int, lines string) http.RoundTripper {
	return roundTrip(func(*http.Request) (*http.Response, error) { return respond(status, lines), nil })
}

func get(ctx context.Context, t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://partner.example/path", nil)
	testkit.Must(t, err)
	return r
}

// closing is a body that notes that it was closed.
type closing struct {
	io.Reader
	closed atomic.Int64
}

func (c *closing) Close() error {
	c.closed.Add(1)
	return nil
}

// failing is a body whose Read fails.
type failing struct{ closing }

func (*failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func left(t *testing.T, l *core.Limiter, rule string) int {
	t.Helper()
	s, _ := testkit.Peek(t, l, "partner.example").StateOf(rule)
	return s.Remaining
}

func withCancel(d time.Duration) func(*http.Request) *http.Request {
	return func(r *http.Request) *http.Request {
		cancelled := make(chan struct{})
		//lint:ignore SA1019 callers may still use it
		r.Cancel = cancelled
		time.AfterFunc(d, func() { close(cancelled) })
		return r
	}
}

func withTimeout(d time.Duration) func(*http.Request) *http.Request {
	return func(r *http.Request) *http.Request {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		context.AfterFunc(ctx, cancel)
		return r.WithContext(ctx)
	}
}

// server starts a server and returns its URL.
func server(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
