package redisstore_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
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

// A pair is a Store in Redis and the reference store. Every charge goes to both, and their verdicts
// and receipts must be equal.
type pair struct {
	*storetest.Harness
	t     *testing.T
	rdb   *redis.Client
	ref   *storetest.Fake
	rule  *driver.Compiled
	key   string          // in Redis
	held  []driver.Charge // admitted, with their receipts
	trace []string
}

func newPair(t *testing.T, rdb *redis.Client, rule core.Rule) *pair {
	h := harness(rdb)
	return &pair{
		Harness: h, t: t, rdb: rdb, rule: testkit.Compiled(rule), key: h.Store.(*redisstore.Store).Key("k", rule),
		ref: &storetest.Fake{Clock: func() int64 { return h.Now().UnixMicro() }},
	}
}

// do sends a charge to both stores and returns the charge with its verdict.
func (p *pair) do(c driver.Charge) driver.Charge {
	p.t.Helper()
	c.Key = "k"
	if c.Rule == nil {
		c.Rule = p.rule
	}
	p.trace = append(p.trace, fmt.Sprintf("op %d, cost %d of %v, receipt %v, at %d", c.Op, c.Cost, c.Rule, c.Receipt, p.Now().UnixMicro()))
	one := func(s driver.Store) (driver.Charge, driver.Receipt) {
		charges := []driver.Charge{c}
		testkit.Must(p.t, storetest.Do(p.t.Context(), s, charges))
		return charges[0], charges[0].Receipt
	}
	got, gotReceipt := one(p.Store)
	want, wantReceipt := one(p.ref)
	if got.Verdict != want.Verdict || gotReceipt != wantReceipt || got.Cost != want.Cost {
		p.t.Fatalf("step %d: the verdict and receipt are\n\t%+v, %+v, want\n\t%+v, %+v\nafter\n%s", len(p.trace), got.Verdict, gotReceipt,
			want.Verdict, wantReceipt, strings.Join(p.trace[max(0, len(p.trace)-20):], "\n"))
	}
	if c.Op == driver.Spend && got.Verdict.Allowed {
		p.held = append(p.held, got)
	}
	return got
}

func (p *pair) spend(cost int) driver.Verdict {
	return p.do(driver.Charge{Op: driver.Spend, Cost: cost}).Verdict
}

// undo undoes the i-th held charge.
func (p *pair) undo(i int) {
	c := p.held[i]
	p.held = slices.Delete(p.held, i, i+1)
	c.Op, c.AtMost = driver.Undo, false
	p.do(c)
}

// A logShape is the size of a sliding log in Redis.
type logShape struct{ events, entries, members int }

// include raises s to the maximum of s and other.
func (s *logShape) include(other logShape) {
	*s = logShape{max(s.events, other.events), max(s.entries, other.entries), max(s.members, other.members)}
}

// checkLog reads the sorted set of a sliding log and checks the layout that lua/sliding_log.lua
// describes.
func (p *pair) checkLog() (shape logShape) {
	t := p.t
	t.Helper()
	integer := func(b string) int64 { return int64(new(big.Int).SetBytes([]byte(b)).Uint64()) }
	width := 4
	for p.rule.Constants.Period >= 1<<(8*width) {
		width++
	}
	newest, stop := int64(0), int64(-1)
	for _, z := range p.rdb.ZRangeWithScores(t.Context(), p.key, 0, -1).Val() {
		b := z.Member.(string)
		size := int(b[6])
		if size != width && size != width+6 || (len(b)-14)%size != 0 || len(b) == 14 || len(b) > 64 {
			t.Fatalf("a member has %d bytes, with entries of %d bytes and spans of %d bytes", len(b), size, width)
		}
		number, base, through := integer(b[:6]), integer(b[7:14]), int64(0)
		if stop >= 0 && number != stop {
			t.Fatalf("a member begins with the number %d, want %d", number, stop)
		}
		for entry := range slices.Chunk([]byte(b[14:]), size) {
			before := through
			if through++; size > width {
				through = integer(string(entry[width:]))
			}
			at := base + integer(string(entry[:width]))
			if at <= newest || through <= before {
				t.Fatalf("an entry at %d, after %d, has %d events", at, newest, through-before)
			}
			newest = at
			shape.entries++
		}
		if int64(z.Score) != newest {
			t.Fatalf("the score of a member is %v, want %d", z.Score, newest)
		}
		stop = number + through
		shape.events += int(through)
		shape.members++
	}
	return shape
}

