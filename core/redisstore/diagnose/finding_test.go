package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// The change for an error depends on a reply of Redis, and its text contains neither arguments nor places in scripts.
func TestFailed(t *testing.T) {
	lookup := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "redis.zoom.oom.invalid", IsNotFound: true}}
	for _, c := range []struct {
		err            error
		result         Result
		detail, change string // no Detail if it is empty: that of err
	}{
		{servertest.Reply("OOM command not allowed when used memory > 'maxmemory'. script: 53aa7d29, on @user_script:13."), ResultFailed,
			"OOM command not allowed when used memory > 'maxmemory'.", raiseMemory},
		{servertest.Reply("ERR Error running script (call to f_53aa7d29): @user_script:2: @user_script: 2: -OOM command not allowed when used memory > 'maxmemory'."), ResultFailed,
			"OOM command not allowed when used memory > 'maxmemory'.", raiseMemory},
		{servertest.Reply("ERR Error running script (call to f_53aa7d29): @user_script:4: Unknown Redis command called from Lua script"), ResultFailed,
			"Unknown Redis command called from Lua script", otherServer},
		{servertest.Reply("ERR unknown command 'eval', with args beginning with: 'local x = 1' '1' 'weir:shop:{a}?' "), ResultFailed, "ERR unknown command 'eval'", otherServer},
		{servertest.Reply("ERR unknown command `eval`, with args beginning with: `local x = 1`, "), ResultFailed, "ERR unknown command `eval`", otherServer},
		{servertest.Reply("ERR This Valkey command is not allowed from script script: 53aa7d29, on @user_script:13."), ResultFailed,
			"ERR This Valkey command is not allowed from script", otherServer},
		{servertest.Reply("ERR max number of clients reached"), ResultFailed, "", "raise maxclients, or lower PoolSize of the clients"},
		{servertest.Reply("MOVED 1 127.0.0.1:6379"), ResultFailed, "", clusterClient},
		{fmt.Errorf("wrapped: %w", servertest.Reply("LOADING Redis is loading the dataset in memory")), ResultUnknown, "", checkAgain},
		{servertest.Reply("LOADING Redis is loading the dataset in memory"), ResultUnknown, "", checkAgain},
		{servertest.Reply("ERR a key was removed from a room, and the zoom is readonly"), ResultFailed, "", "other"},
		{servertest.Reply("BUSYKEY Target key name already exists."), ResultFailed, "", "other"},
		{servertest.Reply("NOPERM this user has no permissions to run the 'eval' command"), ResultFailed, "", allowCommands + ": +eval"},
		{servertest.Reply("ERR Script attempted to access nonexistent global variable 'struct'"), ResultFailed, "", "use a server of Redis or Valkey, or memstore"},
		{servertest.Reply("ERR The user executing the script can't run this command or subcommand script: 53aa7d29, on @user_script:13."), ResultFailed,
			"ERR The user executing the script can't run this command or subcommand", allowCommands},
		{servertest.Reply("WRONGPASS invalid username-password pair or user is disabled."), ResultFailed, "", correctUser},
		{servertest.Reply("NOAUTH Authentication required."), ResultFailed, "", correctUser},
		{wire.ErrReply, ResultFailed, "", "other"},
		{fmt.Errorf("%w: step 1", errSteps), ResultFailed, "", "other"},

		{lookup, ResultUnknown, "", checkAgain},
		{io.EOF, ResultUnknown, "", checkAgain},
		{noReply(1), ResultUnknown, "", checkAgain},
		{context.DeadlineExceeded, ResultUnknown, "", checkAgain},
		{redis.ErrClosed, ResultUnknown, "", checkAgain},
		{redis.ErrPoolTimeout, ResultUnknown, "", checkAgain},
		{errors.New("the client panicked: MOVED unknown command"), ResultUnknown, "", checkAgain},
		{fmt.Errorf("no Sentinel: %w", errors.Join(redis.Nil, servertest.Reply("ERR unknown command 'sentinel'"))), ResultUnknown, "", checkAgain},
	} {
		if c.detail == "" {
			c.detail = c.err.Error()
		}
		want := Finding{"check", c.result, c.detail, c.change}
		if got := failed(t.Context(), "check", c.err, "other"); got != want {
			t.Errorf("%v: got\n%+v, want\n%+v", c.err, got, want)
		}
	}
}

// The cause that ended the checks is the Detail of those that follow.
func TestFailed_Ended(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	lost, lose := context.WithCancelCause(t.Context())
	lose(io.EOF)
	for ctx, want := range map[context.Context]Finding{
		ended: {"check", ResultUnknown, "not checked: context canceled", "give the check more time"},
		lost:  {"check", ResultUnknown, "not checked: EOF", checkAgain},
	} {
		if got := failed(ctx, "check", servertest.Reply("OOM"), "other"); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
