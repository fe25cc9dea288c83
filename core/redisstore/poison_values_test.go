package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

type writer = func(ctx context.Context, rdb *redis.Client, key string) error

func text(value string) writer {
	return func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.Set(ctx, key, value, 0).Err()
	}
}

func fields(pairs ...any) writer {
	return func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.HSet(ctx, key, pairs...).Err()
	}
}

func members(all ...redis.Z) writer {
	return func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.ZAdd(ctx, key, all...).Err()
	}
}

// poisons are the states of each algorithm at a time that no script writes.
var poisons = map[string]func(now time.Time) []poisoning{
	"token_bucket":   bucketPoisons,
	"leaky_bucket":   bucketPoisons,
	"fixed_window":   windowPoisons,
	"sliding_window": counterPoisons,
	"sliding_log":    logPoisons,
}

// garbage means nothing to anybody.
var garbage = []string{
	"", " ", "nan", "NaN", "-nan", "nan nan", "inf", "-inf", "inf inf", "Infinity", "text", "0x", "1e400", "-1e400", "1e400 1", "true",
	"null", "{}", "1.5", "1 2 3", "1 -2", "-1 2", strings.Repeat("9", 1<<20), strings.Repeat("x", 1<<20), "\xff\xfe", "99999999999999999",
}

// foreign are keys that hold something else altogether.
func foreign(own string) []poisoning {
	var all []poisoning
	for kind, write := range map[string]writer{
		"hash": fields("count", 1),
		"zset": members(redis.Z{Score: 1, Member: "x"}),
		"list": func(ctx context.Context, rdb *redis.Client, key string) error {
			return rdb.RPush(ctx, key, 1, 2, 3).Err()
		},
		"set": func(ctx context.Context, rdb *redis.Client, key string) error {
			return rdb.SAdd(ctx, key, 1, 2, 3).Err()
		},
		"stream": func(ctx context.Context, rdb *redis.Client, key string) error {
			return rdb.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"a", "b"}}).Err()
		},
	} {
		all = append(all, poisoning{kind, 1, write})
	}
	if own == "string" {
		for _, value := range garbage {
			all = append(all, poisoning{fmt.Sprintf("%.12q", value), 1, text(value)})
		}
		return all
	}
	for _, value := range garbage {
		all = append(all, poisoning{fmt.Sprintf("string %.12q", value), 1, text(value)})
	}
	return all
}

func bucketPoisons(now time.Time) []poisoning {
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).UnixMicro(), 10) }
	return append(foreign("string"),
		poisoning{"a moment ago", 0, text(at(-time.Second))},
		poisoning{"1970", 0, text("5")},
		poisoning{"zero", 0, text("0")},
		poisoning{"a year from now", 0, text(at(365 * 24 * time.Hour))},
		poisoning{"the largest time", either, text("9999999999999999")},
		poisoning{"a fraction of another rate", 0, text(at(time.Second) + " 281474976710655")},
		poisoning{"a time before 1970", either, text("-5")},
		poisoning{"a negative fraction", 1, text(at(time.Second) + " -1")},
		poisoning{"a debt that is paid", 0, text(at(0) + " 1 1")},
		poisoning{"a debt from after it is paid", 1, text(at(0) + " 1 " + at(time.Second))},
		poisoning{"a debt of a thousand years", 1, text("9007199254740991 0 1")},
		poisoning{"two fractions", 1, text(at(0) + " 1 1 1")},
		poisoning{"white space", either, text(" " + at(0))},
		poisoning{"a line", either, text(at(0) + "\n")},
		poisoning{"hexadecimal", either, text("0x10")},
		poisoning{"a hexadecimal year from now", either, text("0x" + strconv.FormatInt(now.AddDate(1, 0, 0).UnixMicro(), 16))},
		poisoning{"an exponent", either, text("1e5")},
		poisoning{"a plus sign", either, text("+5")},
		poisoning{"NUL", either, text(at(0) + "\x00")},
	)
}

