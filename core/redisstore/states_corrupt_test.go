package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

const corruptLimit = 10 // events per hour

// A corruption writes a state that no script writes.
type corruption struct {
	name       string
	unreadable int // the number of unreadable states that it makes
	write      writer
}

// either stands for a state that a script may read or replace, because it has another notation or
// contradicts itself.
const either = -1

// A target is a limiter with one key, whose state the test corrupts.
type target struct {
	*core.Limiter
	s       *redisstore.Store
	key     string
	advance func(time.Duration)
	longest time.Duration // for which an event counts
}

func newTarget(t *testing.T, rdb redis.UniversalClient, rule core.Rule, opts ...redisstore.Option) *target {
	h := harness(rdb, opts...)
	s := h.Store.(*redisstore.Store)
	v := &target{testkit.Limiter(t, s, rule), s, s.Key("k", rule), h.Advance, rule.Limit().Per}
	if rule.Algorithm() == driver.SlidingWindow {
		v.longest += v.longest / 60
	}
	return v
}

// checkLimit checks that no more than the limit is admitted at one time, and that denials have
// possible values.
func (v *target) checkLimit(t *testing.T) {
	t.Helper()
	if d, err := v.Peek(t.Context(), "k"); err != nil {
		t.Fatalf("Peek returned %+v, %v, want no error", d, err)
	}
	admitted := 0
	for range corruptLimit + 5 {
		d := testkit.Ask(t, v.Limiter, "k", 1)
		if d.Allowed {
			admitted++
		} else if d.RetryAfter <= 0 || d.RetryAfter > v.longest {
			t.Fatalf("RetryAfter is %v, want more than 0 and at most %v", d.RetryAfter, v.longest)
		}
		if st := d.State(0); st.Remaining < 0 || st.Remaining > corruptLimit || st.ResetAfter > v.longest {
			t.Fatalf("the state is %+v, want possible values", st)
		}
	}
	if admitted > corruptLimit {
		t.Fatalf("%d were admitted, want at most %d", admitted, corruptLimit)
	}
	if d := testkit.Ask(t, v.Limiter, "k", 1); d.Allowed {
		t.Fatalf("the decision is %+v, want a denial", d)
	}
}

// checkExpired checks that the key counts as a new one after the longest time.
func (v *target) checkExpired(t *testing.T) {
	t.Helper()
	v.advance(v.longest)
	for left := corruptLimit - 1; left >= 0; left-- {
		if st := testkit.Admit(t, v.Limiter, "k", 1).State(0); st.Remaining != left {
			t.Fatalf("%d are left, want %d", st.Remaining, left)
		}
	}
	if d := testkit.Ask(t, v.Limiter, "k", 1); d.Allowed {
		t.Fatalf("the decision is %+v, want a denial", d)
	}
}

// checkReset checks that a Reset of an unreadable state deletes it and finds nothing in use.
func (v *target) checkReset(t *testing.T) {
	t.Helper()
	for _, want := range []bool{false, true} {
		if found, err := v.Reset(t.Context(), "k"); err != nil || found != want {
			t.Errorf("Reset returned %t, %v, want %t and no error", found, err, want)
		}
		testkit.Admit(t, v.Limiter, "k", corruptLimit)
	}
}

// A corrupt state causes no error, admits no more than the limit, and counts as a new one after a
// period at the latest.
func TestStore_Take_corruptState(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // as in harness
	for _, a := range testkit.Algorithms {
		for _, p := range corruptions[a.Name](now) {
			t.Run(a.Name+"/"+p.name, func(t *testing.T) {
				v := newTarget(t, rdb, a.Rule("corrupt", core.PerHour(corruptLimit)))
				testkit.Must(t, p.write(t.Context(), rdb, v.key))
				v.checkLimit(t)
				counted := v.s.Stats().Corrupt
				if p.unreadable != either && counted != uint64(p.unreadable) || counted > 1 {
					t.Errorf("%d states were counted as corrupt, want %d", counted, p.unreadable)
				}
				v.checkExpired(t)
				if p.unreadable == 1 {
					testkit.Must(t, rdb.Del(t.Context(), v.key).Err())
					testkit.Must(t, p.write(t.Context(), rdb, v.key))
					v.checkReset(t)
				}
				if n := v.s.Stats().Corrupt; n != counted {
					t.Errorf("%d states were counted as corrupt after the period, want %d", n, counted)
				}
			})
		}
	}
}

