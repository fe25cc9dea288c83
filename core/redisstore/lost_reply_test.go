package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// replyTimeout is the ReadTimeout of the clients. The Timeout of the Stores is far longer, so that
// all retries of go-redis have ended when a call returns.
const replyTimeout = 50 * time.Millisecond

// eachLoss runs f with every mode and every way to lose a reply: the client's ReadTimeout, or the
// end of the connection, after which go-redis retries in more cases.
func eachLoss(t *testing.T, f func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option)) {
	for _, mode := range modes {
		for name, closeAfter := range map[string]time.Duration{"timeout": 0, "closed": time.Millisecond} {
			t.Run(mode.name+"/"+name, func(t *testing.T) { f(t, closeAfter, mode.opts) })
		}
	}
}

// chargedOnce makes at least a number of calls on a client that loses replies, and checks the
// charges of each call with another client. It calls flush, unless nil, in front of each, so that the
// call sends an EVAL. On a busy machine, the EVAL of an earlier call may arrive after flush and load
// the script, whose reply is then not lost.
func chargedOnce(t *testing.T, lossyClient, healthyClient redis.UniversalClient, opts []redisstore.Option, least int, flush func()) {
	t.Helper()
	const most = 100 // calls, because on a busy machine a call may end before it was sent
	own := prefix()
	healthy := testkit.Limiter(t, newStore(healthyClient, own), dailyRules()...)
	lossy := testkit.Limiter(t, newStore(lossyClient, append(opts, own)...), dailyRules()...)
	testkit.Admit(t, healthy, "k", 1) // the server of the key knows the script
	_, err := healthy.Reset(t.Context(), "k")
	testkit.Must(t, err)
	for call := 1; call <= most; call++ {
		if flush != nil {
			flush()
		}
		d, err := lossy.Allow(t.Context(), "k")
		if loaded := flush != nil && call > 1 && err == nil; !loaded {
			unavailable(t, d, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the error is %v, want that of the client, which ends first", err)
		}
		charged := testkit.Used(t, healthy, "k")
		if charged[0] > call || charged[0] != charged[1] {
			t.Fatalf("after %d calls the rules were charged %v times, want each at most once a call", call, charged)
		}
		if call >= least && charged[0] > 0 {
			return
		}
	}
	t.Errorf("none of %d calls was charged, want at least one", most)
}

func TestStore_Take_lostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		for _, retries := range []int{0, -1, 3, 10} {
			t.Run(fmt.Sprint("retries ", retries), func(t *testing.T) {
				t.Parallel()
				proxy := redistest.NewProxy(t, server.Addr)
				proxy.DropReplies(closeAfter, "evalsha", "eval")
				rdb := server.Client(func(o *redis.Options) {
					o.Addr, o.MaxRetries, o.ReadTimeout = proxy.Addr, retries, replyTimeout
				})
				chargedOnce(t, rdb, server.Client(), opts, 3, nil)
			})
		}
	})
}

func TestCluster_lostReply(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		for _, limits := range [][2]int{{0, 0}, {0, -1}, {0, 8}, {-1, 0}, {-1, -1}, {-1, 8}, {3, 0}, {3, -1}, {3, 8}} {
			retries, redirects := limits[0], limits[1]
			t.Run(fmt.Sprintf("retries %d, redirects %d", retries, redirects), func(t *testing.T) {
				t.Parallel()
				proxies := make(map[string]*redistest.Proxy)
				for _, node := range cluster.Nodes {
					proxies[node.Addr] = redistest.NewProxy(t, node.Addr)
					proxies[node.Addr].DropReplies(closeAfter, "evalsha", "eval")
				}
				rdb := cluster.Client(func(o *redis.ClusterOptions) {
					o.Dialer, o.ReadTimeout = through(proxies), replyTimeout
					o.MaxRetries, o.MaxRedirects = retries, redirects
				})
				chargedOnce(t, rdb, cluster.Client(), opts, 3, nil)
			})
		}
	})
}

// The EVAL that follows a NOSCRIPT is not repeated either.
func TestStore_Take_lostReplyToScript(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	admin := server.Client()
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		proxy := redistest.NewProxy(t, server.Addr)
		proxy.DropReplies(closeAfter, "eval")
		rdb := server.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy.Addr, replyTimeout })
		chargedOnce(t, rdb, admin, opts, 1, func() { testkit.Must(t, admin.ScriptFlush(t.Context()).Err()) })
	})
}
