package pipe

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Servers returns a function that calls another one for each server of rdb that takes writes, or nil if these are not
// known.
func Servers(rdb redis.UniversalClient) func(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return func(ctx context.Context, f func(context.Context, *redis.Client) error) error { return f(ctx, rdb) }
	case *redis.ClusterClient:
		return rdb.ForEachMaster
	case *redis.Ring:
		return rdb.ForEachShard
	}
	return nil
}

// ServerOf returns the server of rdb that has a key, or nil if it is not known.
func ServerOf(ctx context.Context, rdb redis.UniversalClient, key string) (server *redis.Client) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return rdb
	case *redis.ClusterClient:
		server, _ = rdb.MasterForKey(ctx, key)
	case *redis.Ring:
		server, _ = rdb.GetShardClientForKey(key)
	}
	return server
}
