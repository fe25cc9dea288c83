package redisstore

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// warnOfEviction logs a warning if the server may evict Redis keys, and with them the states of
// clients that are over their limits. It is called once, after the first decision, so that New
// needs no server. If the user has no permission for INFO, there is no warning.
func warnOfEviction(rdb redis.UniversalClient) {
	defer func() { _ = recover() }() // as in runner.run
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return
	}
	policy, limited := "", false
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "maxmemory_policy":
			policy = value
		case "maxmemory":
			limited = value != "0"
		}
	}
	if limited && policy != "" && policy != "noeviction" {
		slog.Default().Warn("weir: this Redis may evict keys when its memory is full, and then admits events beyond their limits; "+
			"set maxmemory-policy to noeviction", slog.String("maxmemory_policy", policy))
	}
}
