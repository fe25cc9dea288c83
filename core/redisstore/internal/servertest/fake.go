package servertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Dialer returns a dialer for go-redis. A server at the other end of its connections answers
// every script call and PSETEX with the bytes that reply returns, and other commands as go-redis
// needs it. reply must be safe for concurrent use.
func Dialer(reply func(args []string) string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer func() { _ = server.Close() }()
			serve(server, reply)
		}()
		return client, nil
	}
}

// serve replies to commands until the connection ends. It writes the replies in a goroutine: a client
// reads the first one after it has written all commands of a pipeline, and a net.Pipe has no buffer.
func serve(conn net.Conn, reply func(args []string) string) {
	in := bufio.NewReaderSize(conn, 64<<10)
	replies := make(chan string, 1000)
	defer close(replies)
	go func() {
		for text := range replies {
			_, _ = io.WriteString(conn, text)
		}
	}()
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		text := "+OK\r\n"
		switch strings.ToLower(args[0]) {
		case "hello":
			text = "-ERR unknown command 'HELLO'\r\n" // as a server before 6.0
		case "evalsha", "eval", "psetex":
			text = reply(args)
		}
		replies <- text
	}
}

// readCommand reads an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in, '*')
	if err != nil || n < 1 {
		return nil, fmt.Errorf("a command of %d words, want at least 1: %w", n, err)
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
		return 0, fmt.Errorf("got %q, want a length", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// Reply returns an error as go-redis reads it from a connection.
func Reply(text string) error {
	rdb := redis.NewClient(&redis.Options{
		MaxRetries: -1, Dialer: Dialer(func([]string) string { return "-" + text + "\r\n" }),
	})
	defer func() { _ = rdb.Close() }()
	err := rdb.Do(context.Background(), "eval", "", 0).Err()
	if err == nil || err.Error() != text {
		panic(fmt.Sprintf("go-redis returned the error %v, want %q", err, text))
	}
	return err
}

// A StrangeClient is one of another package: it panics without a UniversalClient and OnProcess, and has no subscription.
type StrangeClient struct {
	redis.UniversalClient
	OnProcess func(ctx context.Context, cmd redis.Cmder) error // that of the UniversalClient if it is nil
}

// Process calls OnProcess.
func (c StrangeClient) Process(ctx context.Context, cmd redis.Cmder) error {
	if c.OnProcess == nil {
		return c.UniversalClient.Process(ctx, cmd)
	}
	return c.OnProcess(ctx, cmd)
}

// Subscribe returns nil.
func (StrangeClient) Subscribe(context.Context, ...string) *redis.PubSub { return nil }