// A credit, debit or undo of a corrupt state causes no error. The state can be read for several costs.
func TestStore_Adjust_corruptState(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // as in harness
	for _, a := range testkit.Algorithms {
		rule := a.Rule("corrupt", core.PerHour(corruptLimit))
		for _, p := range corruptions[a.Name](now) {
			t.Run(a.Name+"/"+p.name, func(t *testing.T) {
				v := newTarget(t, rdb, rule)
				do := func(op driver.Op, cost int) {
					charge := driver.Charge{Key: "k", Rule: testkit.Compiled(rule), Op: op, Cost: cost, Receipt: driver.Receipt{At: now.UnixMicro()}}
					testkit.Must(t, storetest.Do(t.Context(), v.s, []driver.Charge{charge}))
				}
				for _, op := range []driver.Op{driver.Credit, driver.Debit, driver.Undo} {
					t.Logf("op %d", op) // a failure belongs to the last op
					testkit.Must(t, p.write(t.Context(), rdb, v.key))
					do(op, 2)
					for _, cost := range []int{1, corruptLimit - 3, corruptLimit} {
						do(driver.Peek, cost)
					}
					testkit.Must(t, rdb.Del(t.Context(), v.key).Err())
				}
			})
		}
	}
}

// States that a script has written are changed at random.
func TestStore_Take_randomlyCorruptState(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const rounds = 100
	rdb := redistest.Shared(t).Client()
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			v := newTarget(t, rdb, a.Rule("corrupt", core.PerHour(corruptLimit)))
			for seed := range uint64(rounds) {
				t.Logf("seed %d", seed) // a failure belongs to the last seed
				rng := rand.New(rand.NewPCG(seed, 11))
				_, err := v.Reset(t.Context(), "k")
				testkit.Must(t, err)
				for range 1 + rng.IntN(corruptLimit) {
					testkit.Ask(t, v.Limiter, "k", 1+rng.IntN(2)*rng.IntN(10))
					v.advance(time.Duration(rng.Int64N(int64(10 * time.Minute))).Truncate(time.Microsecond))
				}
				damage(t, rng, rdb, v.key)
				v.checkLimit(t)
				v.checkExpired(t)
			}
		})
	}
}

// damage changes a part of the state of a key.
func damage(t *testing.T, rng *rand.Rand, rdb *redis.Client, key string) {
	t.Helper()
	ctx := t.Context()
	var err error
	switch kind := rdb.Type(ctx, key).Val(); kind {
	case "none": // expired
	case "string":
		err = rdb.Set(ctx, key, damaged(rng, rdb.Get(ctx, key).Val()), time.Hour).Err()
	case "hash":
		all := rdb.HGetAll(ctx, key).Val()
		for _, field := range slices.Sorted(maps.Keys(all)) {
			value := all[field]
			switch rng.IntN(6) {
			case 0:
				err = rdb.HSet(ctx, key, field, damaged(rng, value)).Err()
			case 1:
				err = rdb.HSet(ctx, key, damaged(rng, field), value).Err()
			case 2:
				err = rdb.HDel(ctx, key, field).Err()
			}
		}
	case "zset":
		for _, z := range rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
			member, score := z.Member.(string), z.Score
			switch rng.IntN(6) {
			case 0, 1:
				member = damaged(rng, member)
			case 2: // another time
				score += float64(rng.Int64N(int64(2*time.Hour/time.Microsecond)) - int64(time.Hour/time.Microsecond))
			case 3: // two copies
				err = rdb.ZAdd(ctx, key, redis.Z{Score: score, Member: member + "\x00\x00\x00\x00"}).Err()
			default:
				continue
			}
			pipe := rdb.TxPipeline()
			pipe.ZRem(ctx, key, z.Member)
			pipe.ZAdd(ctx, key, redis.Z{Score: score, Member: member})
			_, failed := pipe.Exec(ctx)
			testkit.Must(t, failed)
		}
	default:
		t.Fatalf("a key of type %s", kind)
	}
	testkit.Must(t, err)
}

