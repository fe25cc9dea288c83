package algo

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// level is a token bucket as the textbooks draw it: a level in exact fractions
// and the time of its last update. It knows nothing of Bucket's arithmetic.
type level struct {
	tokens, rate, burst *big.Rat
	at                  int64
}

func newLevel(events, period, burst int64) *level {
	return &level{tokens: big.NewRat(burst, 1), rate: big.NewRat(events, period), burst: big.NewRat(burst, 1)}
}

func (l *level) refill(now int64) {
	l.tokens.Add(l.tokens, new(big.Rat).Mul(l.rate, big.NewRat(now-l.at, 1)))
	if l.tokens.Cmp(l.burst) > 0 {
		l.tokens.Set(l.burst)
	}
	l.at = now
}

func (l *level) take(n int64) bool {
	if l.tokens.Cmp(big.NewRat(n, 1)) < 0 {
		return false
	}
	l.tokens.Sub(l.tokens, big.NewRat(n, 1))
	return true
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ceilRat(r *big.Rat) int64 {
	return -floor(new(big.Rat).Neg(r))
}

// The bucket answers as the textbook's, in every field, for any rate, in debt and
// out of it.
func TestBucketEqualsTextbook(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const second, hour, year = 1_000_000, 3_600_000_000, 31_536_000_000_000
	for _, limit := range [][3]int64{
		{1, 1, 1}, {10, second, 10}, {10, second, 20}, {7, second, 3}, {30_000, second, 30_000}, {999_983, second, 5},
		{1_000_000, second, 1_000_000}, {3, 100_000, 3}, {2, 1000, 2}, {500, hour, 500}, {997, year, 997},
		{1, year, 99}, {13, 11, 6}, {1_000_000_007, hour, 1_000_000_007}, {year - 1, year, year - 1},
	} {
		b, err := NewBucket(limit[0], limit[1], limit[2])
		if err != nil {
			t.Fatalf("%v: %v", limit, err)
		}
		naive, state, now := newLevel(limit[0], limit[1], limit[2]), Level{}, int64(1<<50)
		naive.at = now
		for step := range 5000 {
			switch rng.IntN(4) {
			case 0:
				now++
			case 1:
				now += rng.Int64N(b.Unit.Micros*3 + 3)
			case 2:
				now += rng.Int64N(b.Full.Micros + 2)
			}
			naive.refill(now)
			cost := 1 + rng.Int64N(limit[2])
			if rng.IntN(2) == 0 {
				cost = 1
			}
			used, moved := b.Used(state, now)
			if moved {
				t.Fatalf("%v, step %d: a state of its own is out of range", limit, step)
			}
			v := b.Verdict(used, cost, Never, true)
			missing := new(big.Rat).Sub(big.NewRat(cost, 1), naive.tokens)
			want := Verdict{Allowed: naive.take(cost), Remaining: max(0, floor(naive.tokens))}
			want.Reset = ceilRat(new(big.Rat).Quo(new(big.Rat).Sub(naive.burst, naive.tokens), naive.rate))
			want.Window = ceilRat(new(big.Rat).Quo(big.NewRat(want.Remaining, 1), naive.rate))
			if want.Remaining == 0 {
				missing := new(big.Rat).Sub(big.NewRat(1, 1), naive.tokens)
				want.Window = ceilRat(missing.Quo(missing, naive.rate))
			}
			if !want.Allowed {
				want.Retry = ceilRat(missing.Quo(missing, naive.rate))
				want.Window = want.Retry
			}
			if v != want {
				t.Fatalf("%v, step %d, cost %d:\n got %+v\nwant %+v", limit, step, cost, v, want)
			}
			if v.Allowed {
				state = b.Spend(used, now, cost)
			}
			bill := 1 + rng.Int64N(2*limit[2])
			used, _ = b.Used(state, now)
			if rng.IntN(8) == 0 && used.Micros+b.Price(bill).Micros < Horizon {
				state = b.Debit(used, now, bill)
				naive.tokens.Sub(naive.tokens, big.NewRat(bill, 1))
			}
		}
	}
}

func TestBucketRefund(t *testing.T) {
	b, _ := NewBucket(7, 1_000_000, 10)
	now := int64(1 << 50)
	state := b.Spend(Span{}, now, 6)
	used, _ := b.Used(state, now)
	if got, want := b.Credit(used, now, 2), b.Spend(Span{}, now, 4); got != want {
		t.Errorf("6 less 2 is %+v, want %+v", got, want)
	}
	for _, n := range []int64{6, 7, 100, math.MaxInt64} {
		if got := b.Credit(used, now, n); got != (Level{}) {
			t.Errorf("6 less %d is %+v, want a full bucket", n, got)
		}
	}
}

func TestBucketRefusesWhatIsNotExact(t *testing.T) {
	for _, c := range []struct {
		events, period, burst int64
		want                  error
	}{
		{1, Horizon, 1, nil},
		{1, Horizon, 2, ErrTooLong},
		{1, 1_000_000, math.MaxInt64, ErrTooMany},
		{1, 1_000_000_000, 1<<48 - 1, ErrTooLong},
		{math.MaxInt64, math.MaxInt64 - 1, 1, ErrTooFine},
		{math.MaxInt64, 1, 1, ErrTooFine},
		{1 << 48, 1, 1, nil},
		{1 << 48, 1, 1<<48 - 1, nil},
		{1 << 48, 1, 1 << 48, ErrTooMany},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, ErrTooMany},
	} {
		if _, err := NewBucket(c.events, c.period, c.burst); !errors.Is(err, c.want) {
			t.Errorf("%d per %d burst %d: %v, want %v", c.events, c.period, c.burst, err, c.want)
		}
	}
}

// A state of a larger limit, or from the future, is an empty bucket once; its
// fraction never leaves the new denominator.
func TestBucketReadsForeignState(t *testing.T) {
	b, _ := NewBucket(3, 1_000_000, 5)
	now := int64(1 << 50)
	for _, s := range []Span{{now + 10_000_000, 0}, {now + 10_000_000, 999}, {math.MaxInt64 / 2, 1}} {
		if used, moved := b.Used(Level{Until: s}, now); !moved || used != b.Full {
			t.Errorf("%+v reads as %+v, %v", s, used, moved)
		}
	}
	if used, moved := b.Used(Level{Until: Span{now + 5, 999}}, now); moved || used != (Span{6, 0}) {
		t.Errorf("a finer fraction reads as %+v, %v", used, moved)
	}
}
