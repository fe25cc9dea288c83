package redisstore_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// called returns the commands that the server has executed since its statistics were reset, without
// those of the tests and those that open a connection.
func called(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	var names []string
	for name, n := range commandCalls(t, server.Client()) {
		family, _, _ := strings.Cut(name, "|")
		if n > 0 && !slices.Contains([]string{"hello", "info", "client", "config", "acl"}, family) {
			names = append(names, "+"+name)
		}
	}
	slices.Sort(names)
	return names
}

// The documented user can run the conformance suite, also if each decision shares its round trip,
// and the suite needs all permissions of that user. All digits of numbers reach Redis: see argumentChecker.
func TestACL_DocumentedUser(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	all, identity, _ := servertest.DocumentedCommands(t, "doc.go")
	server := redistest.NewServer(t)
	servertest.SetUser(t, server, slices.Concat([]string{"~test*", "&test*"}, all, servertest.IdentityCommands(t, server, identity))...)
	operator := server.Client()
	testkit.Must(t, operator.ConfigResetStat(t.Context()).Err())
	rdb, checked := server.Client(servertest.AsLimiter), server.Client(servertest.AsLimiter)
	checked.AddHook(argumentChecker{})
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		h := harness(checked)
		testkit.Joint(t, h.Store)
		redisstore.Crowd(h.Store.(*redisstore.Store))
		return h
	})
	// A Store on the server's clock also needs TIME.
	testkit.Admit(t, testkit.Limiter(t, newStore(rdb), dailyRules()...), "k", 1)
	got := append(called(t, server), "+info") // called leaves out INFO
	slices.Sort(got)
	slices.Sort(all)
	if !slices.Equal(got, all) {
		t.Errorf("the commands are\n%v, want the documented ones\n%v", got, all)
	}
	if got := servertest.Denied(t, server); len(got) > 0 {
		t.Errorf("the server denied %v, want no denials", got)
	}
}

func TestACL_DocumentedUserOnACluster(t *testing.T) {
	t.Parallel()
	all, identity, more := servertest.DocumentedCommands(t, "doc.go")
	cluster := steadyCluster(t)
	for _, node := range cluster.Nodes {
		servertest.SetUser(t, node, slices.Concat([]string{"~test*", "&test*"}, all, servertest.IdentityCommands(t, node, identity), more)...)
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			rdb := cluster.Client(func(o *redis.ClusterOptions) { o.Username, o.Password = "limiter", "password" })
			s := newStore(rdb, mode.opts...)
			l := testkit.Limiter(t, s, dailyRules()...)
			for i := range 10 { // on different nodes
				key, other := fmt.Sprint("k", i), fmt.Sprint("other", i)
				r, err := core.ReserveTogether(t.Context(), core.Ask{Limiter: l, Key: key, Cost: 2}, core.Ask{Limiter: l, Key: other, Cost: 1})
				testkit.Must(t, err)
				testkit.Must(t, r.Settle(t.Context(), 1))
				testkit.Must(t, l.Debit(t.Context(), key, 1))
				testkit.Must(t, l.Credit(t.Context(), key, 1))
				_, err = l.Reset(t.Context(), other)
				testkit.Must(t, err)
			}
		})
	}
	for _, node := range cluster.Nodes {
		if got := servertest.Denied(t, node); len(got) > 0 {
			t.Errorf("%s denied %v, want no denials", node.Addr, got)
		}
	}
}

