//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe is read if a program writes to it.
func TestRun_NamedPipe(t *testing.T) {
	files(t)
	if err := syscall.Mkfifo("pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile("pipe", []byte("disable: true\n"), 0o600) }()
	check := func(want string) {
		t.Helper()
		var stdout, stderr strings.Builder
		if status := run([]string{"check", "pipe"}, &stdout, &stderr); status != 1 || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("got status %d and %s, want %s", status, &stderr, want)
		}
	}
	check("pipe:1:1: disable: is an unknown field")
	if err := <-written; err != nil {
		t.Error(err)
	}
	defer func(old time.Duration) { timeout = old }(timeout)
	timeout = time.Millisecond
	check("weir: open pipe: no program writes to the pipe\n")
}
