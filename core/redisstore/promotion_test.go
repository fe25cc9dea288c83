package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// When the master of a key is killed and its replica takes over, decisions fail
// until then and not much longer, and what had been charged is still charged.
func TestClusterPromotion(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	replica, err := cluster.AddReplica(cluster.Nodes[0])
	testkit.Must(t, err)
	rule := core.SlidingLog("log", core.PerDay(10))
	var limiters []*core.Limiter
	var keys []string
	for _, mode := range modes {
		s := redisstore.New(cluster.Client(), append([]redisstore.Option{prefix(), redisstore.Timeout(200 * time.Millisecond)}, mode.opts...)...)
		l, key := testkit.Limiter(t, s, rule), identityOn(t, cluster.Nodes[0], s, "promoted")
		for range 10 {
			testkit.Allow(t, l, key)
		}
		limiters, keys = append(limiters, l), append(keys, key)
		master, rdb := cluster.Nodes[0].Client(), replica.Client()
		want := master.ZRange(t.Context(), s.Key(key, rule), 0, -1).Val()
		eventually(t, func() error { // the replica has it all
			pipe := rdb.Pipeline()
			pipe.ReadOnly(t.Context())
			have := pipe.ZRange(t.Context(), s.Key(key, rule), 0, -1)
			if _, err := pipe.Exec(t.Context()); err != nil {
				return err
			}
			if !slices.Equal(have.Val(), want) {
				return fmt.Errorf("the replica has %d of %d members", len(have.Val()), len(want))
			}
			return nil
		})
	}
	testkit.Must(t, cluster.Nodes[0].Stop())
	killed := time.Now()
	for i, mode := range modes {
		eventually(t, func() error {
			d, err := limiters[i].Allow(t.Context(), keys[i])
			if err != nil && !errors.Is(err, core.ErrUnavailable) {
				t.Fatalf("%s: the error is %v", mode.name, err)
			}
			if err == nil && d.Allowed {
				t.Fatalf("%s: the eleventh of ten was admitted", mode.name)
			}
			return err
		})
		t.Logf("%s: decisions again %v after the kill", mode.name, time.Since(killed).Round(10*time.Millisecond))
	}
}
