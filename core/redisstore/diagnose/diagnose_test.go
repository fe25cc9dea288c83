package diagnose_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/diagnose"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// diagnosed returns the Findings about rdb by their checks.
func diagnosed(t *testing.T, rdb redis.UniversalClient, opts ...redisstore.Option) map[string]diagnose.Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), servertest.WaitLimit)
	defer cancel()
	findings := make(map[string]diagnose.Finding)
	for _, f := range diagnose.Diagnose(ctx, rdb, "test", append([]redisstore.Option{redisstore.Prefix("test:"), redisstore.Timeout(servertest.WaitLimit / 10)}, opts...)...) {
		if _, double := findings[f.Check]; double || f.Detail == "" || (f.Change == "") != (f.Result == diagnose.ResultOK) {
			t.Errorf("got %+v, want one Finding of the check, with a change unless it is OK", f)
		}
		findings[f.Check] = f
	}
	return findings
}

// scripts are the checks of all scripts, and allChecks all checks.
var (
	scripts = func() string {
		var names []string
		for library := range wire.Libraries() {
			names = append(names, "script "+library)
		}
		slices.Sort(names)
		return strings.Join(names, ", ")
	}()
	allChecks = "client, clock, commands, connection, memory, messages, processes, role, round trip, " + scripts + ", server"
)

// results compares the results of Findings, of which those without a value in want are OK. A value is a result and a
// part of the change. The names of checks are separated by commas.
func results(t *testing.T, got map[string]diagnose.Finding, checks string, want map[string]string) {
	t.Helper()
	if names := strings.Join(slices.Sorted(maps.Keys(got)), ", "); names != checks {
		t.Errorf("got the checks\n%s, want\n%s", names, checks)
	}
	expected := make(map[string]string)
	for names, value := range want {
		for name := range strings.SplitSeq(names, ", ") {
			if _, ok := got[name]; !ok {
				t.Errorf("there is no Finding of %s", name)
			}
			expected[name] = value
		}
	}
	for name, f := range got {
		result, change, _ := strings.Cut(expected[name], " ")
		if result == "" {
			result = "ok"
		}
		if result == "any" { // it depends on the connection
			continue
		}
		if string(f.Result) != result || !strings.Contains(f.Change, change) {
			t.Errorf("got %+v, want %s and the change %q", f, result, change)
		}
	}
}

// alternating returns a dialer that connects to the addresses in turn.
func alternating(addresses ...string) func(*redis.Options) {
	var n atomic.Int64
	return func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addresses[n.Add(1)%int64(len(addresses))])
		}
	}
}

// slotsOf returns a client of a Cluster whose first server has all hash slots. The others are masters without keys.
func slotsOf(addrs ...string) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		slots := []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: addrs[0]}}}}
		for _, addr := range addrs[1:] {
			slots = append(slots, redis.ClusterSlot{Start: 16384, End: 16384, Nodes: []redis.ClusterNode{{Addr: addr}}})
		}
		return slots, nil
	}})
}