// damaged returns text with random changes.
func damaged(rng *rand.Rand, text string) string {
	b := []byte(text)
	switch rng.IntN(4) {
	case 0: // bits
		for range min(len(b), 1+rng.IntN(3)) {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
	case 1: // digits
		for range min(len(b), 1+rng.IntN(3)) {
			b[rng.IntN(len(b))] = '0' + byte(rng.IntN(10))
		}
	case 2: // the end is missing
		b = b[:rng.IntN(len(b)+1)]
	case 3: // more bytes at the end
		for range 1 + rng.IntN(40) {
			b = append(b, byte(rng.IntN(256)))
		}
	}
	return string(b)
}

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

// corruptions maps an algorithm to states at a time that no script writes.
var corruptions = map[string]func(now time.Time) []corruption{
	"token_bucket":   bucketCorruptions,
	"leaky_bucket":   bucketCorruptions,
	"fixed_window":   windowCorruptions,
	"sliding_window": counterCorruptions,
	"sliding_log":    logCorruptions,

	"fixed_window_from_first": windowCorruptions,
}

// texts are states of no algorithm.
var texts = []string{
	"", " ", "nan", "NaN", "-nan", "nan nan", "inf", "-inf", "inf inf", "Infinity", "text", "0x", "1e400", "-1e400", "1e400 1", "true",
	"null", "{}", "1.5", "1 2 3", "1 -2", "-1 2", strings.Repeat("9", 1<<20), strings.Repeat("x", 1<<20), "\xff\xfe", "99999999999999999",
}

// foreign returns corruptions by values of other types and by texts.
func foreign() []corruption {
	var all []corruption
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
		all = append(all, corruption{kind, 1, write})
	}
	for _, value := range texts {
		all = append(all, corruption{fmt.Sprintf("string %.12q", value), 1, text(value)})
	}
	return all
}

func bucketCorruptions(now time.Time) []corruption {
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).UnixMicro(), 10) }
	return append(foreign(),
		corruption{"a moment ago", 0, text(at(-time.Second))},
		corruption{"1970", 0, text("5")},
		corruption{"zero", 0, text("0")},
		corruption{"a year from now", 0, text(at(365 * 24 * time.Hour))},
		corruption{"the largest time", either, text("9999999999999999")},
		corruption{"a fraction of another rate", 0, text(at(time.Second) + " 281474976710655")},
		corruption{"a time before 1970", either, text("-5")},
		corruption{"a negative fraction", 1, text(at(time.Second) + " -1")},
		corruption{"a debt that is paid", 0, text(at(0) + " 1 1")},
		corruption{"a debt from after it is paid", 1, text(at(0) + " 1 " + at(time.Second))},
		corruption{"a debt of a thousand years", 1, text("9007199254740991 0 1")},
		corruption{"two fractions", 1, text(at(0) + " 1 1 1")},
		corruption{"white space", either, text(" " + at(0))},
		corruption{"a line", either, text(at(0) + "\n")},
		corruption{"hexadecimal", either, text("0x10")},
		corruption{"a hexadecimal year from now", either, text("0x" + strconv.FormatInt(now.AddDate(1, 0, 0).UnixMicro(), 16))},
		corruption{"an exponent", either, text("1e5")},
		corruption{"a plus sign", either, text("+5")},
		corruption{"NUL", either, text(at(0) + "\x00")},
	)
}

