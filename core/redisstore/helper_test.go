package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// TestMain runs more tests at a time than the machine has processors, because most tests wait for
// servers or deadlines.
func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = parallel.Value.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0)))
	}
	redistest.Main(m)
}

// century is a period that does not end during a test, even if it began in 1970.
const century = 100 * 365 * 24 * time.Hour

const day = 24 * time.Hour

// waitLimit bounds the waits of tests. It is longer than any pause of a busy machine.
const waitLimit = servertest.WaitLimit

var prefixes atomic.Int64

// prefix returns a prefix that no other test uses.
func prefix() redisstore.Option {
	return redisstore.Prefix(fmt.Sprintf("test%d:", prefixes.Add(1)))
}

// newStore returns a Store with a prefix and the timeout waitLimit. opts take precedence.
func newStore(rdb redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	return redisstore.New(rdb, "test", append([]redisstore.Option{prefix(), redisstore.Timeout(waitLimit)}, opts...)...)
}

// dailyRules returns rules with a limit of 1000 events, of which none is refilled during a test.
func dailyRules() []core.Rule {
	return []core.Rule{core.TokenBucket("bucket", core.Per(1000, century)), core.SlidingLog("log", core.PerDay(1000))}
}

// harness returns a Store on rdb with a clock that only the test advances.
func harness(rdb redis.UniversalClient, opts ...redisstore.Option) *storetest.Harness {
	var clock storetest.Clock
	now := redisstore.Clock(func() string { return strconv.FormatInt(clock.Micros(), 10) })
	return clock.Harness(newStore(rdb, append(opts, now)...))
}

// modes are the ways in which a Store sends its commands.
var modes = []struct {
	name string
	opts []redisstore.Option
}{
	{"batched", nil},
	{"unbatched", []redisstore.Option{redisstore.Unbatched()}},
}

// unavailable fails the test unless err is core.ErrUnavailable and d is a denial.
func unavailable(t testing.TB, d core.Decision, err error) {
	t.Helper()
	if !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("the error is %v, want core.ErrUnavailable", err)
	}
	if d.Allowed {
		t.Errorf("the failed decision is %+v, want Allowed false", d)
	}
}

var eventually = servertest.Eventually

// underLoad calls f repeatedly from a number of goroutines until stop is called or the test ends,
// and then waits for the running calls.
func underLoad(t testing.TB, goroutines int, f func()) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f()
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// silentServer returns the address of a server that accepts connections and never replies.
func silentServer(t testing.TB) string {
	t.Helper()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr)
	proxy.Drop()
	return proxy.Addr
}

// A load makes decisions from several goroutines, each for a random one of its keys.
type load struct {
	limiter  *core.Limiter
	keys     []string
	counts   []struct{ admitted, failed atomic.Int64 } // of each key
	calls    atomic.Int64
	failures sync.Map // the texts of errors
	stop     func()
}

// startLoad starts a load whose decisions are admitted, or fail with core.ErrUnavailable.
func startLoad(t testing.TB, goroutines int, l *core.Limiter, keys ...string) *load {
	o := &load{limiter: l, keys: keys, counts: make([]struct{ admitted, failed atomic.Int64 }, len(keys))}
	o.stop = underLoad(t, goroutines, func() {
		o.calls.Add(1)
		i := rand.IntN(len(keys))
		switch d, err := l.Allow(t.Context(), keys[i]); {
		case errors.Is(err, core.ErrUnavailable):
			o.failures.Store(err.Error(), true)
			o.counts[i].failed.Add(1)
		case err != nil || !d.Allowed:
			t.Errorf("the decision is %+v, %v, want an admitted one", d, err)
		default:
			o.counts[i].admitted.Add(1)
		}
	})
	return o
}

// admit waits until n more decisions were admitted.
func (o *load) admit(t testing.TB, n int64) {
	t.Helper()
	admitted := func() (sum int64) {
		for i := range o.counts {
			sum += o.counts[i].admitted.Load()
		}
		return sum
	}
	before := admitted()
	eventually(t, func() error {
		if got := admitted() - before; got < n {
			return fmt.Errorf("%d decisions were admitted, want %d", got, n)
		}
		return nil
	})
}

// check stops the load and returns the number of failed decisions. Each key must have used before
// and one event for each admitted decision; a failed decision may have been charged, too.
func (o *load) check(t testing.TB, before int64) (failed int64) {
	t.Helper()
	o.stop()
	for i, key := range o.keys {
		n, lost := before+o.counts[i].admitted.Load(), o.counts[i].failed.Load()
		failed += lost
		for rule, got := range testkit.Used(t, o.limiter, key) {
			if int64(got) < n || int64(got) > n+lost {
				t.Errorf("rule %d of %s has used %d, want %d to %d", rule, key, got, n, n+lost)
			}
		}
	}
	t.Logf("%d of %d decisions failed (%.4f %%)", failed, o.calls.Load(), 100*float64(failed)/float64(o.calls.Load()))
	o.failures.Range(func(text, _ any) bool {
		t.Logf("an error of a decision: %s", text)
		return true
	})
	return failed
}

// steadyCluster starts a Cluster in which a pause of a busy machine is no outage.
func steadyCluster(t testing.TB) *redistest.Cluster {
	return redistest.NewCluster(t, "--cluster-node-timeout", "15000")
}

