package redisstore_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
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

// A poisoned key neither opens its limit nor fails, and is sane again after a
// period at the latest.
func TestPoison(t *testing.T) {
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
				if n := v.s.Stats().Corrupt; n != counted {
					t.Errorf("once it is healed, %d more states are counted as corrupt", n-counted)
				}
			})
		}
	}
}

// Damage that nobody thought of: states that were written by a script, changed
// at random.
func TestPoisonRandom(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
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
