package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A format says how the states of an algorithm stand in Redis. The tests of this file, of states_random_test.go and of
// states_corrupt_test.go have a case for each format.
type format struct {
	name    string
	rule    driver.Definition                // without a name, events and a length
	key     string                           // follows the hash tag in the key of a rule of an hour
	kind    string                           // the Redis type
	corrupt func(now time.Time) []corruption // besides foreign()

	// The numbers of commands of a script on the last one of fillings: a Spend or Peek that is admitted, one that is
	// denied, and an Undo, Credit, Debit or Renew.
	fillings           []filling
	take, deny, adjust int

	// The state of package driver as text, a rule for each kind of state, and a random charge of a state at a time.
	// They are nil if package driver has no such states. storetest compares these algorithms.
	text   func(r *driver.Compiled, s driver.State) string
	rules  []driver.Definition
	random func(rng *rand.Rand, r *driver.Compiled, now int64) (driver.State, driver.Charge)
}

// A filling uses up a limit, or nearly, with calls of one cost within 59/60 of the length.
type filling struct {
	events int
	length time.Duration
	parts  int   // if not 0, the number of sub-windows
	calls  int   // of a cost of events / calls
	bytes  int64 // the bound of MEMORY USAGE
}

var formats = []format{
	{
		name: "token bucket", rule: driver.Definition{Algorithm: driver.TokenBucket}, key: "t2:3600", kind: "string",
		corrupt: bucketCorruptions, fillings: bucketFillings, take: 2, deny: 1, adjust: 2,
		text: bucketText, rules: bucketRules(driver.TokenBucket), random: randomBucket,
	},
	{
		name: "leaky bucket", rule: driver.Definition{Algorithm: driver.LeakyBucket}, key: "q2:3600", kind: "string",
		corrupt: bucketCorruptions, fillings: bucketFillings, take: 2, deny: 1, adjust: 2,
		text: bucketText, rules: bucketRules(driver.LeakyBucket), random: randomBucket,
	},
	{
		name: "fixed window", rule: driver.Definition{Algorithm: driver.FixedWindow}, key: "f3:3600", kind: "string",
		corrupt: windowCorruptions(time.Hour), fillings: windowFillings, take: 2, deny: 1, adjust: 2,
		text: quotaText, rules: windowRules(false), random: randomWindow,
	},
	{
		name: "fixed window from first", rule: driver.Definition{Algorithm: driver.FixedWindow, FromFirst: true},
		key: "s1:3600/first", kind: "string", corrupt: windowCorruptions(time.Hour), fillings: windowFillings, take: 2, deny: 1, adjust: 2,
		text: quotaText, rules: windowRules(true), random: randomWindow,
	},
	{
		name: "sliding window", rule: driver.Definition{Algorithm: driver.SlidingWindow, SubWindows: 60}, key: "c3:3600/60", kind: "hash",
		corrupt: counterCorruptions, fillings: []filling{
			{500, time.Hour, 60, 500, 600}, {1_000_000, time.Hour, 60, 500, 600}, {1_000_000_000, time.Hour, 60, 500, 760},
			{1210, 2 * time.Minute, 120, 120, 800}, // the largest number of sub-windows
		}, take: 6, deny: 2, adjust: 6,
	},
	{
		name: "sliding log", rule: driver.Definition{Algorithm: driver.SlidingLog}, key: "l4:3600", kind: "zset",
		corrupt: logCorruptions, fillings: []filling{
			{500, time.Hour, 0, 500, 5200}, {1000, day, 0, 1000, 10400}, {1500, time.Hour, 0, 1500, 15600}, {1000, time.Hour, 0, 200, 5200},
			{1000, 365 * day, 0, 1000, 10400}, {1_000_000, time.Hour, 0, 4, 280}, {16_100, time.Hour, 0, 2000, 85_000},
		}, take: 20, deny: 20, adjust: 270,
	},
	{
		name: "in flight", rule: driver.Definition{Algorithm: driver.InFlight}, key: "i3:3600", kind: "zset", corrupt: placeCorruptions,
		fillings: []filling{{10, time.Hour, 0, 10, 440}, {1000, time.Hour, 0, 999, 150_000}}, take: 7, deny: 5, adjust: 12,
	},
	{
		name: "in flight by cost", rule: driver.Definition{Algorithm: driver.InFlight, ByCost: true}, key: "i3:3600", kind: "zset",
		corrupt: placeCorruptions, take: 7, deny: 70, adjust: 12,
		fillings: []filling{{10, time.Hour, 0, 10, 440}, {4000, time.Hour, 0, 999, 150_000}},
	},
	{
		name: "quota", rule: driver.Definition{Algorithm: driver.Quota, Calendar: driver.Month}, key: "d1:month", kind: "string",
		corrupt: windowCorruptions(33 * day), fillings: windowFillings, take: 2, deny: 1, adjust: 2,
		text: quotaText, rules: quotaRules(0), random: randomWindow,
	},
	{
		name: "quota with a rollover", rule: driver.Definition{Algorithm: driver.Quota, Calendar: driver.Month, Rollover: 3}, key: "d1:month", kind: "string",
		corrupt: rolloverCorruptions, fillings: windowFillings, take: 2, deny: 1, adjust: 2,
		text: quotaText, rules: quotaRules(3), random: randomRollover,
	},
	{
		name: "pause", rule: driver.Definition{Algorithm: driver.Pause}, key: "p1:0", kind: "string", corrupt: pauseCorruptions,
		fillings: []filling{{1, time.Minute, 0, 1, 140}, {1, longestPause, 0, 1, 140}}, take: 2, deny: 1, adjust: 2,
		text: pauseText, rules: []driver.Definition{{Algorithm: driver.Pause}, {Algorithm: driver.Pause, Shadow: true}}, random: randomPause,
	},
}

