package redisstore_test

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
)

// integers is a reply of integers.
func integers(n ...int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(n))
	for _, i := range n {
		fmt.Fprintf(&b, ":%d\r\n", i)
	}
	return b.String()
}

const huge = int64(1)<<62 + 1

// wrong are replies that no script gives to a question about a token bucket of
// ten events a second, about a sliding log of the same limit, or about both.
var wrong = map[string]struct {
	rules   []core.Rule
	replies map[string]string
}{
	"token_bucket": {
		[]core.Rule{core.TokenBucket("bucket", core.PerSecond(10))},
		map[string]string{
			"short":                       integers(1, 0, 0),
			"long":                        integers(1, 0, 0, 0, 0),
			"of the other rule":           integers(1, 0, 0, 0, 0, 0),
			"negative":                    integers(1, 0, -1, 0),
			"negative fraction":           integers(1, 0, 0, -1),
			"least integer":               integers(1, 0, math.MinInt64, 0),
			"huge":                        integers(1, 0, huge, 0),
			"huge, denied":                integers(2, 0, huge, 0),
			"huge fraction":               integers(1, 0, 0, huge),
			"more than full":              integers(2, 0, 1_000_001, 0),
			"admitted, but it is spent":   integers(1, 0, 1_000_000, 0),
			"admitted, a microsecond":     integers(1, 0, 900_001, 0),
			"denied, but it is free":      integers(2, 0, 0, 0),
			"denied, but just one fits":   integers(2, 0, 900_000, 0),
			"nothing in every reading":    "*4\r\n:1\r\n:0\r\n$-1\r\n$-1\r\n",
			"nothing in one reading":      "*4\r\n:1\r\n:0\r\n:5\r\n_\r\n",
			"nothing of everything":       "*4\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n",
			"beyond 64 bits":              "*4\r\n:1\r\n:0\r\n:9223372036854775808\r\n:0\r\n",
			"a number with an exponent":   "*4\r\n:1\r\n:0\r\n:1e5\r\n:0\r\n",
			"a fraction":                  "*4\r\n:1\r\n:0\r\n:0.5\r\n:0\r\n",
			"a double":                    "*4\r\n:1\r\n:0\r\n,0.5\r\n:0\r\n",
			"not a number":                "*4\r\n:1\r\n:0\r\n,nan\r\n:0\r\n",
			"a set of the wrong readings": "~4\r\n:1\r\n:0\r\n:-1\r\n:0\r\n",
		},
	},
	"sliding_log": {
		[]core.Rule{core.SlidingLog("log", core.PerSecond(10))},
		map[string]string{
			"short":                       integers(1, 0, 0, 0, 0),
			"long":                        integers(1, 0, 0, 0, 0, 0, 0),
			"of the other rule":           integers(1, 0, 0, 0),
			"negative count":              integers(1, 0, -1, 0, 0, 0),
			"huge count, admitted":        integers(1, 0, huge, 5, 5, 0),
			"negative age":                integers(1, 0, 1, -1, -1, 0),
			"oldest is newest":            integers(1, 0, 2, 5, 6, 0),
			"older than the period":       integers(1, 0, 1, 1_000_001, 5, 0),
			"negative wait":               integers(2, 0, 10, 5, 5, -1),
			"wait longer than the period": integers(2, 0, 10, 5, 5, 1_000_001),
			"admitted, but it is spent":   integers(1, 0, 10, 5, 5, 10),
			"denied, but it is free":      integers(2, 0, 9, 5, 5, 0),
			"nothing in every reading":    "*6\r\n:1\r\n:0\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n",
			"nothing in one reading":      "*6\r\n:1\r\n:0\r\n$-1\r\n:5\r\n:5\r\n:0\r\n",
		},
	},
	"both": {
		[]core.Rule{core.TokenBucket("both bucket", core.PerSecond(10)), core.SlidingLog("both log", core.PerSecond(10))},
		map[string]string{
			"of the first rule only":   integers(1, 0, 0, 0),
			"of the second rule only":  integers(1, 0, 0, 0, 0, 0),
			"short":                    integers(1, 0, 0, 0, 0, 0, 0),
			"long":                     integers(1, 0, 0, 0, 0, 0, 0, 0, 0),
			"the first rule is spent":  integers(1, 0, 1_000_000, 0, 0, 0, 0, 0),
			"the second rule is spent": integers(1, 0, 0, 0, 10, 5, 5, 10),
			"neither rule is spent":    integers(2, 0, 0, 0, 0, 0, 0, 0),
		},
	},
	"any": {
		[]core.Rule{core.TokenBucket("any", core.PerSecond(10))},
		map[string]string{
			"null":                    "_\r\n",
			"null string":             "$-1\r\n",
			"null array":              "*-1\r\n",
			"empty array":             "*0\r\n",
			"empty string":            "$0\r\n\r\n",
			"one":                     integers(1),
			"yes and nothing else":    integers(1, 0),
			"neither yes nor no":      integers(0, 0, 0, 0),
			"three":                   integers(3, 0, 0, 0),
			"minus one":               integers(-1, 0, 0, 0),
			"negative corrupt states": integers(1, -1, 0, 0),
			"an integer":              ":1\r\n",
			"OK":                      "+OK\r\n",
			"a string":                "$4\r\n1000\r\n",
			"words":                   "*4\r\n$3\r\nyes\r\n$3\r\nyes\r\n$3\r\nyes\r\n$3\r\nyes\r\n",
			"empty words":             "*4\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n",
			"true":                    "#t\r\n",
			"truths":                  "*4\r\n#t\r\n#f\r\n#f\r\n#f\r\n",
			"double":                  ",1.5\r\n",
			"nested":                  "*2\r\n" + integers(1, 0) + integers(0, 0),
			"nested in the readings":  "*4\r\n:1\r\n:0\r\n" + integers(0, 0) + integers(0, 0),
			"wrapped":                 "*1\r\n" + integers(1, 0, 0, 0),
			"map":                     "%2\r\n:1\r\n:0\r\n:0\r\n:0\r\n",
			"map in the readings":     "*3\r\n:1\r\n:0\r\n%1\r\n:0\r\n:0\r\n",
			"error":                   "-ERR it did not work\r\n",
			"error of the script":     "-ERR user_script:1: attempt to index a nil value script: 0, on @user_script:1.\r\n",
			"wrong type":              "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
			"cross slot":              "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
			"no permission":           "-NOPERM this user has no permissions to run the 'evalsha' command\r\n",
			"no memory":               "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
			"read only":               "-READONLY You can't write against a read only replica.\r\n",
			"loading":                 "-LOADING Redis is loading the dataset in memory\r\n",
			"error without a word":    "-\r\n",
			"error in the readings":   "*4\r\n:1\r\n:0\r\n-ERR no\r\n:0\r\n",
			"no script, ever":         "-NOSCRIPT No matching script. Please use EVAL.\r\n",
			"moved":                   "-MOVED 1 127.0.0.1:1\r\n",
			"blob error":              "!9\r\nERR a bad\r\n",
			"no RESP at all":          "HTTP/1.1 400 Bad Request\r\n\r\n",
			"a length that is none":   "*x\r\n",
			"a negative length":       "*-2\r\n",
			"the largest length":      "*9223372036854775807\r\n",
			"a length beyond 64 bits": "*9223372036854775808\r\n",
			"a large length":          "*1000000\r\n:1\r\n:0\r\n:0\r\n:0\r\n",
			"a large string":          "$9223372036854775807\r\nx\r\n",
		},
	},
}