// Without the permission for a command, calls fail. No event is admitted beyond the limit, neither
// during the fault nor after it, and all states have a TTL unless the command is PEXPIRE.
func TestACL_MissingCommand(t *testing.T) {
	t.Parallel()
	const limit = 3
	all, _, _ := servertest.DocumentedCommands(t, "doc.go")
	server := redistest.NewServer(t)
	operator := server.Client()
	for _, missing := range all {
		if missing == "+info" {
			continue // decisions do not need it
		}
		t.Run(missing[1:], func(t *testing.T) {
			servertest.SetUser(t, server, append([]string{"~*"}, slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == missing })...)...)
			own, failures := prefix(), 0
			faulty := newStore(server.Client(servertest.AsLimiter), own)
			mended := newStore(operator, own)
			for _, a := range testkit.Algorithms {
				rule := a.Rule(a.Name, core.Per(limit, century))
				l, after := testkit.Limiter(t, faulty, rule), testkit.Limiter(t, mended, rule)
				note := func(err error) {
					if err == nil {
						return
					}
					failures++
					if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "lacks a permission") {
						t.Errorf("%s: the error is %v, want core.ErrUnavailable because of a permission", a.Name, err)
					}
				}
				admitted := 0
				ask := func(l *core.Limiter, calls int) {
					for range calls {
						d, err := l.Allow(t.Context(), "asked")
						note(err)
						if err == nil && d.Allowed {
							admitted++
						}
					}
				}
				ask(l, 2*limit)
				ask(after, 1)
				ask(l, 2*limit)
				ask(after, limit)
				if admitted > limit {
					t.Errorf("%s: %d events were admitted, want at most %d", a.Name, admitted, limit)
				}
				note(l.Debit(t.Context(), "debited", 10))
				testkit.Admit(t, after, "other", 2)
				note(l.Credit(t.Context(), "other", 1))
				_, err := l.Reset(t.Context(), "other")
				note(err)
				r, err := l.Reserve(t.Context(), "reserved", 2)
				if err == nil {
					err = r.Refund(t.Context())
				}
				note(err)
			}
			t.Logf("%d calls failed", failures)
			for _, key := range keysOf(t, operator, "") {
				if ttl := operator.PTTL(t.Context(), key).Val(); ttl < 0 && missing != "+pexpire" {
					t.Errorf("the TTL of %q is %v, want a positive one", key, ttl)
				}
			}
			testkit.Must(t, operator.FlushAll(t.Context()).Err())
			testkit.Must(t, operator.ScriptFlush(t.Context()).Err())
		})
	}
}

// Errors distinguish a fault of the configuration from an outage. The fault is logged once,
// whatever the number of decisions that fail.
func TestStore_ConfigurationFault(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	all, _, _ := servertest.DocumentedCommands(t, "doc.go")
	server := redistest.NewServer(t, "--requirepass", "swordfish")
	without := func(command string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == command })
	}
	const permission, password = "the user lacks a permission", "the user name or password is missing or wrong"
	for _, c := range []struct {
		name           string
		permissions    []string
		user, password string
		want           string // in the error; empty if there is none
	}{
		{"all permissions", append([]string{"~test*", "&test*"}, all...), "limiter", "password", ""},
		{"no EVALSHA", append([]string{"~test*", "&test*"}, without("+evalsha")...), "limiter", "password", permission},
		{"no EVAL", append([]string{"~test*", "&test*"}, without("+eval")...), "limiter", "password", permission},
		{"no PSETEX", append([]string{"~test*", "&test*"}, without("+psetex")...), "limiter", "password", permission},
		{"no GET", append([]string{"~test*", "&test*"}, without("+get")...), "limiter", "password", permission},
		{"other keys", append([]string{"~other*"}, all...), "limiter", "password", permission},
		{"wrong password", all, "limiter", "guess", password},
		{"unknown user", all, "unknown", "password", password},
		{"disabled user", append([]string{"off"}, all...), "limiter", "password", password},
		{"no password", all, "", "", password},
	} {
		for _, mode := range modes {
			t.Run(c.name+"/"+mode.name, func(t *testing.T) {
				testkit.Must(t, server.Client().ScriptFlush(t.Context()).Err())
				servertest.SetUser(t, server, c.permissions...)
				var log testkit.Buffer
				slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
				rdb := server.Client(func(o *redis.Options) { o.Username, o.Password = c.user, c.password })
				s := newStore(rdb, mode.opts...)
				rule := core.TokenBucket("mallory's rule", core.PerDay(1000))
				l := testkit.Limiter(t, s, rule)
				for range 5 {
					d, err := l.Allow(t.Context(), "mallory")
					if c.want == "" {
						if err != nil {
							t.Errorf("the error is %v, want none", err)
						}
						continue
					}
					unavailable(t, d, err)
					if !names(err, c.want, c.password) {
						t.Errorf("the error is %v, want a text with %q", err, c.want)
					}
					discreet(t, err, "mallory", s.Key("mallory", rule), "guess", "swordfish")
				}
				if err := s.Probe(t.Context(), peeks(l, "mallory")); (err == nil) != (c.want == "") || err != nil && !names(err, c.want, c.password) {
					t.Errorf("the error of a probe is %v, want a text with %q", err, c.want)
				}
				records := strings.Count(log.String(), "level=ERROR")
				if c.want == "" && records != 0 || c.want != "" && (records != 1 || !strings.Contains(log.String(), c.want)) {
					t.Errorf("the log is %q, want one record with %q, or none", log.String(), c.want)
				}
				for _, secret := range []string{"mallory", s.Key("mallory", rule), "guess", "swordfish"} {
					if strings.Contains(log.String(), secret) {
						t.Errorf("the log is %q, want it without %q", log.String(), secret)
					}
				}
			})
		}
	}
}

