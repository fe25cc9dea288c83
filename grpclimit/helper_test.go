package grpclimit_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

const (
	unaryMethod  = "/test.Service/Call"
	streamMethod = "/test.Service/Chat"
)

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A setup is a server, whose methods call handler, and a client.
type setup struct {
	limiter   *core.Limiter
	key       keyfunc.Func
	opts      []gate.Option
	ofStreams []gate.Option
	ofUnary   func(ctx context.Context) error
	chat      func(s grpc.ServerStream) error
	before    func(ctx context.Context) context.Context // of an interceptor before that of the package

	network string // "tcp" if empty
	tls     *tls.Config
	server  []grpc.ServerOption
	dial    []grpc.DialOption
}

// limits returns a limiter in memory.
func limits(rules ...core.Rule) *core.Limiter { return core.Must(core.New(memstore.New(), rules...)) }

func one(context.Context) error { return nil }

// echo sends each message back.
func echo(s grpc.ServerStream) error {
	for {
		if err := s.RecvMsg(new(emptypb.Empty)); err != nil {
			return ignoreEOF(err)
		}
		if err := s.SendMsg(new(emptypb.Empty)); err != nil {
			return err
		}
	}
}

func ignoreEOF(err error) error {
	if err != nil && err.Error() == "EOF" {
		return nil
	}
	return err
}

type withContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s withContext) Context() context.Context { return s.ctx }

// recovered sets err after a panic.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = status.Errorf(codes.Internal, "panic: %v", p)
	}
}

// start starts the server.
func (s setup) start(t *testing.T) *grpc.ClientConn {
	t.Helper()
	if s.key == nil {
		s.key = keyfunc.Constant("k")
	}
	if s.ofUnary == nil {
		s.ofUnary = one
	}
	if s.chat == nil {
		s.chat = echo
	}
	if s.before == nil {
		s.before = func(ctx context.Context) context.Context { return ctx }
	}
	unary := []grpc.UnaryServerInterceptor{func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
		defer recovered(&err)
		return handler(s.before(ctx), req)
	}}
	stream := []grpc.StreamServerInterceptor{func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer recovered(&err)
		return handler(srv, withContext{ss, s.before(ss.Context())})
	}}
	if s.limiter != nil {
		unary = append(unary, grpclimit.Unary(s.limiter, s.key, s.opts...))
		stream = append(stream, grpclimit.Stream(s.limiter, s.key, append(s.ofStreams, s.opts...)...))
	}
	opts := append(s.server, grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...))
	client := insecure.NewCredentials()
	if s.tls != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(s.tls)))
		client = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	server := grpc.NewServer(opts...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Service",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: func(srv any, ctx context.Context, dec func(any) error, i grpc.UnaryServerInterceptor) (any, error) {
			req := new(emptypb.Empty)
			if err := dec(req); err != nil {
				return nil, err
			}
			return i(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: unaryMethod}, func(ctx context.Context, req any) (any, error) {
				return req, s.ofUnary(ctx)
			})
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Chat", ServerStreams: true, ClientStreams: true, Handler: func(_ any, ss grpc.ServerStream) error { return s.chat(ss) }}},
	}, struct{}{})
	network, address, target := "tcp", "127.0.0.1:0", ""
	if s.network == "unix" {
		network, address = "unix", t.TempDir()+"/s"
		target = "unix:" + address
	}
	listener := must[net.Listener](t)(net.Listen(network, address))
	if target == "" {
		target = "passthrough:" + listener.Addr().String()
	}
	go func() { _ = server.Serve(listener) }()
	conn := must[*grpc.ClientConn](t)(grpc.NewClient(target, append(s.dial, grpc.WithTransportCredentials(client))...))
	t.Cleanup(func() { _ = conn.Close(); server.Stop() })
	return conn
}

// A result is the answer that a client gets.
type result struct {
	err             error
	header, trailer metadata.MD
}

// fields returns the values for key in header and trailer.
func (r result) fields(key string) []string { return append(r.header.Get(key), r.trailer.Get(key)...) }

func (r result) code() codes.Code { return status.Code(r.err) }

func (r result) details() (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	for _, d := range status.Convert(r.err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	return retry, quota
}

// verbs make a call with metadata.
var verbs = map[string]func(ctx context.Context, conn *grpc.ClientConn, kv ...string) result{
	"unary": func(ctx context.Context, conn *grpc.ClientConn, kv ...string) (r result) {
		ctx = metadata.AppendToOutgoingContext(ctx, kv...)
		r.err = conn.Invoke(ctx, unaryMethod, new(emptypb.Empty), new(emptypb.Empty), grpc.Header(&r.header), grpc.Trailer(&r.trailer))
		return r
	},
	"stream": func(ctx context.Context, conn *grpc.ClientConn, kv ...string) result {
		return openStream(ctx, conn, streamMethod, 1, kv...)
	},
}

// openStream opens a stream, sends n messages and receives as many.
func openStream(ctx context.Context, conn *grpc.ClientConn, method string, n int, kv ...string) (r result) {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, kv...))
	defer cancel()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return result{err: err}
	}
	for range n {
		if s.SendMsg(new(emptypb.Empty)) != nil {
			break
		}
		if err := s.RecvMsg(new(emptypb.Empty)); err != nil { // io.EOF after a success
			r.err = ignoreEOF(err)
			break
		}
	}
	if r.err == nil {
		_ = s.CloseSend()
		r.err = ignoreEOF(s.RecvMsg(new(emptypb.Empty)))
	}
	r.header, _ = s.Header()
	r.trailer = s.Trailer()
	return r
}

// each runs f for unary calls and streams.
func each(t *testing.T, f func(t *testing.T, call func(ctx context.Context, conn *grpc.ClientConn, kv ...string) result)) {
	for name, call := range verbs {
		t.Run(name, func(t *testing.T) { f(t, call) })
	}
}

// logged returns the log of f.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var b testkit.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	defer slog.SetDefault(before)
	f()
	return b.String()
}

// memory returns a function that makes limiters on one store.
func memory(t *testing.T) func(rules ...core.Rule) *core.Limiter {
	t.Helper()
	store := memstore.New()
	return func(rules ...core.Rule) *core.Limiter { return core.Must(core.New(store, rules...)) }
}
