package diagnose

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core/redisstore/internal/pipe"
)

// infoChecks are the checks that need the fields of INFO. A field that is missing makes the result Unknown.
var infoChecks = []struct {
	name  string
	field string
	check func(pipe.Info) Finding
}{
	{"server", "redis_version", checkVersion},
	{"memory", "maxmemory_policy", checkMemory},
	{"role", "role", checkRole},
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

func checkVersion(i pipe.Info) Finding {
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
		f.Result, f.Change = ResultWarning, "rely on the checks of scripts, which say whether it works: tested are Redis 7.0 and 8.0, and Valkey 8.0 to 9.1"
	}
	return f
}

// fullMemory is the part of maxmemory above which a Redis will soon be full.
const fullMemory = 0.9

func checkMemory(i pipe.Info) Finding {
	policy, evicts := i.Evicts()
	bytes, errUsed := strconv.ParseUint(i["used_memory"], 10, 64)
	most, errLimit := strconv.ParseUint(i["maxmemory"], 10, 64)
	used, limit := float64(bytes), float64(most)
	switch {
	case evicts:
		return Finding{Result: ResultWarning, Detail: "maxmemory-policy " + policy + ": " + pipe.EvictionText, Change: pipe.NoEviction}
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

func checkRole(i pipe.Info) Finding {
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
