package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
)

// down returns a client of a Redis that cannot be reached.
func down() *redis.Client {
	return redis.NewClient(&redis.Options{DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}})
}

// A limit of all processes that use this Redis. Package resilient adds a backup for outages.
func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	api := core.Must(core.New(redisstore.New(rdb, "shop"), core.SlidingWindow("api", core.PerMinute(100))))

	d, err := api.Allow(context.Background(), "203.0.113.7")
	if err != nil {
		fmt.Println(err) // Redis is down or slow: the application chooses whether to admit the event
		return
	}
	fmt.Println(d)
}

func ExampleNew_cluster() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"10.0.0.1:6379", "10.0.0.2:6379"}})
	defer rdb.Close()
	store := redisstore.New(rdb, "shop")
	fmt.Println(core.New(store, core.SlidingWindow("api", core.PerMinute(100))))
}

func ExampleNew_sentinel() {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "limits",
		SentinelAddrs: []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
	})
	defer rdb.Close()
	store := redisstore.New(rdb, "shop")
	fmt.Println(core.New(store, core.SlidingWindow("api", core.PerMinute(100))))
}

// Two applications on one Redis have different prefixes.
func ExampleOption() {
	rdb := down()
	defer rdb.Close()
	store := redisstore.New(rdb, "shop",
		redisstore.Prefix("shop:"),
		redisstore.Timeout(50*time.Millisecond),
		redisstore.KeySecret([]byte("32 random bytes from your secrets"))) // keys are personal data
	fmt.Println(store.Describe().Deadline)
	// Output: 50ms
}

// An Error means that nothing was decided.
func ExampleError() {
	rdb := down()
	defer rdb.Close()
	api := core.Must(core.New(redisstore.New(rdb, "shop"), core.SlidingWindow("api", core.PerMinute(100))))

	_, err := api.Allow(context.Background(), "203.0.113.7")
	var failure *redisstore.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Cause)
	}
	fmt.Println(errors.Is(err, core.ErrUnavailable))
	// Output:
	// connection refused
	// true
}

// Counts for the metrics of an application without package observe.
func ExampleStats() {
	rdb := down()
	defer rdb.Close()
	store := redisstore.New(rdb, "shop")
	api := core.Must(core.New(store, core.SlidingWindow("api", core.PerMinute(100))))
	for range 3 {
		_, _ = api.Allow(context.Background(), "203.0.113.7")
	}

	fmt.Println(store.Stats().Unavailable, "decisions failed")
	// Output: 3 decisions failed
}
