// Connect limits the calls of a Connect server, which gRPC and gRPC-Web clients can call, too, and the streams that
// a client has open at the same time. A denial is resource_exhausted, for HTTP clients 429 with Retry-After.
//
//	go run -C _examples ./connect
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
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

const (
	greet = "/greet.v1.GreetService/Greet" // a call with one request and one response
	clock = "/greet.v1.GreetService/Clock" // a stream of the time
)

// planKey is the key of a context for the plan of the caller.
type planKey struct{}

// signedIn stands for your authentication. It stores the plan of the caller in the context, and the name in the
// field X-User, from which it removes a name that the client has written.
func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Del("X-User")
		if r.Header.Get("Authorization") == "Bearer key-of-ann" {
			r.Header.Set("X-User", "ann")
			r = r.WithContext(context.WithValue(r.Context(), planKey{}, "pro"))
		}
		next.ServeHTTP(w, r)
	})
}

func planOf(ctx context.Context) string {
	plan, _ := ctx.Value(planKey{}).(string)
	return plan
}

var user = headerKey("X-User")

// userOrIP returns the key of the user, or of the address of a client that has not signed in.
func userOrIP(ctx context.Context, p connect.Peer, h http.Header) (string, error) {
	if key, err := user(ctx, p, h); err == nil {
		return key, nil
	}
	return peerIP(ctx, p, h)
}

// newHandler returns the service. Calls are limited by calls, and streams by streams. Generated code takes the same
// option for a whole service.
func newHandler(calls, streams *core.Limiter) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, hello, connect.WithInterceptors(limit{calls, userOrIP, planOf}), connect.WithReadMaxBytes(4<<10)))
	mux.Handle(clock, connect.NewServerStreamHandler(clock, tick, connect.WithInterceptors(limit{streams, userOrIP, planOf}), connect.WithReadMaxBytes(4<<10)))
	return signedIn(mux)
}

func hello(_ context.Context, req *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
	return connect.NewResponse(wrapperspb.String("Hello, " + req.Msg.Value + "!")), nil
}

func tick(ctx context.Context, _ *connect.Request[emptypb.Empty], s *connect.ServerStream[wrapperspb.StringValue]) error {
	for {
		if err := s.Send(wrapperspb.String(time.Now().Format(time.TimeOnly))); err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const try = `
  # 7 calls: 200 five times in all, and then 429 with Retry-After
  for i in $(seq 7); do curl -s -i -H 'Content-Type: application/json' -d '"Ann"' http://ADDR/greet.v1.GreetService/Greet; echo; done
  # a user with the plan pro, who has 50
  curl -s -H 'Authorization: Bearer key-of-ann' -H 'Content-Type: application/json' -d '"Ann"' http://ADDR/greet.v1.GreetService/Greet
`

func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	addr := strings.Replace(listener.Addr().String(), "[::]", "localhost", 1) // for ADDR=:8080
	fmt.Printf("Listening on http://%s (Ctrl-C ends it). Try:\n%s\n", addr, strings.ReplaceAll(try, "ADDR", addr))

	store := memstore.New()
	// A stream counts as one call, when it begins. Three may be open at the same time.
	calls := core.TokenBucket("calls", core.PerMinute(5)).Plan("pro", core.PerMinute(50))
	server := newServer(newHandler(core.Must(core.New(store, calls)), core.Must(core.New(store, calls, core.InFlight("streams", 3)))))
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop() // a second Ctrl-C ends the program at once
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if server.Shutdown(grace) != nil {
		return server.Close() // ends the streams that are open
	}
	return nil
}

// newServer returns a server for the three protocols. gRPC needs HTTP/2, here without TLS.
func newServer(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: protocols, ReadHeaderTimeout: 5 * time.Second,
		// The stream of a client that is gone without a word ends after 80 s, and frees its place.
		HTTP2: &http.HTTP2Config{SendPingTimeout: time.Minute, PingTimeout: 20 * time.Second},
	}
}
