package pipe

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// An Info has the fields of the reply to INFO. It is nil if there is none.
type Info map[string]string

// ParseInfo returns the fields in text. Other lines are ignored.
func ParseInfo(text string) Info {
	fields := make(Info)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Evicts returns the eviction policy if the server has a limit of memory and may then evict keys.
func (i Info) Evicts() (policy string, evicts bool) {
	policy = i["maxmemory_policy"]
	limit := i["maxmemory"]
	return policy, limit != "" && limit != "0" && policy != "" && policy != "noeviction"
}

// The disadvantage of a server that may evict keys, and the change that mends it.
const (
	EvictionText = "this Redis may evict keys when its memory is full, and then admits events beyond their limits"
	NoEviction   = "set maxmemory-policy to noeviction"
)

// WarnOfEviction logs a warning if the server may evict Redis keys, and with them the states of
// clients that are over their limits. It is called once, after the first decision, so that New
// needs no server. If the user has no permission for INFO, there is no warning.
func WarnOfEviction(rdb redis.UniversalClient) {
	defer func() { _ = recover() }() // as in runner.run
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return
	}
	if policy, evicts := ParseInfo(text).Evicts(); evicts {
		slog.Default().Warn("weir: "+EvictionText+"; "+NoEviction, slog.String("maxmemory_policy", policy))
	}
}
