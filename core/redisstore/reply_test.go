package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// invalidReplies are replies that no script returns.
var invalidReplies = map[string]string{
	"null":                    "_\r\n",
	"null string":             "$-1\r\n",
	"null array":              "*-1\r\n",
	"empty array":             "*0\r\n",
	"empty string":            "$0\r\n\r\n",
	"one":                     array(":1\r\n"),
	"an outcome alone":        array(":1\r\n", ":0\r\n"),
	"zeros":                   array(":0\r\n", ":0\r\n", ":0\r\n", ":0\r\n"),
	"the least integer":       ":-9223372036854775808\r\n",
	"the largest integer":     ":9223372036854775807\r\n",
	"beyond 64 bits":          ":9223372036854775808\r\n",
	"a large number":          "(3492890328409238509324850943850943825024385\r\n",
	"an exponent":             ":1e5\r\n",
	"OK":                      "+OK\r\n",
	"a status that is one":    "+1\r\n",
	"a string":                "$4\r\n1000\r\n",
	"words":                   array("$3\r\nyes\r\n", "$3\r\nyes\r\n", "$3\r\nyes\r\n", "$3\r\nyes\r\n"),
	"true":                    "#t\r\n",
	"truths":                  array("#t\r\n", "#f\r\n", "#f\r\n", "#f\r\n"),
	"a double":                ",1.5\r\n",
	"not a number":            ",nan\r\n",
	"a map":                   "%2\r\n:1\r\n:0\r\n:0\r\n:0\r\n",
	"a set":                   "~4\r\n:1\r\n:0\r\n:-1\r\n:0\r\n",
	"an error":                "-ERR it did not work\r\n",
	"loading":                 "-LOADING Redis is loading the dataset in memory\r\n",
	"no script, ever":         "-NOSCRIPT No matching script. Please use EVAL.\r\n",
	"moved":                   "-MOVED 1 127.0.0.1:1\r\n",
	"an error without a text": "-\r\n",
	"a blob error":            "!9\r\nERR a bad\r\n",
	"no RESP at all":          "HTTP/1.1 400 Bad Request\r\n\r\n",
	"a length of letters":     "*x\r\n",
	"a negative length":       "*-2\r\n",
	"the largest length":      "*9223372036854775807\r\n",
	"a length beyond 64 bits": "*9223372036854775808\r\n",
	"the largest string":      "$9223372036854775807\r\nx\r\n",
}

// invalidElements replace integers of a reply.
var invalidElements = map[string]string{
	"nothing":             "$-1\r\n",
	"null":                "_\r\n",
	"a negative number":   ":-1\r\n",
	"the least integer":   ":-9223372036854775808\r\n",
	"a large integer":     ":4611686018427387905\r\n",
	"the largest integer": ":9223372036854775807\r\n",
	"a double":            ",0.5\r\n",
	"text":                "$3\r\nyes\r\n",
	"no text":             "$0\r\n\r\n",
	"true":                "#t\r\n",
	"an error":            "-ERR no\r\n",
	"an array":            array(":0\r\n"),
	"an empty array":      "*0\r\n",
	"a map":               "%1\r\n:0\r\n:0\r\n",
}

// A mutation is a reply of a script with one change.
type mutation struct{ name, raw string }

// mutations returns the mutations of a reply, which is an array of integers.
func mutations(reply []any) []mutation {
	var elements []string
	for _, e := range reply {
		elements = append(elements, integer(e.(int64)))
	}
	all := []mutation{
		{"one more", array(append(slices.Clone(elements), ":0\r\n")...)},
		{"in an array", array(array(elements...))},
		{"a map", fmt.Sprintf("%%%d\r\n%s", len(elements)/2, strings.Join(elements[:len(elements)/2*2], ""))},
	}
	const replaced, outcome = 1, 2 // after the time
	opposite, more := slices.Clone(elements), slices.Clone(elements)
	opposite[outcome] = integer(1 - reply[outcome].(int64))
	more[replaced] = integer(16 + 1)
	all = append(all, mutation{"the opposite", array(opposite...)}, mutation{"more unreadable states than charges", array(more...)})
	for n := range elements {
		all = append(all, mutation{fmt.Sprintf("the first %d", n), array(elements[:n]...)})
		for name, raw := range invalidElements {
			changed := slices.Clone(elements)
			changed[n] = raw
			all = append(all, mutation{fmt.Sprintf("%s at %d", name, n), array(changed...)})
		}
	}
	return all
}

