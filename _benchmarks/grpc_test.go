package benchmarks

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/keyfunc"
)

// A transport joins the metadata as the one of grpc does.
type transport struct{ header, trailer metadata.MD }

func (*transport) Method() string                  { return "/shop.Orders/List" }
func (*transport) SendHeader(metadata.MD) error    { return nil }
func (t *transport) SetHeader(m metadata.MD) error { t.header = metadata.Join(t.header, m); return nil }
func (t *transport) SetTrailer(m metadata.MD) error {
	t.trailer = metadata.Join(t.trailer, m)
	return nil
}

// A limit of x/time/rate has one key: go-grpc-middleware leaves keys to the application.
type limit struct{ *rate.Limiter }

func (l limit) Limit(context.Context) error {
	if !l.Allow() {
		return status.Error(codes.ResourceExhausted, "over the limit")
	}
	return nil
}

// BenchmarkGRPC measures a unary call of an interceptor alone, without a server and a network, with the metadata of a
// usual client.
func BenchmarkGRPC(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	t, info := new(transport), &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/List"}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "shop.example.com", "content-type", "application/grpc",
		"user-agent", "grpc-go/1.85.0", "grpc-accept-encoding", "gzip", "authorization", "Bearer abc", "x-request-id", "7",
		"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-forwarded-for", "203.0.113.9"))
	ctx = grpc.NewContextWithServerTransportStream(ctx, t)
	handler := func(context.Context, any) (any, error) { return nil, nil }
	serving := func(i grpc.UnaryServerInterceptor, want codes.Code) func() sample {
		var err error
		call := func() {
			t.header, t.trailer = nil, nil
			_, err = i(ctx, nil, info, handler)
		}
		call()
		return func() sample {
			n, over, start := 0, elapse(), time.Now()
			for ; n == 0 || !over(); n++ {
				call()
			}
			s := sample{time: float64(time.Since(start)) / float64(n), allocs: testing.AllocsPerRun(100, call)}
			if status.Code(err) != want {
				b.Fatalf("the error is %v, want %v", err, want)
			}
			return s
		}
	}
	bare := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(ctx, req)
	}
	weir := func(events, burst int, opts ...gate.Option) grpc.UnaryServerInterceptor {
		return grpclimit.Unary(limiter(events, burst), keyfunc.RemoteIP(), opts...)
	}
	middleware := func(events, burst int) grpc.UnaryServerInterceptor {
		return ratelimit.UnaryServerInterceptor(limit{rate.NewLimiter(rate.Limit(events)/3600, burst)})
	}
	candidates := []candidate{
		{"bare interceptor", serving(bare, codes.OK)},
		{"weir", serving(weir(hotKey, hotBurst), codes.OK)},
		{again, serving(weir(hotKey, hotBurst), codes.OK)},
		{"weir, no header fields", serving(weir(hotKey, hotBurst, gate.Headers()), codes.OK)},
		{"go-grpc-middleware, x/time/rate, one key", serving(middleware(hotKey, hotBurst), codes.OK)},
		{"weir, denied", serving(weir(1, 1), codes.ResourceExhausted)},
		{"go-grpc-middleware, x/time/rate, one key, denied", serving(middleware(1, 1), codes.ResourceExhausted)},
	}
	found := interleave(rounds, candidates)[0]
	for _, c := range candidates {
		s := found[c.name]
		record("One gRPC call", c.name, "grpc", s.median(timeOf), "%.0f ns, %.0f allocs", s.median(timeOf), s.median(allocsOf))
	}
	control("One gRPC call", again, "grpc", found["weir"], found[again], timeOf)
}
