package redisstore

import (
	"context"
	"slices"
	"strings"
)

// A Finding is the result of one check of [Diagnose].
type Finding struct {
	Check  string `json:"check"` // the name of the check, such as "connection" or "script bucket"
	Result Result `json:"result"`
	Detail string `json:"detail"`           // the facts: figures, a version, or an error of Redis, which contains no key
	Change string `json:"change,omitempty"` // the change that mends it; empty if the Result is ResultOK
}

// A Result says whether a Store works with a part of a Redis.
type Result string

const (
	ResultOK      Result = "ok"
	ResultUnknown Result = "unknown" // not checked, because the user lacks a permission, the server does not tell, or the time has ended
	ResultWarning Result = "warning" // works, with the disadvantage in Detail
	ResultFailed  Result = "failed"  // will not work
)

// results are in the order of their severity.
var results = []Result{ResultOK, ResultUnknown, ResultWarning, ResultFailed}

// worse reports whether r is worse than o.
func (r Result) worse(o Result) bool { return slices.Index(results, r) > slices.Index(results, o) }

const (
	allowCommands  = "allow the user the commands, keys and channels in the documentation of package redisstore, under Permissions"
	otherServer    = "use a server or a kind of service that allows Lua scripts all commands of that list"
	clusterClient  = "use redis.NewClusterClient, and weir doctor -cluster"
	checkAgain     = "repeat the check when the server is ready"
	checkAddress   = "check the address, the network, TLS (rediss://) and whether the server runs"
	raiseMemory    = "raise maxmemory, or use a Redis of its own for limits"
	connectPrimary = "connect to the master; redis.NewFailoverClient finds it with Sentinel"
)

// causes has the results of errors of Redis whose text contains one of these texts, in lower case.
var causes = []struct {
	text   string
	result Result
	change string
}{
	{"noauth", ResultFailed, "set the user and the password in the options of the client"},
	{"wrongpass", ResultFailed, "correct the user and the password in the options of the client"},
	{"noperm", ResultFailed, allowCommands},
	{"the user executing the script can't", ResultFailed, allowCommands},
	{"acl failure in script", ResultFailed, allowCommands},
	{"not allowed from script", ResultFailed, otherServer},
	{"unknown command", ResultFailed, otherServer},
	{"unknown redis command", ResultFailed, otherServer},
	{"cluster support disabled", ResultFailed, "use redis.NewClient, and weir doctor without -cluster"},
	{"moved ", ResultFailed, clusterClient},
	{"readonly", ResultFailed, connectPrimary},
	{"oom", ResultFailed, raiseMemory},
	{"misconf", ResultFailed, "mend the snapshots of Redis, or set stop-writes-on-bgsave-error to no"},
	{"noreplicas", ResultFailed, "start the replicas that min-replicas-to-write demands"},
	{"clusterdown", ResultFailed, "give every hash slot to a node that runs"},
	{"max number of clients", ResultFailed, "raise maxclients, or lower PoolSize of the clients"},
	{"loading", ResultUnknown, checkAgain},
	{"busy", ResultUnknown, checkAgain},
	{"tryagain", ResultUnknown, checkAgain},
	{"masterdown", ResultUnknown, checkAgain},
}

// failed returns the Finding of a check that could not be made, or that failed, because of err. change is the Change
// for an error that causes does not have.
func failed(ctx context.Context, check string, err error, change string) Finding {
	f := Finding{Check: check, Result: ResultFailed, Detail: err.Error(), Change: change}
	if ctx.Err() != nil {
		f.Result, f.Detail, f.Change = ResultUnknown, "not checked: "+ctx.Err().Error(), "give the check more time"
		return f
	}
	if i := strings.LastIndex(f.Detail, " script: "); i >= 0 && strings.Contains(f.Detail[i:], "@user_script") {
		f.Detail = f.Detail[:i] // without the hash and the line
	}
	text := strings.ToLower(f.Detail)
	for _, c := range causes {
		if strings.Contains(text, c.text) {
			f.Result, f.Change = c.result, c.change
			break
		}
	}
	if _, rest, found := strings.Cut(text, "permissions to run the '"); found && f.Change == allowCommands {
		name, _, _ := strings.Cut(rest, "'")
		f.Change += ": +" + name
	}
	return f
}
