package diagnose

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
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
	ResultUnknown Result = "unknown" // not checked: the user lacks a permission, the server does not tell, a reply is missing, or the time has ended
	ResultWarning Result = "warning" // works, with the disadvantage in Detail
	ResultFailed  Result = "failed"  // will not work
)

// results are in the order of their severity.
var results = []Result{ResultOK, ResultUnknown, ResultWarning, ResultFailed}

// worse reports whether r is worse than o.
func (r Result) worse(o Result) bool { return slices.Index(results, r) > slices.Index(results, o) }

const (
	allowCommands  = "allow the user the commands, keys and channels in the documentation of package redisstore, under Permissions"
	correctUser    = "correct the user and the password in the options of the client"
	otherServer    = "use a server or a kind of service that allows Lua scripts all commands in the documentation of package redisstore, under Permissions"
	clusterClient  = "use redis.NewClusterClient"
	checkAgain     = "repeat the check when the server is ready"
	checkAddress   = "check the address, the network, TLS (rediss://), whether the server runs, and with Sentinel the name of the master"
	raiseMemory    = "raise maxmemory, or use a Redis of its own for limits"
	connectPrimary = "connect to the master; redis.NewFailoverClient finds it with Sentinel"
)

// causes has the results of replies of Redis that are errors, in lower case. A cause of several words is a part of the
// reply, and another one is its code. pipe.ConfigurationFault knows the faults of the user.
var causes = []struct {
	text   string
	result Result
	change string
}{
	{"not allowed from script", ResultFailed, otherServer},
	{"unknown command", ResultFailed, otherServer},
	{"unknown redis command", ResultFailed, otherServer},
	{"cluster support disabled", ResultFailed, "use redis.NewClient"},
	{"moved", ResultFailed, clusterClient},
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
// for a reply that causes does not have.
func failed(ctx context.Context, check string, err error, change string) Finding {
	f := Finding{check, ResultFailed, withoutScript(err.Error()), change}
	switch fault, reply := pipe.ConfigurationFault(err), replyOf(err); {
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		f.Result, f.Detail, f.Change = ResultUnknown, "not checked: "+cause.Error(), checkAgain
		if cause == ctx.Err() {
			f.Change = "give the check more time"
		}
	case fault == pipe.WrongUser:
		f.Change = correctUser
	case fault == pipe.NoPermission:
		f.Change = allowCommands
		if _, rest, found := strings.Cut(f.Detail, "permissions to run the '"); found {
			name, _, _ := strings.Cut(rest, "'")
			f.Change += ": +" + name
		}
	case fault == pipe.NoLibrary:
		f.Change = "use a server of Redis or Valkey, or memstore"
	case !hasReplied(err):
		f.Result, f.Change = ResultUnknown, checkAgain
	case reply != nil:
		text := strings.ToLower(strings.TrimPrefix(withoutScript(reply.Error()), "ERR "))
		code, _, _ := strings.Cut(text, " ")
		for _, c := range causes {
			if code == c.text || strings.Contains(c.text, " ") && strings.Contains(text, c.text) {
				f.Result, f.Change = c.result, c.change
				break
			}
		}
	}
	return f
}

// hasReplied reports whether err says that the server has replied. A lost or late reply proves nothing.
func hasReplied(err error) bool {
	return replyOf(err) != nil || errors.Is(err, wire.ErrReply) || errors.Is(err, errSteps) || errors.Is(err, processes.ErrRecord)
}

// withoutScript returns the text of a reply without the arguments of the command, and without the hash and the line of a
// script, which stand behind the error since Redis 7 and before it in older versions.
func withoutScript(text string) string {
	text, _, _ = strings.Cut(text, ", with args beginning with:")
	const user = "@user_script:"
	i := strings.LastIndex(text, user)
	if i < 0 {
		return text
	}
	if end := strings.LastIndex(text[:i], " script: "); end >= 0 {
		return text[:end]
	}
	_, reply, _ := strings.Cut(text[i+len(user):], ": ")
	return strings.TrimPrefix(reply, "-")
}
