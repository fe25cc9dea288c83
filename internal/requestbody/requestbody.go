// Package requestbody reads the body of a request for its key or its cost, in bounded memory. The handler
// reads the same body afterwards.
package requestbody

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
)

// An Error says why a body has no bytes for a key or a cost.
type Error struct {
	Detail string // a phrase for the client
	Unread bool   // the body has a format that was not asked for
	cause  error
}

// Error returns Detail.
func (e *Error) Error() string { return e.Detail }

// Unwrap returns the [*http.MaxBytesError] of a long body, the error of a reader, or nil.
func (e *Error) Unwrap() error { return e.cause }

// with returns a copy of e with a cause.
func (e *Error) with(cause error) *Error {
	caused := *e
	caused.cause = cause
	return &caused
}

var (
	errConsumed = &Error{Detail: "the body was read before"}
	errEncoded  = &Error{Detail: "the body has a Content-Encoding"}
)

// tooLong returns the error of a body of more than limit bytes.
func tooLong(limit int64) *Error {
	size := fmt.Sprintf("%d bytes", limit)
	if limit%(1<<20) == 0 {
		size = fmt.Sprintf("%d MiB", limit>>20)
	} else if limit%(1<<10) == 0 {
		size = fmt.Sprintf("%d KiB", limit>>10)
	}
	return &Error{Detail: "the body is longer than " + size, cause: &http.MaxBytesError{Limit: limit}}
}

// ginBody is the key under which Gin stores a body that it has read: gin.BodyBytesKey. Handlers read it again
// with ShouldBindBodyWith.
const ginBody = "_gin-gonic/gin/bodybyteskey"

func keptByGin(ctx context.Context) []byte {
	data, _ := ctx.Value(ginBody).([]byte)
	return data
}

// A body replaces the body of a request. Its readers get the bytes that were read by this package, and then the
// error that has ended the reading or the rest of the original.
type body struct {
	original io.ReadCloser

	mu     sync.Mutex // a client of package net/http may close a body while it reads it
	used   bool       // something was read since Watch, for a key or by a reader
	begun  bool       // a reader has read something
	closed bool
	begin  []byte // the bytes that were read from original
	at     int    // how many bytes of begin were read again
	err    error  // of original after begin, or nil if it was not read to its end
}

// bodyOf returns the body of r, which it replaces by a body of this package unless it is one.
func bodyOf(r *http.Request) *body {
	if b, ok := r.Body.(*body); ok && b.unread() {
		return b
	}
	b := &body{original: r.Body}
	r.Body = b
	return b
}

// IsEmpty reports whether r has no body.
func IsEmpty(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

// Watch returns a function that reports whether the body of r was read or replaced meanwhile.
func Watch(r *http.Request) (used func() bool) {
	if IsEmpty(r) {
		return func() bool { return false }
	}
	b := bodyOf(r)
	b.setUsed(false)
	return func() bool {
		now, ok := r.Body.(*body)
		b.mu.Lock()
		defer b.mu.Unlock()
		return !ok || now != b || b.used
	}
}

// Read returns all bytes of the body of r, and replaces the body by one with the same content. If Gin has
// read the body, its bytes are in ctx, the context of the framework. The caller must not change the bytes.
// Another call for the same request reads only the bytes that are missing up to its own limit.
//
// The error is an [Error] if the body is longer than limit, which is positive, if its ContentLength says so, if
// it has a Content-Encoding, if its reader returns an error, or if nothing is left of it. If r has no body,
// there are no bytes.
func Read(ctx context.Context, r *http.Request, limit int64) ([]byte, error) {
	if data := keptByGin(ctx); int64(len(data)) > limit {
		return nil, tooLong(limit)
	} else if len(data) > 0 {
		return data, nil
	}
	if IsEmpty(r) {
		return nil, nil
	}
	if encoding := r.Header["Content-Encoding"]; len(encoding) > 1 || len(encoding) == 1 && !strings.EqualFold(encoding[0], "identity") {
		return nil, errEncoded // compressed text can contain a field, which the handler would not see
	}
	if r.ContentLength > limit {
		return nil, tooLong(limit)
	}
	data, err := bodyOf(r).fill(limit)
	switch {
	case int64(len(data)) > limit:
		return nil, tooLong(limit)
	case err != io.EOF:
		return nil, &Error{Detail: "the body cannot be read", cause: err}
	case len(data) == 0 && r.ContentLength > 0:
		return nil, errConsumed
	}
	return data, nil
}

// isConsumed reports whether nothing is left of the body of r, as after a form was parsed. It reads at most
// maxField bytes and one.
func isConsumed(ctx context.Context, r *http.Request) bool {
	if len(keptByGin(ctx)) > 0 {
		return false
	}
	if IsEmpty(r) {
		return true
	}
	data, err := bodyOf(r).fill(maxField)
	return len(data) == 0 && err != nil
}

// fill reads the original up to its end or one byte more than limit, unless that was done. It returns the bytes
// and the error of the original, which is nil if there may be more of them.
func (b *body) fill(limit int64) ([]byte, error) {
	b.mu.Lock()
	begin, err := b.begin, b.err
	b.mu.Unlock()
	missing := min(limit, math.MaxInt64-1) + 1 - int64(len(begin))
	if err != nil || missing <= 0 {
		return begin, err
	}
	more, err := io.ReadAll(io.LimitReader(b.original, missing))
	if err == nil && int64(len(more)) < missing {
		err = io.EOF
	}
	if len(begin) > 0 {
		more = append(begin[:len(begin):len(begin)], more...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begin, b.err = more, err
	return more, err
}

func (b *body) setUsed(used bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = used
}

// unread reports whether no reader has read anything of b.
func (b *body) unread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.begun && !b.closed
}

func (b *body) Read(p []byte) (int, error) {
	if n, err, ok := b.replay(p); ok {
		return n, err
	}
	return b.original.Read(p)
}

// replay reads the bytes that were read by this package. ok is false if the original is to be read.
func (b *body) replay(p []byte) (n int, err error, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose, true
	}
	b.used, b.begun = true, true
	if b.at < len(b.begin) {
		n = copy(p, b.begin[b.at:])
		b.at += n
		return n, nil, true
	}
	return 0, b.err, b.err != nil
}

// Close closes the original.
func (b *body) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	return b.original.Close()
}
