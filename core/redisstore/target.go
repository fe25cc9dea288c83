package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/waiters"
)

// A target is a server that a diagnosis checks.
type target struct {
	*diagnosis
	name     string        // the address; empty if there is one server only
	rdb      client        // of the server
	single   *redis.Client // rdb if it is the client of Diagnose; otherwise nil
	identity string        // whose keys are on the server
}

// check adds the Findings of all checks, in the order of the documentation of Diagnose.
func (t *target) check(ctx context.Context) {
	_, err := t.command(ctx, t.rdb, "time") // the only command without a key that a Store needs
	if err != nil && (!isReplyError(err) || redis.IsAuthError(err)) {
		for _, f := range noServer(ctx, err) {
			t.add(f)
		}
		return
	}
	t.add(connected)
	fields := t.checkInfo(ctx)
	t.add(t.checkCommands(ctx))
	t.add(t.checkClient(ctx, fields))
	t.checkTimes(ctx)
	for l := range library(len(libraries)) {
		t.add(t.checkScript(ctx, l))
	}
	t.add(t.checkMessages(ctx))
}

// command executes a command once, and returns its reply.
func (t *target) command(ctx context.Context, rdb client, args ...any) (any, error) {
	return within(ctx, t.timeout, func(ctx context.Context) (any, error) {
		cmd := command{redis.NewCmd(ctx, args...)}
		err := rdb.Process(ctx, cmd)
		return cmd.Val(), err
	})
}

// checkInfo adds the Findings of infoChecks, and returns the fields of INFO.
func (t *target) checkInfo(ctx context.Context) info {
	reply, err := t.command(ctx, t.rdb, "info")
	text, _ := reply.(string)
	fields := parseInfo(text)
	for _, c := range infoChecks {
		f := Finding{Result: ResultUnknown, Detail: "the reply to INFO has no field " + c.field, Change: "look it up in the settings of the service"}
		switch _, ok := fields[c.field]; {
		case err != nil:
			f = failed(ctx, c.name, err, checkAgain)
			f.Result, f.Detail = ResultUnknown, "INFO: "+f.Detail
		case ok:
			f = c.check(fields)
		}
		f.Check = c.name
		t.add(f)
	}
	return fields
}

// scriptCommands are the commands of scripts, with arguments that change only KEY, in an order in which a user with all
// permissions leaves no key. checkMessages needs PUBLISH.
var scriptCommands = []string{
	"TIME",
	"PSETEX KEY 1000 x", "GET KEY", "EXISTS KEY", "UNLINK KEY",
	"ZADD KEY 1 a", "PEXPIRE KEY 1000", "ZCARD KEY", "ZCOUNT KEY 0 1", "ZRANGE KEY 0 0", "ZREVRANGE KEY 0 0",
	"ZRANGEBYSCORE KEY 0 1", "ZREMRANGEBYRANK KEY 1 1", "ZREM KEY a", "DEL KEY",
	"HSET KEY f 1", "PEXPIRE KEY 1000", "HMGET KEY f", "HGETALL KEY", "HDEL KEY f",
}

// commandsScript executes the commands in ARGV, and returns the name and the error of each that fails, except on a key
// of another type, which an earlier command could not delete.
const commandsScript = `local failed = {}
for i = 1, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do
    words[#words + 1] = word == 'KEY' and KEYS[1] or word
  end
  local reply = redis.pcall((unpack or table.unpack)(words))
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    failed[#failed + 1] = words[1]
    failed[#failed + 1] = reply.err
  end
end
return failed
`

// checkCommands executes scriptCommands in a script, first with EVAL and then with EVALSHA.
func (t *target) checkCommands(ctx context.Context) Finding {
	const name = "commands"
	s := newSource(commandsScript)
	key := t.key("?")
	args := []any{nil, nil, 1, key}
	for _, c := range scriptCommands {
		args = append(args, c)
	}
	for _, how := range [][2]any{{eval, s.source}, {evalsha, s.sha}} {
		args[0], args[1] = how[0], how[1]
		reply, err := t.command(ctx, t.rdb, args...)
		command := strings.ToUpper(how[0].(string))
		if err != nil {
			f := failed(ctx, name, err, otherServer)
			f.Detail = command + ": " + f.Detail
			return f
		}
		refused, ok := reply.([]any)
		if !ok || len(refused)%2 > 0 {
			return Finding{name, ResultFailed, fmt.Sprintf("%s: the reply has the type %T and is no list of texts", command, reply), otherServer}
		}
		if len(refused) > 0 {
			names := make(map[string]bool)
			for pair := range slices.Chunk(refused, 2) {
				names[fmt.Sprint(pair[0])] = true
			}
			f := failed(ctx, name, fmt.Errorf("scripts cannot execute %s: %v",
				strings.Join(slices.Sorted(maps.Keys(names)), ", "), refused[1]), otherServer)
			if strings.HasPrefix(f.Change, allowCommands) {
				f.Change = allowCommands + ": +" + strings.ToLower(strings.Join(slices.Sorted(maps.Keys(names)), " +"))
			}
			return f
		}
	}
	return Finding{Check: name, Result: ResultOK, Detail: "EVAL, EVALSHA and the commands of scripts are permitted"}
}

