package pipe

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/internal/servertest"
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
