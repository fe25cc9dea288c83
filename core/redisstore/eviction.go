package redisstore

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// warnOfEviction logs a warning if the server is allowed to evict keys: it may then forget
// which keys are over their limits. It is called once, after the first decision, so that New
// needs no server. A user that lacks the permission for INFO is not warned.
func warnOfEviction(rdb redis.UniversalClient) {
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
		slog.Default().Warn("weir: this Redis may evict keys when its memory is full, and so forget who is over a limit; "+
			"set maxmemory-policy to noeviction", slog.String("maxmemory_policy", policy))
	}
}
