package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/playground/page"
)

// definePlayground defines the flags of weir playground, and returns the command, which serves the page of package
// page until the process gets SIGINT or SIGTERM.
func definePlayground(flags *flag.FlagSet) func(args []string, stdout, stderr io.Writer) error {
	address := flags.String("addr", "127.0.0.1:8081", "the `ADDRESS` of the page")
	return func(_ []string, stdout, _ io.Writer) error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return servePlayground(ctx, *address, stdout)
	}
}

// servePlayground serves the page until ctx ends, and prints its address.
func servePlayground(ctx context.Context, address string, stdout io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%w; with -addr 127.0.0.1:0 the system chooses a free port", err)
	}
	if _, err := fmt.Fprintf(stdout, "weir: the playground is at http://%s/ ; Ctrl+C ends it\n", listener.Addr()); err != nil {
		_ = listener.Close()
		return err
	}
	server := &http.Server{Handler: page.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return server.Close() // nothing is lost with a run
	}
}
