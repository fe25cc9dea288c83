package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

const (
	short  = 50 * time.Millisecond // a deadline that has to be kept
	margin = 2 * time.Second       // and how much a busy machine may add; below every timeout of go-redis
)

// A client is one way for a user to have set up go-redis.
type client struct {
	name string
	rdb  redis.UniversalClient
}

// clients connect to a server, or to a Cluster, at addrs in every set-up that
// changes what go-redis thinks of deadlines.
func clients(t *testing.T, server string, cluster []string) []client {
	var all []client
	for _, enabled := range []bool{false, true} {
		all = append(all, client{
			fmt.Sprintf("client/enabled %t", enabled),
			redis.NewClient(&redis.Options{Addr: server, ContextTimeoutEnabled: enabled}),
		}, client{
			fmt.Sprintf("cluster/enabled %t", enabled),
			redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster, ContextTimeoutEnabled: enabled}),
		})
	}
	t.Cleanup(func() { // at once: a client may wait for what is under way
		var wg sync.WaitGroup
		for _, c := range all {
			wg.Go(func() { _ = c.rdb.Close() })
		}
		wg.Wait()
	})
	return all
}

// late fails the test unless calls, some one after another and then many at
// once, all end at the deadline.
func late(t *testing.T, s *redisstore.Store) {
	l := testkit.Limiter(t, s, dailyRules()...)
	call := func() {
		start := time.Now()
		d, err := l.Allow(t.Context(), "k")
		took := time.Since(start)
		unavailable(t, d, err)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want the deadline in it", err)
		}
		if took < short || took > short+margin {
			t.Errorf("a deadline of %v was kept after %v", short, took)
		}
	}
	const inTurn, atOnce = 2, 50
	before := s.Stats().Unavailable
	for range inTurn {
		call()
	}
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(call)
	}
	wg.Wait()
	if got := s.Stats().Unavailable - before; got != inTurn+atOnce {
		t.Errorf("%d failures were counted, want %d", got, inTurn+atOnce)
	}
}

// A listener that accepts and never speaks: nothing gets past the greeting.
func TestDeadlineSilence(t *testing.T) {
	t.Parallel()
	silently(t, func(t *testing.T, rdb redis.UniversalClient, opts []redisstore.Option) {
		late(t, redisstore.New(rdb, append(opts, redisstore.Timeout(short))...))
	})
}

// silently runs f with every client and mode, in front of a server that does not
// speak. The server ends before the clients, which would otherwise wait for it.
func silently(t *testing.T, f func(*testing.T, redis.UniversalClient, []redisstore.Option)) {
	t.Run("silent", func(silent *testing.T) {
		addr := silentServer(silent)
		for _, mode := range modes {
			for _, c := range clients(t, addr, []string{addr}) {
				silent.Run(mode.name+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					f(t, c.rdb, slices.Clone(mode.opts))
				})
			}
		}
	})
}

// Servers that freeze while connections to them are open, and thaw. The clients
// work again afterwards: nobody has closed them.
func TestDeadlineFreeze(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.NewServer(t), redistest.NewCluster(t)
	nodes := append([]*redistest.Server{server}, cluster.Nodes...)
	type user struct {
		name  string
		rdb   redis.UniversalClient
		store *redisstore.Store
	}
	var users []user
	for _, mode := range modes {
		for _, c := range clients(t, server.Addr, cluster.Addrs()) {
			own := prefix()
			testkit.Admit(t, testkit.Limiter(t, redisstore.New(c.rdb, own, redisstore.Timeout(patience)), dailyRules()...), "k", 1)
			opts := append([]redisstore.Option{own, redisstore.Timeout(short)}, mode.opts...)
			users = append(users, user{mode.name + "/" + c.name, c.rdb, redisstore.New(c.rdb, opts...)})
		}
	}
	for _, node := range nodes {
		testkit.Must(t, node.Pause())
	}
	t.Run("frozen", func(t *testing.T) {
		for _, u := range users {
			t.Run(u.name, func(t *testing.T) {
				t.Parallel()
				late(t, u.store)
			})
		}
	})
	for _, node := range nodes {
		testkit.Must(t, node.Resume())
	}
	for _, u := range users {
		l := testkit.Limiter(t, u.store, dailyRules()...)
		eventually(t, func() error {
			_, err := l.Allow(t.Context(), "k")
			return err
		})
		if err := u.rdb.Ping(t.Context()).Err(); err != nil {
			t.Errorf("%s: the user's client: %v", u.name, err)
		}
	}
}

// A caller that leaves hears of its own context, and Redis is not to blame.
func TestDeadlineOfCaller(t *testing.T) {
	t.Parallel()
	leaves := []struct {
		name string
		want error
		ctx  func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"deadline", context.DeadlineExceeded, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, short)
		}},
		{"cancel", context.Canceled, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(short, cancel)
			return ctx, cancel
		}},
		{"past", context.DeadlineExceeded, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithDeadline(ctx, time.Unix(0, 0))
		}},
	}
	silently(t, func(t *testing.T, rdb redis.UniversalClient, opts []redisstore.Option) {
		s := redisstore.New(rdb, append(opts, redisstore.Timeout(patience))...)
		l := testkit.Limiter(t, s, dailyRules()...)
		for _, leave := range leaves {
			ctx, cancel := leave.ctx(t.Context())
			start := time.Now()
			d, err := l.Allow(ctx, "k")
			took := time.Since(start)
			cancel()
			if !errors.Is(err, leave.want) || errors.Is(err, core.ErrUnavailable) || d.Allowed {
				t.Errorf("%s: %+v, %v", leave.name, d, err)
			}
			if took > short+margin {
				t.Errorf("%s: the caller was held for %v", leave.name, took)
			}
		}
		if n := s.Stats().Unavailable; n != 0 {
			t.Errorf("%d failures of Redis were counted", n)
		}
	})
}
