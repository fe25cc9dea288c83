// Package diagnose checks whether a Store of package redisstore works on the Redis at hand, as "weir doctor" does.
package diagnose

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/call"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// Diagnose checks whether a Store with these options works on the Redis of rdb, and returns the result of each check:
//
//   - connection: the server replies. If it does not, there is no other Finding about the server
//   - user: the user name and the password; there is no such Finding if they are right
//   - server, memory, role: the version, the eviction policy, and whether it is a master, as INFO tells
//   - commands: EVAL, EVALSHA, and the commands of scripts, each with the permissions of the user
//   - client: the kind of rdb suits the server; for a *redis.Client also: all connections lead to one server
//   - round trip: the time for a reply, compared with [redisstore.Timeout]
//   - script and its name: a script makes decisions, with the right results
//   - messages: a script wakes callers that wait for places
//   - processes: a script counts the processes of the application, for package resilient
//   - clock: the clocks of the servers, compared with that of this process
//
// On a Cluster or Ring, a Finding is the worst of all masters or shards, and its Detail begins with the address of the
// server.
//
// Diagnose checks all servers concurrently, each with about 110 commands, one after the other, and 20 more if the server
// does not have the scripts. It uses keys of its own, with the prefix of app and the secret of opts, which it deletes, and which
// expire within 13 s if it cannot. It opens four more connections for a moment. It neither logs nor changes the Redis.
//
// Diagnose returns after the last check, or when ctx ends. A command may take a second, or [redisstore.Timeout] if that is
// longer. After a command without a reply, that check of the server and all later ones are ResultUnknown. A server that
// has not replied when ctx ends is ResultFailed, and all other checks that ctx has interrupted or
// prevented are ResultUnknown. Commands that were sent continue in the background until their replies arrive or the
// timeouts of the client end them. Diagnose panics if rdb or an option is nil, or app invalid.
func Diagnose(ctx context.Context, rdb redis.UniversalClient, app string, opts ...redisstore.Option) []Finding {
	store := redisstore.New(rdb, app, opts...) // it sends nothing, and knows the settings
	_, prefix, _, hasher := store.Redis()
	d := &diagnosis{
		universal: rdb, app: app, decision: store.Describe().Deadline, encoder: wire.NewEncoder(prefix, hasher),
	}
	d.timeout = max(d.decision, time.Second)
	d.pipe = pipe.New(rdb, pipe.Config{Prefix: prefix, Timeout: d.decision, Unbatched: true})
	targets, err := within(ctx, manyCommands*d.timeout, d.targets)
	if err == nil && len(targets) == 0 {
		err = errors.New("the client knows no server")
	}
	if err != nil {
		return noServer(ctx, err)
	}
	var checks sync.WaitGroup
	for _, t := range targets {
		checks.Go(func() {
			if err := call.Recover(errClient, func() error { t.check(ctx); return nil }); err != nil {
				t.add(failed(ctx, "client", err, checkAgain))
			}
		})
	}
	checks.Wait()
	d.checkClocks()
	return d.findings
}

// manyCommands is the number of commands with which a client learns the nodes of a Cluster, some of which may be down.
const manyCommands = 5

// A diagnosis collects Findings. It is safe for concurrent use.
type diagnosis struct {
	universal redis.UniversalClient
	app       string
	decision  time.Duration // the Timeout of a decision
	timeout   time.Duration // for a command
	encoder   *wire.Encoder
	pipe      *pipe.Pipe

	mu       sync.Mutex
	findings []Finding
	clocks   []clockSample
	noClock  Finding // about a server that has not told its time
}

// tries is the number of keys that are tried on a server. One with few slots may not have any of them.
const tries = 10_000

// targets returns the servers of the client.
func (d *diagnosis) targets(ctx context.Context) (targets []*target, err error) {
	each := pipe.Servers(d.universal)
	if each == nil {
		return []*target{{diagnosis: d, rdb: d.universal, identity: newIdentity()}}, nil
	}
	var mu sync.Mutex
	err = each(ctx, func(_ context.Context, rdb *redis.Client) error {
		t := &target{diagnosis: d, rdb: rdb, name: rdb.Options().Addr}
		if d.universal == redis.UniversalClient(rdb) {
			t.name, t.single = "", rdb
		}
		for range tries {
			if t.identity = newIdentity(); pipe.ServerOf(ctx, d.universal, t.key("")) == rdb {
				break
			}
			t.identity = ""
		}
		mu.Lock()
		defer mu.Unlock()
		targets = append(targets, t)
		return nil
	})
	return targets, err
}

func newIdentity() string { return fmt.Sprintf("check %016x", rand.Uint64()) }

// add adds a Finding about t. The worst Finding of several servers stays.
func (t *target) add(f Finding) {
	d := t.diagnosis
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.name != "" {
		f.Detail = t.name + ": " + f.Detail
	}
	i := slices.IndexFunc(d.findings, func(o Finding) bool { return o.Check == f.Check })
	if i < 0 {
		d.findings = append(d.findings, f)
	} else if f.Result.worse(d.findings[i].Result) {
		d.findings[i] = f
	}
}

// noServer returns the Findings about a server that the first command could not reach, because of err. If the server
// has replied, as to a wrong password or to a client of a Cluster that finds no Cluster, the connection is OK.
func noServer(ctx context.Context, err error) []Finding {
	switch {
	case redis.IsAuthError(err):
		return []Finding{connected, failed(ctx, "user", err, checkAddress)}
	case replyOf(err) != nil:
		return []Finding{connected, failed(ctx, "client", err, checkAddress)}
	}
	return []Finding{{"connection", ResultFailed, err.Error(), checkAddress}}
}

var connected = Finding{Check: "connection", Result: ResultOK, Detail: "the server replies"}

// replyOf returns the reply of the server that err is or wraps, or nil. An error that joins others has none: a client that
// finds no master joins the replies of its Sentinels.
func replyOf(err error) redis.Error {
	for ; err != nil; err = errors.Unwrap(err) {
		if reply, ok := err.(redis.Error); ok {
			return reply
		}
	}
	return nil
}

// noReply is the error of a command without a reply in this time.
type noReply time.Duration

func (t noReply) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(t)) }

// errClient names the client in the errors of package call: a malformed reply, a hook or a client of another package may
// panic.
var errClient = errors.New("the client")

// within returns the result of f, or an error if ctx has ended, or ends or timeout passes first. f then goes on in
// the background: go-redis ignores the deadline of a context by default, and otherwise closes the connection.
func within[T any](ctx context.Context, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		return *new(T), err
	}
	running, cancel := context.WithCancel(ctx) // ends the wait for a connection
	defer cancel()
	once, stop := context.WithTimeout(running, timeout)
	defer stop()
	value, err := call.Detached(once, errClient, nil, func() (T, error) { return f(running) })
	if err == context.DeadlineExceeded && once.Err() != nil && ctx.Err() == nil {
		err = noReply(timeout)
	}
	return value, err
}
