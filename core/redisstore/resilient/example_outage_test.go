package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/resilient"
)

// down returns a client of a Redis that cannot be reached.
func down() *redis.Client {
	return redis.NewClient(&redis.Options{DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}})
}

// During an outage, each of four processes enforces a quarter of the limit in its memory.
func ExampleInstances() {
	rdb := down()
	defer rdb.Close()
	store := resilient.New(rdb, "shop", resilient.Instances(4))
	defer store.Close()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(100))))

	d, err := api.Allow(context.Background(), "203.0.113.7")
	fmt.Println(d.State(0).Remaining, "left of", d.State(0).Limit(), err)
	// Output: 24 left of 25/h <nil>
}

// During an outage, logins are not decided. Every gate responds with 503.
func ExampleFailClosedFor() {
	rdb := down()
	defer rdb.Close()
	store := resilient.New(rdb, "shop", resilient.Instances(4), resilient.FailClosedFor("login"))
	defer store.Close()
	login := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))

	_, err := login.Allow(context.Background(), "203.0.113.7")
	fmt.Println(errors.Is(err, core.ErrUnavailable), store.Check())
	// Output: true <nil>
}

// A health check reports which store decides. An outage of Redis is no reason to restart the
// process, because its memory decides.
func ExampleStore() {
	rdb := down()
	defer rdb.Close()
	store := resilient.New(rdb, "shop", resilient.Instances(4))
	defer store.Close()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(100))))

	for range 10 {
		_, _ = api.Allow(context.Background(), "203.0.113.7")
	}
	fmt.Println(store.State())
	// Output: backup
}

// After an outage, the counts tell how often it was the memory that decided.
func ExampleStats() {
	rdb := down()
	defer rdb.Close()
	store := resilient.New(rdb, "shop", resilient.Instances(4))
	defer store.Close()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(80))))

	for range 30 {
		_, _ = api.Allow(context.Background(), "203.0.113.7")
	}
	stats := store.Stats()
	fmt.Println(stats.Failover.Outages, "outage, caused by", stats.Failover.Cause)
	fmt.Println(stats.Failover.Backup, "decisions by the backup,", stats.Denycache.Hits, "by the cache of denials")
	// Output:
	// 1 outage, caused by weir: store unavailable: redis: connection refused
	// 20 decisions by the backup, 10 by the cache of denials
}