// windowCorruptions are those of fixed windows and of a quota.
func windowCorruptions(now time.Time) []corruption {
	state := func(end, length, count int64) writer {
		var eight [8]byte
		var value []byte
		for _, n := range []struct {
			value int64
			width int
		}{{end, 7}, {length, 7}, {count, 6}} {
			binary.BigEndian.PutUint64(eight[:], uint64(n.value))
			value = append(value, eight[8-n.width:]...)
		}
		return text(string(value))
	}
	const hour = int64(time.Hour / time.Microsecond)
	at := now.UnixMicro()
	return append(foreign(),
		corruption{"a window that has ended", 0, state(at-1, hour, 10)},
		corruption{"a year from now", 0, state(now.AddDate(1, 0, 0).UnixMicro(), hour, 3)},
		corruption{"more than the limit", 0, state(at+hour, hour, 1<<47)},
		corruption{"a length that is too short", either, state(at+hour, 1, 3)},
		corruption{"a length of 0", 1, state(at+hour, 0, 3)},
		corruption{"a length that is too long", 1, state(at+hour, hour+1, 3)},
		corruption{"the largest time", 1, state(1<<53, hour, 3)},
		corruption{"an end without a count", 1, text("\x06\x47\x00\x00\x00\x00\x00")},
		corruption{"twenty letters", 1, text("abcdefghijklmnopqrst")},
		corruption{"a bucket", 1, text(strconv.FormatInt(at, 10))},
	)
}

func counterCorruptions(now time.Time) []corruption {
	const length = int64(time.Minute / time.Microsecond) // of an hour in 60
	current := now.UnixMicro() / length
	field := func(n int64) string { return strconv.FormatInt((current+n)%128, 10) }
	state := func(changes ...any) writer {
		return func(ctx context.Context, rdb *redis.Client, key string) error {
			whole := []any{"o", current - 1, "l", current, "t", 5, field(-1), 3, field(0), 2}
			if err := rdb.HSet(ctx, key, whole...).Err(); err != nil {
				return err
			}
			return rdb.HSet(ctx, key, changes...).Err()
		}
	}
	all := append(foreign(),
		corruption{"a window that has left", 0, fields("o", 5, "l", 5, "t", 3, "5", 3)},
		corruption{"no sub-windows", either, fields("o", current, "l", current, "t", 3)},
		corruption{"an oldest sub-window alone", 1, fields("o", current)},
		corruption{"a foreign field", either, state("user", "mallory")},
		corruption{"a sub-window 128", either, state("128", 1)},
		corruption{"a field of an old format", either, state("m", 8192)},
		corruption{"a negative sub-window", either, state("-1", 1)},
		corruption{"more sub-windows than in a window", either, state("7", 3, "8", 3, "9", 3)},
		corruption{"a total that is too small", either, state("t", 1)},
		corruption{"a total of nothing", either, state("t", 0)},
		corruption{"a total that is too large", either, state("t", int64(1<<50))},
		corruption{"the largest total", either, state("t", int64(1<<53))},
		corruption{"a count that is too large", either, state(field(0), int64(1<<50))},
		corruption{"the oldest after the newest", 1, state("o", current+1)},
		corruption{"the oldest in 1970", either, state("o", 0)},
		corruption{"the newest in 1970", either, state("l", 0, "o", 0)},
		corruption{"the newest in a year", either, state("l", current+365*24*60)},
		corruption{"the largest newest", 1, state("l", int64(1<<53-1))},
	)
	for _, name := range []string{"o", "l", "t"} {
		for _, value := range []string{"nan", "inf", "-1", "1.5", "text", "", "1e400", "9007199254740992"} {
			all = append(all, corruption{name + " is " + value, 1, state(name, value)})
		}
	}
	for _, value := range []string{"nan", "inf", "-1", "1.5", "text", "", "1e400"} {
		all = append(all, corruption{"a count is " + value, either, state(field(0), value)})
	}
	return all
}

