package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
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
// request, in all processes, when the server responds that it was over a limit. It is safe for concurrent use if its
// fields do not change, and must not be copied after its first use. The package documentation has an example.
type Transport struct {
	Limiter *core.Limiter              // has a [core.Pause], and rates and places as the server counts them
	Key     func(*http.Request) string // the key of a request, such as ByHost; a request with the key "" is sent at once
	Base    http.RoundTripper          // sends the requests; nil means http.DefaultTransport
	// Limited reports whether a response says that its request was over a limit, which begins a pause. Nil means a 429, and
	// every other status from 400 on with a time, such as a 503, or the 403 of GitHub. In a response that is neither 429
	// nor 503, only Retry-After is such a time, and the time of a limit that the response calls exhausted.
	//
	// The pause ends at the time that [RetryAfter] finds. Without one, it takes 1 s, and up to a quarter more, so that
	// clients of a server that failed do not return together. If a request that was sent after its end gets another such
	// response, the next pause takes 2 s, then 4 s, and so on, until a request has a status below 500 that is not Limited, or
	// none is limited for the time of Longest. The pause is that of all processes. Each process counts how often it has
	// doubled, for at most 1024 keys.
	Limited func(*http.Response) bool
	// MaxWait is the longest time that a request waits for the pause, rates and places, with the time between attempts. Zero
	// means that only its context bounds the wait.
	MaxWait time.Duration
	// Longest is the longest pause that a response begins, and the longest wait before a request is sent again. Zero means
	// 15 minutes. A server that names a later time is asked again then.
	Longest time.Duration
	// Retries is the number of times that a request may be sent again: at the end of the pause that its response has begun, if
	// its status is 403, 429 or from 500 on, or Limited is not nil; or after 1 s, 2 s, 4 s and so on, and up to a quarter more,
	// after a response that names no time, of a status from 500 on except 501, and if the connection fails, but not for a
	// certificate. Its method must be idempotent (RFC 9110, section 9.2.2), or it
	// must have the field Idempotency-Key or X-Idempotency-Key. Its body must be available again (GetBody), and the body of
	// the response must have at most 64 KiB and arrive within a second: of a slower one, the part that has arrived is kept.
	// The request is then charged again, and waits behind those that came meanwhile. If it is not admitted before the end
	// of MaxWait and of its context, or one of these is missing, the response or error is returned. Nothing else is sent
	// twice, but by Base: an [http.Transport] sends such requests again if a connection breaks that it has used before.
	// They are charged afterwards, if the Limiter has no [core.InFlight].
	Retries int

	grown growingPauses
}

// defaultLongest is the longest pause without Longest.
const defaultLongest = 15 * time.Minute

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
// the pause, or the rate with the requests that wait in this process, does not admit r in time, and otherwise after
// MaxWait. The method Timeout of a [net/url.Error] around it is true for the first and for the end of a deadline. The
// charge is refunded if there was no connection for r. A Transport that is no result of
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
		sent := time.Now()
		response, refused, err := t.send(r, key, event)
		if refused || err == nil && response == nil { // http.Client reports the fault of Base
			return response, err
		}
		d, own, again := t.next(r, key, attempt, sent, response, err)
		if !again || attempt >= t.Retries || !t.inTime(r, begun, d) || !isRepeatable(r) || err == nil && !t.keep(response, begun) {
			return response, err
		}
		if own && !pass(r, d) {
			return response, err
		}
		var late error
		if event, late = t.wait(r, key, begun); late != nil { // other requests were first
			return response, err
		}
		repeated, ok := repeat(r, event)
		if !ok {
			return response, err
		}
		r = repeated
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

// send sends r once, which event has admitted. refused says that r is invalid, so that Base has sent nothing.
func (t *Transport) send(r *http.Request, key string, event *admission) (response *http.Response, refused bool, err error) {
	var asked, connected atomic.Bool
	var written atomic.Int64
	sent := r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn:      func(string) { asked.Store(true) },
		GotConn:      func(httptrace.GotConnInfo) { connected.Store(true) },
		WroteHeaders: func() { written.Add(1) },
	}))
	panics := true
	defer func() {
		if panics {
			event.end(r.Context(), false)
		}
	}()
	response, err = t.base().RoundTrip(sent)
	panics = false
	if again := written.Load() - 1; again > 0 {
		_ = t.Limiter.Debit(context.WithoutCancel(r.Context()), key, int(again)) // after an error, or with places, they are not charged
	}
	if err != nil || response == nil {
		event.end(r.Context(), asked.Load() && !connected.Load())
		_, asks := t.base().(*http.Transport) // for a connection
		return response, asks && !asked.Load(), err
	}
	if response.Request == sent {
		response.Request = r
	}
	holdPlaces(r, response, event)
	return response, false, nil
}

// next returns the time after which r, which was sent for the attempt-th time, may be sent again because of response or
// err, and whether it may. own says that r alone waits. Otherwise its key is paused.
func (t *Transport) next(r *http.Request, key string, attempt int, sent time.Time, response *http.Response, err error) (d time.Duration, own, again bool) {
	longest := cmp.Or(t.Longest, defaultLongest)
	if err != nil {
		return growing(attempt, longest), true, r.Context().Err() == nil && !isPermanent(err)
	}
	d, timed, limited := t.limited(response)
	status := response.StatusCode
	switch {
	case !limited && status < http.StatusInternalServerError:
		t.grown.succeed(key, sent)
		return 0, false, false
	case !limited:
		return growing(attempt, longest), true, status != http.StatusNotImplemented
	case timed:
		d = min(d, longest)
	default:
		d = t.grown.begin(key, sent, longest)
	}
	if d > 0 {
		_ = t.Limiter.Pause(context.WithoutCancel(r.Context()), key, d) // without the Store, the next request fails or is limited by it
	}
	if own = !timed && attempt > 0; own { // after other failures, it waits for longer than a first pause
		d = max(d, growing(attempt, longest))
	}
	denied := status == http.StatusForbidden || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
	return d, own, denied || t.Limited != nil // another one may have had its effect
}

// limited reports whether response begins a pause, and returns its time if it is timed.
func (t *Transport) limited(response *http.Response) (d time.Duration, timed, limited bool) {
	status := response.StatusCode
	says := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if t.Limited != nil {
		limited = t.says(response)
		says = limited
	}
	d, timed = retryAfter(response, says)
	if t.Limited == nil {
		limited = status == http.StatusTooManyRequests || timed && status >= http.StatusBadRequest
	}
	return d, timed, limited
}

// says calls Limited. If that panics, the place of response is free.
func (t *Transport) says(response *http.Response) bool {
	panics := true
	defer func() {
		if panics && response.Body != nil {
			_ = response.Body.Close()
		}
	}()
	limited := t.Limited(response)
	panics = false
	return limited
}

// isPermanent reports whether a request would fail with err again.
func isPermanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	var waited notSent // of a Transport inside of this one, which has waited already
	return errors.As(err, &certificate) || errors.As(err, &waited)
}

// pass waits for d, and returns false if r ends before.
func pass(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	//lint:ignore SA1019 callers may still use it
	case <-r.Cancel:
	}
	return false
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
