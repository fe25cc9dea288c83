package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// An info has the fields of the reply to INFO. It is nil if there is none.
type info map[string]string

// parseInfo returns the fields in text. Other lines are ignored.
func parseInfo(text string) info {
	fields := make(info)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// evicts returns the eviction policy if the server has a limit of memory and may then evict keys.
func (i info) evicts() (policy string, evicts bool) {
	policy = i["maxmemory_policy"]
	limit := i["maxmemory"]
	return policy, limit != "" && limit != "0" && policy != "" && policy != "noeviction"
}

const (
	evictionText = "this Redis may evict keys when its memory is full, and then admits events beyond their limits"
	noEviction   = "set maxmemory-policy to noeviction"
)

// warnOfEviction logs a warning if the server may evict Redis keys, and with them the states of
// clients that are over their limits. It is called once, after the first decision, so that New
// needs no server. If the user has no permission for INFO, there is no warning.
func warnOfEviction(rdb redis.UniversalClient) {
	defer func() { _ = recover() }() // as in runner.run
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return
	}
	if policy, evicts := parseInfo(text).evicts(); evicts {
		slog.Default().Warn("weir: "+evictionText+"; "+noEviction, slog.String("maxmemory_policy", policy))
	}
}

// infoChecks are the checks that need the fields of INFO. A field that is missing makes the result Unknown.
var infoChecks = []struct {
	name  string
	field string
	check func(info) Finding
}{
	{"server", "redis_version", info.version},
	{"memory", "maxmemory_policy", info.memory},
	{"role", "role", info.role},
}

// products are the servers other than Redis, with the field of INFO that identifies them. Those that are tested work.
var products = []struct {
	name, field, value string // value is a part of the field; any if it is empty
	tested             bool
}{
	{"Valkey", "valkey_version", "", true},
	{"Dragonfly", "dragonfly_version", "", false},
	{"Upstash", "upstash_version", "", false},
	{"KeyDB", "executable", "keydb", false},
}

// The oldest version that is tested, and the oldest in which a script may write after TIME.
const testedVersion, neededVersion = 7, 5

func (i info) version() Finding {
	name, version, tested := "Redis", i["redis_version"], true
	for _, p := range products {
		if value, ok := i[p.field]; ok && strings.Contains(value, p.value) {
			name, tested = p.name, p.tested
			if p.value == "" {
				version = value
			}
			break
		}
	}
	f := Finding{Result: ResultOK, Detail: name + " " + version}
	major, _, _ := strings.Cut(i["redis_version"], ".")
	switch n, err := strconv.Atoi(major); {
	case err == nil && n < neededVersion:
		f.Result, f.Change = ResultFailed, fmt.Sprintf("use Redis %d or newer, or Valkey: before %d, a script cannot write after TIME", testedVersion, neededVersion)
	case !tested, err != nil, n < testedVersion:
		f.Result, f.Change = ResultWarning, fmt.Sprintf("rely on the checks of scripts, which say whether it works: tested are Redis %d.0 and Valkey 8.0", testedVersion)
	}
	return f
}

// fullMemory is the part of maxmemory above which a Redis will soon be full.
const fullMemory = 0.9

func (i info) memory() Finding {
	policy, evicts := i.evicts()
	bytes, errUsed := strconv.ParseUint(i["used_memory"], 10, 64)
	most, errLimit := strconv.ParseUint(i["maxmemory"], 10, 64)
	used, limit := float64(bytes), float64(most)
	switch {
	case evicts:
		return Finding{Result: ResultWarning, Detail: "maxmemory-policy " + policy + ": " + evictionText, Change: noEviction}
	case errUsed != nil || errLimit != nil:
		return Finding{Result: ResultUnknown, Detail: "maxmemory-policy " + policy + "; INFO does not tell the memory in use", Change: "compare it with maxmemory"}
	case limit == 0:
		return Finding{Result: ResultOK, Detail: fmt.Sprintf("%.0f MB in use, without maxmemory", used/1e6)}
	}
	f := Finding{Result: ResultOK, Detail: fmt.Sprintf("%.0f of %.0f MB in use, maxmemory-policy %s", used/1e6, limit/1e6, policy)}
	if used > fullMemory*limit {
		f.Result, f.Detail, f.Change = ResultWarning, f.Detail+": a full Redis rejects decisions", raiseMemory
	}
	return f
}

func (i info) role() Finding {
	switch role := i["role"]; role {
	case "master":
		if n := i["connected_slaves"]; n != "" && n != "0" {
			return Finding{Result: ResultOK, Detail: "master with replicas: " + n + "; a failover forgets events that no replica has"}
		}
		return Finding{Result: ResultOK, Detail: role}
	case "slave", "replica":
		return Finding{Result: ResultFailed, Detail: role + ": rejects writes", Change: connectPrimary}
	case "active-replica": // of KeyDB
		return Finding{Result: ResultWarning, Detail: role + ": other servers decide about the same keys, which admits more than the limits", Change: "let all processes use one master"}
	default:
		return Finding{Result: ResultUnknown, Detail: fmt.Sprintf("the role %q is not known", role), Change: "connect to a server that takes writes"}
	}
}