// names reports whether err contains want. Redis closes a connection without a password after a
// command of more than 10 arguments, so err may also be that of a closed connection.
func names(err error, want, password string) bool {
	var closed *net.OpError
	return err != nil && (strings.Contains(err.Error(), want) || password == "" && (errors.Is(err, io.EOF) || errors.As(err, &closed)))
}

// infoCalls returns the number of earlier calls of INFO.
func infoCalls(t *testing.T, rdb *redis.Client) int { return commandCalls(t, rdb)["info"] }

// awaitInfo waits until a client other than the test has called INFO since infoCalls returned
// before.
func awaitInfo(t *testing.T, rdb *redis.Client, before int) {
	t.Helper()
	eventually(t, func() error {
		before++ // infoCalls itself calls INFO
		if n := infoCalls(t, rdb); n <= before {
			return fmt.Errorf("INFO was called %d times, want more than %d", n, before)
		}
		return nil
	})
}

// There is one warning if the server may evict keys, and no warning otherwise.
func TestStore_EvictionWarning(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	for _, c := range []struct {
		args []string
		warn bool
	}{
		{[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, true},
		{[]string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, true},
		{[]string{"--maxmemory", "100mb", "--maxmemory-policy", "noeviction"}, false},
		{[]string{"--maxmemory-policy", "allkeys-lru"}, false}, // without a limit
	} {
		var log testkit.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		server := redistest.NewServer(t, c.args...)
		rdb := server.Client()
		before := infoCalls(t, rdb)
		l := testkit.Limiter(t, redisstore.New(rdb, "test", redisstore.Timeout(waitLimit)), core.TokenBucket("r", core.PerDay(1000)))
		for range 50 {
			testkit.Allow(t, l, "k")
		}
		awaitInfo(t, rdb, before)
		warnings := func() int { return strings.Count(log.String(), "maxmemory_policy=") }
		if c.warn {
			eventually(t, func() error {
				if n := warnings(); n != 1 {
					return fmt.Errorf("%v: %d warnings, want 1", c.args, n)
				}
				return nil
			})
		} else if n := warnings(); n != 0 {
			t.Errorf("%v: %d warnings, want none: %s", c.args, n, log.String())
		}
	}
}

// The line of redis.conf in docs/redis.md that closes a server for other users keeps the states in an append-only file,
// which Redis and Valkey before 9.1.2 read as the default user.
func TestACL_DefaultUser(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redis.md")
	testkit.Must(t, err)
	documented := regexp.MustCompile(`(?m)^user default off .*$`).FindString(string(page))
	for line, kept := range map[string]int{documented: 2, "user default off": 0} {
		t.Run(line, func(t *testing.T) {
			dir, all := t.TempDir(), []string{"--appendonly", "yes", "--appendfsync", "always"}
			before := redistest.NewServer(t, append(all, "--dir", dir)...)
			if slices.Compare(versionOf(t, before.Client(), "valkey_version"), []int{9, 1, 2}) >= 0 {
				kept = 2
			}
			admit := func(rdb redis.UniversalClient) (used int) {
				l := testkit.Limiter(t, redisstore.New(rdb, "test", redisstore.Timeout(time.Minute)), core.SlidingLog("r", core.PerDay(10)))
				used = testkit.Used(t, l, "k")[0]
				testkit.Admit(t, l, "k", 1)
				return used
			}
			admit(before.Client())
			admit(before.Client())
			testkit.Must(t, before.Stop())

			socket, config := filepath.Join(dir, "s"), filepath.Join(dir, "redis.conf")
			testkit.Must(t, os.WriteFile(config, []byte(line+"\nuser limiter on >password ~* &* +@all\nport 0\nappendonly yes\ndir "+dir+"\nunixsocket "+socket+"\n"), 0o600))
			after := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("WEIR_REDIS_SERVER"), "redis-server"), config)
			testkit.Must(t, after.Start())
			t.Cleanup(func() { _ = after.Process.Kill(); _ = after.Wait() })
			rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Username: "limiter", Password: "password"})
			t.Cleanup(func() { _ = rdb.Close() })
			eventually(t, func() error { return rdb.Ping(t.Context()).Err() })
			if got := admit(rdb); got != kept {
				t.Errorf("got %d events after the restart, want %d", got, kept)
			}
			if err := redis.NewClient(&redis.Options{Network: "unix", Addr: socket}).Ping(t.Context()).Err(); !redis.HasErrorPrefix(err, "NOAUTH") {
				t.Errorf("without a user: got the error %v, want NOAUTH", err)
			}
		})
	}
}

