package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// holdPlaces ends event when response, the one to r, has been read. Without places, it ends event at once.
func holdPlaces(r *http.Request, response *http.Response, event *admission) {
	if event.Lost() == nil || !hasBody(r, response) {
		event.end(r.Context(), false)
		return
	}
	release := sync.OnceFunc(func() { event.end(r.Context(), false) })
	b := &body{ReadCloser: response.Body, release: release}
	b.forget = context.AfterFunc(r.Context(), release)
	response.Body = b
	if w, ok := b.ReadCloser.(io.Writer); ok {
		response.Body = connection{b, w}
	}
}

// hasBody reports whether the body of response can have bytes, or is a connection.
func hasBody(r *http.Request, response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusNoContent, http.StatusNotModified:
		return false
	}
	return r.Method != http.MethodHead && response.Body != nil && response.Body != http.NoBody
}

// A body is that of a response whose event has places. They are released at its end.
type body struct {
	io.ReadCloser
	release func()
	forget  func() bool // ends the effect of the context
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

func (b *body) end() {
	b.forget()
	b.release()
}

// A connection is the body of a 101.
type connection struct {
	*body
	io.Writer
}

// CloseWrite ends the writing, as with the body of net/http. A ReverseProxy passes the end of one direction on with it.
func (c connection) CloseWrite() error {
	if w, ok := c.Writer.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return fmt.Errorf("CloseWrite: %w", http.ErrNotSupported)
}
