package pipe

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

	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
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
		{servertest.Reply("LOADING Redis is loading the dataset in memory"), true},
		{servertest.Reply("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{servertest.Reply("CLUSTERDOWN The cluster is down"), true},
		{servertest.Reply("CLUSTERDOWN Hash slot not served"), true},
		{servertest.Reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), true},
		{servertest.Reply("READONLY You can't write against a read only replica."), true},
		{servertest.Reply("READONLY You can't write against a read only replica. script: 0, on @user_script:1."), true},
		{servertest.Reply("ERR max number of clients reached"), true},

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
		{servertest.Reply("ERR it did not work"), false},
		{servertest.Reply("ERR user_script:1: LOADING TRYAGAIN READONLY script: 0, on @user_script:1."), false},
		{servertest.Reply("OOM command not allowed when used memory > 'maxmemory'."), false},
		{servertest.Reply("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), true},
		{servertest.Reply("NOSCRIPT No matching script. Please use EVAL."), false}, // see TestNoScript
		{servertest.Reply("UNKILLABLE Sorry the script already executed write commands against the dataset."), false},
		{servertest.Reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), false},
		{servertest.Reply("NOREPLICAS Not enough good replicas to write."), false},
		{servertest.Reply("NOPERM this user has no permissions to run the 'evalsha' command"), false},
		{servertest.Reply("MOVED 1 127.0.0.1:6379"), false},
		{errors.New("LOADING, but not from Redis"), false},
		{wire.ErrReply, false},
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
		{servertest.Reply("MOVED 1 127.0.0.1:6379"), true},
		{servertest.Reply("ASK 1 127.0.0.1:6379"), true},
		{servertest.Reply("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{redis.ErrClosed, true},
		{net.ErrClosed, false},
		{servertest.Reply("CLUSTERDOWN The cluster is down"), false},
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
		{servertest.Reply("NOSCRIPT No matching script. Please use EVAL."), true},
		{servertest.Reply("NOSCRIPT No matching script."), true}, // another server
		{io.EOF, false},
		{redis.Nil, false},
		{servertest.Reply("ERR user_script:1: NOSCRIPT"), false},
		{servertest.Reply("ERR"), false},
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
