package diagnose

import (
	"cmp"
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
	"github.com/weir-go/weir/core/internal/call"
	"github.com/weir-go/weir/core/internal/waiters"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// A target is a server that a diagnosis checks.
type target struct {
	*diagnosis
	name     string        // the address; empty if there is one server only
	rdb      pipe.Client   // of the server
	single   *redis.Client // rdb if it is the client of Diagnose; otherwise nil
	identity string        // whose keys are on the server; empty if none was found
	allow    string        // the change that allows the user all commands of scripts; empty if none is missing

	lost context.CancelCauseFunc // ends the checks after a command without a reply
}

// check adds the Findings of all checks, in the order of the documentation of Diagnose.
func (t *target) check(ctx context.Context) {
	ctx, t.lost = context.WithCancelCause(ctx)
	defer t.lost(nil)
	_, err := t.command(ctx, t.rdb, "time") // the only command without a key that a Store needs
	if err != nil && (replyOf(err) == nil || redis.IsAuthError(err)) {
		for _, f := range noServer(ctx, err) {
			t.add(f)
		}
		return
	}
	t.add(connected)
	reply, err := t.command(ctx, t.rdb, "info")
	text, _ := reply.(string)
	fields := pipe.ParseInfo(text)
	if cmp.Or(fields["redis_mode"], fields["server_mode"]) == "sentinel" { // Valkey has the second one
		t.add(Finding{"client", ResultFailed, "the address is that of a Sentinel", "use redis.NewFailoverClient, or the URL redis://HOST:PORT?master_name=NAME"})
		return
	}
	t.checkInfo(ctx, fields, err)
	t.addOfKey("commands", func() Finding { return t.checkCommands(ctx) })
	t.add(t.checkClient(ctx, fields))
	t.checkTimes(ctx)
	for name, a := range wire.Libraries() {
		name = "script " + name
		t.addOfKey(name, func() Finding { return t.checkScript(ctx, name, a) })
	}
	t.addOfKey("processes", func() Finding { return t.checkProcesses(ctx) })
	t.addOfKey("messages", func() Finding { return t.checkMessages(ctx) })
}

// addOfKey adds the Finding of a check that needs a key on the server.
func (t *target) addOfKey(name string, check func() Finding) {
	f := Finding{name, ResultUnknown, fmt.Sprintf("the server has few hash slots, and none of %d keys", tries), "repeat the check, which tries other keys"}
	if t.identity != "" {
		f = check()
	}
	t.add(f)
}

// failed is the function failed. It ends the checks of t if err is not a reply: further commands would wait, too.
func (t *target) failed(ctx context.Context, check string, err error, change string) Finding {
	f := failed(ctx, check, err, change)
	if strings.Contains(t.allow, strings.TrimPrefix(f.Change, allowCommands+": ")) {
		f.Change = t.allow // a script names one command that it lacks, or none
	}
	if !hasReplied(err) {
		t.lost(err)
	}
	return f
}

// command executes a command once, and returns its reply.
func (t *target) command(ctx context.Context, rdb pipe.Client, args ...any) (any, error) {
	return within(ctx, t.timeout, func(ctx context.Context) (any, error) {
		cmd := pipe.Command{Cmd: redis.NewCmd(ctx, args...)}
		err := rdb.Process(ctx, cmd)
		return cmd.Val(), err
	})
}

// checkInfo adds the Findings of infoChecks about the fields of INFO, or about its error.
func (t *target) checkInfo(ctx context.Context, fields pipe.Info, err error) {
	var unknown Finding
	if err != nil {
		unknown = t.failed(ctx, "", err, checkAgain)
		unknown.Result, unknown.Detail = ResultUnknown, "INFO: "+unknown.Detail
	}
	for _, c := range infoChecks {
		f := Finding{Result: ResultUnknown, Detail: "the reply to INFO has no field " + c.field, Change: "look it up in the settings of the service"}
		switch _, ok := fields[c.field]; {
		case err != nil:
			f = unknown
		case ok:
			f = c.check(fields)
		}
		f.Check = c.name
		t.add(f)
	}
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

// keyCommands are the further commands of scripts on a server that refuses TIME.
var keyCommands = []string{"SET KEY x", "PEXPIREAT KEY 9007199254740", "PEXPIRETIME KEY", "PTTL KEY", "DEL KEY"}

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

// checkCommands executes scriptCommands in a script with EVAL, and keyCommands if that refuses TIME, and then the script
// without commands with EVALSHA.
func (t *target) checkCommands(ctx context.Context) Finding {
	const name = "commands"
	found := Finding{Check: name, Result: ResultOK, Detail: "EVAL, EVALSHA and the commands of scripts are permitted"}
	type call struct {
		how, script string
		commands    []string
	}
	calls := []call{{"eval", commandsScript, scriptCommands}, {"evalsha", redis.NewScript(commandsScript).Hash(), nil}}
	for len(calls) > 0 {
		c := calls[0]
		calls = calls[1:]
		args := []any{c.how, c.script, 1, t.key("?")}
		for _, text := range c.commands {
			args = append(args, text)
		}
		reply, err := t.command(ctx, t.rdb, args...)
		command := strings.ToUpper(c.how)
		if err != nil {
			f := t.failed(ctx, name, err, otherServer)
			f.Detail = command + ": " + f.Detail
			return f
		}
		refused, ok := reply.([]any)
		if !ok || len(refused)%2 > 0 {
			return Finding{name, ResultFailed, fmt.Sprintf("%s: the reply has the type %T and is no list of texts", command, reply), otherServer}
		}
		if found.Result == ResultOK && len(refused) > 1 && refused[0] == "TIME" && pipe.ConfigurationFault(wire.ScriptError(fmt.Sprint(refused[1]))) == "" {
			refused = refused[2:]
			found.Result, found.Change = ResultWarning, "none is necessary"
			found.Detail += ", except TIME: scripts take the time from the expiry of a key, in milliseconds"
			calls = append([]call{{c.how, c.script, keyCommands}}, calls...)
		}
		if len(refused) > 0 {
			set := make(map[string]bool)
			for pair := range slices.Chunk(refused, 2) {
				set[fmt.Sprint(pair[0])] = true
			}
			names := slices.Sorted(maps.Keys(set))
			f := failed(ctx, name, wire.ScriptError(fmt.Sprint(refused[1])), otherServer)
			f.Detail = "scripts cannot execute " + strings.Join(names, ", ") + ": " + f.Detail
			if strings.HasPrefix(f.Change, allowCommands) {
				t.allow = allowCommands + ": +" + strings.ToLower(strings.Join(names, " +"))
				f.Change = t.allow
			}
			return f
		}
	}
	return found
}

// key returns a key on the server of t that no Store uses.
func (t *target) key(suffix string) string {
	return t.encoder.Prefix + "{" + t.encoder.Tag(t.identity) + "}" + suffix
}

// freshConnections is the number of new connections that checkClient opens: a proxy may lead each to another server.
const freshConnections = 3

// checkClient writes keys in many slots, reads them on the same connection, which a proxy may divide among servers, and then on
// call.
func (t *target) checkClient(ctx context.Context, fields pipe.Info) Finding {
	const name = "client"
	if t.single == nil {
		return Finding{Check: name, Result: ResultOK, Detail: fmt.Sprintf("%T", t.universal)}
	}
	one := pipe.FreshClient(t.single)
	defer func() { _ = one.Close() }()
	keys, err := within(ctx, t.timeout, func(ctx context.Context) ([]any, error) { return pipe.WriteTestKeys(ctx, one, t.encoder.Prefix) })
	defer t.deleteKeys(ctx, one, keys)
	if err != nil {
		return t.failed(ctx, name, err, checkAgain)
	}
	n, err := within(ctx, t.timeout, func(ctx context.Context) (int, error) { return pipe.CountTestKeys(ctx, one, keys) })
	crossSlot := err != nil && redis.HasErrorPrefix(err, "CROSSSLOT")
	switch {
	case err != nil && !crossSlot:
		return t.failed(ctx, name, err, checkAgain)
	case crossSlot || fields["cluster_enabled"] == "1":
		return Finding{name, ResultWarning, "the server is a node of a Cluster, and the client is not: decisions fail when a part of the keys is on another node",
			clusterClient}
	case n < pipe.TestKeys:
		return Finding{name, ResultWarning, "a proxy for several servers: a decision about several keys takes a script for each of them", "none is necessary; a client of each server is faster"}
	}
	for range freshConnections {
		n, err := within(ctx, t.timeout, func(ctx context.Context) (int, error) {
			fresh := pipe.FreshClient(t.single)
			defer func() { _ = fresh.Close() }()
			return pipe.CountTestKeys(ctx, fresh, keys)
		})
		if err != nil {
			return t.failed(ctx, name, err, checkAddress)
		}
		if n < pipe.TestKeys {
			return Finding{name, ResultFailed, "connections lead to different servers, and each of them admits the whole limit",
				"use the address of one server, or a client for all of them: redis.NewClusterClient, redis.NewRing"}
		}
	}
	return Finding{Check: name, Result: ResultOK, Detail: "all connections lead to one server with all keys"}
}

// deleteKeys deletes keys one by one. They expire otherwise.
func (t *target) deleteKeys(ctx context.Context, rdb *redis.Client, keys []any) {
	_, _ = within(ctx, t.timeout, func(ctx context.Context) ([]redis.Cmder, error) {
		deletes := rdb.Pipeline()
		for _, key := range keys {
			deletes.Do(ctx, "del", key)
		}
		return deletes.Exec(ctx)
	})
}

const (
	// asks is how often checkMessages asks for a place.
	asks = 10
	// withoutMessages is the effect of messages that do not arrive.
	withoutMessages = "; callers that wait for places ask every 50 to 250 ms instead"
)

// checkMessages waits for the message that a script sends for a caller that waits for a place.
func (t *target) checkMessages(ctx context.Context) Finding {
	const name = "messages"
	if _, ring := t.universal.(*redis.Ring); ring {
		return Finding{name, ResultWarning, "a redis.Ring does not subscribe on the server of the key" + withoutMessages,
			"none is necessary; redis.NewClient and redis.NewClusterClient receive messages"}
	}
	process := 1 + rand.Int64N(waiters.Process) // another one than this
	channel := t.encoder.Prefix + "wake:" + strconv.FormatInt(process, 10)
	change := "allow the user +publish, +subscribe and the channels &" + t.encoder.Prefix + "*, and use a client that subscribes on the server of the key"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	subscription, err := within(ctx, t.timeout, func(once context.Context) (*redis.PubSub, error) {
		s := t.universal.Subscribe(once, channel)
		context.AfterFunc(ctx, func() { _ = call.Recover(errClient, s.Close) }) // may wait for the connection
		_, err := s.Receive(once)
		return s, err
	})
	if err != nil {
		return unheard(t.failed(ctx, name, err, change))
	}
	var one driver.Definition
	for _, a := range wire.Libraries() {
		if d := checkRule(a, checkPeriod); d.Kind().Holds {
			one = d
		}
	}
	one.Events = 1
	rule, err := one.Compile()
	if err == nil {
		defer t.do(ctx, &driver.Charge{Rule: rule, Op: driver.Reset})
		err = t.do(ctx, &driver.Charge{Rule: rule, Cost: 1})
	}
	received := make(chan error, 1)
	go func() {
		_, err := within(ctx, t.timeout, subscription.ReceiveMessage)
		received <- err
	}()
	again := time.NewTicker(t.timeout / asks)
	defer again.Stop()
	waiter := &driver.Waiter{Queue: process * waiters.PerProcess}
	for err == nil { // a new subscription may not be known to all nodes of a Cluster
		if err = t.do(ctx, &driver.Charge{Rule: rule, Cost: 1, Waiter: waiter}); err != nil { // it finds no place
			break
		}
		select {
		case err := <-received:
			if late := noReply(0); errors.As(err, &late) {
				return unheard(Finding{name, ResultFailed, fmt.Sprintf("no message within %v", time.Duration(late)), change})
			} else if err != nil {
				return unheard(t.failed(ctx, name, err, change))
			}
			return Finding{Check: name, Result: ResultOK, Detail: "a script wakes a caller"}
		case <-again.C:
		}
	}
	f := t.failed(ctx, name, err, otherServer)
	f.Result, f.Detail = ResultUnknown, "the script of places: "+f.Detail
	return f
}

// unheard returns f as a disadvantage if messages do not arrive.
func unheard(f Finding) Finding {
	if f.Result == ResultFailed {
		f.Result, f.Detail = ResultWarning, f.Detail+withoutMessages
	}
	return f
}

// A clockSample is the clock of a server compared with that of this process.
type clockSample struct {
	server         string
	ahead, inexact time.Duration // the clock of the server is ahead - inexact to ahead + inexact later
}

const (
	roundTrip = "round trip" // the name of the check
	// roundTrips is the number of round trips that are measured. A few slow ones, as at the start of a process, are no
	// failure.
	roundTrips = 11
	// maxClockDifference is the greatest difference of clocks without a Warning.
	maxClockDifference = time.Second
)

// checkTimes measures round trips and the clock of the server.
func (t *target) checkTimes(ctx context.Context) {
	var took []time.Duration
	sample := clockSample{inexact: time.Hour}
	noClock := Finding{"clock", ResultUnknown, "no reply to TIME has a time", "compare the clocks of Redis and of this process"}
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if sample.inexact < time.Hour {
			t.clocks = append(t.clocks, sample)
		} else {
			t.noClock = noClock
		}
	}()
	for range roundTrips {
		begun := time.Now()
		reply, err := t.command(ctx, t.rdb, "time")
		if err != nil {
			change := noClock.Change
			noClock = t.failed(ctx, "clock", err, change)
			noClock.Result = ResultUnknown
			if noClock.Change == otherServer {
				noClock.Change = change // the scripts find the time without TIME
			}
			if replyOf(err) == nil { // that of a missing permission is a reply, too
				unknown := noClock
				unknown.Check = roundTrip
				t.add(unknown)
				return
			}
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
	limit := fmt.Sprintf("; the Timeout of a decision is %v", t.decision)
	const change = "set Timeout to several times the round trip, or use a Redis that is nearer"
	switch {
	case median > t.decision:
		f.Result, f.Detail, f.Change = ResultFailed, f.Detail+limit, change
	case median > t.decision/4, worst > t.decision:
		f.Result, f.Detail, f.Change = ResultWarning, f.Detail+limit, change
	}
	t.add(f)
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
	if len(d.clocks) == 0 {
		if d.noClock.Check != "" {
			d.findings = append(d.findings, d.noClock)
		}
		return
	}
	f := Finding{Check: "clock", Result: ResultOK, Detail: "that of Redis differs from this process by less than " + maxClockDifference.String()}
	for _, c := range d.clocks {
		if c.ahead.Abs()-c.inexact <= maxClockDifference {
			continue
		}
		side := "ahead of"
		if c.ahead < 0 {
			side = "behind"
		}
		f.Result, f.Change = ResultWarning, "synchronize the clocks"
		f.Detail = fmt.Sprintf("%sRedis is %v %s this process: Redis ends windows and quotas, and this process overrides and blocks",
			strings.TrimPrefix(c.server+": ", ": "), c.ahead.Abs().Round(time.Millisecond), side)
	}
	d.findings = append(d.findings, f)
}