// A replacer forwards scripts of a Store to a server. It replies with wrong or, if that is empty,
// with the reply of the server.
type replacer struct {
	real  *redis.Client
	wrong atomic.Value          // string
	last  atomic.Pointer[[]any] // the last reply of the server
}

// newReplacer returns a replacer and a client that is connected to it once.
func newReplacer(t *testing.T, readTimeout time.Duration) (*replacer, *redis.Client) {
	k := &replacer{real: redistest.Shared(t).Client()}
	k.wrong.Store("")
	rdb := redis.NewClient(&redis.Options{
		Dialer: servertest.Dialer(k.reply), PoolSize: 1, ReadTimeout: readTimeout, PoolTimeout: waitLimit,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return k, rdb
}

func (k *replacer) reply(args []string) string {
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	value, err := k.real.Do(context.Background(), words...).Slice()
	if err == nil {
		k.last.Store(&value)
	}
	if wrong := k.wrong.Load().(string); wrong != "" {
		return wrong
	}
	if err != nil {
		return "-" + err.Error() + "\r\n"
	}
	return resp(value)
}

// A reply that no script returns is an error, and the next decision does not get the rest of that
// reply.
func TestStore_Take_wrongReply(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	// No event is refilled during the test.
	sets := map[string][]core.Rule{
		"uneven bucket":    {core.TokenBucket("uneven", core.Per(7*1009, century))},
		"bucket and pause": {core.TokenBucket("bucket", core.Per(1000, century)), core.Pause("pause")},
		"log and bucket":   {core.SlidingLog("log", core.PerDay(1000)), core.TokenBucket("bucket", core.Per(1000, century))},
	}
	for _, a := range testkit.Algorithms {
		sets[a.Name] = []core.Rule{a.Rule(a.Name, core.Per(1000, century))}
	}
	for _, mode := range modes {
		for name, rules := range sets {
			for _, spent := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/spent %t", mode.name, name, spent), func(t *testing.T) {
					t.Parallel()
					server, rdb := newReplacer(t, waitLimit)
					l := testkit.Limiter(t, newStore(rdb, mode.opts...), rules...)
					testkit.Admit(t, l, "k", 3)
					if spent {
						testkit.Admit(t, l, "k", l.Rules()[0].Capacity()-3)
					}
					testkit.Ask(t, l, "k", 1)
					for _, m := range mutations(*server.last.Load()) {
						checkWrongReply(t, l, server, m, spent)
					}
					for name, raw := range invalidReplies {
						checkWrongReply(t, l, server, mutation{name, raw}, false)
					}
				})
			}
		}
	}
}

func TestStore_Adjust_wrongReply(t *testing.T) {
	t.Parallel()
	for _, f := range formats {
		rule := during(f.compile(t, "r", 1000, day), time.Now())
		for _, op := range append((&subject{rule: rule}).adjusts(), driver.Reset) {
			t.Run(fmt.Sprintf("%s/op %d", f.name, op), func(t *testing.T) {
				t.Parallel()
				server, rdb := newReplacer(t, waitLimit)
				s := newStore(rdb)
				charges := []driver.Charge{used("k", rule, 3, day)}
				testkit.Must(t, storetest.Do(t.Context(), s, charges))
				charges[0].Op = op
				testkit.Must(t, s.Adjust(t.Context(), charges))
				for _, m := range mutations(*server.last.Load()) {
					server.wrong.Store(m.raw)
					if err := s.Adjust(t.Context(), charges); !errors.Is(err, core.ErrUnavailable) {
						t.Errorf("%s, %q: the error is %v, want core.ErrUnavailable", m.name, m.raw, err)
					}
				}
				server.wrong.Store("")
				testkit.Must(t, s.Adjust(t.Context(), charges))
			})
		}
	}
}

// An unfinished reply is an error at the deadline, and the next decision does not get the rest of
// that reply.
func TestStore_Take_unfinishedReply(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			server, rdb := newReplacer(t, 4*replyTimeout)
			l := testkit.Limiter(t, newStore(rdb, mode.opts...), dailyRules()...)
			for _, raw := range []string{"*1000000\r\n:1\r\n:0\r\n:0\r\n:0\r\n", "*8\r\n:1\r\n:0\r\n", ":1", "*", "$5\r\nx"} {
				server.wrong.Store(raw)
				d, err := l.Allow(t.Context(), "k")
				unavailable(t, d, err)
				server.wrong.Store("")
				eventually(t, func() error {
					_, err := l.Peek(t.Context(), "k")
					return err
				})
			}
		})
	}
}