// The Findings about servers with one particularity each.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	server := func(t *testing.T, args ...string) *redis.Client { return redistest.NewServer(t, args...).Client() }
	for name, c := range map[string]struct {
		client func(t *testing.T) redis.UniversalClient
		checks string // all if it is empty
		want   map[string]string
	}{
		"server": {client: func(t *testing.T) redis.UniversalClient { return server(t) }},
		"evicting": {func(t *testing.T) redis.UniversalClient {
			return server(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
		}, "", map[string]string{"memory": "warning set maxmemory-policy to noeviction"}},
		"evicting without maxmemory": {client: func(t *testing.T) redis.UniversalClient { return server(t, "--maxmemory-policy", "allkeys-lru") }},
		"without memory": {func(t *testing.T) redis.UniversalClient { return server(t, "--maxmemory", "1") }, "", map[string]string{
			"memory": "warning raise maxmemory", "commands, client, " + scripts: "failed raise maxmemory", "messages": "unknown raise maxmemory", "processes": "warning raise maxmemory",
		}},
		"replica": {func(t *testing.T) redis.UniversalClient {
			master, replica := redistest.NewServer(t), redistest.NewServer(t)
			host, port, err := net.SplitHostPort(master.Addr)
			testkit.Must(t, err)
			testkit.Must(t, replica.Client().ReplicaOf(t.Context(), host, port).Err())
			testkit.Must(t, master.WaitReplica(replica))
			results(t, diagnosed(t, master.Client()), allChecks, nil)
			return replica.Client()
		}, "", map[string]string{"role, commands, client, " + scripts: "failed connect to the master", "messages": "unknown connect to the master", "processes": "warning connect to the master"}},
		"without TIME": {func(t *testing.T) redis.UniversalClient { return server(t, "--rename-command", "TIME", "") }, "", map[string]string{
			"commands": "warning none is necessary", "clock": "unknown compare the clocks",
		}},
		"without scripts": {func(t *testing.T) redis.UniversalClient {
			return server(t, "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "")
		}, "", map[string]string{"commands, client, " + scripts: "failed use a server", "messages": "unknown use a server", "processes": "warning use a server"}},
		"node of a Cluster": {func(t *testing.T) redis.UniversalClient {
			rdb := redistest.SharedCluster(t).Nodes[0].Client()
			f := diagnosed(t, rdb)["client"]
			results(t, map[string]diagnose.Finding{"client": f}, "client", map[string]string{"client": "failed use redis.NewClusterClient"})
			return server(t)
		}, "", nil},
		"only node of a Cluster": {func(t *testing.T) redis.UniversalClient {
			rdb := server(t, "--cluster-enabled", "yes")
			testkit.Must(t, rdb.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
			servertest.Eventually(t, func() error { return rdb.Set(t.Context(), "ready", 1, time.Second).Err() })
			return rdb
		}, "", map[string]string{"client": "warning use redis.NewClusterClient"}},
		"node without slots": {func(t *testing.T) redis.UniversalClient { return server(t, "--cluster-enabled", "yes") }, "", map[string]string{
			"commands, client, " + scripts: "failed give every hash slot", "messages": "unknown give every hash slot", "processes": "warning give every hash slot",
		}},
		"Cluster": {client: func(t *testing.T) redis.UniversalClient { return redistest.SharedCluster(t).Client() }},
		"no Cluster": {func(t *testing.T) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{redistest.Shared(t).Addr}})
		}, "client, connection", map[string]string{"client": "failed use redis.NewClient"}},
		"Cluster of single servers": {client: func(t *testing.T) redis.UniversalClient { return slotsOf(redistest.NewServer(t).Addr) }},
		"Cluster with a server without keys": {func(t *testing.T) redis.UniversalClient {
			return slotsOf(redistest.NewServer(t).Addr, redistest.NewServer(t).Addr)
		}, "", map[string]string{"commands, messages, processes, " + scripts: "unknown repeat the check, which tries other keys"}},
		"address of a Sentinel": {func(t *testing.T) redis.UniversalClient {
			var addr string
			_ = redistest.NewSentinel(t).Client(func(o *redis.FailoverOptions) { addr = o.SentinelAddrs[0] })
			return redis.NewClient(&redis.Options{Addr: addr})
		}, "client, connection", map[string]string{"client": "failed redis.NewFailoverClient"}},
		"other master of a Sentinel": {func(t *testing.T) redis.UniversalClient {
			return redistest.NewSentinel(t).Client(func(o *redis.FailoverOptions) { o.MasterName, o.DialerRetries = "other", 1 })
		}, "connection", map[string]string{"connection": "failed the name of the master"}},
		"Ring": {func(t *testing.T) redis.UniversalClient {
			return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.NewServer(t).Addr, "b": redistest.NewServer(t).Addr}})
		}, "", map[string]string{"messages": "warning redis.NewClient"}},
		"two servers": {func(t *testing.T) redis.UniversalClient {
			return redistest.Shared(t).Client(alternating(redistest.NewServer(t).Addr, redistest.NewServer(t).Addr))
		}, "", map[string]string{"client": "failed use the address of one server", "messages": "any"}},
		"paused": {func(t *testing.T) redis.UniversalClient {
			s := redistest.NewServer(t)
			testkit.Must(t, s.Client().Do(t.Context(), "client", "pause", 3_600_000).Err())
			return s.Client(func(o *redis.Options) { o.ReadTimeout = -1 })
		}, "connection", map[string]string{"connection": "failed check the address"}},
		"stopped": {func(t *testing.T) redis.UniversalClient {
			s := redistest.NewServer(t)
			rdb := s.Client()
			testkit.Must(t, rdb.Ping(t.Context()).Err())
			testkit.Must(t, s.Pause())
			return rdb
		}, "connection", map[string]string{"connection": "failed check the address"}},
		"absent": {func(*testing.T) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1})
		}, "connection", map[string]string{"connection": "failed check the address"}},
		"absent Cluster": {func(*testing.T) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
		}, "connection", map[string]string{"connection": "failed check the address"}},
		"closed": {func(t *testing.T) redis.UniversalClient {
			rdb := redistest.Shared(t).Client()
			testkit.Must(t, rdb.Close())
			return rdb
		}, "connection", map[string]string{"connection": "failed check the address"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := c.client(t)
			t.Cleanup(func() { _ = rdb.Close() })
			checks := c.checks
			if checks == "" {
				checks = allChecks
			}
			timeout := redisstore.Timeout(servertest.WaitLimit)
			switch {
			case c.checks == "connection":
				timeout = redisstore.Timeout(time.Millisecond) // a command then takes a second at most
			case c.want["messages"] == "any":
				timeout = redisstore.Timeout(5 * time.Second) // the message may be on the other server
			}
			results(t, diagnosed(t, rdb, timeout), checks, c.want)
		})
	}
}

