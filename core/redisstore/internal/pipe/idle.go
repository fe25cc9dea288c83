package pipe

import (
	"context"
	"errors"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// An idleCheck closes the idle connections of a client that a firewall, a NAT or a load balancer has forgotten. They
// look healthy, but no reply comes on them, and each would cost a decision its deadline.
type idleCheck struct {
	each    func(ctx context.Context, check func(context.Context, *redis.Client) error) error // of the servers
	timeout time.Duration                                                                     // of the Store
	alive   func()                                                                            // is called when a server replies, but not on connections that were in use
	next    atomic.Int64                                                                      // the time of the next check in Unix nanoseconds
}

// newIdleCheck returns a check of the connections to all servers of rdb, or nil if these are not known.
func newIdleCheck(rdb redis.UniversalClient, timeout time.Duration, alive func()) *idleCheck {
	if each := Servers(rdb); each != nil {
		return &idleCheck{each: each, timeout: timeout, alive: alive}
	}
	return nil
}

const (
	// checkInterval is the shortest time between two checks.
	checkInterval = 500 * time.Millisecond
	// dialTimeout is the time for a new connection and a reply on it.
	dialTimeout = time.Second
)

// start starts a check after a reply was missing, unless one has begun lately.
func (c *idleCheck) start() {
	if c == nil {
		return
	}
	now, next := time.Now().UnixNano(), c.next.Load()
	if now >= next && c.next.CompareAndSwap(next, math.MaxInt64) {
		go func() {
			defer func() { c.next.Store(time.Now().Add(checkInterval).UnixNano()) }()
			_ = c.each(context.Background(), c.check)
		}()
	}
}

// check asks a server for its time on a new connection. If it replies, check asks on all idle connections at once, and
// those without a reply are closed. A server that is slow or down loses no connection.
func (c *idleCheck) check(_ context.Context, rdb *redis.Client) error {
	fresh, begun := FreshClient(rdb), time.Now()
	replied := hasReply(fresh, dialTimeout)
	_ = fresh.Close()
	took := time.Since(begun) // several round trips
	if !replied {
		return nil
	}
	strict := newStrict(rdb)
	var checks sync.WaitGroup
	var closed atomic.Bool
	for range rdb.PoolStats().IdleConns {
		checks.Go(func() {
			if !hasReply(strict, took+c.timeout) {
				closed.Store(true)
			}
		})
	}
	if checks.Wait(); closed.Load() || took < c.timeout {
		c.alive()
	}
	return nil
}

// FreshClient returns a client for one new connection to the server of rdb. It observes the deadlines of contexts, and
// must be closed.
func FreshClient(rdb *redis.Client) *redis.Client {
	opts := *rdb.Options()
	opts.PoolSize, opts.MinIdleConns, opts.MaxRetries, opts.DialerRetries = 1, 0, -1, 1
	opts.ContextTimeoutEnabled, opts.Limiter = true, nil
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if pipelines := reflect.ValueOf(&opts).Elem().FieldByName("PipelinePoolSize"); pipelines.IsValid() {
		pipelines.SetInt(-1) // since v9.23, pipelines have other connections
	}
	return redis.NewClient(&opts)
}

// hasReply reports whether the server replies within timeout. An error of Redis is a reply.
func hasReply(rdb Client, timeout time.Duration) (replied bool) {
	defer func() { _ = recover() }() // as in runner.run
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := rdb.Process(ctx, Command{redis.NewCmd(ctx, "time")})
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}
