package memstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// A flood makes states of one kind, one for each key.
type flood struct {
	name string
	rule core.Rule
	debt bool // each key settles for more than its limit
}

var floods = []flood{
	{name: "bucket", rule: core.TokenBucket("bucket", core.PerHour(5))},
	{name: "debt", rule: core.TokenBucket("debt", core.PerHour(5)), debt: true},
	{name: "window", rule: core.FixedWindow("window", core.PerHour(5))},
	{name: "log", rule: core.SlidingLog("log", core.PerHour(5))},
	{name: "counter", rule: core.SlidingWindow("counter", core.PerHour(5))},
}

func (f *flood) run(t *testing.T, s *memstore.Store, prefix string, keys int) {
	t.Helper()
	l := core.Must(core.New(s, f.rule))
	for i := range keys {
		key := prefix + strconv.Itoa(i)
		if !f.debt {
			allow(t, l, key)
		} else if err := l.Debit(context.Background(), key, 8); err != nil {
			t.Fatal(err)
		}
	}
}

// orders returns each rotation of floods, forwards and backwards, so that each flood
// comes first, comes last and follows each of its neighbours.
func orders() (all [][]flood) {
	n := len(floods)
	for first := range n {
		var forwards, backwards []flood
		for i := range n {
			forwards = append(forwards, floods[(first+i)%n])
			backwards = append(backwards, floods[(first-i+n)%n])
		}
		all = append(all, forwards, backwards)
	}
	return all
}

func frozen(s *memstore.Store) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	s.SetClock(func() int64 { return now })
}

func TestStore_Bytes_FloodsInAnyOrder(t *testing.T) {
	const maxKeys = 1 << 12 // 4 shards
	for _, order := range orders() {
		s := memstore.New(memstore.MaxMemory(40 * maxKeys))
		frozen(s)
		sequence := ""
		for rules, f := range order {
			sequence += " " + f.name
			f.run(t, s, f.name, maxKeys*5/4)
			if bytes, bound := s.Bytes(), s.MaxBytes(rules+1); bytes > bound {
				t.Errorf("after%s: got %d bytes, expected at most %d", sequence, bytes, bound)
			}
			if weight, want := s.Weight(); s.Recount() != weight {
				t.Errorf("after%s: the entries weigh %d, expected %d of %d", sequence, s.Recount(), weight, want)
			}
		}
	}
}

// A new key looks for a victim in each of four tables, 24 slots at a time, and needs
// the room of up to three victims.
func TestStore_NewKey_SlotsVisitedAfterFloods(t *testing.T) {
	const maxKeys, perEviction, evictions = 1 << 12, 4 * 24, 3
	for _, order := range orders() {
		s := memstore.New(memstore.MaxMemory(40 * maxKeys))
		frozen(s)
		sequence := ""
		for _, f := range order {
			sequence += " " + f.name
			f.run(t, s, f.name, maxKeys*5/4)
			for _, probe := range floods {
				const keys = 100
				before := s.Visited()
				probe.run(t, s, sequence, keys)
				if got := (s.Visited() - before) / keys; got > evictions*perEviction {
					t.Errorf("after%s: a new %s visits %d slots, expected at most %d", sequence, probe.name, got, evictions*perEviction)
				}
			}
		}
	}
}

// maxSearch is a bound on the slots that a search for a new key visits on average. In
// tables that are seven eighths full with random hashes, they are 33.
const maxSearch = 50

// Idle entries of one kind give way to entries of another kind. If they gave way from
// one end of the table to the other, the entries would be crowded when the table shrinks.
func TestStore_SearchLength_IdleKeysGiveWay(t *testing.T) {
	const maxKeys = 1 << 14
	s := memstore.New(memstore.MaxMemory(40 * maxKeys))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	s.SetClock(func() int64 { return now })
	floods[0].run(t, s, "idle", maxKeys)
	now += 2 * time.Hour.Microseconds()
	for i := range 10 {
		floods[2].run(t, s, fmt.Sprint("part", i), maxKeys/10)
		if got := s.SearchLength(); got > maxSearch {
			t.Fatalf("a search visits %.0f slots, expected at most %d", got, maxSearch)
		}
	}
	if stats := s.Stats(); stats.Overflowed > 0 {
		t.Errorf("%d keys found no room, expected 0", stats.Overflowed)
	}
}

// In a full store of keys that are idle a second after their only event, each new key
// takes the place of an idle one. If they were taken from one end of the table to the
// other, new keys would crowd ahead of that place.
func TestStore_SearchLength_KeysOfOneSecond(t *testing.T) {
	for _, maxKeys := range []int{12_000, 1 << 14, 20_000} {
		s := memstore.New(memstore.MaxMemory(40 * maxKeys))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		s.SetClock(func() int64 { return now })
		l := core.Must(core.New(s, core.TokenBucket("r", core.PerSecond(1))))
		for i := range 6 * maxKeys {
			now += int64(1_100_000 / maxKeys)
			allow(t, l, strconv.Itoa(i))
			if i%maxKeys == 0 && s.SearchLength() > maxSearch {
				t.Errorf("room for %d keys: a search visits %.0f slots, expected at most %d", maxKeys, s.SearchLength(), maxSearch)
			}
		}
	}
}

