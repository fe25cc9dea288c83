package redisstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// Four clients, as four processes have them, ask for one key under four rules with
// 64 goroutines: the smallest limit is admitted, and every rule has used just that.
func TestManyClients(t *testing.T) {
	t.Parallel()
	const calls = 20
	rules := []core.Rule{
		core.TokenBucket("bucket", core.Per(900, century)),
		core.SlidingLog("log", core.Per(700, century)),
		core.SlidingWindow("counter", core.Per(800, century)),
		core.FixedWindow("window", core.Per(1000, century)),
	}
	server, cluster := redistest.Shared(t), redistest.SharedCluster(t)
	for name, client := range map[string]func() redis.UniversalClient{
		"single":  func() redis.UniversalClient { return server.Client() },
		"cluster": func() redis.UniversalClient { return cluster.Client() },
	} {
		for _, mode := range modes {
			t.Run(name+"/"+mode.name, func(t *testing.T) {
				namespace := prefix()
				var limiters []*core.Limiter
				for range 4 {
					s := redisstore.New(client(), append([]redisstore.Option{namespace, redisstore.Timeout(patience)}, mode.opts...)...)
					limiters = append(limiters, testkit.Limiter(t, s, rules...))
				}
				var admitted atomic.Int64
				var wg sync.WaitGroup
				for g := range 64 {
					wg.Go(func() {
						for range calls {
							d, err := limiters[g%4].Allow(t.Context(), "k")
							if err != nil {
								t.Error(err)
							}
							if d.Allowed {
								admitted.Add(1)
							}
						}
					})
				}
				wg.Wait()
				if n := admitted.Load(); n != 700 {
					t.Errorf("%d of %d were admitted, want 700", n, 64*calls)
				}
				if got := fmt.Sprint(testkit.Used(t, limiters[0], "k")); got != "[700 700 700 700]" {
					t.Errorf("used are %s", got)
				}
			})
		}
	}
}