// The documented user can make the diagnosis, and a command that a user lacks is named.
func TestDiagnose_Permissions(t *testing.T) {
	t.Parallel()
	all, identity, _ := servertest.DocumentedCommands(t, "../doc.go")
	server := redistest.NewServer(t)
	for missing, want := range map[string]map[string]string{
		"":           nil,
		"+evalsha":   {"commands, " + scripts: "failed : +evalsha", "messages": "unknown : +evalsha"},
		"+eval":      {"commands, client, " + scripts: "failed : +eval", "messages": "unknown : +eval", "processes": "warning : +eval"},
		"+zadd":      {"commands": "failed : +zadd", "script in_flight, script sliding_log": "failed : +zadd", "messages": "unknown : +zadd", "processes": "warning : +zadd"},
		"+info":      {"server, memory, role": "unknown : +info"},
		"+publish":   {"messages": "warning +publish"},
		"+subscribe": {"messages": "warning : +subscribe"},
		"+time":      {"commands": "failed : +time", scripts: "failed : +time", "messages": "unknown : +time", "processes": "warning : +time", "clock": "unknown : +time"},
		"~test:*":    {"commands, client, " + scripts: "failed allow the user", "messages": "unknown allow the user", "processes": "warning allow the user"},
		"&test:*":    {"messages": "warning allow the user"},
	} {
		t.Run(missing, func(t *testing.T) {
			testkit.Must(t, server.Client().ScriptFlush(t.Context()).Err())
			testkit.Must(t, server.Client().ACLLogReset(t.Context()).Err())
			permissions := slices.Concat([]string{"~test:*", "&test:*"}, all, servertest.IdentityCommands(t, server, identity))
			servertest.SetUser(t, server, slices.DeleteFunc(permissions, func(p string) bool { return p == missing })...)
			results(t, diagnosed(t, server.Client(servertest.AsLimiter)), allChecks, want)
			if got := servertest.Denied(t, server); missing == "" && len(got) > 0 {
				t.Errorf("the server denied %v, want no denials", got)
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		rdb := server.Client(servertest.AsLimiter, func(o *redis.Options) { o.Password = "guess" })
		results(t, diagnosed(t, rdb), "connection, user", map[string]string{"user": "failed correct the user and the password"})
	})
}

// A strange server makes checks fail, and neither ends the program nor is any of its replies OK.
func TestDiagnose_StrangeReplies(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"refusal of TIME": "-ERR This Redis command is not allowed from script script: 53aa7d29, on @user_script:13.\r\n",
		"status":          "+OK\r\n",
		"integer":         ":1\r\n",
		"nothing":         "$-1\r\n",
		"empty list":      "*0\r\n",
		"odd list":        "*1\r\n$4\r\nTIME\r\n",
		"names":           "*2\r\n$4\r\nTIME\r\n$3\r\nERR\r\n",
		"integers":        "*3\r\n:1\r\n:2\r\n:3\r\n",
		"map":             "%1\r\n+a\r\n:1\r\n",
		"unknown type":    "?\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redis.NewClient(&redis.Options{MaxRetries: -1, Dialer: servertest.Dialer(func(args []string) string {
				if args[0] == "psetex" {
					return "+OK\r\n"
				}
				return reply
			})})
			t.Cleanup(func() { _ = rdb.Close() })
			got, want := diagnosed(t, rdb), diagnose.ResultFailed
			if name == "unknown type" { // the client closes the connection
				want = diagnose.ResultUnknown
			}
			for check, f := range got {
				if strings.HasPrefix(check, "script ") && f.Result != want {
					t.Errorf("got %+v, want %s", f, want)
				}
			}
			if f := got["commands"]; f.Result != want && name != "empty list" {
				t.Errorf("got %+v, want %s", f, want)
			}
			for _, check := range []string{"server", "memory", "role", "clock"} {
				if f := got[check]; f.Result != diagnose.ResultUnknown {
					t.Errorf("got %+v, want unknown", f)
				}
			}
		})
	}
}