// A log of a few events weighs up to twice as much as when it was new. When no other
// entry may go, it has to stay as small as it was.
func TestStore_Bytes_SmallLogsGrowInAFullStore(t *testing.T) {
	const maxKeys, events = 1024, 4
	for _, rule := range []core.Rule{
		core.SlidingLog("log", core.PerHour(events)),
		core.SlidingWindow("counter", core.PerHour(events)),
	} {
		s := memstore.New(memstore.MaxMemory(40 * maxKeys))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		s.SetClock(func() int64 { now += 100_000; return now })
		l := core.Must(core.New(s, rule))
		admitted := make([]int, maxKeys)
		for range 2 * events {
			for key := range admitted {
				// Two events are half of the limit: such a log never goes.
				for range 2 {
					if allow(t, l, strconv.Itoa(key)).Allowed {
						admitted[key]++
					}
				}
			}
		}
		if bytes, bound := s.Bytes(), s.MaxBytes(1); bytes > bound {
			t.Errorf("%v: got %d bytes, expected at most %d", &rule, bytes, bound)
		}
		for key, n := range admitted {
			if n > events {
				t.Errorf("%v: key %d was admitted %d times, limit %d", &rule, key, n, events)
			}
		}
	}
}

// Random mixtures of rules, keys, ops and times keep the bound, the weights and the
// limits. A rule of one or two events is never forgotten, because one event is half
// of it; so its keys can be held to their limit.
func TestStore_RandomMixture(t *testing.T) {
	const steps, span = 40_000, 50 * time.Minute
	kinds := []func(string, core.Limit) core.Rule{
		core.TokenBucket, core.LeakyBucket, core.FixedWindow, core.SlidingLog, core.SlidingWindow,
	}
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			ctx := context.Background()
			rng := rand.New(rand.NewPCG(seed, 7))
			s := memstore.New(memstore.MaxMemory(40 * (512 << rng.IntN(4))))
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
			s.SetClock(func() int64 { return now })
			var strict, loose []*core.Limiter
			var limits []int
			for i, kind := range kinds {
				limits = append(limits, 1+rng.IntN(2))
				limit := core.PerHour(limits[i])
				if i < 2 { // a bucket must not refill during the test
					limit = core.PerDay(1).WithBurst(limits[i])
				}
				strict = append(strict, core.Must(core.New(s, kind(fmt.Sprint("strict", i), limit))))
				for j, l := range []core.Limit{core.PerHour(10), core.PerMinute(100), core.PerSecond(3)} {
					loose = append(loose, core.Must(core.New(s, kind(fmt.Sprint("loose", i, j), l))))
				}
			}
			rules := len(strict) + len(loose)
			admitted := make([]map[string]int, len(strict))
			for i := range admitted {
				admitted[i] = make(map[string]int)
			}
			phase := rng.IntN(len(loose))
			for step := range steps {
				if step%4000 == 0 {
					phase = rng.IntN(len(loose)) // most keys are of one rule for a while
				}
				now += rng.Int64N(2 * span.Microseconds() / steps)
				if rng.IntN(8) == 0 {
					i := rng.IntN(len(strict))
					key := strconv.Itoa(rng.IntN(200))
					if allow(t, strict[i], key).Allowed {
						admitted[i][key]++
					}
					continue
				}
				l := loose[phase]
				if rng.IntN(4) == 0 {
					l = loose[rng.IntN(len(loose))]
				}
				key := strconv.Itoa(rng.IntN(5000))
				var err error
				switch rng.IntN(16) {
				case 0:
					err = l.Debit(ctx, key, 1+rng.IntN(300))
				case 1:
					err = l.Credit(ctx, key, 1+rng.IntN(3))
				case 2:
					_, err = l.Reset(ctx, key)
				case 3:
					_, err = l.AllowN(ctx, key, 2)
				default:
					_, err = l.Allow(ctx, key)
				}
				if err != nil {
					t.Fatal(err)
				}
				if step%500 == 0 {
					if bytes, bound := s.Bytes(), s.MaxBytes(rules); bytes > bound {
						t.Fatalf("step %d: got %d bytes, expected at most %d", step, bytes, bound)
					}
					if weight, _ := s.Weight(); s.Recount() != weight {
						t.Fatalf("step %d: the entries weigh %d, expected %d", step, s.Recount(), weight)
					}
				}
			}
			for i, keys := range admitted {
				for key, n := range keys {
					if n > limits[i] {
						t.Errorf("rule %d: key %s was admitted %d times, limit %d", i, key, n, limits[i])
					}
				}
			}
		})
	}
}