func windowPoisons(now time.Time) []poisoning {
	state := func(start, count int64) writer {
		var eight [8]byte
		binary.BigEndian.PutUint64(eight[:], uint64(start))
		value := append([]byte(nil), eight[1:]...)
		binary.BigEndian.PutUint64(eight[:], uint64(count))
		if count < 1<<40 {
			return text(string(append(value, eight[3:]...)))
		}
		return text(string(append(value, eight[1:]...)))
	}
	from := func(start time.Time, count int64) writer { return state(start.UnixMicro(), count) }
	return append(foreign("string"),
		poisoning{"a window that has ended", 0, from(now.Add(-time.Hour), 10)},
		poisoning{"1970", 0, state(0, 10)},
		poisoning{"a window that began by another clock", 0, from(now.Add(-time.Millisecond), 3)},
		poisoning{"a year from now", 0, from(now.AddDate(1, 0, 0), 3)},
		poisoning{"a year from now, and spent", 0, from(now.AddDate(1, 0, 0), int64(1<<50))},
		poisoning{"more than the limit", 0, from(now, int64(1<<50))},
		poisoning{"the largest count", either, from(now, 1<<53)},
		poisoning{"the largest time", 1, state(1<<53, 3)},
		poisoning{"a count of 2^56", 1, from(now, 1<<56-1)},
		poisoning{"a start without a count", 1, text("\x06\x47\x00\x00\x00\x00\x00")},
		poisoning{"twelve letters", 1, text("abcdefghijkl")},
		poisoning{"fourteen digits", 1, text("17672256000000")},
		poisoning{"a bucket", 1, text(strconv.FormatInt(now.UnixMicro(), 10))},
	)
}

func counterPoisons(now time.Time) []poisoning {
	const grain = int64(time.Minute / time.Microsecond) // of an hour in 60
	current := now.UnixMicro() / grain
	slot := func(n int64) string { return strconv.FormatInt((current+n)%128, 10) }
	state := func(changes ...any) writer {
		return func(ctx context.Context, rdb *redis.Client, key string) error {
			whole := []any{"g", grain, "o", current - 1, "l", current, "t", 5, slot(-1), 3, slot(0), 2}
			if err := rdb.HSet(ctx, key, whole...).Err(); err != nil {
				return err
			}
			return rdb.HSet(ctx, key, changes...).Err()
		}
	}
	all := append(foreign("hash"),
		poisoning{"a window that has left", 0, fields("g", grain, "o", 5, "l", 5, "t", 3, "5", 3)},
		poisoning{"no sub-windows", either, fields("g", grain, "o", current, "l", current, "t", 3)},
		poisoning{"a length alone", 1, fields("g", grain)},
		poisoning{"another length", either, state("g", 7)},
		poisoning{"no length", 1, state("g", 0)},
		poisoning{"a foreign field", either, state("user", "mallory")},
		poisoning{"a slot beyond the last", either, state("128", 1)},
		poisoning{"as many slots as there once were", either, state("m", 8192)},
		poisoning{"a negative slot", either, state("-1", 1)},
		poisoning{"more slots than there are", either, state("7", 3, "8", 3, "9", 3)},
		poisoning{"a total that is too small", either, state("t", 1)},
		poisoning{"a total of nothing", either, state("t", 0)},
		poisoning{"a total that is too large", either, state("t", int64(1<<50))},
		poisoning{"the largest total", either, state("t", int64(1<<53))},
		poisoning{"a count that is too large", either, state(slot(0), int64(1<<50))},
		poisoning{"the oldest after the newest", 1, state("o", current+1)},
		poisoning{"the oldest in 1970", either, state("o", 0)},
		poisoning{"the newest in 1970", either, state("l", 0, "o", 0)},
		poisoning{"the newest in a year", either, state("l", current+365*24*60)},
		poisoning{"the largest newest", 1, state("l", int64(1<<53-1))},
	)
	for _, field := range []string{"g", "o", "l", "t"} {
		for _, value := range []string{"nan", "inf", "-1", "1.5", "text", "", "1e400", "9007199254740992"} {
			all = append(all, poisoning{field + " is " + value, 1, state(field, value)})
		}
	}
	for _, value := range []string{"nan", "inf", "-1", "1.5", "text", "", "1e400"} {
		all = append(all, poisoning{"a count is " + value, either, state(slot(0), value)})
	}
	return all
}

// chunk is a member of a sliding log: what was before it, and times; see
// lua/sliding_log.lua.
func chunk(before, base int64, width int, offsets ...int64) string {
	var eight [8]byte
	put := func(out []byte, n int64, width int) []byte {
		binary.BigEndian.PutUint64(eight[:], uint64(n))
		return append(out, eight[8-width:]...)
	}
	out := put(nil, before, 6)
	out = append(out, byte(width))
	out = put(out, base, 7)
	if width == 0 {
		width = 6 // a bulk: how many, instead of when
	}
	for _, o := range offsets {
		out = put(out, o, width)
	}
	return string(out)
}