// A lost or late reply ends the checks, which are then unknown.
func TestDiagnose_LostReply(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func(t *testing.T) *redis.Client{
		"paused": func(t *testing.T) *redis.Client {
			s := redistest.NewServer(t)
			testkit.Must(t, s.Client().Do(t.Context(), "client", "pause", 3_600_000, "write").Err())
			return s.Client(func(o *redis.Options) { o.ReadTimeout = -1 })
		},
		"closed": func(t *testing.T) *redis.Client {
			proxy := redistest.NewProxy(t, redistest.Shared(t).Addr)
			proxy.DropReplies(time.Millisecond, "eval")
			return redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := server(t)
			t.Cleanup(func() { _ = rdb.Close() })
			rdb.AddHook(&canceller{cancel: func() {}, script: func(string) { t.Error("got EVALSHA, want no command after the lost reply") }})
			got := diagnosed(t, rdb, redisstore.Timeout(time.Millisecond))
			results(t, got, allChecks, map[string]string{"client, clock, commands, messages, processes, round trip, " + scripts: "unknown repeat the check"})
		})
	}
}

// Clients of other packages do not end the program.
func TestDiagnose_StrangeClients(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": redistest.Shared(t).Addr}})
	empty := redis.NewRing(&redis.RingOptions{})
	t.Cleanup(func() { _, _ = ring.Close(), empty.Close() })
	for name, c := range map[string]struct {
		rdb    redis.UniversalClient
		checks string
		want   map[string]string
	}{
		"wrapped Ring":                {struct{ *redis.Ring }{ring}, allChecks, nil},
		"wrapped Ring without shards": {struct{ *redis.Ring }{empty}, "connection", map[string]string{"connection": "failed"}},
		"without subscription":        {servertest.StrangeClient{UniversalClient: redistest.Shared(t).Client()}, allChecks, map[string]string{"messages": "unknown"}},
		"empty replies": {servertest.StrangeClient{OnProcess: func(context.Context, redis.Cmder) error { return nil }}, allChecks, map[string]string{
			"server, memory, role, clock, messages": "unknown", "commands, " + scripts: "failed", "processes": "warning",
		}},
		"panics": {servertest.StrangeClient{}, "connection", map[string]string{"connection": "failed check the address"}},
		"panics at EVALSHA": {servertest.StrangeClient{OnProcess: func(ctx context.Context, cmd redis.Cmder) error {
			if cmd.Name() == "evalsha" {
				panic("evalsha")
			}
			return ring.Process(ctx, cmd)
		}}, allChecks, map[string]string{"commands, clock, messages, processes, round trip, " + scripts: "unknown repeat the check"}},
	} {
		t.Run(name, func(t *testing.T) { results(t, diagnosed(t, c.rdb), c.checks, c.want) })
	}
}