// through returns a dialer that dials the proxy of an address if there is one.
func through(proxies map[string]*redistest.Proxy) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p := proxies[addr]; p != nil {
			addr = p.Addr
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

// commandCalls returns the number of calls of each command on the server, by name.
func commandCalls(t *testing.T, rdb *redis.Client) map[string]int {
	t.Helper()
	calls := map[string]int{}
	for _, m := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(rdb.Info(t.Context(), "commandstats").Val(), -1) {
		n, err := strconv.Atoi(m[2])
		testkit.Must(t, err)
		calls[m[1]] = n
	}
	return calls
}

// commandsOf returns the numbers of commands that scripts execute while f runs, by name and in all. A client may connect
// meanwhile.
func commandsOf(t *testing.T, rdb *redis.Client, f func()) (calls map[string]int, sum int) {
	t.Helper()
	before := commandCalls(t, rdb)
	f()
	calls = commandCalls(t, rdb)
	for name := range calls {
		calls[name] -= before[name]
		if !strings.HasPrefix(name, "client") && !slices.Contains([]string{"info", "eval", "evalsha", "hello", "ping"}, name) {
			sum += calls[name]
		}
	}
	return calls, sum
}

// identityOn returns an identity that begins with like and whose states are on node.
func identityOn(t *testing.T, node *redistest.Server, s *redisstore.Store, like string) string {
	t.Helper()
	rdb := node.Client()
	rule := core.TokenBucket("any", core.PerSecond(1))
	for n := range 1000 {
		identity := fmt.Sprint(like, n)
		err := rdb.Exists(t.Context(), s.Key(identity, rule)).Err()
		if err == nil {
			return identity
		}
		if _, moved := redis.IsMovedError(err); !moved {
			t.Fatal(err)
		}
	}
	t.Fatalf("no identity has its states on %s", node.Addr)
	return ""
}

// largeRules returns rules that admit every event of a test.
func largeRules() []core.Rule {
	const limit = 1_000_000
	return []core.Rule{core.TokenBucket("bucket", core.Per(limit, century)), core.SlidingLog("log", core.PerDay(limit))}
}

// peeks returns the charges of a probe, for all rules of l and each key.
func peeks(l *core.Limiter, keys ...string) []driver.Charge {
	var charges []driver.Charge
	rules := l.Rules()
	for _, key := range keys {
		for i := range rules {
			charges = append(charges, driver.Charge{Key: key, Rule: testkit.Compiled(rules[i]), Op: driver.Peek, Cost: 1})
		}
	}
	return charges
}

// keysOf returns all keys of a server that begin with prefix.
func keysOf(t *testing.T, rdb *redis.Client, prefix string) []string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), prefix+"*").Result()
	testkit.Must(t, err)
	return keys
}

// An expiry is the time at which a key expires, by the server's clock. The time and the TTL of a
// key need two commands, so the expiry is between two known times.
type expiry struct{ earliest, latest time.Time }

// expiryOf returns the expiry of a key, or a time in the past if the key does not exist.
func expiryOf(t *testing.T, rdb *redis.Client, key string) expiry {
	t.Helper()
	before := rdb.Time(t.Context()).Val()
	ttl, err := rdb.PTTL(t.Context(), key).Result()
	testkit.Must(t, err)
	if ttl == -1 {
		t.Fatalf("%q has no TTL", key)
	}
	after := rdb.Time(t.Context()).Val()
	return expiry{before.Add(max(0, ttl) - time.Millisecond), after.Add(max(0, ttl) + time.Millisecond)}
}

// tag returns the hash tag of a key.
func tag(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return tag
}

// resp returns a value as a reply.
func resp(value any) string {
	switch v := value.(type) {
	case int64:
		return integer(v)
	case []any:
		elements := make([]string, len(v))
		for i := range v {
			elements[i] = resp(v[i])
		}
		return array(elements...)
	}
	return fmt.Sprintf("$%d\r\n%v\r\n", len(fmt.Sprint(value)), value)
}

func array(elements ...string) string {
	return fmt.Sprintf("*%d\r\n%s", len(elements), strings.Join(elements, ""))
}

func integer(n int64) string { return fmt.Sprintf(":%d\r\n", n) }

// replyTimeout is the ReadTimeout of clients that lose replies. The Timeout of their Stores is far longer, so
// that all retries of go-redis have ended when a call returns.
const replyTimeout = 50 * time.Millisecond

// eachLoss runs f with every mode and every way to lose a reply: the client's ReadTimeout, or the
// end of the connection, after which go-redis retries in more cases.
func eachLoss(t *testing.T, f func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option)) {
	for _, mode := range modes {
		for name, closeAfter := range map[string]time.Duration{"timeout": 0, "closed": time.Millisecond} {
			t.Run(mode.name+"/"+name, func(t *testing.T) { f(t, closeAfter, mode.opts) })
		}
	}
}

// discreet fails the test if an error contains a secret.
func discreet(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(fmt.Sprintf("%v %+v %q", err, err, err), secret) {
			t.Errorf("the error is %q, want it without %q", err, secret)
		}
	}
}

// memoryOf returns the memory of a key, measured over all its elements. The tests that call it do
// not share servers: Redis 7.0 builds the arguments of a script's calls in the memory of earlier
// arguments, of which a string value may keep up to 32 bytes.
func memoryOf(t *testing.T, rdb *redis.Client, key string) int64 {
	t.Helper()
	n, err := rdb.MemoryUsage(t.Context(), key, 0).Result()
	testkit.Must(t, err)
	return n
}
