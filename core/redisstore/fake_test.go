package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fake starts a server that answers every script call with what reply returns,
// raw, and everything else as much as go-redis needs. It returns its address and
// ends with the test. reply is called by many goroutines.
func fake(t testing.TB, reply func(args []string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				converse(conn, reply)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { go wg.Wait() })
	return l.Addr().String()
}

// converse answers commands until the connection ends.
func converse(conn net.Conn, reply func(args []string) string) {
	in := bufio.NewReader(conn)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		answer := "+OK\r\n"
		switch strings.ToLower(args[0]) {
		case "hello":
			answer = "-ERR unknown command 'HELLO'\r\n" // as a server before 6.0
		case "evalsha", "eval":
			answer = reply(args)
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in, '*')
	if err != nil || n < 1 {
		return nil, fmt.Errorf("a command of %d words: %w", n, err)
	}
	args := make([]string, n)
	for i := range args {
		length, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		args[i] = string(word[:length])
	}
	return args, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q instead of a length", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
