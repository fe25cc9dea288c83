package apptest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// Hundred is the rule of a [Setup] without rules.
var Hundred = core.SlidingLog("hundred", core.PerHour(100))

// ErrSecret is an error whose text clients must not get.
var ErrSecret = errors.New("dial redis-7.internal:6379: key user:4711")

// Options that many cases use. Quiet keeps expected errors out of the log.
var (
	Quiet      = gate.OnError(func(_ *http.Request, _ error, status int) int { return status })
	LetThrough = gate.OnError(func(*http.Request, error, int) int { return 0 })
	Skipped    = gate.Skip(func(context.Context, *http.Request) bool { return true })
	RefundAll  = gate.RefundIf(func(int) bool { return true })
	Succeeded  = gate.RefundIf(func(status int) bool { return status < 400 })
)

// Costs returns a Cost that is always n.
func Costs(n int) gate.Option {
	return gate.Cost(func(context.Context, *http.Request) int { return n })
}

// Constant returns a key function that always finds key.
func Constant(key string) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}

// NoKey returns a key function that always fails with err.
func NoKey(err error) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return "", err }
}

// A PolicyFunc is a gate.Policy.
type PolicyFunc func(r *http.Request) *core.Limiter

func (f PolicyFunc) ForRequest(r *http.Request) *core.Limiter { return f(r) }

// Says returns a handler that writes a body.
func Says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// Answers returns a handler that writes a status without a body.
func Answers(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
	}
}

// ClosesAfter returns a handler that closes done after h, because a server does not wait for handlers
// whose connection is closed.
func ClosesAfter(done chan<- struct{}, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(w, r)
	})
}

// Problem returns a problem document about a request to /v1/orders: of the type about:blank, for a
// denial (429), or for a Store that could not decide (503). violated are the quoted names of rules.
func Problem(status int, title, detail, violated string) string {
	kind := "about:blank"
	switch {
	case violated != "" && status == http.StatusTooManyRequests:
		kind, title = "https://iana.org/assignments/http-problem-types#quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
	case violated == "" && status == http.StatusServiceUnavailable:
		kind, title = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints"
	}
	s := `{"type":"` + kind + `",`
	if title != "" {
		s += `"title":"` + title + `",`
	}
	s += `"status":` + strconv.Itoa(status)
	if detail != "" {
		s += `,"detail":"` + detail + `"`
	}
	s += `,"instance":"/v1/orders"`
	if violated != "" {
		s += `,"violated-policies":[` + violated + "]"
	}
	return s + "}\n"
}

// AtOnce calls f n times, each on a goroutine, and waits for all.
func AtOnce(n int, f func()) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(f)
	}
	wg.Wait()
}

// Caught returns the value that f panicked with, or nil.
func Caught(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}