// A reply that is not a decision is an error, whatever it looks like, and the
// next decision is not made from what is left of it.
func TestReplies(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for name, group := range wrong {
			for what, reply := range group.replies {
				t.Run(mode.name+"/"+name+"/"+what, func(t *testing.T) {
					t.Parallel()
					var honest atomic.Bool
					addr := fake(t, func([]string) string {
						if honest.Load() {
							return spent(group.rules)
						}
						return reply
					})
					rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, ReadTimeout: 6 * impatience})
					t.Cleanup(func() { _ = rdb.Close() })
					opts := append([]redisstore.Option{redisstore.Timeout(patience)}, mode.opts...)
					l := limiter(t, redisstore.New(rdb, opts...), group.rules...)
					misled(t, l)
					honest.Store(true)
					for range 3 {
						d, err := l.Allow(t.Context(), "k")
						if err != nil || d.Allowed || d.State(0).Remaining != 0 {
							t.Errorf("the next decision: %+v, %v", d, err)
						}
					}
				})
			}
		}
	}
}

// misled makes a decision that has to fail, and must not panic.
func misled(t *testing.T, l *core.Limiter) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	d, err := l.Allow(t.Context(), "k")
	unavailable(t, d, err)
}

// spent is the reply that everything is used.
func spent(rules []core.Rule) string {
	reply := []int64{2, 0}
	for i := range rules {
		if rules[i].Algorithm() == core.AlgorithmTokenBucket {
			reply = append(reply, 1_000_000, 0)
		} else {
			reply = append(reply, 10, 5, 5, 10)
		}
	}
	return integers(reply...)
}

// The replies of these tests are refused for what is wrong with them: the right
// ones are understood.
func TestRepliesRight(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"token_bucket": integers(1, 0, 900_000, 0),
		"sliding_log":  integers(1, 0, 9, 1_000_000, 0, 0),
		"both":         integers(1, 0, 900_000, 0, 9, 1_000_000, 0, 0),
	} {
		addr := fake(t, func([]string) string { return reply })
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = rdb.Close() })
		d := spend(t, limiter(t, redisstore.New(rdb, redisstore.Timeout(patience)), wrong[name].rules...), "k", 1)
		if left := d.State(0).Remaining; left != 0 {
			t.Errorf("%s: %d are left, want none", name, left)
		}
	}
}