// The median of the round trips is compared with the Timeout.
func TestDiagnose_RoundTrip(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr)
	proxy.Delay(20 * time.Millisecond)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: servertest.WaitLimit})
	t.Cleanup(func() { _ = rdb.Close() })
	for timeout, want := range map[time.Duration]diagnose.Result{10 * time.Millisecond: diagnose.ResultFailed, servertest.WaitLimit: diagnose.ResultOK} {
		if f := diagnosed(t, rdb, redisstore.Timeout(timeout))["round trip"]; f.Result != want {
			t.Errorf("with a Timeout of %v, got %+v, want %s", timeout, f, want)
		}
	}
}

// A canceller is a hook that cancels a context with the command of an index, and a hook that reports scripts.
type canceller struct {
	left   atomic.Int64
	cancel context.CancelFunc
	script func(sha string)
}

func (*canceller) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *canceller) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.left.Add(-1) == 0 {
			h.cancel()
		}
		if args := cmd.Args(); args[0] == "evalsha" {
			h.script(args[1].(string))
		}
		return next(ctx, cmd)
	}
}

func (h *canceller) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A diagnosis leaves no key, and one that is interrupted leaves keys that expire soon. The checks that follow the
// interruption are unknown. The check of the clocks has a result if the server has told its time.
func TestDiagnose_Interrupted(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	operator := server.Client()
	for n := int64(1); ; n += 3 {
		ctx, cancel := context.WithCancel(t.Context())
		h := &canceller{cancel: cancel, script: func(string) {}}
		h.left.Store(n)
		rdb := server.Client()
		rdb.AddHook(h)
		findings := diagnose.Diagnose(ctx, rdb, "test", redisstore.Timeout(servertest.WaitLimit))
		complete := ctx.Err() == nil
		cancel()
		if complete {
			if n < 50 {
				t.Errorf("the diagnosis took %d commands, want more", n)
			}
			return
		}
		unknown := 0
		for _, f := range findings {
			want := diagnose.ResultOK
			if unknown > 0 && (f.Check != "clock" || f.Result != diagnose.ResultOK) {
				want = diagnose.ResultUnknown
			}
			switch {
			case len(findings) == 1 && f.Check == "connection" && f.Result == diagnose.ResultFailed:
				unknown++
			case f.Result == diagnose.ResultUnknown && f.Change == "give the check more time":
				unknown++
			case f.Result != want:
				t.Errorf("cancelled with command %d: got %+v, want %s", n, f, want)
			}
		}
		if unknown == 0 && findings[len(findings)-2].Check != "messages" { // whose last command deletes a key
			t.Errorf("cancelled with command %d: got %+v, want unknown results", n, findings)
		}
		for _, key := range operator.Keys(t.Context(), "*").Val() {
			if ttl := operator.PTTL(t.Context(), key).Val(); ttl == -1 || ttl > 13*time.Second {
				t.Errorf("cancelled with command %d: the TTL of %q is %v, want at most 13 s", n, key, ttl)
			}
		}
		testkit.Must(t, operator.FlushAll(t.Context()).Err())
	}
}

// A diagnosis runs every script with one algorithm, except for those that wire.Libraries leaves out.
func TestDiagnose_Scripts(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	want := make(map[string]string) // the scripts with one library, by their hashes
	for name, script := range wire.Scripts() {
		if _, library, _ := strings.Cut(name, " "); (library == "one bucket" || !strings.Contains(library, " ")) && library != "rollover" && name != "at_most in_flight" { // such an event costs 1
			want[script.SHA.(string)] = name
		}
	}
	h := &canceller{cancel: func() {}, script: func(sha string) { delete(want, sha) }}
	rdb.AddHook(h)
	results(t, diagnosed(t, rdb), allChecks, nil)
	if len(want) > 0 {
		t.Errorf("the scripts %v did not run", slices.Sorted(maps.Values(want)))
	}
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("got the keys %q, want none", keys)
	}
}

// The commands of the check are those of the scripts, which are documented.
func TestDiagnose_Commands(t *testing.T) {
	all, _, _ := servertest.DocumentedCommands(t, "../doc.go")
	want := slices.DeleteFunc(all, func(c string) bool {
		return slices.Contains([]string{"+evalsha", "+eval", "+info", "+publish", "+subscribe"}, c)
	})
	slices.Sort(want)
	if got := diagnose.ScriptCommands(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMain(m *testing.M) { redistest.Main(m) }
