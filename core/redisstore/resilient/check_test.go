package resilient_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
)

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
	paused := redistest.NewServer(t)
	testkit.Must(t, paused.Pause())
	for _, c := range []struct {
		name string
		rdb  redis.UniversalClient
		want string // parts of the record, separated by |; no record if it is empty
	}{
		{"works", user("all"), ""},
		{"unknown", user("info", "info"), ""},
		{"no scripts", user("scripts", "evalsha"), `level=WARN msg="weir: this Redis will not work; weir doctor prints all checks"|check=commands detail="EVALSHA: NOPERM|change="allow the user|+evalsha"`},
		{"wrong password", server.Client(func(o *redis.Options) { o.Username, o.Password = "all", "guess" }), `level=WARN|check=user detail="WRONGPASS`},
		{"absent", absent(t), ""},
		{"paused", paused.Client(), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			logger := slog.New(slog.NewTextHandler(&log, nil))
			// A busy machine may not let the check of a Store begin in its second.
			for begun := time.Now(); log.Len() == 0 && time.Since(begun) < time.Minute; {
				s := newStore(t, c.rdb, resilient.Timeout(unhurried), resilient.Observe(observe.Logger(logger)))
				s.AwaitCheck()
				testkit.Must(t, s.Close())
				if c.want == "" {
					break
				}
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