const longestPause = 366 * day

var (
	bucketFillings = []filling{
		{1000, 100 * time.Second, 0, 4, 120}, {500, time.Hour, 0, 4, 120}, {3_000_000, 100 * time.Second, 0, 4, 120},
		{999_983, 365 * 24 * time.Hour, 0, 4, 152},
	}
	windowFillings = []filling{{500, time.Hour, 0, 499, 152}, {1_000_000_000, time.Hour, 0, 499, 152}}
)

// compile returns the rule of a format with n events. For a pause, it has no length.
func (f *format) compile(t testing.TB, name string, n int, length time.Duration) *driver.Compiled {
	t.Helper()
	d := f.rule
	d.Name = name
	switch k := d.Kind(); {
	case k.Closes:
	case k.Calendar:
		d.Events = n
	case k.Holds:
		d.Events, d.Hold = n, min(length, day)
	default:
		d.Events, d.Per = n, length
	}
	return compile(t, d)
}

func compile(t testing.TB, d driver.Definition) *driver.Compiled {
	t.Helper()
	rule, err := d.Compile()
	testkit.Must(t, err)
	return rule
}

// during returns r with the months around at if it is a quota.
func during(r *driver.Compiled, at time.Time) *driver.Compiled {
	if !r.Kind.Calendar {
		return r
	}
	first := func(n time.Month) int64 {
		return time.Date(at.Year(), at.Month()+n, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	}
	return r.During(driver.Periods{Start: first(0), Boundary: first(1), End: first(2)})
}

// used returns the charge that begins a state of r: a Spend, or the Debit of a pause.
func used(key string, r *driver.Compiled, cost int, length time.Duration) driver.Charge {
	switch k := r.Kind; {
	case k.Closes:
		return driver.Charge{Key: key, Rule: r, Op: driver.Debit, Cost: 1, Pause: min(length, longestPause)}
	case k.Holds && !r.ByCost:
		cost = 1
	}
	return driver.Charge{Key: key, Rule: r, Cost: cost}
}

// A subject is the state of the key "k" of a rule, in a Store whose clock only the test advances.
type subject struct {
	*storetest.Harness
	t    testing.TB
	s    *redisstore.Store
	rule *driver.Compiled
	key  string // in Redis
}

func newSubject(t testing.TB, rdb redis.UniversalClient, rule *driver.Compiled, opts ...redisstore.Option) *subject {
	h := harness(rdb, opts...)
	s := h.Store.(*redisstore.Store)
	return &subject{h, t, s, during(rule, h.Now()), s.StateKey("k", rule)}
}

// do executes a charge of the rule of s, unless c has another one, and returns it.
func (s *subject) do(c driver.Charge) driver.Charge {
	s.t.Helper()
	if c.Rule == nil {
		c.Rule = s.rule
	}
	if c.Key = "k"; c.Cost == 0 || c.Rule.Kind.Holds && !c.Rule.ByCost {
		c.Cost = 1
	}
	charges := []driver.Charge{c}
	testkit.Must(s.t, storetest.Do(s.t.Context(), s.Store, charges))
	return charges[0]
}

// adjusts returns the ops of Adjust without Reset that s has.
func (s *subject) adjusts() []driver.Op {
	if s.rule.Kind.Holds {
		return []driver.Op{driver.Undo, driver.Renew}
	}
	return []driver.Op{driver.Credit, driver.Debit, driver.Undo}
}

// fill executes the calls of a filling on a new state, and returns them.
func (f *format) fill(t *testing.T, rdb *redis.Client, l filling) (s *subject, all []driver.Charge) {
	t.Helper()
	testkit.Must(t, rdb.FlushAll(t.Context()).Err())
	own := *f
	if l.parts > 0 {
		own.rule.SubWindows = l.parts
	}
	// The memory includes the key, with a prefix and a name of usual length.
	rule := own.compile(t, "requests per second", l.events, l.length)
	s = newSubject(t, rdb, rule, redisstore.Prefix(redisstore.DefaultPrefix))
	for range l.calls {
		c := s.do(used("k", s.rule, l.events/l.calls, l.length))
		if !c.Verdict.Allowed {
			t.Fatalf("the verdict is %+v, want an admission", c.Verdict)
		}
		all = append(all, c)
		s.Advance((l.length / 60 * 59 / time.Duration(l.calls)).Truncate(time.Microsecond))
	}
	return s, all
}

// hostile are identities that a client might choose. Those with letters contain "mallory", except "{x}".
var hostile = []string{
	"}", "{", "{}", "}{", "{x}", "{mallory}", "mallory}", "{}mallory", "mallory\x00", "mallory\r\nDEL mallory\r\n", "mallory mallory",
	"mallory:log", "mallory*?[a-z]", "m\u00e4llory mallory", "\xff\xfe\xfdmallory", "%6dallory", "192.0.2.1 mallory",
	strings.Repeat("mallory", 100<<10/7), strings.Repeat("x", 100<<10) + "mallory",
}

// A key has the version of the format, the length and the name of its rule, and neither shows nor confuses
// identities. All keys of an identity are in one slot. A Spend of a pause writes none.
func TestStates_keys(t *testing.T) {
	t.Parallel()
	for _, a := range testkit.Names() {
		if !slices.ContainsFunc(formats, func(f format) bool { return f.rule.Algorithm == a }) {
			t.Errorf("formats has no row for %v", a)
		}
	}
	rdb := redistest.NewServer(t).Client()
	slots := redistest.SharedCluster(t).Nodes[0].Client()
	longestPrefix, longestName := strings.Repeat("p", 26), strings.Repeat("n", 64)
	kinds := make(map[string]string) // the type of each key
	n := 0
	for _, opts := range [][]redisstore.Option{
		nil,
		{redisstore.Prefix(longestPrefix)},
		{redisstore.Prefix(""), redisstore.KeySecret([]byte("sixteen bytes...")), redisstore.Unbatched()},
	} {
		s := redisstore.New(rdb, "test", append(opts, redisstore.Timeout(waitLimit))...)
		for _, identity := range hostile {
			slot := int64(-1)
			for i := range formats {
				f := &formats[i]
				if slices.ContainsFunc(formats[:i], func(o format) bool { return o.key == f.key }) {
					continue
				}
				for _, name := range []string{"a {b} c*", longestName} {
					rule := during(f.compile(t, name, 10, time.Hour), time.Now())
					if rule.Kind.Closes {
						testkit.Must(t, s.Take(t.Context(), []driver.Charge{{Key: identity, Rule: rule, Cost: 1}}))
						if rdb.Exists(t.Context(), s.StateKey(identity, rule)).Val() != 0 {
							t.Errorf("a Spend of a %s has written a key", f.name)
						}
					}
					testkit.Must(t, storetest.Do(t.Context(), s, []driver.Charge{used(identity, rule, 1, time.Hour)}))
					key := s.StateKey(identity, rule)
					kinds[key] = f.kind
					n++
					if want := "}" + f.key + ":" + name; !strings.HasSuffix(key, want) {
						t.Errorf("the key of a %s is %q, want %q at its end", f.name, key, want)
					}
					got, err := slots.ClusterKeySlot(t.Context(), key).Result()
					testkit.Must(t, err)
					if slot >= 0 && got != slot {
						t.Errorf("rules of %.20q have the slots %d and %d", identity, slot, got)
					}
					slot = got
				}
			}
		}
	}
	if len(kinds) != n {
		t.Errorf("%d states have %d keys, want one each", n, len(kinds))
	}
	keys := keysOf(t, rdb, "")
	if len(keys) != n {
		t.Errorf("there are %d keys, want %d", len(keys), n)
	}
	for _, key := range keys {
		expiryOf(t, rdb, key)
		if kind := rdb.Type(t.Context(), key).Val(); kinds[key] != kind {
			t.Errorf("%q is a %s, want %q", key, kind, kinds[key])
		}
		if len(key) > 134 { // 128 without "/first", "/60" or a month
			t.Errorf("%q has %d bytes, want at most 134", key, len(key))
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q has characters that cannot be printed", key)
		}
		if strings.Contains(key, "mallory") || strings.Contains(key, "xxxxxxxx") {
			t.Errorf("%q shows its identity", key)
		}
	}
}

// A key expires when its state equals that of a new key, and soon after.
func TestStates_ttl(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const most = 20 * time.Millisecond // for which an unused key may be kept
	rdb := redistest.Shared(t).Client()
	for _, f := range formats {
		for _, limit := range []struct {
			events int
			length time.Duration
		}{
			{3, time.Second}, {7, 1100 * time.Millisecond}, {5, 1_999_999 * time.Microsecond}, {1000, time.Second}, {60, time.Minute},
			{500, time.Hour}, {10, day}, {10, century},
		} {
			t.Run(fmt.Sprintf("%s/%d in %v", f.name, limit.events, limit.length), func(t *testing.T) {
				t.Parallel()
				s := newStore(rdb)
				rule := during(f.compile(t, "rule", limit.events, limit.length), time.Now())
				late := most + time.Duration(rule.Constants.SubWindow)*time.Microsecond
				for n := 1; n <= min(limit.events, 40); n++ {
					identity := fmt.Sprint(n)
					check := func(c driver.Charge) driver.Receipt {
						t.Helper()
						charges := []driver.Charge{c}
						before := rdb.Time(t.Context()).Val()
						testkit.Must(t, storetest.Do(t.Context(), s, charges))
						reset := charges[0].Verdict.ResetAfter
						if rule.Rollover > 0 {
							reset += 33 * day // a bound of the length of the next period
						}
						after := rdb.Time(t.Context()).Val()
						key := expiryOf(t, rdb, s.StateKey(identity, rule))
						if want := before.Add(reset); key.latest.Before(want) {
							t.Errorf("op %d of %d: the key expires %v before its state equals that of a new key", c.Op, c.Cost, want.Sub(key.latest))
						}
						if want := after.Add(reset + late); key.earliest.After(want) {
							t.Errorf("op %d of %d: the key expires %v too late", c.Op, c.Cost, key.earliest.Sub(want))
						}
						return charges[0].Receipt
					}
					receipt := check(used(identity, rule, n, limit.length))
					check(used(identity, rule, 1, limit.length))
					if rule.Kind.Holds {
						testkit.Must(t, rdb.PExpire(t.Context(), s.StateKey(identity, rule), 2*day).Err())
						check(driver.Charge{Key: identity, Rule: rule, Op: driver.Renew, Cost: 1, Receipt: receipt})
					}
				}
			})
		}
	}
}

// A key has a TTL after a part of the used events was freed, by a Credit or by the undo of a denied decision about two
// slots, and after the clock has stepped back.
func TestStates_ttl_freed(t *testing.T) {
	t.Parallel()
	rdb, cluster := redistest.Shared(t).Client(), redistest.SharedCluster(t).Client()
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			check := func(when string, rdb redis.UniversalClient, key string) {
				t.Helper()
				if ttl := rdb.PTTL(t.Context(), key).Val(); ttl <= 0 {
					t.Errorf("%s, the TTL is %v, want a positive one", when, ttl)
				}
			}
			rule := f.compile(t, "rule", 100, time.Hour)
			free := driver.Charge{Op: driver.Credit}
			if rule.Kind.Holds {
				free.Op = driver.Undo
			}
			for _, n := range []int{1, 2, 15, 20} {
				s := newSubject(t, rdb, rule)
				s.do(used("k", s.rule, n, time.Hour))
				free.Receipt = s.do(used("k", s.rule, 1, time.Hour)).Receipt
				s.do(free)
				check(fmt.Sprintf("after %d and 1 less 1", n), rdb, s.key)
			}

			back := []driver.Charge{{Op: driver.Credit}}
			if rule.Kind.Holds {
				back = []driver.Charge{{}, {Op: driver.Peek}, {Op: driver.Undo}, {Op: driver.Renew}}
			}
			if rule.ByCost {
				back = append(back, driver.Charge{AtMost: true})
			}
			s := newSubject(t, rdb, f.compile(t, "two", 2, time.Hour))
			for range 2 {
				s.do(used("k", s.rule, 1, time.Hour))
			}
			for _, c := range back {
				if !rule.Kind.Closes { // a Credit does not change a pause
					testkit.Must(t, rdb.Persist(t.Context(), s.key).Err())
				}
				s.Advance(-time.Second)
				s.do(c)
				check(fmt.Sprintf("after a step back and op %d", c.Op), rdb, s.key)
			}

			if rule.Kind.Closes {
				return // no decision changes a pause
			}
			store, full := newStore(cluster), during(f.compile(t, "full", 1, time.Hour), time.Now())
			rule = during(rule, time.Now())
			for i := range 20 {
				one := driver.Charge{Key: fmt.Sprint("k", i), Rule: rule, Cost: 1}
				other := driver.Charge{Key: fmt.Sprint("full", i), Rule: full, Cost: 1}
				for _, c := range []driver.Charge{one, other} {
					testkit.Must(t, store.Take(t.Context(), []driver.Charge{c}))
				}
				together := []driver.Charge{one, other}
				testkit.Must(t, store.Take(t.Context(), together))
				if together[1].Verdict.Allowed {
					t.Fatalf("the verdict is %+v, want a denial", together[1].Verdict)
				}
				check("after a denied decision", cluster, store.StateKey(one.Key, rule))
			}
		})
	}
}

