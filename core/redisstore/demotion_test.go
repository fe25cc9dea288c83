package redisstore_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A master becomes a replica, and its name then belongs to another server. go-redis closes connections
// on which it reads READONLY, so the next attempt of a decision dials the new master.
func TestStore_Take_demotedMaster(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for name, rules := range map[string][]core.Rule{"bucket": dailyRules()[:1], "two rules": dailyRules()} {
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				older, newer := redistest.NewServer(t), redistest.NewServer(t)
				var master atomic.Pointer[redistest.Server]
				master.Store(older)
				rdb := older.Client(func(o *redis.Options) {
					o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, network, master.Load().Addr)
					}
				})
				l := testkit.Limiter(t, newStore(rdb, mode.opts...), rules...)
				testkit.Admit(t, l, "k", 1)
				host, port, _ := strings.Cut(newer.Addr, ":")
				testkit.Must(t, older.Client().SlaveOf(t.Context(), host, port).Err())
				master.Store(newer)
				testkit.Admit(t, l, "k", 1)
			})
		}
	}
}
