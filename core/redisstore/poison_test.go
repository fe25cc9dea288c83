package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/redistest"
	"github.com/weir-go/weir/core/redisstore"
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

func text(value string) func(context.Context, *redis.Client, string) error {
	return func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.Set(ctx, key, value, 0).Err()
	}
}

func members(all ...redis.Z) func(context.Context, *redis.Client, string) error {
	return func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.ZAdd(ctx, key, all...).Err()
	}
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

// otherTypes are keys that hold something else altogether.
func otherTypes() []poisoning {
	return []poisoning{
		{"hash", 1, func(ctx context.Context, rdb *redis.Client, key string) error {
			return rdb.HSet(ctx, key, "count", 1).Err()
		}},
		{"list", 1, func(ctx context.Context, rdb *redis.Client, key string) error {
			return rdb.RPush(ctx, key, 1, 2, 3).Err()
		}},
		{"set", 1, func(ctx context.Context, rdb *redis.Client, key string) error {
			return rdb.SAdd(ctx, key, 1, 2, 3).Err()
		}},
		{"stream", 1, func(ctx context.Context, rdb *redis.Client, key string) error {
			return rdb.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"a", "b"}}).Err()
		}},
	}
}

func bucketPoisons(now time.Time) []poisoning {
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).UnixMicro(), 10) }
	all := append(otherTypes(),
		poisoning{"zset", 1, members(redis.Z{Score: 1, Member: "x"})},
		poisoning{"a moment ago", 0, text(at(-time.Second))},
		poisoning{"1970", 0, text("5")},
		poisoning{"zero", 0, text("0")},
		poisoning{"a year from now", 0, text(at(365 * 24 * time.Hour))},
		poisoning{"the largest time", either, text("9999999999999999")},
		poisoning{"a fraction of another rate", 0, text(at(time.Second) + " 281474976710655")},
		poisoning{"a time before 1970", either, text("-5")},
		poisoning{"too large a time", 1, text("99999999999999999")},
		poisoning{"a negative fraction", 1, text(at(time.Second) + " -1")},
		poisoning{"a score", 1, text("1.5")},
		poisoning{"two fractions", 1, text(at(0) + " 1 1")},
		poisoning{"white space", either, text(" " + at(0))},
		poisoning{"a line", either, text(at(0) + "\n")},
		poisoning{"hexadecimal", either, text("0x10")},
		poisoning{"an hexadecimal year from now", either, text("0x" + strconv.FormatInt(now.AddDate(1, 0, 0).UnixMicro(), 16))},
		poisoning{"an exponent", either, text("1e5")},
		poisoning{"a plus sign", either, text("+5")},
		poisoning{"NUL", either, text(at(0) + "\x00")},
	)
	for _, value := range []string{
		"", " ", "nan", "NaN", "-nan", "inf", "-inf", "Infinity", "text", "0x", "1e400", "-1e400", "true", "null", "{}",
		strings.Repeat("9", 1<<20), strings.Repeat("x", 1<<20), "\xff\xfe",
	} {
		all = append(all, poisoning{fmt.Sprintf("%.12q", value), 1, text(value)})
	}
	return all
}

func logPoisons(now time.Time) []poisoning {
	us := now.UnixMicro()
	ago := func(d time.Duration) int64 { return us - d.Microseconds() }
	z := func(score int64, member string) redis.Z { return redis.Z{Score: float64(score), Member: member} }
	event := func(before, at int64) redis.Z { return z(at, chunk(before, at, 4, 0)) }
	all := append(otherTypes(),
		poisoning{"string", 1, text("x")},
		poisoning{"a bucket", 1, text(strconv.FormatInt(us, 10))},
		poisoning{"1 MB string", 1, text(strings.Repeat("x", 1<<20))},
		poisoning{"foreign members", 1, members(z(us, "x"), z(us-1, "user:1"), z(5, ""))},
		poisoning{"a foreign member without a window", 1, members(z(5, "x"))},
		poisoning{"a member of 1 MB", 1, members(z(us, strings.Repeat("x", 1<<20)))},
		poisoning{"infinite scores", 1, members(
			redis.Z{Score: inf, Member: chunk(0, us, 4, 0)}, redis.Z{Score: -inf, Member: "x"})},
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
		poisoning{"events out of order", either, members(z(us, chunk(0, ago(time.Minute), 4, time.Minute.Microseconds()+5, 0, time.Minute.Microseconds())))},
		poisoning{"a year ago", 0, members(event(0, ago(365*24*time.Hour)))},
		poisoning{"a year from now", 0, members(event(0, ago(-365*24*time.Hour)))},
		poisoning{"a bulk a year from now", 0, members(z(ago(-365*24*time.Hour), chunk(0, ago(-365*24*time.Hour), 0, 20)))},
		poisoning{"the largest time", 0, members(z(1<<53, chunk(0, 1<<53, 4, 0)))},
		poisoning{"the largest offset", 0, members(z(us+1<<32-1, chunk(0, us, 4, 1<<32-1)))},
	)
	return all
}