// The memory of a state does not depend on its limit, except for a sliding window with its sub-windows, and for a sliding
// log and an in-flight rule with their events.
func TestStates_size(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	long := strings.Repeat("k", 1000)
	testkit.Must(t, rdb.Set(t.Context(), long, "", 0).Err())
	counted := memoryOf(t, rdb, long) > 1000 // Valkey 8.1.1 leaves out the name of a key and its entry
	for _, f := range formats {
		for _, l := range f.fillings {
			t.Run(fmt.Sprintf("%s/%d in %v", f.name, l.events, l.length), func(t *testing.T) {
				s, _ := f.fill(t, rdb, l)
				n := memoryOf(t, rdb, s.key)
				t.Logf("%d bytes, %.2f for each of %d calls", n, float64(n)/float64(l.calls), l.calls)
				if n > l.bytes || counted && n < l.bytes/2 {
					t.Errorf("the state has %d bytes, want at most %d, and at least half of that", n, l.bytes)
				}
			})
		}
	}
}

// The number of commands of a charge is bounded, which bounds its time, see DESIGN.md.
func TestStates_commands(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			l := f.fillings[len(f.fillings)-1]
			s, all := f.fill(t, rdb, l)
			check := func(c driver.Charge) {
				t.Helper()
				calls, sum := commandsOf(t, rdb, func() { c = s.do(c) })
				most, denied := f.adjust, false
				if c.Op.Asks() {
					if most, denied = f.take, !c.Verdict.Allowed; denied {
						most = f.deny
					}
				}
				t.Logf("op %d of %d, denied %t: %d commands", c.Op, c.Cost, denied, sum)
				if sum > most || sum == 0 {
					t.Errorf("op %d of %d, denied %t: %d commands, want at most %d: %v", c.Op, c.Cost, denied, sum, most, calls)
				}
			}
			for _, cost := range []int{1, l.events / 2, l.events, l.events + 1} {
				check(driver.Charge{Op: driver.Peek, Cost: cost})
				check(driver.Charge{Cost: cost})
			}
			for _, op := range s.adjusts() {
				for _, i := range []int{l.calls - 1, l.calls - 2, l.calls - 1000, l.calls / 2, 0} {
					if i < 0 || i >= l.calls {
						continue
					}
					c := all[i]
					c.Op, c.Verdict = op, driver.Verdict{}
					check(c)
				}
			}
			if !s.rule.Kind.Holds {
				check(driver.Charge{Op: driver.Credit, Cost: l.events / 2})
			}
		})
	}
}
