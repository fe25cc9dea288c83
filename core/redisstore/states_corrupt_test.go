package redisstore_test

import (
	"context"
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

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

const corruptLimit = 10 // events per hour or month

// A corruption writes a state that no script writes.
type corruption struct {
	name       string
	unreadable int // the number of unreadable states that it makes
	write      writer
}

// either stands for a state that a script may read or replace, because it has another notation or
// contradicts itself.
const either = -1

// longest returns the time for which an event counts.
func (s *subject) longest() time.Duration {
	k := s.rule.Constants
	return time.Duration(max(k.Period, k.Full.Micros)+k.SubWindow) * time.Microsecond
}

// checkLimit checks that no more than the limit is admitted at one time besides taken, and that verdicts have possible
// values. It returns the events that are taken then.
func (s *subject) checkLimit(taken int) int {
	s.t.Helper()
	s.do(driver.Charge{Op: driver.Peek})
	most := corruptLimit + s.rule.Rollover
	for range most + 5 {
		v := s.do(driver.Charge{}).Verdict
		if v.Allowed {
			taken++
		} else if v.RetryAfter <= 0 || v.RetryAfter > s.longest() {
			s.t.Fatalf("RetryAfter is %v, want more than 0 and at most %v", v.RetryAfter, s.longest())
		}
		if v.Remaining < 0 || v.Remaining > most || v.ResetAfter > s.longest() {
			s.t.Fatalf("the verdict is %+v, want possible values", v)
		}
	}
	if v := s.do(driver.Charge{}).Verdict; taken > most || v.Allowed {
		s.t.Fatalf("%d were admitted, want at most %d, and then the verdict %+v, want a denial", taken, most, v)
	}
	return taken
}

// checkExpired checks that the key counts as a new one after the longest time.
func (s *subject) checkExpired() {
	s.t.Helper()
	s.Advance(s.longest())
	for left := corruptLimit - 1; left >= 0; left-- {
		if v := s.do(driver.Charge{}).Verdict; !v.Allowed || v.Remaining != left {
			s.t.Fatalf("the verdict is %+v, want an admission with %d left", v, left)
		}
	}
	if v := s.do(driver.Charge{}).Verdict; v.Allowed {
		s.t.Fatalf("the verdict is %+v, want a denial", v)
	}
}

// A corrupt state causes no error, admits no more than the limit, and counts as a new one after a period at the latest.
// An unreadable one is counted when a charge replaces it, and is that of a new key.
func TestStates_corrupt(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // as in harness
	for _, f := range formats {
		rule := f.compile(t, "corrupt", corruptLimit, time.Hour)
		for i, p := range append(foreign(), f.corrupt(start)...) {
			opts := modes[i%len(modes)].opts
			t.Run(f.name+"/"+p.name, func(t *testing.T) {
				write := func(s *subject) {
					t.Helper()
					testkit.Must(t, rdb.Del(t.Context(), s.key).Err())
					testkit.Must(t, p.write(t.Context(), rdb, s.key))
				}
				s := newSubject(t, rdb, rule, opts...)
				for _, op := range append(s.adjusts(), driver.Peek, driver.Reset) {
					t.Logf("op %d", op) // a failure belongs to the last op
					write(s)
					times := []int64{start.UnixMicro(), 1<<40 | 3, 7340035, 1<<30 | 1}
					if op != driver.Undo && op != driver.Renew {
						times = times[:2] // without a receipt
					}
					for i, at := range times {
						c := s.do(driver.Charge{Op: op, Cost: 2, Receipt: driver.Receipt{At: at}})
						if op == driver.Reset && c.Verdict.Found && (i > 0 || p.unreadable == 1 || rule.Kind.Closes) {
							t.Errorf("the verdict of a Reset is %+v, want not found", c.Verdict)
						}
					}
					for _, cost := range []int{1, corruptLimit - 3, corruptLimit} {
						if v := s.do(driver.Charge{Op: driver.Peek, Cost: cost}).Verdict; rule.Kind.Closes && (!v.Allowed || v.ResetAfter != 0) {
							t.Errorf("after op %d, the verdict is %+v, want that of a key without a pause", op, v)
						}
					}
				}
				if rdb.Exists(t.Context(), s.key).Val() != 0 {
					t.Error("the key exists after a Reset")
				}
				if rule.Kind.Closes {
					s.checkPause(p, write)
					return
				}
				for _, atMost := range []bool{false, true} {
					if atMost && rule.Kind.Holds && !rule.ByCost {
						continue
					}
					s, taken := newSubject(t, rdb, rule, opts...), 0
					if atMost {
						write(s)
						s.checkShadow()
					}
					write(s)
					before := s.s.Stats().Corrupt
					if c := (driver.Charge{Cost: 100 * corruptLimit, AtMost: true}); atMost {
						if c = s.do(c); c.Verdict.Allowed {
							taken = c.Cost
						}
						if p.unreadable == 1 && taken != corruptLimit {
							t.Errorf("got the cost %d, want %d", taken, corruptLimit)
						}
					}
					taken = s.checkLimit(taken)
					counted := s.s.Stats().Corrupt
					if n := counted - before; p.unreadable != either && n != uint64(p.unreadable) || n > 1 {
						t.Errorf("%d states were counted as corrupt, want %d", n, p.unreadable)
					}
					if p.unreadable == 1 && taken != corruptLimit {
						t.Errorf("%d were admitted, want %d", taken, corruptLimit)
					}
					s.checkExpired()
					// A total that is not the sum of the costs is found when all places have lapsed.
					if n := s.s.Stats().Corrupt; n != counted && !(rule.Kind.Holds && p.unreadable == 0) {
						t.Errorf("%d states were counted as corrupt after the period, want %d", n, counted)
					}
				}
			})
		}
	}
}

// checkShadow checks that a rule in shadow takes at most a cost without an error, whether it admits the cost or not.
func (s *subject) checkShadow() {
	s.t.Helper()
	d := s.rule.Definition
	d.Shadow = true
	shadow := during(compile(s.t, d), s.Now())
	for _, n := range []int{100 * corruptLimit, 2} {
		if c := s.do(driver.Charge{Rule: shadow, AtMost: true, Cost: n}); c.Cost != n || n > corruptLimit && c.Verdict.Allowed {
			s.t.Fatalf("got the cost %d of %d, and %+v", c.Cost, n, c.Verdict)
		}
	}
}

// checkPause checks that a corrupt state closes no key, and that only a Debit replaces it.
func (s *subject) checkPause(p corruption, write func(*subject)) {
	t := s.t
	t.Helper()
	for _, c := range []driver.Charge{{}, {Cost: 1000, AtMost: true}} {
		write(s)
		if v := s.do(c).Verdict; !v.Allowed || v.ResetAfter != 0 {
			t.Errorf("the verdict is %+v, want that of a key without a pause", v)
		}
	}
	if n := s.s.Stats().Corrupt; n != 0 {
		t.Errorf("%d states were counted as corrupt before a debit, want 0", n)
	}
	if v := s.do(driver.Charge{Op: driver.Debit, Pause: time.Minute}).Verdict; v.ResetAfter != time.Minute {
		t.Errorf("after a debit, the verdict is %+v, want a minute", v)
	}
	if v := s.do(driver.Charge{}).Verdict; v.Allowed || v.RetryAfter != time.Minute {
		t.Errorf("in a pause, the verdict is %+v, want a denial for a minute", v)
	}
	if n := s.s.Stats().Corrupt; n != uint64(p.unreadable) {
		t.Errorf("%d states were counted as corrupt, want %d", n, p.unreadable)
	}
}

// States that a script has written are changed at random.
func TestStates_damaged(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const rounds = 100
	rdb := redistest.Shared(t).Client()
	for _, f := range formats {
		if f.name == "pause" {
			continue // it has no limit
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, rdb, f.compile(t, "damaged", corruptLimit, time.Hour))
			for seed := range uint64(rounds) {
				t.Logf("seed %d", seed) // a failure belongs to the last seed
				rng := rand.New(rand.NewPCG(seed, 11))
				s.do(driver.Charge{Op: driver.Reset})
				for range 1 + rng.IntN(corruptLimit) {
					s.do(driver.Charge{Cost: 1 + rng.IntN(2)*rng.IntN(10)})
					s.Advance(time.Duration(rng.Int64N(int64(10 * time.Minute))).Truncate(time.Microsecond))
				}
				damage(t, rng, rdb, s.key)
				s.checkLimit(0)
				s.checkExpired()
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

// A writer writes a state to a key.
type writer = func(ctx context.Context, rdb *redis.Client, key string) error

// command writes a key with a command, whose further arguments are args.
func command(name string, args ...any) writer {
	return func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.Do(ctx, slices.Concat([]any{name, key}, args)...).Err()
	}
}

func text(value string) writer { return command("set", value) }

func members(all ...redis.Z) writer {
	var args []any
	for _, z := range all {
		args = append(args, z.Score, z.Member)
	}
	return command("zadd", args...)
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
		"hash": command("hset", "count", 1), "zset": command("zadd", 1, "x"), "list": command("rpush", 1, 2, 3),
		"set": command("sadd", 1, 2, 3), "stream": command("xadd", "*", "a", "b"),
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
	return []corruption{
		{"a moment ago", 0, text(at(-time.Second))},
		{"1970", 0, text("5")},
		{"zero", 0, text("0")},
		{"a year from now", 0, text(at(365 * 24 * time.Hour))},
		{"the largest time", either, text("9999999999999999")},
		{"a fraction of another rate", 0, text(at(time.Second) + " 281474976710655")},
		{"a time before 1970", either, text("-5")},
		{"a negative fraction", 1, text(at(time.Second) + " -1")},
		{"a debt that is paid", 0, text(at(0) + " 1 1")},
		{"a debt from after it is paid", 1, text(at(0) + " 1 " + at(time.Second))},
		{"a debt of a thousand years", 1, text("9007199254740991 0 1")},
		{"two fractions", 1, text(at(0) + " 1 1 1")},
		{"white space", either, text(" " + at(0))},
		{"a line", either, text(at(0) + "\n")},
		{"hexadecimal", either, text("0x10")},
		{"a hexadecimal year from now", either, text("0x" + strconv.FormatInt(now.AddDate(1, 0, 0).UnixMicro(), 16))},
		{"an exponent", either, text("1e5")},
		{"a plus sign", either, text("+5")},
		{"NUL", either, text(at(0) + "\x00")},
	}
}

// windowCorruptions returns those of fixed windows of a length, and of a quota whose longest period is that.
func windowCorruptions(longest time.Duration) func(now time.Time) []corruption {
	return func(now time.Time) []corruption {
		length, end := longest.Microseconds(), now.UnixMicro()+longest.Microseconds()/2
		state := func(end, length, count int64) writer { return text(windowText(end, length, count)) }
		return []corruption{
			{"a window that has ended", 0, state(now.UnixMicro()-1, length, corruptLimit)},
			{"a year from now", 0, state(now.AddDate(1, 0, 0).UnixMicro(), length, 3)},
			{"more than the limit", 0, state(end, length, 1<<47)},
			{"the largest count", 0, state(end, length, 1<<48-1)},
			{"no events", 0, state(end, length, 0)},
			{"a length of a microsecond", 0, state(end, 1, 3)},
			{"a length of 0", 1, state(end, 0, 3)},
			{"a length that is too long", 1, state(end, length+1, 3)},
			{"the largest length", 1, state(end, 1<<56-1, 3)},
			{"the largest end", 0, state(1<<53-1, length, 1)},
			{"an end beyond integers", 1, state(1<<53, length, 3)},
			{"an end without a count", 1, text("\x06\x47\x00\x00\x00\x00\x00")},
			{"a byte more", 1, text(windowText(end, length, 3) + "\x00")},
			{"zeros", 1, text(strings.Repeat("\x00", 20))},
			{"twenty letters", 1, text("abcdefghijklmnopqrst")},
			{"twenty digits", 1, text("12345678901234567890")},
			{"a bucket", 1, text(strconv.FormatInt(now.UnixMicro(), 10))},
		}
	}
}

func rolloverCorruptions(now time.Time) []corruption {
	length, end := 33*day.Microseconds(), now.UnixMicro()+day.Microseconds()
	state := func(end, count, rest int64) writer { return text(windowText(end, length, count) + bytesOf(rest, 6)) }
	return append(windowCorruptions(33*day)(now), []corruption{
		{"a rest", 0, state(end, 1, 2)},
		{"more than rolls over", 0, state(end, 1, 1<<48-1)},
		{"a rest and no events", 0, state(end, 0, 2)},
		{"a rest of a period that has ended", 0, state(now.UnixMicro()-1, 1<<48-1, 1<<48-1)},
		{"a rest and a length that is too long", 1, text(windowText(end, length+1, 1) + bytesOf(2, 6))},
		{"twenty-six letters", 1, text("abcdefghijklmnopqrstuvwxyz")},
		{"a byte more than a rest", 1, text(windowText(end, length, 3) + bytesOf(2, 6) + "\x00")},
	}...)
}

func pauseCorruptions(now time.Time) []corruption {
	at, hour, longest := now.UnixMicro(), time.Hour.Microseconds(), longestPause.Microseconds()
	state := func(end, written int64) writer { return text(bytesOf(end, 7, written, 7)) }
	return []corruption{
		{"no length", 1, state(at, at)},
		{"an end before the write", 1, state(at+hour, at+hour+1)},
		{"a microsecond more than 366 days", 1, state(at+longest+1, at)},
		{"an end in 100 years", 1, state(at+100*longest, at)},
		{"an end beyond integers", 1, state(1<<53, 1<<53-1)},
		{"no write", 1, state(at+hour, 0)},
		{"the largest numbers", 1, state(1<<56-1, 1<<56-1)},
		{"zeros", 1, text(strings.Repeat("\x00", 14))},
		{"fourteen letters", 1, text("abcdefghijklmn")},
		{"fourteen digits", 1, text("17672256000000")},
		{"thirteen bytes", 1, text(bytesOf(at+hour, 7, at, 7)[:13])},
		{"fifteen bytes", 1, text(bytesOf(at+hour, 7, at, 7) + "\x00")},
		{"a quota", 1, text(windowText(at+hour, hour, 1))},
		{"a pause that has ended", 0, state(at-1, at-hour)},
	}
}

func counterCorruptions(now time.Time) []corruption {
	const length = int64(time.Minute / time.Microsecond) // of an hour in 60
	current := now.UnixMicro() / length
	field := func(n int64) string { return strconv.FormatInt((current+n)%128, 10) }
	state := func(changes ...any) writer {
		return command("hset", append([]any{"o", current - 1, "l", current, "t", 5, field(-1), 3, field(0), 2}, changes...)...)
	}
	all := []corruption{
		{"a window that has left", 0, command("hset", "o", 5, "l", 5, "t", 3, "5", 3)},
		{"no sub-windows", either, command("hset", "o", current, "l", current, "t", 3)},
		{"an oldest sub-window alone", 1, command("hset", "o", current)},
		{"a foreign field", either, state("user", "mallory")},
		{"a sub-window 128", either, state("128", 1)},
		{"a field of an old format", either, state("m", 8192)},
		{"a negative sub-window", either, state("-1", 1)},
		{"more sub-windows than in a window", either, state("7", 3, "8", 3, "9", 3)},
		{"a total that is too small", either, state("t", 1)},
		{"a total of nothing", either, state("t", 0)},
		{"a total that is too large", either, state("t", int64(1<<50))},
		{"the largest total", either, state("t", int64(1<<53))},
		{"a count that is too large", either, state(field(0), int64(1<<50))},
		{"the oldest after the newest", 1, state("o", current+1)},
		{"the oldest in 1970", either, state("o", 0)},
		{"the newest in 1970", either, state("l", 0, "o", 0)},
		{"the newest in a year", either, state("l", current+365*24*60)},
		{"the largest newest", 1, state("l", int64(1<<53-1))},
	}
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
	return bytesOf(number, 6, int64(size), 1, base, 7) + bytesOf(pairs...)
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
	return []corruption{
		{"foreign members above every time", 1, members(
			event(0, ago(time.Second)), event(1, us), z(1<<60, "x"), redis.Z{Score: math.Inf(1), Member: "y"})},
		{"foreign members", 1, members(z(us, "x"), z(us-1, "user:1"), z(5, ""))},
		{"a member of 1 MB", 1, members(z(us, strings.Repeat("x", 1<<20)))},
		{"infinite scores", 1, members(
			redis.Z{Score: math.Inf(1), Member: single(0, us, 0)}, redis.Z{Score: math.Inf(-1), Member: "x"})},
		{"a score with a fraction", 1, members(redis.Z{Score: float64(us) + 0.5, Member: single(0, us, 0)})},
		{"a score of another time", 1, members(z(us-1, single(0, us, 0)))},
		{"a time before 1970", 1, members(z(-5, single(0, us, 0)))},
		{"a header alone", 1, members(z(us, single(0, us)))},
		{"half an offset", 1, members(z(us, single(0, us, 0)+"\x00"))},
		{"entries of 3 bytes", 1, members(z(us, entries(0, 3, us, 0, 3)))},
		{"entries of 8 bytes", 1, members(z(us, entries(0, 8, us, 0, 8)))},
		{"entries of 255 bytes", 1, members(z(us, entries(0, 255, us, 0, 4)))},
		{"entries of no bytes", 1, members(z(us, entries(0, 0, us, 0, 4)))},
		{"a header and entries of no bytes", 1, members(z(us, entries(0, 0, us)))},
		{"an entry of no events", 0, members(bulk(0, us, 0))},
		{"two entries of one time", 0, members(z(us, entries(0, 10, us, 0, 4, 1, 6, 0, 4, 2, 6)))},
		{"counts that decrease", either, members(z(us, entries(0, 10, ago(time.Second), 0, 4, 5, 6, 1e6, 4, 2, 6)))},
		{"an entry beyond the limit", 0, members(bulk(0, us, 1<<47))},
		{"more before the last than before the first", 0, members(event(0, ago(time.Second)), event(1<<47, us))},
		{"less before the last than before the first", 0, members(event(1<<47, ago(time.Second)), event(1, us))},
		{"none before the last", 0, members(event(1<<47, ago(time.Second)), event(0, us))},
		{"a first member that has left, with a time from now", 0, members(z(ago(2*time.Hour), single(0, us+1, 0)), event(1, us))},
		{"the largest number before", 0, members(event(1<<48-1, us))},
		{"a foreign oldest member", 1, members(z(ago(time.Minute), "x"), event(1, us))},
		{"a foreign member before a last member with the number 0", 0, members(
			z(ago(time.Minute), "x"), event(5, ago(2*time.Second)), event(9, ago(time.Second)), event(0, us))},
		{"a foreign member in the middle", 0, members(event(0, ago(time.Minute)), z(ago(time.Second), "x"), event(1, us))},
		{"a foreign newest member", 1, members(event(0, ago(time.Minute)), z(us, "x"))},
		{"a first event after the last", either, members(z(ago(time.Minute), single(0, us, 0)), event(1, ago(time.Second)))},
		{"a first event in the future", either, members(z(ago(time.Minute), single(0, us+1e12, 0)), event(1, us))},
		{"events out of order", either, members(
			z(us, single(0, ago(time.Minute), time.Minute.Microseconds()+5, 0, time.Minute.Microseconds())))},
		{"an event before the window among later events", 0, members(
			z(us, single(0, ago(70*time.Minute), (65*time.Minute).Microseconds(), 0, (70*time.Minute).Microseconds())))},
		{"spans of another width", 1, members(z(us, entries(0, 5, us, 0, 5)))},
		{"an event that has left and one a year from now", 0, members(event(0, ago(2*time.Hour)), event(1, ago(-year)))},
		{"a year ago", 0, members(event(0, ago(year)))},
		{"a year from now", 0, members(event(0, ago(-year)))},
		{"many events a year from now", 0, members(bulk(0, ago(-year), 20))},
		{"the largest time", 0, members(z(1<<53, single(0, 1<<53, 0)))},
		{"the largest offset", 0, members(z(us+1<<32-1, single(0, us, 1<<32-1)))},
	}
}

// placeCorruptions are those of in-flight rules.
func placeCorruptions(now time.Time) []corruption {
	at := strconv.FormatInt(now.UnixMicro(), 10)
	set := func(pairs ...any) writer { return command("zadd", pairs...) } // of a score and a member
	many := func(n int, score any, more ...any) writer {
		all := append([]any{-n, "total"}, more...)
		for i := range n {
			all = append(all, score, 1<<30+i<<20|1)
		}
		return set(all...)
	}
	const number = "7340035" // of cost 3
	return []corruption{
		{"no total", 1, set(at, number)},
		{"only a total", 1, set(-3, "total")},
		{"a total of nothing", 1, set(0, "total")},
		{"a positive total", 1, set(3, "total", at, number)},
		{"a total below the sum", 1, set(-1, "total", at, number, at, "9437187")},
		{"a total of less", 0, set(-2, "total", at, number)},
		{"a total of more", 0, set(-9, "total", at, number)},
		{"a total far above", 1, set(-2_000_000, "total", at, number)},
		{"a fraction as total", 1, set("-3.5", "total", at, number)},
		{"an infinite total", 1, set("-inf", "total", at, number)},
		{"text", 0, set(-3, "total", at, "text")},
		{"older text", 0, set(-9, "total", now.UnixMicro()-1, "text")},
		{"text and an event", 0, set(-6, "total", at, "text", at, number)},
		{"a member of no cost", 0, set(-3, "total", at, "7340032")},
		{"a negative member", 0, set(-3, "total", at, "-7340035")},
		{"another notation", 0, set(-3, "total", at, "7340035.0")},
		{"a member before", 1, set(-9, "text", -3, "total", at, number)},
		{"a member between", 0, set(-3, "total", -1, "text", at, number)},
		{"a member beside", 0, set(-3, "total", -3, "zzz", at, number)},
		{"never renewed", 0, set(-3, "total", 0, number)},
		{"lapsed, of another sum", 1, set(-9, "total", 5, number)},
		{"lapsed text", 0, set(-3, "total", 5, "text", at, number)},
		{"a time in the future", 0, set(-3, "total", "9007199254740991", number)},
		{"a time beyond integers", 0, set(-3, "total", "1e300", number)},
		{"an infinite time", 1, set(-3, "total", "inf", number)},
		{"a fraction as time", 1, set(-3, "total", at+".5", number)},
		{"more than the limit", 0, many(900, at)},
		{"most events", 0, many(1000, at)},
		{"too many events", 1, many(1001, at)},
		{"too many, but lapsed", 0, many(3000, 7)},
		{"most, and some lapsed", 0, many(1000, at, -1300, "total", 7, "8388908")}, // 300 of them
		{"all lapsed, as it is ok", 0, set(-3, "total", 7, number)},
	}
}