var inf = func() float64 { f, _ := strconv.ParseFloat("inf", 64); return f }()

// A poisoned key neither opens its limit nor fails, and is sane again after a
// period at the latest.
func TestPoison(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, a := range algorithms {
		poisons := bucketPoisons
		if a.name == "sliding_log" {
			poisons = logPoisons
		}
		for _, p := range poisons(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Run(a.name+"/"+p.name, func(t *testing.T) {
				h := harness(rdb)
				s := h.Store.(*redisstore.Store)
				rule := a.rule("poisoned", core.PerHour(poisonLimit))
				l := limiter(t, s, rule)
				if err := p.write(t.Context(), rdb, s.Key("k", &rule)); err != nil {
					t.Fatal(err)
				}
				if d, err := l.Peek(t.Context(), "k"); err != nil {
					t.Fatalf("peeking: %v, %+v", err, d)
				}
				closed(t, l)
				counted := s.Stats().Corrupt
				if p.corrupt != either && counted != uint64(p.corrupt) || counted > 1 {
					t.Errorf("%d states were counted as corrupt, want %d", counted, p.corrupt)
				}
				h.Advance(time.Hour)
				healed(t, l)
				if n := s.Stats().Corrupt; n != counted {
					t.Errorf("once it is healed, %d more states are counted as corrupt", n-counted)
				}
			})
		}
	}
}

// closed checks that no more than the limit is admitted while time stands still,
// and that what is denied says so in a way that can be believed.
func closed(t *testing.T, l *core.Limiter) {
	t.Helper()
	admitted := 0
	for range poisonLimit + 5 {
		d := ask(t, l, "k", 1)
		if d.Allowed {
			admitted++
		} else if d.RetryAfter <= 0 || d.RetryAfter > time.Hour {
			t.Errorf("denied for %v", d.RetryAfter)
		}
		if st := d.State(0); st.Remaining < 0 || st.Remaining > poisonLimit || st.ResetAfter > time.Hour {
			t.Errorf("the state is %+v", st)
		}
	}
	if admitted > poisonLimit {
		t.Errorf("%d were admitted, the limit is %d", admitted, poisonLimit)
	}
	if d := ask(t, l, "k", 1); d.Allowed {
		t.Errorf("the limit is still open: %+v", d)
	}
}

// healed checks that the key is as good as new.
func healed(t *testing.T, l *core.Limiter) {
	t.Helper()
	for left := poisonLimit - 1; left >= 0; left-- {
		if st := spend(t, l, "k", 1).State(0); st.Remaining != left {
			t.Fatalf("%d are left, want %d", st.Remaining, left)
		}
	}
	if d := ask(t, l, "k", 1); d.Allowed {
		t.Fatalf("healed, and open: %+v", d)
	}
}

// Damage that nobody thought of: members that were written by a script, with
// bytes and scores changed at random.
func TestPoisonRandom(t *testing.T) {
	t.Parallel()
	const rounds = 300
	rdb := redistest.Shared(t).Client()
	h := harness(rdb)
	s := h.Store.(*redisstore.Store)
	rule := core.SlidingLog("poisoned", core.PerHour(poisonLimit))
	l := limiter(t, s, rule)
	key := s.Key("k", &rule)
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 11))
		if err := l.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		for range rng.IntN(poisonLimit) {
			ask(t, l, "k", 1+rng.IntN(2)*rng.IntN(10))
			h.Advance(time.Duration(rng.Int64N(int64(10 * time.Minute))).Truncate(time.Microsecond))
		}
		damage(t, rng, rdb, key)
		if _, err := l.Peek(t.Context(), "k"); err != nil {
			t.Fatalf("seed %d: peeking: %v", seed, err)
		}
		closed(t, l)
		h.Advance(time.Hour)
		healed(t, l)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// damage rewrites some members of a sorted set.
func damage(t *testing.T, rng *rand.Rand, rdb *redis.Client, key string) {
	t.Helper()
	all, err := rdb.ZRangeWithScores(t.Context(), key, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range all {
		member, score := []byte(z.Member.(string)), z.Score
		switch rng.IntN(6) {
		case 0: // bits
			for range 1 + rng.IntN(3) {
				member[rng.IntN(len(member))] ^= 1 << rng.IntN(8)
			}
		case 1: // the end is missing
			member = member[:rng.IntN(len(member))]
		case 2: // more than there was
			for range 1 + rng.IntN(40) {
				member = append(member, byte(rng.IntN(256)))
			}
		case 3: // another time
			score += float64(rng.Int64N(int64(2*time.Hour/time.Microsecond)) - int64(time.Hour/time.Microsecond))
		case 4: // two copies
			if err := rdb.ZAdd(t.Context(), key, redis.Z{Score: score, Member: string(member) + "\x00\x00\x00\x00"}).Err(); err != nil {
				t.Fatal(err)
			}
		case 5: // untouched
			continue
		}
		pipe := rdb.TxPipeline()
		pipe.ZRem(t.Context(), key, z.Member)
		pipe.ZAdd(t.Context(), key, redis.Z{Score: score, Member: string(member)})
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
