package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// junk are replies that no script gives to any question.
var junk = map[string]string{
	"null":                    "_\r\n",
	"null string":             "$-1\r\n",
	"null array":              "*-1\r\n",
	"empty array":             "*0\r\n",
	"empty string":            "$0\r\n\r\n",
	"one":                     array(":1\r\n"),
	"yes and nothing else":    array(":1\r\n", ":0\r\n"),
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
	"an error without a word": "-\r\n",
	"a blob error":            "!9\r\nERR a bad\r\n",
	"no RESP at all":          "HTTP/1.1 400 Bad Request\r\n\r\n",
	"a length that is none":   "*x\r\n",
	"a negative length":       "*-2\r\n",
	"the largest length":      "*9223372036854775807\r\n",
	"a length beyond 64 bits": "*9223372036854775808\r\n",
	"the largest string":      "$9223372036854775807\r\nx\r\n",
}

// instead are what may stand in the place of any integer of a reply.
var instead = map[string]string{
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

// A mutation is a real reply with one thing wrong.
type mutation struct {
	name, raw string
}

// mutations of a real reply: an array of integers, or an integer.
func mutations(t *testing.T, reply any) []mutation {
	t.Helper()
	switch reply := reply.(type) {
	case int64:
		all := []mutation{
			{"the opposite", integer(-1 - reply)},
			{"in an array", array(integer(reply))},
			{"as text", "$" + strconv.Itoa(len(fmt.Sprint(reply))) + "\r\n" + fmt.Sprint(reply) + "\r\n"},
		}
		for name, raw := range instead {
			if name != "a negative number" { // that may be a denial
				all = append(all, mutation{name, raw})
			}
		}
		return all
	case []any:
		var elements []string
		for _, e := range reply {
			elements = append(elements, integer(e.(int64)))
		}
		all := []mutation{
			{"one more", array(append(slices.Clone(elements), ":0\r\n")...)},
			{"in an array", array(array(elements...))},
			{"a map", fmt.Sprintf("%%%d\r\n%s", len(elements)/2, strings.Join(elements[:len(elements)/2*2], ""))},
			{"the opposite", array(append([]string{elements[0], integer(max(0, 1-reply[1].(int64)))}, elements[2:]...)...)},
		}
		for n := range elements {
			all = append(all, mutation{fmt.Sprintf("the first %d", n), array(elements[:n]...)})
			for name, raw := range instead {
				changed := slices.Clone(elements)
				changed[n] = raw
				all = append(all, mutation{fmt.Sprintf("%s at %d", name, n), array(changed...)})
			}
		}
		for _, outcome := range []int64{-1, int64(len(elements))} { // no reply has so many corrupt states
			all = append(all, mutation{fmt.Sprint("outcome ", outcome), array(append([]string{elements[0], integer(outcome)}, elements[2:]...)...)})
		}
		return all
	}
	t.Fatalf("a script replies with a %T", reply)
	return nil
}

func integer(n int64) string { return fmt.Sprintf(":%d\r\n", n) }

// A liar stands between a Store and a server. It passes scripts on, and replies with lie, or
// if that is empty with the reply of the server.
type liar struct {
	real *redis.Client
	lie  atomic.Value        // string
	last atomic.Pointer[any] // the last reply of the server
}

// newLiar returns a liar, and a client of it with one connection.
func newLiar(t *testing.T, readTimeout time.Duration) (*liar, *redis.Client) {
	k := &liar{real: redistest.Shared(t).Client()}
	k.lie.Store("")
	rdb := redis.NewClient(&redis.Options{
		Dialer: redisstore.FakeDialer(k.reply), PoolSize: 1, ReadTimeout: readTimeout, PoolTimeout: patience,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return k, rdb
}

func (k *liar) reply(args []string) string {
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	value, err := k.real.Do(context.Background(), words...).Result()
	if err == nil {
		k.last.Store(&value)
	}
	if lie := k.lie.Load().(string); lie != "" {
		return lie
	}
	if err != nil {
		return "-" + err.Error() + "\r\n"
	}
	if n, ok := value.(int64); ok {
		return integer(n)
	}
	var elements []string
	for _, e := range value.([]any) {
		elements = append(elements, integer(e.(int64)))
	}
	return array(elements...)
}

// A reply that is not a decision is an error, whatever it looks like, and the next decision
// does not get the rest of it.
func TestStore_Take_wrongReply(t *testing.T) {
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
					between, rdb := newLiar(t, patience)
					l := testkit.Limiter(t, newStore(rdb, mode.opts...), rules...)
					testkit.Admit(t, l, "k", 3)
					if spent {
						testkit.Admit(t, l, "k", l.Rules()[0].Capacity()-3)
					}
					testkit.Ask(t, l, "k", 1)
					for _, m := range mutations(t, *between.last.Load()) {
						deceived(t, l, between, m, spent)
					}
					for name, raw := range junk {
						deceived(t, l, between, mutation{name, raw}, false)
					}
				})
			}
		}
	}
}