// Most events of a log are undone, in random order.
func TestSlidingLog_Undo_random(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	large := int64(1) << 48 // one more than the largest number of events
	for _, c := range []struct {
		name  string
		limit core.Limit
		costs []int         // of charges, one of them at random
		step  time.Duration // longest time between two charges
		open  int           // approximate number of charges that are open at a time
		steps int
	}{
		{"many open", core.PerHour(1500), []int{1}, time.Second, 800, 2500},
		{"a window that moves", core.PerMinute(700), []int{1, 2, 3}, time.Second, 400, 1500},
		{"frozen clock", core.PerHour(1500), []int{1, 5}, 0, 300, 1200},
		{"bulks", core.PerHour(20_000), []int{1, 8, 9, 40, 200}, 5 * time.Second, 400, 1500},
		{"few open", core.PerMinute(100), []int{1, 9}, time.Second, 10, 1000},
		{"offsets that need more than 4 bytes", core.PerHour(10), []int{1}, 50 * time.Minute, 5, 1000},
		{"numbers that begin again", core.PerHour(int(large - 1)), []int{int(large / 2), int(large/4) + 9, 100, 1}, 40 * time.Minute, 5, 1000},
		{"wide offsets", core.Per(2000, 365*24*time.Hour), []int{1, 4}, 8 * time.Hour, 400, 1500},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, rdb, core.SlidingLog("log", c.limit))
			rng := rand.New(rand.NewPCG(uint64(c.open), 3))
			half := testkit.Compiled(core.SlidingLog("log", core.Per(c.limit.Events/2, c.limit.Per)))
			var most logShape
			for step := range c.steps {
				p.Advance((time.Duration(rng.Int64N(int64(c.step) + 1))).Truncate(time.Microsecond))
				switch n := len(p.held); {
				case rng.IntN(300) == 0:
					p.Advance(-time.Duration(rng.Int64N(int64(c.limit.Per / 100))).Truncate(time.Microsecond))
				case rng.IntN(100) == 0:
					p.do(driver.Charge{Op: driver.Credit, Cost: 1 + rng.IntN(1+c.limit.Events/20)})
				case rng.IntN(200) == 0:
					p.do(driver.Charge{Op: driver.Debit, Cost: c.costs[rng.IntN(len(c.costs))] * (1 + rng.IntN(3))})
				case rng.IntN(20) == 0: // mostly denied, with a RetryAfter
					p.do(driver.Charge{Op: driver.Peek, Cost: c.limit.Events - rng.IntN(min(c.limit.Events, 30))})
				case rng.IntN(20) == 0:
					p.do(driver.Charge{Rule: half, Op: driver.Spend, Cost: 1 + rng.IntN(c.limit.Events/2)})
				case n > 0 && rng.IntN(2*c.open) < n:
					p.undo([]int{0, n - 1, rng.IntN(n), n / 2}[rng.IntN(4)])
				default:
					p.spend(c.costs[rng.IntN(len(c.costs))])
				}
				if step%50 == 0 {
					most.include(p.checkLog())
				}
			}
			t.Logf("at most %+v", most)
			for len(p.held) > 0 {
				p.undo(rng.IntN(len(p.held)))
			}
			p.checkLog()
			p.do(driver.Charge{Op: driver.Credit, Cost: c.limit.Events})
			p.spend(1)
		})
	}
}

// All events except every tenth are undone, in a given order. Then the log is used.
func TestSlidingLog_Undo_order(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const events = 300
	rdb := redistest.Shared(t).Client()
	random := rand.New(rand.NewPCG(1, 2)).Perm(events)
	for name, index := range map[string]func(step int) int{
		"oldest first": func(step int) int { return step },
		"newest first": func(step int) int { return events - 1 - step },
		"at random":    func(step int) int { return random[step] },
		"outside in":   func(step int) int { return step/2 + step%2*(events-1-step/2*2) },
	} {
		for _, cost := range []int{1, 20} {
			t.Run(fmt.Sprintf("%s by %d", name, cost), func(t *testing.T) {
				t.Parallel()
				p := newPair(t, rdb, core.SlidingLog("log", core.PerHour(events*cost)))
				for range events {
					p.spend(cost)
					p.Advance(time.Second)
				}
				all := p.held
				for step := range events {
					i := index(step)
					if i%10 == 0 {
						continue
					}
					p.do(driver.Charge{Op: driver.Undo, Cost: cost, Receipt: all[i].Receipt})
					if step%20 == 0 {
						p.checkLog()
						p.do(driver.Charge{Op: driver.Spend, Cost: events * cost}) // denied
					}
				}
				shape := p.checkLog()
				if want := events / 10 * cost; shape.events != want {
					t.Fatalf("%d events are in the log, want %d", shape.events, want)
				}
				p.do(driver.Charge{Op: driver.Credit, Cost: events / 30 * cost})
				p.checkLog()
				p.Advance(-time.Minute)
				p.spend(2 * cost)
				if shape = p.checkLog(); shape.members > shape.entries/4+1 {
					t.Errorf("%d entries take %d members, want most of them full", shape.entries, shape.members)
				}
				for range events {
					p.Advance(13 * time.Second) // more than the window in all
					p.spend(cost)
				}
				p.checkLog()
			})
		}
	}
}

