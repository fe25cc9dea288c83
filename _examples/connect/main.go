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

	"github.com/weir-go/weir/connectlimit"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

const (
	greet = "/greet.v1.GreetService/Greet" // a call with one request and one response
	clock = "/greet.v1.GreetService/Clock" // a stream of the time
)

// The keys of a context for the name of the caller and for the plan.
type (
	userKey struct{}
	planKey struct{}
)

// signedIn stands for your authentication, which stores the name and the plan of the caller in the context.
func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer key-of-ann" {
			ctx := context.WithValue(r.Context(), userKey{}, "ann")
			r = r.WithContext(context.WithValue(ctx, planKey{}, "pro"))
		}
		next.ServeHTTP(w, r)
	})
}

// userOrIP returns the key of the user, or of the address of a client that has not signed in.
var userOrIP = keyfunc.FirstOf(keyfunc.ContextSubject(userKey{}), keyfunc.RemoteIP())

// planOf returns the plan of the caller, or "".
func planOf(ctx context.Context, _ *http.Request) (string, error) {
	plan, _ := ctx.Value(planKey{}).(string)
	return plan, nil
}

// newHandler returns the service. Calls are limited by calls, and streams by streams. The limit of a whole service is
// around the handler that generated code returns.
func newHandler(calls, streams *core.Limiter) http.Handler {
	opts := connect.WithReadMaxBytes(4 << 10)
	limits := gate.Options(gate.Plan(planOf), connectlimit.Answers(connect.NewErrorWriter(opts)))
	mux := http.NewServeMux()
	mux.Handle(greet, nethttplimit.New(calls, userOrIP, limits)(connect.NewUnaryHandler(greet, hello, opts)))
	mux.Handle(clock, nethttplimit.New(streams, userOrIP, limits)(connect.NewServerStreamHandler(clock, tick, opts)))
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
