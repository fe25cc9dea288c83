package grpclimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir/keyfunc"
)

// A call is a call as a request, for key functions and options, and the context of that request. One allocation holds
// all but the header.
type call struct {
	context.Context
	request http.Request
	url     url.URL
	local   net.Addr // the server's end of the connection, or nil

	root   *call       // the call of the outermost interceptor of this package, which sends the header
	header http.Header // of the response; of root only
	sent   sync.Once   // of root only

	key    string // the result of the key function, for Messages
	keyErr error
}

// callKey is the key of the innermost call in a context.
type callKey struct{}

func newCall(ctx context.Context, method string) *call {
	c := &call{Context: ctx, url: url.URL{Path: method}}
	r := http.Request{
		Method: http.MethodPost, URL: &c.url, RequestURI: method,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Body: emptyBody{}, ContentLength: -1,
	}
	if outer, ok := ctx.Value(callKey{}).(*call); ok {
		c.root = outer.root
	} else {
		c.root, c.header = c, http.Header{}
	}
	md, ok := ctx.Value(incoming).(metadata.MD)
	if !ok {
		md, _ = metadata.FromIncomingContext(ctx)
	}
	r.Header = make(http.Header, len(md))
	for key, values := range md {
		field, ok := fields[key]
		if !ok {
			field = http.CanonicalHeaderKey(key)
		}
		switch {
		case len(values) == 0:
		case key == ":authority":
			r.Host = values[0]
		case r.Header[field] == nil:
			r.Header[field] = values[:len(values):len(values)] // of which append makes a copy
		default: // an interceptor has added the key in another case
			r.Header[field] = append(r.Header[field], values...)
		}
	}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		r.RemoteAddr, c.local = addressOf(p.Addr), p.LocalAddr
		if strings.HasPrefix(p.Addr.Network(), "unix") {
			c.local = p.Addr // its name is chosen by the client
		}
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			state := info.State
			r.TLS = &state
		}
	}
	c.request = *r.WithContext(c)
	return c
}

// Value implements [context.Context]. Key functions recognize a Unix socket by the address of the server.
func (c *call) Value(key any) any {
	switch {
	case key == callKey{}:
		return c
	case key == http.LocalAddrContextKey && c.local != nil:
		return c.local
	}
	return c.Context.Value(key)
}

// send sends the header fields, at most once. A call that fails before anything was sent has them in its only frame,
// because clients do not repeat a call with two: see TrailersOnly of package transport of grpc.
func (c *call) send(err error) {
	if c.root != c {
		return
	}
	c.sent.Do(func() {
		md := metadata.MD(c.header)
		for field, values := range c.header {
			switch key := strings.ToLower(field); key {
			case field: // added by this loop
			case "cache-control", "retry-after", "www-authenticate": // the status says it
				delete(md, field)
			default:
				delete(md, field)
				md[key] = values
			}
		}
		if len(md) > 0 && (err != nil || grpc.SetHeader(c.Context, md) != nil) {
			_ = grpc.SetTrailer(c.Context, md) // an error means that there is no call, as in a test of an interceptor
		}
	})
}

// addressOf returns the text of addr, for TCP with one allocation in place of four.
func addressOf(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		ap := tcp.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()).String()
	}
	return addr.String()
}

// An emptyBody is the body of a call. A key function that reads it gets an error that is a [keyfunc.ErrNoKey].
type emptyBody struct{}

var errEmptyBody = &keyfunc.NoKeyError{Detail: "a gRPC call has no body"}

func (emptyBody) Read([]byte) (int, error) { return 0, errEmptyBody }
func (emptyBody) Close() error             { return nil }

// incoming is the key of the metadata in a context, or nil. [metadata.FromIncomingContext], which is called if there is
// no metadata for this key, allocates a copy of each value.
var incoming = func() any {
	w := &watcher{Context: context.Background()}
	metadata.FromIncomingContext(w)
	return w.key
}()

// A watcher remembers the last key of a value that was read.
type watcher struct {
	context.Context
	key any
}

func (w *watcher) Value(key any) any {
	w.key = key
	return nil
}

// fields has the names of header fields that need no allocation.
var fields = func() map[string]string {
	m := make(map[string]string)
	for _, key := range strings.Fields(`authorization baggage content-type cookie forwarded grpc-accept-encoding grpc-encoding
		te traceparent tracestate user-agent x-api-key x-forwarded-for x-real-ip x-request-id x-user`) {
		m[key] = http.CanonicalHeaderKey(key)
	}
	return m
}()