func logPoisons(now time.Time) []poisoning {
	us := now.UnixMicro()
	ago := func(d time.Duration) int64 { return us - d.Microseconds() }
	z := func(score int64, member string) redis.Z { return redis.Z{Score: float64(score), Member: member} }
	event := func(before, at int64) redis.Z { return z(at, chunk(before, at, 4, 0)) }
	node := func(i, voids int64) redis.Z {
		number := func(n int64) string { return chunk(n, 0, 0)[:6] }
		return z(1<<53+2*i, number(i)+number(voids))
	}
	const year = 365 * 24 * time.Hour
	return append(foreign("zset"),
		poisoning{"a node without members", 1, members(node(1, 5))},
		poisoning{"a node that cannot be read", 1, members(event(0, ago(time.Second)), event(200, us), z(1<<53+2, "x"))},
		poisoning{"more void numbers than there are numbers", 1, members(event(0, ago(time.Second)), event(200, us), node(1, 1<<40))},
		poisoning{"void numbers that are in use", 0, members(event(0, ago(time.Second)), event(200, us), node(1, 200))},
		poisoning{"gaps without nodes", 0, members(event(0, ago(time.Second)), event(200, us))},
		poisoning{"a node before the first member", 0, members(event(200, ago(time.Second)), event(201, us), node(1, 5))},
		poisoning{"a node after the last member", 0, members(event(0, ago(time.Second)), event(1, us), node(7, 5))},
		poisoning{"foreign members above every time", 0, members(event(0, ago(time.Second)), event(1, us), z(1<<60, "x"), redis.Z{Score: math.Inf(1), Member: "y"})},
		poisoning{"foreign members", 1, members(z(us, "x"), z(us-1, "user:1"), z(5, ""))},
		poisoning{"a member of 1 MB", 1, members(z(us, strings.Repeat("x", 1<<20)))},
		poisoning{"infinite scores", 1, members(
			redis.Z{Score: math.Inf(1), Member: chunk(0, us, 4, 0)}, redis.Z{Score: math.Inf(-1), Member: "x"})},
		poisoning{"a score with a fraction", 1, members(redis.Z{Score: float64(us) + 0.5, Member: chunk(0, us, 4, 0)})},
		poisoning{"a score of another time", 1, members(z(us-1, chunk(0, us, 4, 0)))},
		poisoning{"a time before 1970", 1, members(z(-5, chunk(0, us, 4, 0)))},
		poisoning{"a header alone", 1, members(z(us, chunk(0, us, 4)))},
		poisoning{"half an offset", 1, members(z(us, chunk(0, us, 4, 0)+"\x00"))},
		poisoning{"width 3", 1, members(z(us, chunk(0, us, 3, 0)))},
		poisoning{"width 8", 1, members(z(us, chunk(0, us, 8, 0)))},
		poisoning{"width 255", 1, members(z(us, chunk(0, us, 4, 0)[:6]+"\xff"+chunk(0, us, 4, 0)[7:]))},
		poisoning{"a bulk of nothing", 1, members(z(us, chunk(0, us, 0, 0)))},
		poisoning{"two bulks in one", 1, members(z(us, chunk(0, us, 0, 1, 1)))},
		poisoning{"a bulk beyond the limit", 0, members(z(us, chunk(0, us, 0, 1<<47)))},
		poisoning{"more before the last than before the first", 0, members(event(0, ago(time.Second)), event(1<<47, us))},
		poisoning{"less before the last than before the first", 1, members(event(1<<47, ago(time.Second)), event(0, us))},
		poisoning{"the largest number before", 0, members(event(1<<48-1, us))},
		poisoning{"a foreign oldest member", 1, members(z(ago(time.Minute), "x"), event(1, us))},
		poisoning{"a foreign member in the middle", 0, members(event(0, ago(time.Minute)), z(ago(time.Second), "x"), event(1, us))},
		poisoning{"a foreign newest member", 1, members(event(0, ago(time.Minute)), z(us, "x"))},
		poisoning{"a first event after the last", either, members(z(ago(time.Minute), chunk(0, us, 4, 0)), event(1, ago(time.Second)))},
		poisoning{"a first event in the future", either, members(z(ago(time.Minute), chunk(0, us+1e12, 4, 0)), event(1, us))},
		poisoning{"events out of order", either, members(
			z(us, chunk(0, ago(time.Minute), 4, time.Minute.Microseconds()+5, 0, time.Minute.Microseconds())))},
		poisoning{"a year ago", 0, members(event(0, ago(year)))},
		poisoning{"a year from now", 0, members(event(0, ago(-year)))},
		poisoning{"a bulk a year from now", 0, members(z(ago(-year), chunk(0, ago(-year), 0, 20)))},
		poisoning{"the largest time", 0, members(z(1<<53, chunk(0, 1<<53, 4, 0)))},
		poisoning{"the largest offset", 0, members(z(us+1<<32-1, chunk(0, us, 4, 1<<32-1)))},
	)
}
