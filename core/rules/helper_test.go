package rules_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

const second = `{name: second, algorithm: token_bucket, limit: 10/s burst 20, plans: {gold: 100/s, staff: unlimited}}`

const hour = `{name: hour, algorithm: sliding_log, limit: 500/h, soft: 10, plans: {silver: 900/h}}`

func TestMain(m *testing.M) { redistest.Main(m) }

var prefixes atomic.Int64

// newPrefix returns a prefix for the keys of a test on a shared server.
func newPrefix() string { return fmt.Sprintf("test%d:", prefixes.Add(1)) }

const apiPolicies = "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 10/h, plans: {free: 50/h, gold: 100/h}}]}, other: {rules: [{name: o, algorithm: token_bucket, limit: 5/h}]}}"

// A node is a process that uses a configuration and overrides in Redis.
type node struct {
	*rules.Set
	source *rules.RedisSource
	errs   func() []string
	stop   func()
}

// newNode returns a Set with apiPolicies, which waits for Redis for a minute unless opts have another
// Timeout. The Set watches Redis until stop or the end of the test.
func newNode(t *testing.T, rdb redis.UniversalClient, opts ...rules.RedisOption) *node {
	t.Helper()
	var mu sync.Mutex
	var errs []string
	n := &node{source: rules.Redis(rdb, "test", append([]rules.RedisOption{rules.Timeout(time.Minute)}, opts...)...), errs: func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(errs)
	}}
	rules.PollEvery(n.source, 20*time.Millisecond)
	config, err := rules.Parse("f", []byte(apiPolicies))
	testkit.Must(t, err)
	n.Set, err = rules.New(memstore.New(), config, rules.Overrides(n.source), rules.OnError(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err.Error())
	}))
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.Watch(ctx, n.source)
	}()
	n.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(n.stop)
	return n
}

// limit returns the limit of a key of the policy api.
func (n *node) limit(t *testing.T, key string) string {
	t.Helper()
	d, err := limiter(t, n.Set, "api").Peek(t.Context(), key)
	testkit.Must(t, err)
	return d.State(0).Limit().String()
}

// becomes waits until get returns want.
func becomes(t *testing.T, what, want string, get func() string) {
	t.Helper()
	begin := time.Now()
	got := get()
	for ; got != want && time.Since(begin) < 10*time.Second; got = get() {
		time.Sleep(5 * time.Millisecond)
	}
	if got != want {
		t.Errorf("%s: got %s after %v, want %s", what, got, time.Since(begin), want)
	}
}

// writeText writes the text of an override of the policy api, with the documented commands.
func writeText(t *testing.T, rdb redis.UniversalClient, prefix, key, text string) {
	t.Helper()
	ctx, tag := t.Context(), keyhash.New(nil).Tag(key)
	change := func() {
		_, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			tx.ZAdd(ctx, prefix+"test:{rules:test}overrides", redis.Z{Score: math.Inf(1), Member: tag + ":api"})
			return tx.XAdd(ctx, &redis.XAddArgs{Stream: prefix + "test:{rules:test}changes", Values: []string{"member", tag + ":api", "set", "overrides", "end", "+inf"}}).Err()
		})
		testkit.Must(t, err)
	}
	change()
	testkit.Must(t, rdb.Set(ctx, prefix+"test:{"+tag+"}override:api", text, 0).Err())
	change()
}

// onlyNoConfig reports whether all errors are about the configuration that is not in Redis.
func onlyNoConfig(errs []string) bool {
	return !slices.ContainsFunc(errs, func(s string) bool { return !strings.Contains(s, "there is no configuration") })
}

// parse returns the configuration with the given policies, in YAML.
func parse(t testing.TB, policies string) *rules.Config {
	t.Helper()
	c, err := rules.Parse("test", []byte("policies: {"+policies+"}"))
	testkit.Must(t, err)
	return c
}

// mastodon has a limit of all routes, and one of a single route.
const mastodon = `
policies:
  account: {rules: [{name: account, algorithm: sliding_log, limit: 300/5m}]}
  media: {rules: [{name: media, algorithm: sliding_log, limit: 30/30m}]}
  other: {rules: [{name: other, algorithm: sliding_log, limit: 1000/m}]}
routes: {POST /media: media, /own: account}
all_routes: account
`

// parseFile returns the configuration of a whole file.
func parseFile(t testing.TB, file string) *rules.Config {
	t.Helper()
	c, err := rules.Parse("test", []byte(file))
	testkit.Must(t, err)
	return c
}