// key returns a key on the server of t that no Store uses.
func (t *target) key(suffix string) string {
	keys := &t.store.router.keys
	return keys.prefix + "{" + keys.tag(t.identity) + "}" + suffix
}

// freshConnections is the number of new connections that checkClient opens: a proxy may lead each to another server.
const freshConnections = 3

// checkClient writes keys in many slots, and reads them on other connections.
func (t *target) checkClient(ctx context.Context, fields info) Finding {
	const name = "client"
	if t.single == nil {
		if _, cluster := t.universal.(*redis.ClusterClient); cluster && fields["cluster_enabled"] == "0" {
			return Finding{name, ResultFailed, "a client of a Cluster, and a server that is none", "use redis.NewClient, and weir doctor without -cluster"}
		}
		return Finding{Check: name, Result: ResultOK, Detail: fmt.Sprintf("%T", t.universal)}
	}
	keys, err := within(ctx, t.timeout, func(ctx context.Context) ([]any, error) { return writeTestKeys(ctx, t.single, t.config.prefix) })
	defer t.deleteKeys(ctx, keys)
	if err != nil {
		return failed(ctx, name, err, checkAgain)
	}
	n, err := within(ctx, t.timeout, func(ctx context.Context) (int, error) { return countTestKeys(ctx, t.single, keys) })
	crossSlot := err != nil && redis.HasErrorPrefix(err, "CROSSSLOT")
	switch {
	case err != nil && !crossSlot:
		return failed(ctx, name, err, checkAgain)
	case crossSlot || fields["cluster_enabled"] == "1":
		return Finding{name, ResultWarning, "the server is a node of a Cluster, and the client is not: decisions fail when a part of the keys is on another node",
			clusterClient}
	case n < testKeys:
		return Finding{name, ResultWarning, "a proxy for several servers: a decision about several keys takes a script for each of them", "none is necessary; a client of each server is faster"}
	}
	for range freshConnections {
		n, err := within(ctx, t.timeout, func(ctx context.Context) (int, error) {
			fresh := freshClient(t.single)
			defer func() { _ = fresh.Close() }()
			return countTestKeys(ctx, fresh, keys)
		})
		if err != nil {
			return failed(ctx, name, err, checkAddress)
		}
		if n < testKeys {
			return Finding{name, ResultFailed, "connections lead to different servers, and each of them admits the whole limit",
				"use the address of one server, or a client for all of them: redis.NewClusterClient, redis.NewRing"}
		}
	}
	return Finding{Check: name, Result: ResultOK, Detail: "all connections lead to one server with all keys"}
}

// deleteKeys deletes keys one by one. They expire otherwise.
func (t *target) deleteKeys(ctx context.Context, keys []any) {
	_, _ = within(ctx, t.timeout, func(ctx context.Context) ([]redis.Cmder, error) {
		pipe := t.single.Pipeline()
		for _, key := range keys {
			pipe.Do(ctx, "del", key)
		}
		return pipe.Exec(ctx)
	})
}

// asks is how often checkMessages asks for a place.
const asks = 10

// checkMessages waits for the message that a script sends for a caller that waits for a place.
func (t *target) checkMessages(ctx context.Context) Finding {
	const name, effect = "messages", "; callers that wait for places ask every 50 to 250 ms instead"
	process := 1 + rand.Int64N(waiters.Process) // another one than this
	channel := t.config.prefix + "wake:" + strconv.FormatInt(process, 10)
	err := func() error {
		if _, ring := t.universal.(*redis.Ring); ring {
			return errors.New("a redis.Ring does not subscribe on the server of the key")
		}
		subscription := t.universal.Subscribe(ctx) // opens no connection without a channel
		defer func() { go subscription.Close() }() // may wait for the connection
		subscribed := func(ctx context.Context) (any, error) {
			if err := subscription.Subscribe(ctx, channel); err != nil {
				return nil, err
			}
			return subscription.Receive(ctx)
		}
		if _, err := within(ctx, t.timeout, subscribed); err != nil {
			return err
		}
		one := scriptChecks[inFlight].rule
		one.Events = 1
		rule, err := t.rule(one)
		if err != nil {
			return err
		}
		waiter := driver.Waiter{Queue: process * waiters.PerProcess, Behind: -1}.Receipt()
		defer t.do(ctx, &driver.Charge{Rule: rule, Op: driver.Reset})
		if err := t.do(ctx, &driver.Charge{Rule: rule, Cost: 1}); err != nil {
			return err
		}
		received := make(chan error, 1)
		go func() {
			_, err := within(ctx, t.timeout, subscription.ReceiveMessage)
			if late := noAnswer(0); errors.As(err, &late) {
				err = fmt.Errorf("no message within %v", time.Duration(late))
			}
			received <- err
		}()
		again := time.NewTicker(t.timeout / asks)
		defer again.Stop()
		for { // a new subscription may not be known to all nodes of a Cluster
			if err := t.do(ctx, &driver.Charge{Rule: rule, Cost: 1, Receipt: waiter}); err != nil { // it finds no place
				return err
			}
			select {
			case err := <-received:
				return err
			case <-again.C:
			}
		}
	}()
	if err == nil {
		return Finding{Check: name, Result: ResultOK, Detail: "a script wakes a caller"}
	}
	f := failed(ctx, name, err, "allow the user +publish, +subscribe and the channels &"+t.config.prefix+"*, and use a client that subscribes on the server of the key")
	if f.Result == ResultFailed {
		f.Result = ResultWarning
	}
	f.Detail += effect
	return f
}

