package redisstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// 1000 slots with the keys of 200 users move to another master under load, with the
// tool that operators use. What was admitted is what is used, and less than one
// decision in a thousand fails.
func TestClusterReshard(t *testing.T) {
	t.Parallel()
	const goroutines, users, slots, limit = 4, 200, 1000, 1_000_000
	cluster := redistest.NewCluster(t)
	for m, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := redisstore.New(cluster.Client(), append([]redisstore.Option{prefix(), redisstore.Timeout(patience)}, mode.opts...)...)
			l := testkit.Limiter(t, s, core.TokenBucket("bucket", core.Per(limit, century)), core.SlidingLog("log", core.PerDay(limit)))
			counts := make([]struct{ admitted, failed atomic.Int64 }, users)
			for u := range users {
				testkit.Admit(t, l, fmt.Sprint("user ", u), 1)
				counts[u].admitted.Add(1)
			}
			var calls atomic.Int64
			stop := underLoad(t, goroutines, func() {
				calls.Add(1)
				u := rand.IntN(users)
				switch d, err := l.Allow(t.Context(), fmt.Sprint("user ", u)); {
				case errors.Is(err, core.ErrUnavailable):
					counts[u].failed.Add(1)
					t.Logf("a decision failed: %v", err)
				case err != nil || !d.Allowed:
					t.Errorf("%+v, %v", d, err)
				default:
					counts[u].admitted.Add(1)
				}
			})
			began := time.Now()
			testkit.Must(t, cluster.Reshard(cluster.Nodes[m], cluster.Nodes[m+1], slots))
			took := time.Since(began)
			stop()
			var lost int64
			for u := range users {
				n, failed := counts[u].admitted.Load(), counts[u].failed.Load()
				lost += failed
				for i, got := range testkit.Used(t, l, fmt.Sprint("user ", u)) {
					if int64(got) < n || int64(got) > n+failed {
						t.Errorf("user %d, rule %d: %d are used, %d were admitted, %d failed", u, i, got, n, failed)
					}
				}
			}
			t.Logf("%d decisions while %d slots moved in %v: %d failed (%.4f %%), %d were sent again",
				calls.Load(), slots, took.Round(time.Millisecond), lost, 100*float64(lost)/float64(calls.Load()), s.Stats().Retried)
			if lost*1000 > calls.Load() {
				t.Errorf("%d of %d failed, more than one in a thousand", lost, calls.Load())
			}
			if calls.Load() < 1000 {
				t.Errorf("only %d decisions: the test checks nothing", calls.Load())
			}
		})
	}
}
