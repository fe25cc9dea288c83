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
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

const poisonLimit = 10

// A poisoning writes to a key what no script would.
type poisoning struct {
	name    string
	corrupt int // how many unreadable states it makes
	write   func(ctx context.Context, rdb *redis.Client, key string) error
}

// either: what can be read, in another notation or against all sense, may be read
// or replaced.
const either = -1

// A victim is a limiter whose key can be written to by others.
type victim struct {
	*core.Limiter
	s       *redisstore.Store
	key     string
	advance func(time.Duration)
	longest time.Duration // that anything counts
}

func newVictim(t *testing.T, rdb redis.UniversalClient, rule core.Rule) *victim {
	h := harness(rdb)
	s := h.Store.(*redisstore.Store)
	v := &victim{testkit.Limiter(t, s, rule), s, s.Key("k", rule), h.Advance, rule.Limit().Per}
	if rule.Algorithm() == driver.SlidingWindow {
		v.longest += v.longest / core.DefaultSubWindows
	}
	return v
}

// closed checks that no more than the limit is admitted while time stands still,
// and that what is denied says so in a way that can be believed.
func (v *victim) closed(t *testing.T) {
	t.Helper()
	if d, err := v.Peek(t.Context(), "k"); err != nil {
		t.Fatalf("peeking: %v, %+v", err, d)
	}
	admitted := 0
	for range poisonLimit + 5 {
		d := testkit.Ask(t, v.Limiter, "k", 1)
		if d.Allowed {
			admitted++
		} else if d.RetryAfter <= 0 || d.RetryAfter > v.longest {
			t.Fatalf("denied for %v", d.RetryAfter)
		}
		if st := d.State(0); st.Remaining < 0 || st.Remaining > poisonLimit || st.ResetAfter > v.longest {
			t.Fatalf("the state is %+v", st)
		}
	}
	if admitted > poisonLimit {
		t.Fatalf("%d were admitted, the limit is %d", admitted, poisonLimit)
	}
	if d := testkit.Ask(t, v.Limiter, "k", 1); d.Allowed {
		t.Fatalf("the limit is still open: %+v", d)
	}
}

// healed checks that the key is as good as new when everything has left.
func (v *victim) healed(t *testing.T) {
	t.Helper()
	v.advance(v.longest)
	for left := poisonLimit - 1; left >= 0; left-- {
		if st := testkit.Admit(t, v.Limiter, "k", 1).State(0); st.Remaining != left {
			t.Fatalf("%d are left, want %d", st.Remaining, left)
		}
	}
	if d := testkit.Ask(t, v.Limiter, "k", 1); d.Allowed {
		t.Fatalf("healed, and open: %+v", d)
	}
}

// emptied deletes a key and returns it.
func emptied(t *testing.T, rdb *redis.Client, key string) string {
	t.Helper()
	testkit.Must(t, rdb.Del(t.Context(), key).Err())
	return key
}

// resets checks that a Reset of a state that cannot be read deletes it and finds nothing in use.
func (v *victim) resets(t *testing.T) {
	t.Helper()
	for _, want := range []bool{false, true} {
		if found, err := v.Reset(t.Context(), "k"); err != nil || found != want {
			t.Errorf("Reset returned %t, %v, want %t and no error", found, err, want)
		}
		testkit.Admit(t, v.Limiter, "k", poisonLimit)
	}
}

// A poisoned key neither opens its limit nor fails, and is sane again after a
// period at the latest.
func TestStore_Take_damagedState(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // as in harness
	for _, a := range testkit.Algorithms {
		for _, p := range poisons[a.Name](now) {
			t.Run(a.Name+"/"+p.name, func(t *testing.T) {
				v := newVictim(t, rdb, a.Rule("poisoned", core.PerHour(poisonLimit)))
				testkit.Must(t, p.write(t.Context(), rdb, v.key))
				v.closed(t)
				counted := v.s.Stats().Corrupt
				if p.corrupt != either && counted != uint64(p.corrupt) || counted > 1 {
					t.Errorf("%d states were counted as corrupt, want %d", counted, p.corrupt)
				}
				v.healed(t)
				if p.corrupt == 1 {
					testkit.Must(t, p.write(t.Context(), rdb, emptied(t, rdb, v.key)))
					v.resets(t)
				}
				if n := v.s.Stats().Corrupt; n != counted {
					t.Errorf("once it is healed, %d more states are counted as corrupt", n-counted)
				}
			})
		}
	}
}

// Damage that nobody thought of: states that were written by a script, changed
// at random.
func TestStore_Take_randomlyDamagedState(t *testing.T) {
	t.Parallel()
	const rounds = 200
	rdb := redistest.Shared(t).Client()
	for _, a := range testkit.Algorithms {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, rdb, a.Rule("poisoned", core.PerHour(poisonLimit)))
			for seed := range uint64(rounds) {
				t.Logf("seed %d", seed) // the last one is to blame
				rng := rand.New(rand.NewPCG(seed, 11))
				if _, err := v.Reset(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
				for range 1 + rng.IntN(poisonLimit) {
					testkit.Ask(t, v.Limiter, "k", 1+rng.IntN(2)*rng.IntN(10))
					v.advance(time.Duration(rng.Int64N(int64(10 * time.Minute))).Truncate(time.Microsecond))
				}
				damage(t, rng, rdb, v.key)
				v.closed(t)
				v.healed(t)
			}
		})
	}
}

// damage changes some of what a key holds.
func damage(t *testing.T, rng *rand.Rand, rdb *redis.Client, key string) {
	t.Helper()
	ctx := t.Context()
	var err error
	switch kind := rdb.Type(ctx, key).Val(); kind {
	case "none": // it has left
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
			if _, failed := pipe.Exec(ctx); failed != nil {
				t.Fatal(failed)
			}
		}
	default:
		t.Fatalf("a key of type %s", kind)
	}
	testkit.Must(t, err)
}

// damaged is a text with something wrong.
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
	case 3: // more than there was
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
func foreign() []poisoning {
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
	for _, value := range garbage {
		all = append(all, poisoning{fmt.Sprintf("string %.12q", value), 1, text(value)})
	}
	return all
}

func bucketPoisons(now time.Time) []poisoning {
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).UnixMicro(), 10) }
	return append(foreign(),
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
	return append(foreign(),
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
	all := append(foreign(),
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
	return append(foreign(),
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