// checkWrongReply makes a decision from m and then one from the reply of the server. A mutation of
// a denial may be a denial, too.
func checkWrongReply(t *testing.T, l *core.Limiter, server *replacer, m mutation, denial bool) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: panic: %v", m.name, p)
		}
	}()
	before := testkit.Used(t, l, "k")
	server.wrong.Store(m.raw)
	d, err := l.Allow(t.Context(), "k")
	server.wrong.Store("")
	if d.Allowed || !errors.Is(err, core.ErrUnavailable) && !denial {
		t.Errorf("%s, %q: the decision is %+v, %v, want core.ErrUnavailable", m.name, m.raw, d, err)
	}
	for i, n := range testkit.Used(t, l, "k") { // four attempts at most
		if n < before[i] || n > before[i]+4 {
			t.Errorf("%s, %q: rule %d has used %d, want %d to %d", m.name, m.raw, i, n, before[i], before[i]+4)
		}
	}
}

// chargedOnce makes at least a number of calls on a client that loses replies, and checks the
// charges of each call with another client. It calls flush, unless nil, in front of each, so that the
// call sends an EVAL. On a busy machine, the EVAL of an earlier call may arrive after flush and load
// the script, whose reply is then not lost.
func chargedOnce(t *testing.T, lossyClient, healthyClient redis.UniversalClient, opts []redisstore.Option, least int, flush func()) {
	t.Helper()
	const most = 100 // calls, because on a busy machine a call may end before it was sent
	own := prefix()
	healthy := testkit.Limiter(t, newStore(healthyClient, own), dailyRules()...)
	lossy := testkit.Limiter(t, newStore(lossyClient, append(opts, own)...), dailyRules()...)
	testkit.Admit(t, healthy, "k", 1) // the server of the key knows the script
	_, err := healthy.Reset(t.Context(), "k")
	testkit.Must(t, err)
	for call := 1; call <= most; call++ {
		if flush != nil {
			flush()
		}
		d, err := lossy.Allow(t.Context(), "k")
		if loaded := flush != nil && call > 1 && err == nil; !loaded {
			unavailable(t, d, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the error is %v, want that of the client, which ends first", err)
		}
		charged := testkit.Used(t, healthy, "k")
		if charged[0] > call || charged[0] != charged[1] {
			t.Fatalf("after %d calls the rules were charged %v times, want each at most once a call", call, charged)
		}
		if call >= least && charged[0] > 0 {
			return
		}
	}
	t.Errorf("none of %d calls was charged, want at least one", most)
}

func TestStore_Take_lostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		for _, retries := range []int{0, -1, 3, 10} {
			t.Run(fmt.Sprint("retries ", retries), func(t *testing.T) {
				t.Parallel()
				proxy := redistest.NewProxy(t, server.Addr)
				proxy.DropReplies(closeAfter, "evalsha", "eval")
				rdb := server.Client(func(o *redis.Options) {
					o.Addr, o.MaxRetries, o.ReadTimeout = proxy.Addr, retries, replyTimeout
				})
				chargedOnce(t, rdb, server.Client(), opts, 3, nil)
			})
		}
	})
}

func TestCluster_lostReply(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		for _, limits := range [][2]int{{0, 0}, {0, -1}, {0, 8}, {-1, 0}, {-1, -1}, {-1, 8}, {3, 0}, {3, -1}, {3, 8}} {
			retries, redirects := limits[0], limits[1]
			t.Run(fmt.Sprintf("retries %d, redirects %d", retries, redirects), func(t *testing.T) {
				t.Parallel()
				proxies := make(map[string]*redistest.Proxy)
				for _, node := range cluster.Nodes {
					proxies[node.Addr] = redistest.NewProxy(t, node.Addr)
					proxies[node.Addr].DropReplies(closeAfter, "evalsha", "eval")
				}
				rdb := cluster.Client(func(o *redis.ClusterOptions) {
					o.Dialer, o.ReadTimeout = through(proxies), replyTimeout
					o.MaxRetries, o.MaxRedirects = retries, redirects
				})
				chargedOnce(t, rdb, cluster.Client(), opts, 3, nil)
			})
		}
	})
}

// The EVAL that follows a NOSCRIPT is not repeated either.
func TestStore_Take_lostReplyToScript(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	admin := server.Client()
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		proxy := redistest.NewProxy(t, server.Addr)
		proxy.DropReplies(closeAfter, "eval")
		rdb := server.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy.Addr, replyTimeout })
		chargedOnce(t, rdb, admin, opts, 1, func() { testkit.Must(t, admin.ScriptFlush(t.Context()).Err()) })
	})
}