// entries returns a member of a sliding log: the number of its first event, the size of an entry, a
// time, and pairs of a number and its bytes; see lua/sliding_log.lua.
func entries(number int64, size byte, base int64, pairs ...int64) string {
	var eight [8]byte
	var out []byte
	put := func(n int64, width int64) {
		binary.BigEndian.PutUint64(eight[:], uint64(n))
		out = append(out, eight[8-width:]...)
	}
	put(number, 6)
	out = append(out, size)
	put(base, 7)
	for i := 0; i < len(pairs); i += 2 {
		put(pairs[i], pairs[i+1])
	}
	return string(out)
}

func logCorruptions(now time.Time) []corruption {
	us := now.UnixMicro()
	ago := func(d time.Duration) int64 { return us - d.Microseconds() }
	z := func(score int64, member string) redis.Z { return redis.Z{Score: float64(score), Member: member} }
	single := func(number, base int64, spans ...int64) string {
		var pairs []int64
		for _, span := range spans {
			pairs = append(pairs, span, 4)
		}
		return entries(number, 4, base, pairs...)
	}
	event := func(number, at int64) redis.Z { return z(at, single(number, at, 0)) }
	bulk := func(number, at, n int64) redis.Z { return z(at, entries(number, 10, at, 0, 4, n, 6)) }
	const year = 365 * 24 * time.Hour
	return append(foreign(),
		corruption{"foreign members above every time", 1, members(event(0, ago(time.Second)), event(1, us), z(1<<60, "x"), redis.Z{Score: math.Inf(1), Member: "y"})},
		corruption{"foreign members", 1, members(z(us, "x"), z(us-1, "user:1"), z(5, ""))},
		corruption{"a member of 1 MB", 1, members(z(us, strings.Repeat("x", 1<<20)))},
		corruption{"infinite scores", 1, members(
			redis.Z{Score: math.Inf(1), Member: single(0, us, 0)}, redis.Z{Score: math.Inf(-1), Member: "x"})},
		corruption{"a score with a fraction", 1, members(redis.Z{Score: float64(us) + 0.5, Member: single(0, us, 0)})},
		corruption{"a score of another time", 1, members(z(us-1, single(0, us, 0)))},
		corruption{"a time before 1970", 1, members(z(-5, single(0, us, 0)))},
		corruption{"a header alone", 1, members(z(us, single(0, us)))},
		corruption{"half an offset", 1, members(z(us, single(0, us, 0)+"\x00"))},
		corruption{"entries of 3 bytes", 1, members(z(us, entries(0, 3, us, 0, 3)))},
		corruption{"entries of 8 bytes", 1, members(z(us, entries(0, 8, us, 0, 8)))},
		corruption{"entries of 255 bytes", 1, members(z(us, entries(0, 255, us, 0, 4)))},
		corruption{"entries of no bytes", 1, members(z(us, entries(0, 0, us, 0, 4)))},
		corruption{"a header and entries of no bytes", 1, members(z(us, entries(0, 0, us)))},
		corruption{"an entry of no events", 0, members(bulk(0, us, 0))},
		corruption{"two entries of one time", 0, members(z(us, entries(0, 10, us, 0, 4, 1, 6, 0, 4, 2, 6)))},
		corruption{"counts that decrease", either, members(z(us, entries(0, 10, ago(time.Second), 0, 4, 5, 6, 1e6, 4, 2, 6)))},
		corruption{"an entry beyond the limit", 0, members(bulk(0, us, 1<<47))},
		corruption{"more before the last than before the first", 0, members(event(0, ago(time.Second)), event(1<<47, us))},
		corruption{"less before the last than before the first", 0, members(event(1<<47, ago(time.Second)), event(1, us))},
		corruption{"none before the last", 0, members(event(1<<47, ago(time.Second)), event(0, us))},
		corruption{"a first member that has left, with a time from now", 0, members(z(ago(2*time.Hour), single(0, us+1, 0)), event(1, us))},
		corruption{"the largest number before", 0, members(event(1<<48-1, us))},
		corruption{"a foreign oldest member", 1, members(z(ago(time.Minute), "x"), event(1, us))},
		corruption{"a foreign member before a last member with the number 0", 0, members(
			z(ago(time.Minute), "x"), event(5, ago(2*time.Second)), event(9, ago(time.Second)), event(0, us))},
		corruption{"a foreign member in the middle", 0, members(event(0, ago(time.Minute)), z(ago(time.Second), "x"), event(1, us))},
		corruption{"a foreign newest member", 1, members(event(0, ago(time.Minute)), z(us, "x"))},
		corruption{"a first event after the last", either, members(z(ago(time.Minute), single(0, us, 0)), event(1, ago(time.Second)))},
		corruption{"a first event in the future", either, members(z(ago(time.Minute), single(0, us+1e12, 0)), event(1, us))},
		corruption{"events out of order", either, members(
			z(us, single(0, ago(time.Minute), time.Minute.Microseconds()+5, 0, time.Minute.Microseconds())))},
		corruption{"an event before the window among later events", 0, members(
			z(us, single(0, ago(70*time.Minute), (65*time.Minute).Microseconds(), 0, (70*time.Minute).Microseconds())))},
		corruption{"spans of another width", 1, members(z(us, entries(0, 5, us, 0, 5)))},
		corruption{"an event that has left and one a year from now", 0, members(event(0, ago(2*time.Hour)), event(1, ago(-year)))},
		corruption{"a year ago", 0, members(event(0, ago(year)))},
		corruption{"a year from now", 0, members(event(0, ago(-year)))},
		corruption{"many events a year from now", 0, members(bulk(0, ago(-year), 20))},
		corruption{"the largest time", 0, members(z(1<<53, single(0, 1<<53, 0)))},
		corruption{"the largest offset", 0, members(z(us+1<<32-1, single(0, us, 1<<32-1)))},
	)
}