// A clockSample is the clock of a server compared with that of this process.
type clockSample struct {
	server         string
	ahead, inexact time.Duration // the clock of the server is ahead - inexact to ahead + inexact later
}

const (
	roundTrip = "round trip" // the name of the check
	// roundTrips is the number of round trips that are measured. A few slow ones, as at the start of a process, prove
	// nothing.
	roundTrips = 20
	// maxClockDifference is the greatest difference of clocks without a Warning.
	maxClockDifference = time.Second
)

// checkTimes measures round trips and the clock of the server.
func (t *target) checkTimes(ctx context.Context) {
	var took []time.Duration
	sample := clockSample{inexact: time.Hour}
	for range roundTrips {
		begun := time.Now()
		reply, err := t.command(ctx, t.rdb, "time")
		if err != nil && !isReplyError(err) { // that of a missing permission is a reply, too
			t.add(failed(ctx, roundTrip, err, checkAddress))
			return
		}
		rtt := time.Since(begun)
		took = append(took, rtt)
		if at, ok := timeOf(reply); ok && rtt/2 < sample.inexact {
			sample = clockSample{t.name, at.Sub(begun.Add(rtt / 2)), rtt / 2}
		}
	}
	slices.Sort(took)
	median, most, worst := took[len(took)/2], took[len(took)*9/10], took[len(took)-1]
	f := Finding{Check: roundTrip, Result: ResultOK, Detail: fmt.Sprintf("median %v, nine of ten within %v, worst %v",
		median.Round(10*time.Microsecond), most.Round(10*time.Microsecond), worst.Round(10*time.Microsecond))}
	limit := fmt.Sprintf("; the Timeout of a decision is %v", t.config.timeout)
	const change = "set Timeout to several times the round trip, or use a Redis that is nearer"
	switch {
	case median > t.config.timeout:
		f.Result, f.Detail, f.Change = ResultFailed, f.Detail+limit, change
	case median > t.config.timeout/4, worst > t.config.timeout:
		f.Result, f.Detail, f.Change = ResultWarning, f.Detail+limit, change
	}
	t.add(f)
	t.mu.Lock()
	defer t.mu.Unlock()
	if sample.inexact < time.Hour {
		t.clocks = append(t.clocks, sample)
	}
}

// timeOf returns the time in a reply to TIME.
func timeOf(reply any) (time.Time, bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(fmt.Sprint(parts[0]), 10, 64)
	micros, err2 := strconv.ParseInt(fmt.Sprint(parts[1]), 10, 64)
	return time.Unix(seconds, micros*1000), errors.Join(err, err2) == nil
}

// checkClocks adds the Finding about the clocks of all servers that have told their times.
func (d *diagnosis) checkClocks() {
	f := Finding{Check: "clock", Result: ResultOK, Detail: "that of Redis differs from this process by less than " + maxClockDifference.String()}
	for _, c := range d.clocks {
		if max(c.ahead, -c.ahead)-c.inexact <= maxClockDifference {
			continue
		}
		f.Result, f.Change = ResultWarning, "synchronize the clocks"
		f.Detail = strings.TrimPrefix(c.server+": ", ": ") + "that of Redis is " + c.ahead.Round(time.Millisecond).String() +
			" ahead of this process: Redis ends windows and quotas, and this process overrides and blocks"
	}
	switch measured := slices.ContainsFunc(d.findings, func(f Finding) bool { return f.Check == roundTrip }); {
	case !measured:
		return
	case len(d.clocks) == 0:
		f.Result, f.Detail, f.Change = ResultUnknown, "no reply to TIME has a time", "allow the user +time"
	}
	d.findings = append(d.findings, f)
}
