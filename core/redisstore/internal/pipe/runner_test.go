package pipe

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/internal/testkit"
)

// A tripCounter counts the round trips of a client.
type tripCounter struct{ trips int }

func (c *tripCounter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.trips++
		return next(ctx, cmd)
	}
}
func (c *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.trips++
		return next(ctx, cmds)
	}
}

// Scripts that the server does not know take one more round trip, regardless of their number.
func TestRunner_Run_noScript(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Dialer: servertest.Dialer(func(args []string) string {
		if args[0] == "evalsha" {
			return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
		}
		return "*4\r\n:1700000000000000\r\n:0\r\n:1\r\n:0\r\n"
	})})
	defer func() { _ = rdb.Close() }()
	var counter tripCounter
	rdb.AddHook(&counter)
	p := New(rdb, Config{Prefix: "test:", Timeout: time.Minute})
	p.whole.disprove()
	encoder := wire.NewEncoder("test:", keyhash.Hasher{})
	rule := testkit.Compiled(core.TokenBucket("r", core.PerSecond(1)))
	for i, n := range []int{1, 8, 1, 8} { // the first ones open connections
		jobs := make([]*Job, n)
		for k := range jobs {
			jobs[k] = NewJob()
			jobs[k].Charges = []driver.Charge{{Key: "k", Rule: rule, Op: driver.Spend, Cost: 1}}
			jobs[k].Keys = []string{fmt.Sprintf("{k%d}", k)}
			encoder.Encode(&jobs[k].Request)
		}
		counter.trips = 0
		p.Sender.(*Server).Run(t.Context(), jobs)
		for _, j := range jobs {
			if err := j.Decode(); j.Err != nil || err != nil {
				t.Errorf("the reply is an error: %v, %v", j.Err, err)
			}
		}
		if connected := i >= 2; connected && counter.trips != 2 {
			t.Errorf("%d scripts took %d round trips, want 2", n, counter.trips)
		}
	}
}
