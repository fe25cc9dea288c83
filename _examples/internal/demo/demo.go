// Package demo has the server that the examples share. The server prints its
// address and commands to try, and ends on Ctrl-C. The quickstart contains the same
// code in its own file.
package demo

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Serve listens on the address in the environment variable ADDR, 127.0.0.1:8080 by
// default. It prints the commands in try, with that address in place of the word
// ADDR, and serves h until Ctrl-C or SIGTERM. Requests in progress may then finish.
//
// Your program uses its own server instead; the limiter is part of h.
func Serve(h http.Handler, try string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	addr := strings.Replace(listener.Addr().String(), "[::]", "localhost", 1) // for ADDR=:8080
	fmt.Printf("Listening on http://%s (Ctrl-C ends it). Try:\n\n%s\n",
		addr, strings.ReplaceAll(strings.Trim(try, "\n"), "ADDR", addr))

	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop() // a second Ctrl-C ends the program at once
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}