// Charges before and after the oldest whose events an undo or a credit can free are undone. Then all events that a credit
// can free are credited.
func TestSlidingLog_Undo_recent(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, c := range []struct {
		costs []int // of the charges, in turn
		step  time.Duration
	}{
		{[]int{1}, time.Microsecond},
		{[]int{2, 700}, time.Second},
		{[]int{1, 1, 1, 5, 3, 1}, time.Millisecond},
		{[]int{1, 5}, 0}, // half of the charges at the time of the one before
	} {
		t.Run(fmt.Sprint(c.costs), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, rdb, core.SlidingLog("log", core.PerDay(1_000_000)))
			for i := range 1300 {
				p.spend(c.costs[i%len(c.costs)])
				if i%2 == 1 || c.step > 0 {
					p.Advance(max(c.step, time.Microsecond))
				}
			}
			all := slices.Clone(p.held)
			for _, i := range []int{299, 300, 301, 299, 0, 1, 800, 298, 299} { // 300 is the oldest, unless two have one time
				p.do(driver.Charge{Op: driver.Undo, Cost: all[i].Cost, Receipt: all[i].Receipt})
			}
			p.checkLog()
			before := p.do(driver.Charge{Op: driver.Peek, Cost: 1}).Verdict.Remaining
			p.do(driver.Charge{Op: driver.Credit, Cost: 1_000_000})
			if after := p.do(driver.Charge{Op: driver.Peek, Cost: 1}).Verdict.Remaining; after == before {
				t.Errorf("%d are left after a credit of all, as before it", after)
			}
			p.checkLog()
			p.spend(1)
		})
	}
}

// Members that have left the window do not count, although a spend removes at most 200 of them.
func TestSlidingLog_expired(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const most = 200
	rdb := redistest.Shared(t).Client()
	for _, gap := range []time.Duration{50 * time.Minute, 2 * time.Hour} { // after 3000 charges in 50 minutes
		t.Run(gap.String(), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, rdb, core.SlidingLog("log", core.PerHour(10_000)))
			for i := range 3000 {
				p.spend(1 + 3*(i%2))
				p.Advance(time.Second)
			}
			p.Advance(gap)
			before := rdb.ZCard(t.Context(), p.key).Val()
			for range 20 {
				p.spend(1)
				after := rdb.ZCard(t.Context(), p.key).Val()
				if before-after > most {
					t.Fatalf("a spend removed %d members, want at most %d", before-after, most)
				}
				before = after
				p.do(driver.Charge{Op: driver.Peek, Cost: 10_000}) // denied, with a RetryAfter
				p.Advance(time.Second)
			}
			if shape := p.checkLog(); shape.entries > 600+20+12 { // the first member may hold older ones
				t.Errorf("%d entries are left, want those of the last hour", shape.entries)
			}
		})
	}
}

// The size of a log depends on the events in its window, and not on the number of calls, whether costs are small, large or
// mixed, and charges stay open for long, are undone, or are kept.
func TestSlidingLog_size(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	for _, c := range []struct {
		limit      core.Limit
		costs      []int // of charges, in turn
		gap        time.Duration
		open, keep int // one of keep charges is not undone, others are after open more
		bytes      int64
	}{
		{core.PerHour(250), []int{1}, 200 * time.Millisecond, 1, 1 << 20, 3000},
		{core.PerHour(250), []int{1}, 200 * time.Millisecond, 200, 1 << 20, 3000},
		{core.PerHour(500), []int{1}, 200 * time.Millisecond, 300, 50, 6000},
		{core.PerMinute(40), []int{1}, 15 * time.Second, 0, 1, 1500},
		{core.PerMinute(40), []int{20}, 15 * time.Second, 0, 1, 1500},
		{core.PerMinute(40), []int{1, 20}, 7 * time.Second, 0, 1, 1500},
		{core.PerMinute(40), []int{8, 9, 1}, 5 * time.Second, 0, 1, 1500},
	} {
		t.Run(fmt.Sprintf("limit %v, costs %v, %d open, 1 of %d kept", c.limit, c.costs, c.open, c.keep), func(t *testing.T) {
			p := newPair(t, rdb, core.SlidingLog("log", c.limit))
			var most logShape
			var bytes int64
			for i := range 1500 {
				before := len(p.held)
				p.spend(c.costs[i%len(c.costs)])
				if i%c.keep == 0 {
					p.held = p.held[:before]
				}
				if len(p.held) > c.open {
					p.undo(0)
				}
				p.Advance(c.gap)
				if i%100 == 0 {
					most.include(p.checkLog())
					bytes = max(bytes, memoryOf(t, rdb, p.key))
				}
			}
			t.Logf("at most %+v, %d bytes", most, bytes)
			if bytes > c.bytes || most.members > 40 {
				t.Errorf("the state has %d bytes and %d members, want at most %d and 40", bytes, most.members, c.bytes)
			}
			p.Advance(c.limit.Per)
			p.spend(1)
			if shape := p.checkLog(); shape != (logShape{1, 1, 1}) {
				t.Errorf("after the period, the log holds %+v, want one event", shape)
			}
		})
	}
}
