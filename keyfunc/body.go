package keyfunc

import (
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

// A body replaces the body of a request that was read for a key. Its readers get the bytes that
// were read, and then the error that has ended the reading or the rest of the original.
type body struct {
	original io.ReadCloser

	mu     sync.Mutex // a client of package net/http may close a body while it reads it
	begin  []byte     // the bytes that were read from original
	at     int        // how many bytes of begin were read again
	err    error      // of original after begin, or nil if it was not read to its end
	closed bool
}

// hasBody reports whether r has or had a body. If its length is not known, it may be empty.
func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// bytesOf returns all bytes of the body of r, which has one, and replaces the body by one with the same
// content. The caller must not change the bytes. Another call for the same request reads nothing.
//
// The error is a NoKeyError if the body is longer than maxBody, which includes a body whose ContentLength
// says so, if its reader returns an error, or if nothing is left of the body.
func bytesOf(r *http.Request) ([]byte, error) {
	if encoding := r.Header["Content-Encoding"]; len(encoding) > 1 || len(encoding) == 1 && !strings.EqualFold(encoding[0], "identity") {
		return nil, errEncoded // compressed text can contain a field, which the handler would not see
	}
	if r.ContentLength > maxBody {
		return nil, errLongBody
	}
	b, ok := r.Body.(*body)
	if !ok || !b.unread() {
		b = &body{original: r.Body}
		b.begin, b.err = io.ReadAll(io.LimitReader(b.original, maxBody+1))
		if b.err == nil && len(b.begin) <= maxBody {
			b.err = io.EOF
		}
		r.Body = b
	}
	switch b.err {
	case nil:
		return nil, errLongBody
	case io.EOF:
		if len(b.begin) == 0 {
			return nil, errConsumed
		}
		return b.begin, nil
	}
	return nil, errUnreadable.with(b.err)
}

// unread reports whether nothing of b has been read.
func (b *body) unread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at == 0 && !b.closed
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
