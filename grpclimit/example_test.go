package grpclimit_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/keyfunc"
)

// Two calls a minute for each API key.
func Example() {
	api := core.Must(core.New(memstore.New(), core.SlidingLog("api", core.PerMinute(2))))
	server := grpc.NewServer(grpc.UnaryInterceptor(grpclimit.Unary(api, keyfunc.Header("X-API-Key"))))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener := bufconn.Listen(1 << 16)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	conn, err := grpc.NewClient("passthrough:server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	for _, key := range []string{"k1", "k1", "k1", "k2"} {
		var header metadata.MD
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", key)
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&header))
		fmt.Println(key, status.Code(err), header.Get("ratelimit"))
	}
	// Output:
	// k1 OK ["api";r=1;t=60]
	// k1 OK ["api";r=0;t=60]
	// k1 ResourceExhausted []
	// k2 OK ["api";r=1;t=60]
}

// A user has three streams at the same time, and sends ten messages a second in them.
func ExampleMessages() {
	store := memstore.New()
	streams := core.Must(core.New(store, core.InFlight("streams", 3)))
	messages := core.Must(core.New(store, core.TokenBucket("messages", core.PerSecond(10))))
	user := keyfunc.ContextSubject("user")
	_ = grpc.NewServer(grpc.StreamInterceptor(grpclimit.Stream(streams, user, grpclimit.Messages(messages))))
}
