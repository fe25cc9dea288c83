package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

func dialError(cause error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: cause} }

func TestDidNotRun(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{dialError(syscall.ECONNREFUSED), true},
		{dialError(syscall.EHOSTUNREACH), true},
		{dialError(os.ErrDeadlineExceeded), true},
		{dialError(context.DeadlineExceeded), true},
		{&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{IsNotFound: true}}, true},
		{redis.ErrPoolTimeout, true},
		{redis.ErrPoolExhausted, true},
		{reply("LOADING Redis is loading the dataset in memory"), true},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{reply("CLUSTERDOWN The cluster is down"), true},
		{reply("CLUSTERDOWN Hash slot not served"), true},
		{reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), true},
		{reply("READONLY You can't write against a read only replica."), true},
		{reply("READONLY You can't write against a read only replica. script: 0, on @user_script:1."), true},
		{reply("ERR max number of clients reached"), true},

		{redis.Nil, false},
		{redis.ErrClosed, false},
		{io.EOF, false},
		{io.ErrUnexpectedEOF, false},
		{net.ErrClosed, false},
		{context.Canceled, false},
		{context.DeadlineExceeded, false},
		{os.ErrDeadlineExceeded, false},
		{&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, false},
		{&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, false},
		{&net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}, false},
		{&net.OpError{Op: "write", Net: "tcp", Err: os.ErrDeadlineExceeded}, false},
		{reply("ERR it did not work"), false},
		{reply("ERR user_script:1: LOADING TRYAGAIN READONLY script: 0, on @user_script:1."), false},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), false},
		{reply("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), true},
		{reply("NOSCRIPT No matching script. Please use EVAL."), false}, // see TestNoScript
		{reply("UNKILLABLE Sorry the script already executed write commands against the dataset."), false},
		{reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), false},
		{reply("NOREPLICAS Not enough good replicas to write."), false},
		{reply("NOPERM this user has no permissions to run the 'evalsha' command"), false},
		{reply("MOVED 1 127.0.0.1:6379"), false},
		{errors.New("LOADING, but not from Redis"), false},
		{errReply, false},
	} {
		for _, err := range []error{c.err, wrap(c.err)} {
			if got := didNotRun(err); got != c.want {
				t.Errorf("didNotRun(%#v) is %t, want %t: %v", err, got, c.want, err)
			}
		}
	}
}

func TestRedirected(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{reply("MOVED 1 127.0.0.1:6379"), true},
		{reply("ASK 1 127.0.0.1:6379"), true},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{redis.ErrClosed, true},
		{net.ErrClosed, false},
		{reply("CLUSTERDOWN The cluster is down"), false},
		{context.DeadlineExceeded, false},
	} {
		for _, err := range []error{c.err, wrap(c.err)} {
			if got := redirected(err); got != c.want {
				t.Errorf("redirected(%v) is %t, want %t", err, got, c.want)
			}
		}
	}
}

func TestNoScript(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{redis.ErrNoScript, true},
		{reply("NOSCRIPT No matching script. Please use EVAL."), true},
		{reply("NOSCRIPT No matching script."), true}, // another server
		{io.EOF, false},
		{redis.Nil, false},
		{reply("ERR user_script:1: NOSCRIPT"), false},
		{reply("ERR"), false},
	} {
		if got := noScript(c.err); got != c.want {
			t.Errorf("noScript(%v) is %t, want %t", c.err, got, c.want)
		}
	}
	if !noScript(wrap(redis.ErrNoScript)) {
		t.Error("noScript of a wrapped NOSCRIPT is false, want true")
	}
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("wrapped by a hook: %w", err)
}

// reply returns an error as go-redis reads it from a connection.
func reply(text string) error {
	rdb := redis.NewClient(&redis.Options{
		MaxRetries: -1, Dialer: FakeDialer(func([]string) string { return "-" + text + "\r\n" }),
	})
	defer func() { _ = rdb.Close() }()
	err := rdb.Do(context.Background(), "eval", "", 0).Err()
	if err == nil || err.Error() != text {
		panic(fmt.Sprintf("go-redis returned the error %v, want %q", err, text))
	}
	return err
}