// An op that cannot be denied has wrong replies, too.
func TestStore_Adjust_wrongReply(t *testing.T) {
	t.Parallel()
	for _, a := range testkit.Algorithms {
		for name, op := range map[string]driver.Op{"Debit": driver.Debit, "Credit": driver.Credit, "Reset": driver.Reset} {
			t.Run(a.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				between, rdb := newLiar(t, patience)
				s := newStore(rdb)
				charges := []driver.Charge{{Key: "k", Rule: a.Rule("r", core.Per(1000, century)).Compiled(), Op: op, Cost: 3}}
				testkit.Must(t, s.Adjust(t.Context(), charges))
				for _, m := range mutations(t, *between.last.Load()) {
					between.lie.Store(m.raw)
					if err := s.Adjust(t.Context(), charges); !errors.Is(err, core.ErrUnavailable) {
						t.Errorf("%s, %q: the error is %v, want core.ErrUnavailable", m.name, m.raw, err)
					}
				}
				between.lie.Store("")
				testkit.Must(t, s.Adjust(t.Context(), charges))
			})
		}
	}
}

// A reply whose end does not come is an error at the deadline, and the next decision does not
// get the rest of it.
func TestStore_Take_unfinishedReply(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			between, rdb := newLiar(t, 4*impatience)
			l := testkit.Limiter(t, newStore(rdb, mode.opts...), dailyRules()...)
			for _, raw := range []string{"*1000000\r\n:1\r\n:0\r\n:0\r\n:0\r\n", "*8\r\n:1\r\n:0\r\n", ":1", "*", "$5\r\nx"} {
				between.lie.Store(raw)
				d, err := l.Allow(t.Context(), "k")
				unavailable(t, d, err)
				between.lie.Store("")
				eventually(t, func() error {
					_, err := l.Peek(t.Context(), "k")
					return err
				})
			}
		})
	}
}

// deceived makes a decision from a lie, and then one from the truth. A lie about
// a denial may pass for one.
func deceived(t *testing.T, l *core.Limiter, between *liar, m mutation, denial bool) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%s: panic: %v", m.name, p)
		}
	}()
	before := testkit.Used(t, l, "k")
	between.lie.Store(m.raw)
	d, err := l.Allow(t.Context(), "k")
	between.lie.Store("")
	if d.Allowed || !errors.Is(err, core.ErrUnavailable) && !denial {
		t.Errorf("%s, %q: the decision is %+v, %v, want core.ErrUnavailable", m.name, m.raw, d, err)
	}
	for i, n := range testkit.Used(t, l, "k") { // repeated at most as often as a command that did not run
		if n < before[i] || n > before[i]+4 {
			t.Errorf("%s, %q: rule %d had used %d, and has used %d", m.name, m.raw, i, before[i], n)
		}
	}
}
