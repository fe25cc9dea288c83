// Grpc limits the calls of a gRPC server, and the streams that a client has open at the same time. A denial
// is RESOURCE_EXHAUSTED with the time to wait, which clients with a retry policy obey by themselves.
//
//	go run -C _examples ./grpc            # a server; it prints the command of the client
//	go run -C _examples ./grpc call ADDR  # a client that calls it ten times
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/keyfunc"
)

// The keys of a context for the name and the plan of the caller.
type (
	userKey struct{}
	planKey struct{}
)

// signedIn stands for your authentication. It stores the name and the plan of the caller in the context.
func signedIn(ctx context.Context) context.Context {
	if !slices.Equal(metadata.ValueFromIncomingContext(ctx, "authorization"), []string{"Bearer key-of-ann"}) {
		return ctx
	}
	return context.WithValue(context.WithValue(ctx, userKey{}, "ann"), planKey{}, "pro")
}

// planOf returns the plan of the caller, or "" for the limits without a plan.
func planOf(ctx context.Context, _ *http.Request) (string, error) {
	plan, _ := ctx.Value(planKey{}).(string)
	return plan, nil
}

// A streamWith is a stream with another context.
type streamWith struct {
	grpc.ServerStream
	ctx context.Context
}

func (s streamWith) Context() context.Context { return s.ctx }

// newServer returns a server with the health service, which stands for your own. Calls are limited by calls, and
// streams by streams: for each user, or for the address of a client that has not signed in.
func newServer(calls, streams *core.Limiter) *grpc.Server {
	key, plan := keyfunc.FirstOf(keyfunc.ContextSubject(userKey{}), keyfunc.RemoteIP()), gate.Plan(planOf)
	s := grpc.NewServer(
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			return handler(signedIn(ctx), req)
		}, grpclimit.Unary(calls, key, plan)),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, streamWith{ss, signedIn(ss.Context())})
		}, grpclimit.Stream(streams, key, plan)),
		// The stream of a client that is gone without a word ends after 80 s, and frees its place. The
		// default is more than two hours.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
	)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	return s
}

// retries is the service configuration of a client: at most 3 attempts, the wait that the server
// demands, and else a growing wait.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "5s", "backoffMultiplier": 2,
	"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]
}}]}`

func dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(retries))
}

// call makes ten calls. The limit is 5 and then one a second, so that some of them wait.
func call(addr string) error {
	conn, err := dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for range 10 {
		begun := time.Now()
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, new(grpc_health_v1.HealthCheckRequest)); err != nil {
			return err
		}
		fmt.Println("OK after", time.Since(begun).Round(100*time.Millisecond))
	}
	return nil
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	fmt.Printf("Listening on %s (Ctrl-C ends it). Try:\n\n  go run -C _examples ./grpc call %[1]s\n", listener.Addr())
	store := memstore.New()
	// A stream counts as one call, when it begins. Three may be open at the same time.
	calls := core.TokenBucket("calls", core.PerSecond(1).WithBurst(5)).Plan("pro", core.PerSecond(50))
	s := newServer(core.Must(core.New(store, calls)), core.Must(core.New(store, calls, core.InFlight("streams", 3))))
	context.AfterFunc(ctx, s.GracefulStop)
	return s.Serve(listener)
}

func main() {
	run := serve
	if len(os.Args) == 3 && os.Args[1] == "call" {
		run = func() error { return call(os.Args[2]) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