// routed returns a configuration with a policy for each of patterns, named by its index.
func routed(t testing.TB, patterns ...string) *rules.Config {
	t.Helper()
	var policies []string
	routes := make(map[string]string)
	for i, p := range patterns {
		name := fmt.Sprint("p", i)
		policies = append(policies, name+": {rules: [{name: r, algorithm: token_bucket, limit: 9/s}]}")
		routes[p] = name
	}
	c := parse(t, strings.Join(policies, ", "))
	c.Routes = routes
	return c
}

// requestFor returns a request of a target such as "POST host/path", "/path" or "OPTIONS *".
func requestFor(t testing.TB, target, pattern string) *http.Request {
	t.Helper()
	method, at, ok := strings.Cut(target, " ")
	if !ok {
		method, at = "GET", target
	}
	host := ""
	if i := strings.IndexByte(at, '/'); i > 0 {
		host, at = at[:i], at[i:]
	}
	u := new(url.URL)
	if at != "" {
		var err error
		u, err = url.ParseRequestURI(at)
		testkit.Must(t, err)
	}
	return &http.Request{Method: method, Host: host, URL: u, Pattern: pattern}
}

func overrideOf(rule string, l core.Limit) rules.Override {
	return rules.Override{Limits: map[string]core.Limit{rule: l}}
}

// manyPolicies returns a file with n policies; the limit of the first one is n a second.
func manyPolicies(n int) []byte {
	var text bytes.Buffer
	text.WriteString("policies:\n")
	for i := range n {
		fmt.Fprintf(&text, "  p%d: {rules: [{name: r, algorithm: token_bucket, limit: %d/s}]}\n", i, n-i)
	}
	return text.Bytes()
}

// newSet returns a Set on a new memstore.
func newSet(t testing.TB, policies string, opts ...rules.Option) *rules.Set {
	t.Helper()
	s, err := rules.New(memstore.New(), parse(t, policies), opts...)
	testkit.Must(t, err)
	return s
}

func limiter(t testing.TB, s *rules.Set, policy string) *core.Limiter {
	t.Helper()
	l, err := s.Limiter(policy)
	testkit.Must(t, err)
	return l
}

// inForce returns the rules of a decision about key.
func inForce(t testing.TB, l *core.Limiter, key string) (texts []string) {
	t.Helper()
	for _, s := range testkit.Peek(t, l, key).States() {
		texts = append(texts, s.Rule.String())
	}
	return texts
}

func want(t *testing.T, name string, l *core.Limiter, key string, want ...string) {
	t.Helper()
	if got := inForce(t, l, key); !slices.Equal(got, want) {
		t.Errorf("%s, key %q:\n\tgot  %q\n\twant %q", name, key, got, want)
	}
}

// A callHook calls before for each round trip of a client, which fails with the error of before.
type callHook struct{ before func() error }

func (callHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h callHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.before(); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (h callHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := h.before(); err != nil {
			for _, c := range cmds {
				c.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// hooked returns a client of the server that calls before for each round trip. It has connections, so
// before is not called for a handshake.
func hooked(t *testing.T, server *redistest.Server, before func() error) *redis.Client {
	t.Helper()
	rdb := server.Client()
	testkit.Must(t, rdb.Ping(t.Context()).Err())
	_, err := rdb.TxPipelined(t.Context(), func(tx redis.Pipeliner) error { return tx.Ping(t.Context()).Err() })
	testkit.Must(t, err)
	rdb.AddHook(callHook{before})
	return rdb
}

// isConfirmed waits until n has read the indexes.
func (n *node) isConfirmed(t *testing.T) {
	t.Helper()
	becomes(t, "the indexes", "read", func() string {
		if n.source.Stats().Age >= 0 {
			return "read"
		}
		return "not read"
	})
}

// writer returns a Set that writes and does not watch.
func writer(t *testing.T, rdb redis.UniversalClient, prefix string) *rules.Set {
	t.Helper()
	config, err := rules.Parse("f", []byte(apiPolicies))
	testkit.Must(t, err)
	s, err := rules.New(nothing{}, config, rules.Overrides(rules.Redis(rdb, "test", rules.Prefix(prefix))))
	testkit.Must(t, err)
	return s
}

// nothing is a store that decides nothing.
type nothing struct{ core.Store }

// inRedis returns the text of the override of a key, and the end of its member, or 0 if there is none.
func inRedis(t *testing.T, rdb redis.UniversalClient, prefix, key string) (text string, member float64) {
	tag := keyhash.New(nil).Tag(key)
	return rdb.Get(t.Context(), prefix+"test:{"+tag+"}override:api").Val(), rdb.ZScore(t.Context(), prefix+"test:{rules:test}overrides", tag+":api").Val()
}

// errKilled is the error of a command after the end of the process.
var errKilled = errors.New("killed")

func limited(limit string) string {
	return "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: " + limit + "}]}}\n"
}
