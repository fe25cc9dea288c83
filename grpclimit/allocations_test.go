package grpclimit_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/keyfunc"
)

// A transport keeps the metadata as that of grpc does.
type transport struct{ md metadata.MD }

func (*transport) Method() string                    { return unaryMethod }
func (t *transport) SetHeader(md metadata.MD) error  { t.md = metadata.Join(t.md, md); return nil }
func (t *transport) SendHeader(md metadata.MD) error { return nil }
func (t *transport) SetTrailer(md metadata.MD) error { t.md = metadata.Join(t.md, md); return nil }

// A call with the metadata of a usual client costs at most 14 allocations above the handler. Four of them are those of the
// transport of grpc, which copies the fields.
func TestAllocations(t *testing.T) {
	i := grpclimit.Unary(limits(core.TokenBucket("api", core.PerSecond(1_000_000))), keyfunc.RemoteIP())
	own := new(transport)
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "example.com", "content-type", "application/grpc",
		"user-agent", "grpc-go/1.79.3", "grpc-accept-encoding", "gzip", "authorization", "Bearer x", "x-request-id", "7",
		"traceparent", "00-1-1-1", "x-forwarded-for", "203.0.113.9"))
	ctx = grpc.NewContextWithServerTransportStream(ctx, own)
	info := &grpc.UnaryServerInfo{FullMethod: unaryMethod}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	if n := testing.AllocsPerRun(1000, func() {
		own.md = nil
		if _, err := i(ctx, nil, info, handler); err != nil {
			t.Fatal(err)
		}
	}); n > 14 {
		t.Errorf("got %v allocations", n)
	}
	if len(own.md["ratelimit"]) != 1 {
		t.Errorf("got the metadata %v", own.md)
	}
}
