package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
)

// A Transport is an [http.RoundTripper] that sends requests when a limiter admits them, and that pauses the key of a
// request, in all processes, when the server responds with 429 or 503 and a time. It is safe for concurrent use if its
// fields do not change. The package documentation has an example.
type Transport struct {
	Limiter *core.Limiter              // has a [core.Pause], and rates and places as the server counts them
	Key     func(*http.Request) string // the key of a request, such as ByHost; a request with the key "" is sent at once
	Base    http.RoundTripper          // sends the requests; nil means http.DefaultTransport
	// MaxWait is the longest time that a request waits for the pause, rates and places, with the time between attempts. Zero
	// means that only its context bounds the wait.
	MaxWait time.Duration
	// Longest is the longest pause that a response begins. Zero means 15 minutes. A server that names a later time is
	// asked again then.
	Longest time.Duration
	// Retries is the number of times that a request may be sent again after a response that has begun a pause. Its method
	// must be idempotent (RFC 9110, section 9.2.2), or it must have the field Idempotency-Key or X-Idempotency-Key. Its body
	// must be available again (GetBody), and the body of the response must have at most 64 KiB and arrive within a second:
	// of a slower one, the part that has arrived is kept. The request then waits behind those that came meanwhile. If it is
	// not admitted before the end of MaxWait and of its context, or one of these is missing, the response is returned.
	// Nothing else is sent twice.
	Retries int
}

// defaultLongest is the longest pause without Longest.
const defaultLongest = 15 * time.Minute

// shortPause is the pause after a 429 that names no time.
const shortPause = time.Second

// New returns a Transport over http.DefaultTransport. It panics if l or key is nil, or if l has no [core.Pause].
func New(l *core.Limiter, key func(*http.Request) string) *Transport {
	t := &Transport{Limiter: l, Key: key}
	if err := t.check(); err != nil {
		panic("client: New: " + err.Error())
	}
	return t
}

// ByHost returns the host of the URL of r in lower case, with its port if the URL has one.
func ByHost(r *http.Request) string { return strings.ToLower(r.URL.Host) }

var errTransport = errors.New("weir: the Transport is invalid")

func (t *Transport) check() error {
	switch {
	case t.Limiter == nil:
		return fmt.Errorf("%w: it has no Limiter", errTransport)
	case t.Key == nil:
		return fmt.Errorf("%w: it has no Key", errTransport)
	case t.MaxWait < 0 || t.Longest < 0 || t.Retries < 0:
		return fmt.Errorf("%w: MaxWait, Longest and Retries must not be negative", errTransport)
	}
	for _, r := range t.Limiter.Rules() {
		if r.Kind().Closes {
			return nil
		}
	}
	return fmt.Errorf("%w: its Limiter has no Pause", errTransport)
}

func (t *Transport) base() http.RoundTripper { return cmp.Or(t.Base, http.DefaultTransport) }

// RoundTrip implements [http.RoundTripper]. It waits until the Limiter admits an event of the key, which costs 1, and
// sends r. If r is not sent, the error is that of core.Limiter.Acquire: a [core.ErrDeadlineTooNear], or a
// [core.ErrUnavailable] if the Store has failed. The first one comes at once, with the time that the wait would take, if
// the pause, or the rate with the requests that wait in this process, does not admit r in time, and otherwise after MaxWait. The method Timeout of a [net/url.Error] around it is true for the first
// and for the end of a deadline. The charge is refunded if there was no connection for r. A Transport that is no result of
// New returns an error if its fields are invalid.
//
// A place of a [core.InFlight] is taken until the body of the response has been read to its end, is closed or fails, or
// the context of r ends. After an error, the server may still be working on r.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.check(); err != nil {
		closeBody(r)
		return nil, err
	}
	key := t.Key(r)
	if key == "" {
		return t.base().RoundTrip(r)
	}
	begun := time.Now()
	event, err := t.wait(r, key, begun)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		response, err := t.send(r, event)
		if err != nil || response == nil { // http.Client reports the fault of Base
			return response, err
		}
		d, again := t.pause(r.Context(), key, response)
		if !again || attempt >= t.Retries || !t.inTime(r, begun, d) {
			return response, nil
		}
		if !isRepeatable(r) || !t.keep(response, begun) {
			return response, nil
		}
		if event, err = t.wait(r, key, begun); err != nil { // other requests were first
			return response, nil
		}
		next, ok := repeat(r, event)
		if !ok {
			return response, nil
		}
		r = next
	}
}