// At most a cost is taken from a corrupt state as from another, also if a shadow does not admit the cost.
func TestStore_Take_AtMostOfCorruptState(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // as in harness
	for _, a := range testkit.Algorithms {
		for _, p := range corruptions[a.Name](now) {
			t.Run(a.Name+"/"+p.name, func(t *testing.T) {
				v := newTarget(t, rdb, a.Rule("corrupt", core.PerHour(corruptLimit)))
				shadow := testkit.Compiled(a.Rule("corrupt", core.PerHour(corruptLimit)).Shadow())
				testkit.Must(t, p.write(t.Context(), rdb, v.key))
				for _, n := range []int{100 * corruptLimit, 2} {
					charges := []driver.Charge{{Key: "k", Rule: shadow, AtMost: true, Cost: n}}
					testkit.Must(t, v.s.Take(t.Context(), charges))
					if c := &charges[0]; c.Cost != n || n > corruptLimit && c.Verdict.Allowed {
						t.Fatalf("got the cost %d of %d, and %+v", c.Cost, n, c.Verdict)
					}
				}
				testkit.Must(t, rdb.Del(t.Context(), v.key).Err())
				testkit.Must(t, p.write(t.Context(), rdb, v.key))
				before := v.s.Stats().Corrupt
				r, err := v.ReserveAtMost(t.Context(), "k", 100*corruptLimit)
				testkit.Must(t, err)
				replaced := v.s.Stats().Corrupt - before
				if r.Cost() > corruptLimit || p.unreadable == 1 && (r.Cost() != corruptLimit || replaced != 1) {
					t.Errorf("got the cost %d of %d, and %d replaced states", r.Cost(), corruptLimit, replaced)
				}
				v.checkLimit(t)
				v.checkExpired(t)
			})
		}
	}
}
