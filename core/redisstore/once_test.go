package redisstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// impatience is how long a client of these tests waits for a reply. Stores wait
// far longer, so that all retries of go-redis are over when a call returns.
const impatience = 50 * time.Millisecond

// endings are what may follow a lost reply: the client's own timeout, or the end
// of the connection, which go-redis takes even more readily as a reason to retry.
var endings = []struct {
	name  string
	after time.Duration
}{
	{"timeout", 0},
	{"closed", time.Millisecond},
}

// dailyRules are slow enough to refill nothing during a test.
func dailyRules() []core.Rule {
	return []core.Rule{core.TokenBucket("bucket", core.PerDay(1000)), core.SlidingLog("log", core.PerDay(1000))}
}

// warm makes the server of "k" know the script.
func warm(t *testing.T, l *core.Limiter) {
	t.Helper()
	testkit.Admit(t, l, "k", 1)
	if _, err := l.Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
}

// chargedOnce makes calls whose replies are lost, and looks with a healthy
// limiter at what each has taken.
func chargedOnce(t *testing.T, lossy, healthy *core.Limiter) {
	t.Helper()
	const least, most = 3, 100 // on a busy machine a call may end before it was sent
	for call := 1; call <= most; call++ {
		d, err := lossy.Allow(t.Context(), "k")
		unavailable(t, d, err)
		charged := testkit.Used(t, healthy, "k")
		if slices.Max(charged) > call {
			t.Fatalf("%d calls were charged %v times", call, charged)
		}
		if slices.Min(charged) != slices.Max(charged) {
			t.Fatalf("after %d calls the rules were charged %v times", call, charged)
		}
		if call >= least && charged[0] > 0 {
			return
		}
	}
	t.Error("no call has reached the server, so nothing was tested")
}

func TestOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, mode := range modes {
		for _, end := range endings {
			for _, retries := range []int{0, -1, 3, 10} {
				t.Run(fmt.Sprintf("%s/%s/retries %d", mode.name, end.name, retries), func(t *testing.T) {
					t.Parallel()
					own := prefix()
					healthy := testkit.Limiter(t, redisstore.New(server.Client(), own, redisstore.Timeout(patience)), dailyRules()...)
					warm(t, healthy)
					proxy := redistest.NewProxy(t, server.Addr)
					proxy.DropReplies(end.after, "evalsha", "eval")
					rdb := server.Client(func(o *redis.Options) {
						o.Addr, o.MaxRetries, o.ReadTimeout = proxy.Addr, retries, impatience
					})
					opts := append([]redisstore.Option{own, redisstore.Timeout(patience)}, mode.opts...)
					chargedOnce(t, testkit.Limiter(t, redisstore.New(rdb, opts...), dailyRules()...), healthy)
				})
			}
		}
	}
}

func TestOnceCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for _, mode := range modes {
		for _, end := range endings {
			for _, retries := range []int{0, -1, 3} {
				for _, redirects := range []int{0, -1, 8} {
					t.Run(fmt.Sprintf("%s/%s/retries %d/redirects %d", mode.name, end.name, retries, redirects), func(t *testing.T) {
						t.Parallel()
						own := prefix()
						healthy := testkit.Limiter(t, redisstore.New(cluster.Client(), own, redisstore.Timeout(patience)), dailyRules()...)
						warm(t, healthy)
						proxies := make(map[string]*redistest.Proxy)
						for _, node := range cluster.Nodes {
							proxies[node.Addr] = redistest.NewProxy(t, node.Addr)
							proxies[node.Addr].DropReplies(end.after, "evalsha", "eval")
						}
						rdb := cluster.Client(func(o *redis.ClusterOptions) {
							o.Dialer, o.ReadTimeout = through(proxies), impatience
							o.MaxRetries, o.MaxRedirects = retries, redirects
						})
						opts := append([]redisstore.Option{own, redisstore.Timeout(patience)}, mode.opts...)
						chargedOnce(t, testkit.Limiter(t, redisstore.New(rdb, opts...), dailyRules()...), healthy)
					})
				}
			}
		}
	}
}

// The script that follows a NOSCRIPT is a command of its own; losing its reply
// is no reason either to send it again.
func TestOnceWithScript(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	for _, mode := range modes {
		for _, end := range endings {
			t.Run(mode.name+"/"+end.name, func(t *testing.T) {
				own := prefix()
				admin := server.Client()
				healthy := testkit.Limiter(t, redisstore.New(admin, own, redisstore.Timeout(patience)), dailyRules()...)
				proxy := redistest.NewProxy(t, server.Addr)
				proxy.DropReplies(end.after, "eval")
				rdb := server.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy.Addr, impatience })
				opts := append([]redisstore.Option{own, redisstore.Timeout(patience)}, mode.opts...)
				lossy := testkit.Limiter(t, redisstore.New(rdb, opts...), dailyRules()...)
				for call, charged := 1, 0; charged == 0; call++ {
					testkit.Must(t, admin.ScriptFlush(t.Context()).Err())
					d, err := lossy.Allow(t.Context(), "k")
					unavailable(t, d, err)
					got := testkit.Used(t, healthy, "k")
					if slices.Max(got) > call {
						t.Fatalf("%d calls with the source of the script were charged %v times", call, got)
					}
					charged = got[0]
				}
			})
		}
	}
}
