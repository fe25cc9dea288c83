package keyfunc

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// maxBody is the maximum length in bytes of a body in which FormValue and JSONField look for a
// field.
const maxBody = 64 << 10

var (
	errLongBody   = unusable("the body is longer than 64 KiB").with(&http.MaxBytesError{Limit: maxBody})
	errUnreadable = unusable("the body cannot be read")
	errConsumed   = unusable("the body was read before")
	errType       = unusable("the Content-Type is malformed")
	errEncoded    = unusable("the body has a Content-Encoding")
)

// ginBody is the key under which Gin stores a body that it has read: gin.BodyBytesKey. Handlers read it again
// with ShouldBindBodyWith.
const ginBody = "_gin-gonic/gin/bodybyteskey"

func keptByGin(ctx context.Context) []byte {
	data, _ := ctx.Value(ginBody).([]byte)
	return data
}

// A body replaces the body of a request. Its readers get the bytes that were read for a key, and then the
// error that has ended the reading or the rest of the original.
type body struct {
	original io.ReadCloser

	mu     sync.Mutex // a client of package net/http may close a body while it reads it
	filled bool       // begin and err are those of original
	used   bool       // something was read since watch, for a key or by a reader
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

// watch returns a function that reports whether the body of r was read or replaced meanwhile.
func watch(r *http.Request) (used func() bool) {
	if r.Body == nil || r.Body == http.NoBody {
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

// bytesOf is contentOf for a Func that reads the body.
func bytesOf(ctx context.Context, r *http.Request) ([]byte, error) {
	data, err := contentOf(ctx, r)
	if b, ok := r.Body.(*body); ok {
		b.setUsed(true)
	}
	return data, err
}

// contentOf returns all bytes of the body of r, and replaces the body by one with the same content. If Gin has
// read the body, its bytes are in ctx, the context of the framework. The caller must not change the bytes.
// Another call for the same request reads nothing.
//
// The error is a NoKeyError if the body is longer than maxBody, which includes a body whose ContentLength
// says so, if its reader returns an error, or if nothing is left of it. If r has no body, there are no bytes.
func contentOf(ctx context.Context, r *http.Request) ([]byte, error) {
	if data := keptByGin(ctx); len(data) > 0 {
		return data, nil
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if encoding := r.Header["Content-Encoding"]; len(encoding) > 1 || len(encoding) == 1 && !strings.EqualFold(encoding[0], "identity") {
		return nil, errEncoded // compressed text can contain a field, which the handler would not see
	}
	if r.ContentLength > maxBody {
		return nil, errLongBody
	}
	data, err := bodyOf(r).fill()
	switch {
	case err == nil:
		return nil, errLongBody
	case err != io.EOF:
		return nil, errUnreadable.with(err)
	case len(data) == 0 && r.ContentLength > 0:
		return nil, errConsumed
	}
	return data, nil
}

// isConsumed reports whether nothing is left of the body of r, as after a form was parsed.
func isConsumed(ctx context.Context, r *http.Request) bool {
	if len(keptByGin(ctx)) > 0 {
		return false
	}
	if r.Body == nil || r.Body == http.NoBody {
		return true
	}
	data, err := bodyOf(r).fill()
	return len(data) == 0 && err != nil
}

// hasBody reports whether r has or had a body.
func hasBody(ctx context.Context, r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength > 0 || len(r.PostForm) > 0 || r.MultipartForm != nil {
		return true
	}
	data, err := contentOf(ctx, r)
	return err != nil || len(data) > 0
}

// fill reads the original, unless that was done, and returns its bytes and its error, or nil if it is longer
// than maxBody.
func (b *body) fill() ([]byte, error) {
	b.mu.Lock()
	filled := b.filled
	b.mu.Unlock()
	if !filled {
		begin, err := io.ReadAll(io.LimitReader(b.original, maxBody+1))
		if err == nil && len(begin) <= maxBody {
			err = io.EOF
		}
		b.mu.Lock()
		b.filled, b.begin, b.err = true, begin, err
		b.mu.Unlock()
	}
	return b.begin, b.err
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

// replay reads the bytes that were read for a key. ok is false if the original is to be read.
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

// contentType returns the media type of the body of r, in lower case, and its parameters. The media
// type is "" if the field is absent. It is an error if the field is malformed or occurs twice, because
// the handler might read another one.
func contentType(r *http.Request) (mediaType string, params map[string]string, err error) {
	switch lines := r.Header["Content-Type"]; len(lines) {
	case 0:
		return "", nil, nil
	case 1:
		if mediaType, params, err = mime.ParseMediaType(lines[0]); err != nil {
			return "", nil, errType.with(err)
		}
		return mediaType, params, nil
	}
	return "", nil, errType
}