// The largest number of bytes of a response that are kept while its request waits to be sent again, and the longest time
// until they are read.
const (
	maxKept  = 64 << 10
	keepTime = time.Second
)

// keep reads the body of response, which ends its place and its connection, and reports whether it was short and has
// arrived in time. The body can be read as before.
func (t *Transport) keep(response *http.Response, begun time.Time) bool {
	body := response.Body
	if body == nil {
		return true
	}
	d := keepTime
	if t.MaxWait > 0 {
		d = min(d, time.Until(begun.Add(t.MaxWait)))
	}
	defer time.AfterFunc(d, func() { _ = body.Close() }).Stop()
	text, err := io.ReadAll(io.LimitReader(body, maxKept+1))
	if err != nil || len(text) > maxKept {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(text), body), body}
		return false
	}
	_ = body.Close()
	response.Body = io.NopCloser(bytes.NewReader(text))
	return true
}

// inTime reports whether a wait of d ends before r must be sent.
func (t *Transport) inTime(r *http.Request, begun time.Time, d time.Duration) bool {
	end := time.Now().Add(d)
	deadline, ok := r.Context().Deadline()
	return (!ok || end.Before(deadline)) && (t.MaxWait == 0 || end.Before(begun.Add(t.MaxWait)))
}

// send sends r once, which event has admitted.
func (t *Transport) send(r *http.Request, event *admission) (*http.Response, error) {
	var asked, connected atomic.Bool
	sent := r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	panics := true
	defer func() {
		if panics {
			event.end(r.Context(), false)
		}
	}()
	response, err := t.base().RoundTrip(sent)
	panics = false
	if err != nil || response == nil {
		event.end(r.Context(), asked.Load() && !connected.Load())
		return response, err
	}
	if response.Request == sent {
		response.Request = r
	}
	holdPlaces(r, response, event)
	return response, nil
}

// pause pauses key if response says so, and returns the time until its end.
func (t *Transport) pause(ctx context.Context, key string, response *http.Response) (d time.Duration, pauses bool) {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	d, ok := RetryAfter(response)
	switch {
	case !ok && response.StatusCode == http.StatusTooManyRequests:
		d = shortPause
	case !ok:
		return 0, false
	}
	if d = min(d, cmp.Or(t.Longest, defaultLongest)); d > 0 {
		_ = t.Limiter.Pause(context.WithoutCancel(ctx), key, d) // without the Store, the next request fails or is limited by it
	}
	return d, true
}

// CloseIdleConnections calls the method of that name of Base, if it has one.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// isRepeatable reports whether r may be sent again.
func isRepeatable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
	default:
		if r.Header.Get("Idempotency-Key") == "" && r.Header.Get("X-Idempotency-Key") == "" {
			return false
		}
	}
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// repeat returns r, which event has admitted again, with its body from the beginning. This is the last step before r is
// sent, so that each body that GetBody opens is sent. If GetBody fails, repeat ends event.
func repeat(r *http.Request, event *admission) (_ *http.Request, ok bool) {
	defer func() {
		if !ok { // also after a panic of GetBody
			event.end(r.Context(), true)
		}
	}()
	if r.Body == nil || r.Body == http.NoBody {
		return r, true
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, false
	}
	next := *r
	next.Body = body
	return &next, true
}
