package connectlimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// The methods of the service of the tests.
const (
	unary        = "/test.v1.Test/Unary"
	serverStream = "/test.v1.Test/ServerStream"
	clientStream = "/test.v1.Test/ClientStream"
	bidiStream   = "/test.v1.Test/BidiStream"
)

var methods = []string{unary, serverStream, clientStream, bidiStream}

type text = wrapperspb.StringValue

// service returns a service whose methods receive all messages, and then call f.
func service(f func(ctx context.Context) error, opts ...connect.HandlerOption) http.Handler {
	opts = append(opts, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	mux := http.NewServeMux()
	mux.Handle(unary, connect.NewUnaryHandler(unary, func(ctx context.Context, _ *connect.Request[text]) (*connect.Response[text], error) {
		return connect.NewResponse(new(text)), f(ctx)
	}, opts...))
	mux.Handle(serverStream, connect.NewServerStreamHandler(serverStream, func(ctx context.Context, _ *connect.Request[text], s *connect.ServerStream[text]) error {
		if err := s.Send(new(text)); err != nil {
			return err
		}
		return f(ctx)
	}, opts...))
	mux.Handle(clientStream, connect.NewClientStreamHandler(clientStream, func(ctx context.Context, s *connect.ClientStream[text]) (*connect.Response[text], error) {
		for s.Receive() {
		}
		if s.Err() != nil {
			return nil, s.Err()
		}
		return connect.NewResponse(new(text)), f(ctx)
	}, opts...))
	mux.Handle(bidiStream, connect.NewBidiStreamHandler(bidiStream, func(ctx context.Context, s *connect.BidiStream[text, text]) error {
		for {
			m, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return f(ctx)
			}
			if err == nil {
				err = s.Send(m)
			}
			if err != nil {
				return err
			}
		}
	}, opts...))
	return mux
}

func succeed(context.Context) error { return nil }

// A protocol is one in which a client can call a server.
type protocol struct {
	name    string
	http1   bool
	methods []string
	opts    []connect.ClientOption
}

var protocols = []protocol{
	{"connect", false, methods, nil},
	{"connect, HTTP/1.1", true, methods[:3], nil},
	{"connect, JSON and gzip", false, methods, []connect.ClientOption{connect.WithProtoJSON(), connect.WithSendGzip()}},
	{"connect, GET", true, methods[:1], []connect.ClientOption{connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects)}},
	{"grpc", false, methods, []connect.ClientOption{connect.WithGRPC()}},
	{"grpc-web", false, methods, []connect.ClientOption{connect.WithGRPCWeb()}},
	{"grpc-web, HTTP/1.1", true, methods[:3], []connect.ClientOption{connect.WithGRPCWeb()}},
}

// grpc reports whether gRPC clients know the metadata of p.
func (p protocol) grpc() bool { return strings.HasPrefix(p.name, "grpc") }

// each runs f for each method in each protocol.
func each(t *testing.T, f func(t *testing.T, p protocol, method string)) {
	for _, p := range protocols {
		for _, method := range p.methods {
			t.Run(p.name+method, func(t *testing.T) { f(t, p, method) })
		}
	}
}

// A caller calls a server in one protocol.
type caller struct {
	p    protocol
	http *http.Client
	url  string
}

// start serves h, for callers of p.
func start(t testing.TB, p protocol, h http.Handler) caller {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	t.Cleanup(transport.CloseIdleConnections)
	transport.Protocols.SetHTTP1(p.http1)
	transport.Protocols.SetUnencryptedHTTP2(!p.http1)
	return caller{p, &http.Client{Transport: transport}, s.URL}
}

// call calls method with n messages, of which each is m, and returns the error of the call. fields are header fields
// of the form "name: value".
func (c caller) call(ctx context.Context, method string, n int, m string, fields ...string) error {
	client := connect.NewClient[text, text](c.http, c.url+method, c.p.opts...)
	add := func(h http.Header) {
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			h.Add(name, value)
		}
	}
	req := connect.NewRequest(wrapperspb.String(m))
	add(req.Header())
	switch method {
	case unary:
		_, err := client.CallUnary(ctx, req)
		return err
	case serverStream:
		s, err := client.CallServerStream(ctx, req)
		if err != nil {
			return err
		}
		for s.Receive() {
		}
		return errors.Join(s.Err(), s.Close())
	case clientStream:
		s := client.CallClientStream(ctx)
		add(s.RequestHeader())
		for range n {
			if s.Send(wrapperspb.String(m)) != nil {
				break // the response has the error
			}
		}
		_, err := s.CloseAndReceive()
		return err
	}
	s := client.CallBidiStream(ctx)
	add(s.RequestHeader())
	for range n {
		if s.Send(wrapperspb.String(m)) != nil {
			break
		}
	}
	_ = s.CloseRequest()
	for {
		if _, err := s.Receive(); errors.Is(err, io.EOF) {
			return s.CloseResponse()
		} else if err != nil {
			_ = s.CloseResponse()
			return err
		}
	}
}

// codeOf returns the code of an error of a call; 0 is OK.
func codeOf(err error) connect.Code {
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}

// details returns the error of a call with this code, and its details.
func details(t *testing.T, err error, code connect.Code) (e *connect.Error, retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	t.Helper()
	if !errors.As(err, &e) || e.Code() != code {
		t.Fatalf("got %v, want %v", err, code)
	}
	for _, detail := range e.Details() {
		value, err := detail.Value()
		testkit.Must(t, err)
		switch d := value.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	return e, retry, quota
}

// frozen returns a store whose time stands still, so that waits are exact.
func frozen() core.Store {
	return &storetest.Fake{Clock: func() int64 { return 1_800_000_000_000_000 }}
}

// everyone is a key function with one key for all.
func everyone(context.Context, *http.Request) (string, error) { return "everyone", nil }

var quiet = gate.OnError(func(_ *http.Request, _ error, status int) int { return status }) // logs nothing
