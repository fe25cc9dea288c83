package diagnose

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/core/redisstore/internal/pipe"
)

// The fields of INFO of servers, most of which are not available to tests.
func TestInfo_checks(t *testing.T) {
	for _, c := range []struct {
		info, check string
		want        Result
		detail      string
	}{
		{"redis_version:7.0.15", "server", ResultOK, "Redis 7.0.15"},
		{"redis_version:8.2.1", "server", ResultOK, "Redis 8.2.1"},
		{"redis_version:10.0.0", "server", ResultOK, "Redis 10.0.0"},
		{"redis_version:6.2.6", "server", ResultWarning, "Redis 6.2.6"},
		{"redis_version:4.0.9", "server", ResultFailed, "Redis 4.0.9"},
		{"redis_version:unknown", "server", ResultWarning, "Redis unknown"},
		{"redis_version:7.2.4 server_name:valkey valkey_version:8.0.1", "server", ResultOK, "Valkey 8.0.1"},
		{"redis_version:7.4.0 dragonfly_version:df-v1.30.0", "server", ResultWarning, "Dragonfly df-v1.30.0"},
		{"upstash_version:1.9.2 redis_version:6.2.6", "server", ResultWarning, "Upstash 1.9.2"},
		{"redis_version:6.3.4 executable:/usr/bin/keydb-server", "server", ResultWarning, "KeyDB 6.3.4"},
		{"redis_version:7.0.15 executable:/usr/bin/redis-server", "server", ResultOK, "Redis 7.0.15"},
		{"maxmemory_policy:noeviction maxmemory:0 used_memory:1000000", "memory", ResultOK, "1 MB in use, without maxmemory"},
		{"maxmemory_policy:allkeys-lru maxmemory:0 used_memory:1000000", "memory", ResultOK, "without maxmemory"},
		{"maxmemory_policy:noeviction maxmemory:10000000 used_memory:8900000", "memory", ResultOK, "9 of 10 MB in use"},
		{"maxmemory_policy:noeviction maxmemory:10000000 used_memory:9100000", "memory", ResultWarning, "a full Redis rejects decisions"},
		{"maxmemory_policy:volatile-lru maxmemory:10000000 used_memory:1", "memory", ResultWarning, "maxmemory-policy volatile-lru: this Redis may evict keys"},
		{"maxmemory_policy:noeviction maxmemory:1", "memory", ResultUnknown, "INFO does not tell the memory in use"},
		{"maxmemory_policy:noeviction maxmemory:x used_memory:1", "memory", ResultUnknown, "INFO does not tell the memory in use"},
		{"maxmemory_policy:noeviction maxmemory:NaN used_memory:1", "memory", ResultUnknown, "INFO does not tell the memory in use"},
		{"maxmemory_policy:noeviction maxmemory:1 used_memory:Inf", "memory", ResultUnknown, "INFO does not tell the memory in use"},
		{"maxmemory_policy:noeviction maxmemory:1 used_memory:-1", "memory", ResultUnknown, "INFO does not tell the memory in use"},
		{"role:master", "role", ResultOK, "master"},
		{"role:master connected_slaves:0", "role", ResultOK, "master"},
		{"role:master connected_slaves:2", "role", ResultOK, "replicas: 2"},
		{"role:slave", "role", ResultFailed, "rejects writes"},
		{"role:replica", "role", ResultFailed, "rejects writes"},
		{"role:active-replica", "role", ResultWarning, "admits more than the limits"},
		{"role:sentinel", "role", ResultUnknown, `the role "sentinel" is not known`},
		{"role:", "role", ResultUnknown, `the role "" is not known`},
	} {
		fields, seen := pipe.ParseInfo("# Section\r\n\r\n"+strings.ReplaceAll(c.info, " ", "\r\n")+"\r\n"), false
		for _, check := range infoChecks {
			if check.name != c.check {
				continue
			}
			seen = true
			if f := check.check(fields); f.Result != c.want || !strings.Contains(f.Detail, c.detail) || (f.Change == "") != (f.Result == ResultOK) {
				t.Errorf("%s: got %+v, want %s and %q", c.info, f, c.want, c.detail)
			}
		}
		if !seen {
			t.Errorf("there is no check %s", c.check)
		}
	}
}
