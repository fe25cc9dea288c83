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
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
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

func array(elements ...string) string {
	return fmt.Sprintf("*%d\r\n%s", len(elements), strings.Join(elements, ""))
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

func integer(n int64) string { return fmt.Sprintf(":%d\r\n", n) }

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
		"uneven bucket":  {core.TokenBucket("uneven", core.Per(7*1009, century))},
		"log and bucket": {core.SlidingLog("log", core.PerDay(1000)), core.TokenBucket("bucket", core.Per(1000, century))},
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
	for _, a := range testkit.Algorithms {
		for name, op := range map[string]driver.Op{"Debit": driver.Debit, "Credit": driver.Credit, "Reset": driver.Reset} {
			t.Run(a.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				server, rdb := newReplacer(t, waitLimit)
				s := newStore(rdb)
				charges := []driver.Charge{{Key: "k", Rule: testkit.Compiled(a.Rule("r", core.Per(1000, century))), Op: op, Cost: 3}}
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