// Stores with different prefixes or secrets have different states, and Stores with the same prefix
// and secret share their states.
func TestStore_Keys_prefixAndSecret(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	own := prefix()
	secret, another := []byte("a secret of sixteen or more"), []byte("a secret of sixteen or less")
	store := func(opts ...redisstore.Option) *redisstore.Store {
		return newStore(rdb, append([]redisstore.Option{own}, opts...)...)
	}
	rules := dailyRules()
	plain := store()
	if a, b := plain.Key("k", rules[0]), store().Key("k", rules[0]); a != b {
		t.Errorf("the same identity and rule have the keys %q and %q", a, b)
	}
	seen := make(map[string]string)
	for name, s := range map[string]*redisstore.Store{
		"plain": plain, "prefix": store(prefix()), "secret": store(redisstore.KeySecret(secret)), "other secret": store(redisstore.KeySecret(another)),
	} {
		for i := range rules {
			key := s.Key("k", rules[i])
			if other, ok := seen[key]; ok {
				t.Errorf("%s and %s share the key %q", other, name, key)
			}
			seen[key] = name
		}
		l := testkit.Limiter(t, s, rules...)
		if got := testkit.Used(t, l, "k"); got[0] != 0 {
			t.Errorf("%s: the rules have used %v, want 0", name, got)
		}
		testkit.Admit(t, l, "k", 10)
	}
	again := append([]byte(nil), secret...)
	s := store(redisstore.KeySecret(again))
	clear(again) // the Store has its own copy
	if got := testkit.Used(t, testkit.Limiter(t, s, rules...), "k"); got[0] != 10 {
		t.Errorf("with the same secret, the rules have used %v, want 10", got)
	}
}
