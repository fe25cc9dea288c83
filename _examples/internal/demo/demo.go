// Package demo is what the examples share and what is not about limiting: a
// server that says where it listens and what to try, and that ends on Ctrl-C.
// The quickstart does without it and shows all of that in plain sight.
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

// Serve listens on the address in ADDR, 127.0.0.1:8080 by default, prints the
// commands in try with that address in place of the word ADDR, and serves h
// until Ctrl-C or SIGTERM. Requests that are under way then may finish.
//
// In a program of your own the server that you have does this: h is all that
// the limiter needs.
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
