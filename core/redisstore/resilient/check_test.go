package resilient_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

// A counter counts the commands of a client.
type counter struct{ atomic.Int64 }

func (*counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.Add(1)
		return next(ctx, cmd)
	}
}

func (*counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A new Store logs once that Redis will not work, and nothing about a Redis that works, or whose outage failover
// reports.
func TestNew_Check(t *testing.T) {
	server := redistest.NewServer(t)
	user := func(name string, without ...string) *redis.Client {
		args := []any{"acl", "setuser", name, "reset", "on", ">password", "~*", "&*", "+@all"}
		for _, command := range without {
			args = append(args, "-"+command)
		}
		testkit.Must(t, server.Client().Do(t.Context(), args...).Err())
		return server.Client(func(o *redis.Options) { o.Username, o.Password = name, "password" })
	}
	paused, readable := redistest.NewServer(t), redistest.NewServer(t)
	testkit.Must(t, paused.Pause())
	testkit.Must(t, readable.Client().Do(t.Context(), "client", "pause", 3_600_000, "write").Err())
	sentinel := redistest.NewSentinel(t)
	for _, c := range []struct {
		name string
		rdb  *redis.Client
		want string // parts of the record, separated by |; no record if it is empty
	}{
		{"works", user("all"), ""},
		{"unknown", user("info", "info"), ""},
		{"no scripts", user("scripts", "evalsha"), `level=WARN msg="weir: this Redis will not work; weir doctor prints all checks"|check=commands detail="EVALSHA: NOPERM|change="allow the user|+evalsha"`},
		{"wrong password", server.Client(func(o *redis.Options) { o.Username, o.Password = "all", "guess" }), `level=WARN|check=user detail="WRONGPASS`},
		{"absent", absent(t), ""},
		{"paused", paused.Client(), ""},
		{"paused for writes", readable.Client(func(o *redis.Options) { o.ReadTimeout = 100 * time.Millisecond }), ""},
		{"other master of a Sentinel", sentinel.Client(func(o *redis.FailoverOptions) { o.MasterName, o.DialerRetries = "other", 1 }), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			logger := slog.New(slog.NewTextHandler(&log, nil))
			commands := new(counter)
			c.rdb.AddHook(commands)
			// A busy machine may not let the check of a Store begin in its second.
			for begun := time.Now(); log.Len() == 0 && time.Since(begun) < time.Minute; {
				s := newStore(t, c.rdb, resilient.Timeout(unhurried), resilient.Observe(observe.Logger(logger)))
				s.AwaitCheck()
				testkit.Must(t, s.Close())
				if c.want == "" && commands.Load() > 0 {
					break
				}
			}
			if commands.Load() == 0 {
				t.Error("the check sent no command")
			}
			got := log.String()
			if c.want == "" && got != "" || strings.Count(got, "\n") > 1 {
				t.Errorf("got %s, want at most one record, and none if Redis works", got)
			}
			for part := range strings.SplitSeq(c.want, "|") {
				if !strings.Contains(got, part) {
					t.Errorf("got %s, want %s", got, part)
				}
			}
		})
	}
}

// A strangeClient panics, or does nothing.
type strangeClient struct{ redis.UniversalClient }

func (c strangeClient) Process(context.Context, redis.Cmder) error {
	if c.UniversalClient == nil {
		panic("no client")
	}
	return nil
}

func (strangeClient) Subscribe(context.Context, ...string) *redis.PubSub { return nil }

// The check of a client of another package does not end the program.
func TestNew_StrangeClients(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.Shared(t).Addr}})
	t.Cleanup(func() { _ = ring.Close() })
	for name, rdb := range map[string]redis.UniversalClient{
		"wrapped Ring": struct{ *redis.Ring }{ring}, "does nothing": strangeClient{ring}, "panics": strangeClient{},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, rdb, resilient.Observe(observe.Logger(slog.New(slog.DiscardHandler))))
			s.AwaitCheck()
			testkit.Must(t, s.Close())
		})
	}
}

// Close ends the check of a Redis that does not reply.
func TestStore_Close_Check(t *testing.T) {
	server := redistest.NewServer(t)
	rdb := server.Client()
	testkit.Must(t, server.Pause())
	for range 20 {
		s := newStore(t, rdb, resilient.Timeout(unhurried))
		testkit.Must(t, s.Close())
		if running("resilient.(*Store).check") {
			t.Fatal("got a check after Close, want none")
		}
	}
}
