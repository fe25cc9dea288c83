package redistest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := Sentinel(t)
	rdb := s.Client(func(o *redis.FailoverOptions) { o.DialerRetries = 1 })
	set := func(key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return rdb.Set(ctx, key, 1, 0).Err()
	}
	if err := set("before"); err != nil {
		t.Fatal(err)
	}
	if got := s.Current(); got != s.Master {
		t.Errorf("the master is %v, want the first one", got)
	}
	replicated := func(to *Server) func() error {
		return func() error {
			return to.inst.ask(func(ctx context.Context, rdb *redis.Client) error { return rdb.Get(ctx, "before").Err() })
		}
	}
	eventually(t, startTimeout, replicated(s.Replica))

	if got := s.Failover(); got != s.Replica || s.Current() != s.Replica {
		t.Errorf("after the failover the master is %v, want the replica", got)
	}
	eventually(t, startTimeout, func() error { return set("after") })
	if n := s.Replica.Client().Exists(t.Context(), "after").Val(); n != 1 {
		t.Error("the failover client did not follow to the replica")
	}

	s.Master.Start() // it comes back as the replica of the one that took over; before Redis 7.0 that takes a while
	eventually(t, 4*startTimeout, func() error { return linkUp(s.Master.inst) })
	eventually(t, startTimeout, replicated(s.Master))
	if got := s.Current(); got != s.Replica {
		t.Errorf("the return of the old master made the master %v", got)
	}
}

func TestSentinelPassword(t *testing.T) {
	t.Parallel()
	s := Sentinel(t, "--requirepass", "secret")
	if err := s.Client().Set(t.Context(), "key", 1, 0).Err(); err != nil {
		t.Error(err)
	}
}

func TestSentinelDown(t *testing.T) {
	t.Parallel()
	s := Sentinel(t)
	timing := func() (list any) {
		_ = s.Sentinel.inst.ask(func(ctx context.Context, rdb *redis.Client) error {
			list = rdb.Do(ctx, "sentinel", "debug").Val() // nil before Redis 7.0
			return nil
		})
		return list
	}
	before := timing()
	s.Sentinel.Stop()
	if got := s.Current(); got != nil {
		t.Errorf("with the sentinel dead the master is %s, want nobody", got.Addr)
	}
	s.Sentinel.Start()
	eventually(t, startTimeout, func() error {
		if got := s.Current(); got != s.Master {
			return fmt.Errorf("with the sentinel back the master is %v, want the first one", got)
		}
		return nil
	})
	if after := timing(); !reflect.DeepEqual(before, after) {
		t.Errorf("the sentinel came back with other timing: %v, before %v", after, before)
	}
}
