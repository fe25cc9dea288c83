package pipe

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/internal/sampler"
	"github.com/weir-go/weir/internal/testkit"
)

// A test that is negative is final. One that fails changes nothing, and is repeated.
func TestWholeness_test(t *testing.T) {
	const all, most, rejected, broken = ":16\r\n", ":15\r\n", "-CROSSSLOT Keys in request don't hash to the same slot\r\n", "-ERR\r\n"
	for name, c := range map[string]struct {
		replies      []string
		merges, ends bool
	}{
		"all keys":        {[]string{all}, true, false},
		"most keys":       {[]string{most}, false, true},
		"CROSSSLOT":       {[]string{rejected}, false, true},
		"error":           {[]string{broken}, false, false},
		"error, all keys": {[]string{broken, all}, true, false},
		"all keys, error": {[]string{all, broken}, true, false},
		"all keys, most":  {[]string{all, most}, false, true},
		"all keys, slots": {[]string{all, rejected}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			replies := make(chan string, len(c.replies))
			rdb := redis.NewClient(&redis.Options{MaxRetries: -1, Dialer: servertest.Dialer(func(args []string) string {
				if args[0] == "psetex" {
					return "+OK\r\n"
				}
				return <-replies
			})})
			defer func() { _ = rdb.Close() }()
			s := &wholeness{rdb: rdb, faults: FaultLog{sampler.New(1, time.Minute)}}
			for _, reply := range c.replies {
				replies <- reply
				s.test()
			}
			if ends := s.next.Load() == math.MaxInt64; s.whole.Load() != c.merges || ends != c.ends {
				t.Errorf("merges is %t and the tests end: %t, want %t and %t", s.whole.Load(), ends, c.merges, c.ends)
			}
		})
	}
}

// A positive result is valid while the client opens no connection. A test that fails is repeated after
// a second.
func TestWholeness_test_repeated(t *testing.T) {
	var evals atomic.Int64
	var reply atomic.Value
	reply.Store(":16\r\n")
	rdb := redis.NewClient(&redis.Options{MaxRetries: -1, Dialer: servertest.Dialer(func(args []string) string {
		if args[0] == "psetex" {
			return "+OK\r\n"
		}
		evals.Add(1)
		return reply.Load().(string)
	})})
	defer func() { _ = rdb.Close() }()
	s := &wholeness{rdb: rdb, faults: FaultLog{sampler.New(1, time.Minute)}}
	for _, c := range []struct {
		name  string
		prior func()
		evals int64
	}{
		{"first", func() {}, 1},
		{"it has opened a connection", func() {}, 1},
		{"no connection", func() {}, 0},
		{"another connection", func() {
			busy := rdb.Conn() // holds the idle connection
			defer func() { _ = busy.Close() }()
			for range 2 {
				testkit.Must(t, busy.Ping(t.Context()).Err())
				testkit.Must(t, rdb.Ping(t.Context()).Err())
			}
		}, 1},
		{"no other connection", func() {}, 0},
	} {
		c.prior()
		before := evals.Load()
		if s.test(); evals.Load()-before != c.evals || !s.whole.Load() {
			t.Errorf("%s: %d tests ran, want %d", c.name, evals.Load()-before, c.evals)
		}
	}
	reply.Store("-OOM command not allowed when used memory > 'maxmemory'.\r\n")
	for text, want := range map[string]time.Duration{"-ERR\r\n": time.Second, "-NOPERM this user has no permissions\r\n": time.Minute} {
		fresh := &wholeness{rdb: rdb, faults: FaultLog{sampler.New(1, time.Minute)}}
		fresh.next.Store(math.MaxInt64 - 1)
		reply.Store(text)
		fresh.test()
		if in := time.Until(time.Unix(0, fresh.next.Load())); in > want || in < want-time.Second {
			t.Errorf("after a test that failed with %q, the next one is in %v, want %v", text, in, want)
		}
	}
}

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
