package overrides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/internal/testkit"
)

// A fakeSource answers the reads of a cache.
type fakeSource struct {
	mu    sync.Mutex
	delay time.Duration
	err   error
	plans map[string]string // of keys, by their tags
	reads int
	errs  []error // reported
}

var noSecret = keyhash.New(nil)

func newFake(o Options) (*fakeSource, *cache) {
	s := &fakeSource{plans: make(map[string]string)}
	o.MaxKeys, o.Timeout, o.MaxAge, o.parts = max(o.MaxKeys, 100), cmp.Or(o.Timeout, 100*time.Millisecond), cmp.Or(o.MaxAge, time.Minute), max(o.parts, 1)
	c := newCache(o, noSecret)
	c.read = func(_ context.Context, all []*fetch) error {
		s.mu.Lock()
		s.reads += len(all)
		plans, delay, err := maps.Clone(s.plans), s.delay, s.err
		s.mu.Unlock()
		time.Sleep(delay)
		for _, k := range all {
			k.stored = stored{}
			if plan := plans[k.tag]; plan != "" {
				k.override = Override{Content: &Content{Plan: plan}}
			}
		}
		return err
	}
	c.report = func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, err)
	}
	return s, c
}

// set sets the plan of a key, without a notice to the cache.
func (s *fakeSource) set(key, plan string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans[noSecret.Tag(key)] = plan
}

// planOf returns the plan of an override, or "blocked".
func planOf(o Override) string {
	switch {
	case o.Content == nil:
		return ""
	case o.Blocked:
		return "blocked"
	}
	return o.Plan
}

// plan returns the plan of a key.
func plan(t *testing.T, c *cache, key string) string {
	t.Helper()
	o, err := c.Get(t.Context(), "api", key)
	testkit.Must(t, err)
	return planOf(o)
}

// Each step changes the source or asks for the plan of the key "k", at a time after the step before.
func TestCache_Get(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	down := errors.New("down")
	type step struct {
		after   time.Duration
		plan    string // of the source from now on; "-" is as before
		delay   time.Duration
		err     error
		changed bool // the cache is told

		want  string // the plan
		took  time.Duration
		reads int // so far
	}
	for name, c := range map[string]struct {
		steps                    []step
		stale, missing, reported uint64
	}{
		"without an override": {steps: []step{
			{plan: "", want: "", reads: 1}, {after: 59 * s, plan: "gold", want: "", reads: 1}, {after: s, plan: "-", want: "gold", reads: 2},
		}},
		"changed": {steps: []step{
			{plan: "gold", want: "gold", reads: 1}, {plan: "free", want: "gold", reads: 1}, {plan: "-", changed: true, want: "free", reads: 2},
			{plan: "", changed: true, want: "", reads: 3}, {after: 50 * s, plan: "-", want: "", reads: 3},
		}},
		"slow": {steps: []step{
			{plan: "gold", delay: 90 * ms, want: "gold", took: 90 * ms, reads: 1}, {plan: "-", delay: 90 * ms, want: "gold", reads: 1},
		}},
		"too slow, with a reply later": {steps: []step{
			{plan: "gold", delay: 150 * ms, want: "", took: 100 * ms, reads: 1}, {after: 60 * ms, plan: "-", delay: 150 * ms, want: "gold", reads: 1},
		}, missing: 1},
		"down, without a result": {steps: []step{
			{err: down, want: "", reads: 1}, {plan: "gold", err: down, want: "", reads: 2}, {after: 300 * ms, plan: "-", err: down, want: "", reads: 3},
			{after: 99 * ms, plan: "-", want: "", reads: 3}, {after: ms, plan: "-", want: "", reads: 4}, {plan: "-", want: "gold", reads: 4},
			{err: down, plan: "-", want: "gold", reads: 4},
		}, missing: 5, reported: 1},
		"down for a moment": {steps: []step{
			{err: down, want: "", reads: 1}, {after: 200 * ms, want: "", reads: 2}, {after: 200 * ms, changed: true, plan: "gold", err: down, want: "", reads: 3},
			{plan: "-", want: "gold", reads: 4},
		}, missing: 1, stale: 1},
		"down, with an old result": {steps: []step{
			{plan: "gold", want: "gold", reads: 1}, {after: time.Minute, plan: "", err: down, want: "gold", reads: 2}, {after: 200 * ms, plan: "-", err: down, want: "gold", reads: 3},
			{after: 100 * ms, plan: "-", err: down, want: "gold", reads: 4}, {plan: "-", err: down, want: "gold", reads: 4}, {after: 100 * ms, plan: "-", want: "gold", reads: 5},
			{plan: "-", want: "", reads: 5},
		}, stale: 5, reported: 1},
		"single failures": {steps: []step{
			{plan: "gold", want: "gold", reads: 1}, {after: time.Minute, plan: "-", err: down, want: "gold", reads: 2}, {after: 4 * s, plan: "-", err: down, want: "gold", reads: 3},
			{plan: "-", want: "gold", reads: 4},
		}, stale: 2},
		"hangs": {steps: []step{
			{plan: "gold", want: "gold", reads: 1}, {plan: "-", changed: true, delay: time.Hour, want: "gold", took: 100 * ms, reads: 2},
			{after: 250 * ms, plan: "-", delay: time.Hour, want: "gold", took: 100 * ms, reads: 2}, {plan: "-", delay: time.Hour, want: "gold", reads: 2},
		}, stale: 3, reported: 1},
		"replies late": {steps: []step{
			{plan: "gold", delay: 700 * ms, want: "", took: 100 * ms, reads: 1}, {after: 250 * ms, plan: "-", delay: 700 * ms, want: "", took: 100 * ms, reads: 1},
			{after: 300 * ms, plan: "-", changed: true, delay: 700 * ms, want: "gold", reads: 2}, {after: s, plan: "-", want: "gold", reads: 2},
		}, stale: 1, missing: 2, reported: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, c2 := newFake(Options{})
				for i, st := range c.steps {
					time.Sleep(st.after)
					source.mu.Lock()
					source.delay, source.err = st.delay, st.err
					source.mu.Unlock()
					if st.plan != "-" {
						source.set("k", st.plan)
					}
					if st.changed {
						c2.changed(hashOfMember("api", noSecret.Tag("k")))
					}
					begin := time.Now()
					if got := plan(t, c2, "k"); got != st.want || time.Since(begin) != st.took {
						t.Errorf("step %d: got the plan %q after %v, want %q after %v", i, got, time.Since(begin), st.want, st.took)
					}
					synctest.Wait()
					if source.mu.Lock(); source.reads != st.reads {
						t.Errorf("step %d: got %d reads, want %d", i, source.reads, st.reads)
					}
					source.mu.Unlock()
				}
				if got := [3]uint64{c2.stale.Load(), c2.missing.Load(), uint64(len(source.errs))}; got != [3]uint64{c.stale, c.missing, c.reported} {
					t.Errorf("got %d stale, missing and reported, want %d, %d, %d: %v", got, c.stale, c.missing, c.reported, source.errs)
				}
				time.Sleep(2 * time.Hour) // until all reads have ended
			})
		})
	}
}

// Many lookups of a key wait for one read. A change during the read causes another one.
func TestCache_Get_Concurrent(t *testing.T) {
	for _, changed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			source, c := newFake(Options{})
			source.delay = 10 * time.Millisecond
			source.set("k", "old")
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					if got, want := plan(t, c, "k"), map[bool]string{false: "old", true: "new"}[changed]; got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				})
			}
			time.Sleep(time.Millisecond)
			if changed {
				source.set("k", "new")
				c.changed(hashOfMember("api", noSecret.Tag("k")))
			}
			wg.Wait()
			if want := map[bool]int{false: 1, true: 2}[changed]; source.reads != want {
				t.Errorf("changed %v: got %d reads, want %d", changed, source.reads, want)
			}
		})
	}
}

// Results that are too old as soon as they are read are used once.
func TestCache_Get_ShortMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, c := newFake(Options{MaxAge: time.Millisecond})
		source.delay = 10 * time.Millisecond
		source.set("k", "gold")
		testkit.Concurrently(50, func(i int) {
			time.Sleep(time.Duration(i) * time.Millisecond)
			begin := time.Now()
			if got := plan(t, c, "k"); got != "gold" || time.Since(begin) > 20*time.Millisecond {
				t.Errorf("got %q after %v", got, time.Since(begin))
			}
		})
		if source.reads > 12 {
			t.Errorf("got %d reads in 60 ms", source.reads)
		}
	})
}

// A part of the source that fails does not slow down other parts.
func TestCache_Get_Parts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, c := newFake(Options{parts: 16})
		read := c.read
		c.read = func(ctx context.Context, all []*fetch) error {
			if keyhash.Slot(all[0].tag) < keyhash.Slots/2 {
				time.Sleep(time.Hour)
			}
			return read(ctx, all)
		}
		slow := 0
		for i := range 20_000 {
			begin := time.Now()
			plan(t, c, fmt.Sprint(i))
			if time.Since(begin) > 0 {
				slow++
			}
		}
		if slow > 8*4 { // 300 ms for each of eight parts
			t.Errorf("got %d slow lookups", slow)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if len(source.errs) != 8 || source.reads < 9000 {
			t.Errorf("got %d reads, errors %v", source.reads, source.errs)
		}
	})
}

// A lookup ends with its context. The read goes on.
func TestCache_Get_ContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, c := newFake(Options{FailClosed: true})
		source.delay = 50 * time.Millisecond
		source.set("k", "gold")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if _, err := c.Get(ctx, "api", "k"); err != context.Canceled {
			t.Errorf("got error %v", err)
		}
		time.Sleep(40 * time.Millisecond)
		synctest.Wait()
		if got := plan(t, c, "k"); got != "gold" || source.reads != 1 || len(source.errs) > 0 {
			t.Errorf("got %q after %d reads, errors %v", got, source.reads, source.errs)
		}
	})
}

// A source that hangs leaves time to a decision with a deadline before the timeout.
func TestCache_Get_ShortDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, c := newFake(Options{})
		source.delay = time.Hour
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if _, err := c.Get(ctx, "api", "k"); err != nil || ctx.Err() != nil {
				t.Errorf("got error %v, %v", err, ctx.Err())
			}
			cancel()
			time.Sleep(25 * time.Millisecond)
		}
		if source.mu.Lock(); source.reads != 1 || len(source.errs) != 1 {
			t.Errorf("got %d reads, errors %v", source.reads, source.errs)
		}
		source.mu.Unlock()
		time.Sleep(time.Hour)
	})
}

func TestCache_Get_FailClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, c := newFake(Options{FailClosed: true})
		source.set("known", "gold")
		plan(t, c, "known")
		source.err = errors.New("down")
		c.allChanged()
		if got := plan(t, c, "known"); got != "gold" {
			t.Errorf("got %q for a known key", got)
		}
		time.Sleep(time.Second)
		for range 2 { // the second one while reads are paused
			_, err := c.Get(t.Context(), "api", "unknown")
			if !errors.Is(err, core.ErrFailClosed) || !errors.Is(err, core.ErrUnavailable) || strings.Contains(err.Error(), "unknown") {
				t.Errorf("got error %v", err)
			}
		}
	})
}

// A source that hangs does not accumulate goroutines.
func TestCache_Get_ManyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, c := newFake(Options{})
		source.delay = time.Hour
		testkit.Concurrently(2*maxReads, func(i int) { plan(t, c, fmt.Sprint(i)) })
		if n := c.parts[0].roundTrips; len(c.reads) != maxReads || n > maxRoundTrips+1 || c.missing.Load() != 2*maxReads {
			t.Errorf("got %d reads in %d round trips, %d missing, errors %v", len(c.reads), n, c.missing.Load(), source.errs)
		}
		time.Sleep(10 * time.Hour) // until all reads have ended
	})
}

// Keys are stored by policy, also long ones.
func TestCache_Keys(t *testing.T) {
	source, c := newFake(Options{Timeout: time.Minute})
	long := strings.Repeat("k", 1000)
	for key, plan := range map[string]string{"a": "A", long: "B", long + "k": "C", noSecret.Tag("a"): "D"} {
		source.set(key, plan)
	}
	for range 2 {
		for key, want := range map[string]string{"a": "A", long: "B", long + "k": "C", noSecret.Tag("a"): "D", "none": ""} {
			if got := plan(t, c, key); got != want {
				t.Errorf("%.30s: got %q, want %q", key, got, want)
			}
		}
	}
	if source.reads != 5 {
		t.Errorf("got %d reads, want 5", source.reads)
	}
	if _, err := c.Get(t.Context(), "login", "a"); err != nil || source.reads != 6 {
		t.Errorf("another policy: got %v, %d reads, want 6", err, source.reads)
	}
}

// A flood of keys stays within the size, and keeps a key that is used often.
func TestCache_Flood(t *testing.T) {
	testkit.WithoutRace(t)
	source, c := newFake(Options{MaxKeys: 1000, Timeout: time.Minute})
	for range 20 {
		plan(t, c, "hot")
	}
	before := testkit.Heap()
	for i := range 15_000 {
		plan(t, c, strings.Repeat("x", i%200)+fmt.Sprint(i))
		if i%10 == 0 {
			plan(t, c, "hot")
		}
	}
	if n := c.without.EstimatedSize(); n > 1100 {
		t.Errorf("got %d results", n)
	}
	if reads := source.reads - 15_000; reads > 50 {
		t.Errorf("got %d reads of the hot key, want few", reads)
	}
	if grown := testkit.Heap() - before; grown > 400<<10 {
		t.Errorf("got %d KiB more memory for 1000 results", grown>>10)
	}
}

// A flood of keys without an override evicts no override, whatever their number.
func TestCache_Flood_KeepsOverrides(t *testing.T) {
	source, c := newFake(Options{MaxKeys: 500, Timeout: time.Minute})
	for i := range 400 {
		source.set(fmt.Sprint("gold", i), "gold")
		plan(t, c, fmt.Sprint("gold", i))
	}
	for i := range 5000 {
		plan(t, c, fmt.Sprint(i))
	}
	before := source.reads
	for i := range 400 {
		plan(t, c, fmt.Sprint("gold", i))
	}
	if source.reads != before {
		t.Errorf("got %d reads of keys with an override", source.reads-before)
	}
}

// Lookups that wait at the same moment share round trips.
func TestCache_Get_SharedRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, c := newFake(Options{})
		source.delay = 5 * time.Millisecond
		trips, read := 0, c.read
		c.read = func(ctx context.Context, all []*fetch) error {
			source.mu.Lock()
			trips++
			source.mu.Unlock()
			return read(ctx, all)
		}
		var wg sync.WaitGroup
		for i := range 2000 { // one in each 100 us
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Microsecond)
				begin := time.Now()
				if plan(t, c, fmt.Sprint(i)); time.Since(begin) > 10*time.Millisecond {
					t.Errorf("a lookup took %v, want two round trips at most", time.Since(begin))
				}
			})
		}
		wg.Wait()
		if source.reads != 2000 || trips > 200 {
			t.Errorf("got %d reads in %d round trips", source.reads, trips)
		}
	})
}

// A client whose connections are all in use is no outage: lookups still wait.
func TestCache_Get_FullPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, c := newFake(Options{})
		source.delay, source.err = 50*time.Millisecond, redis.ErrPoolTimeout
		source.set("k", "gold")
		for range 20 {
			plan(t, c, "k")
		}
		source.mu.Lock()
		source.err = nil
		source.mu.Unlock()
		if got := plan(t, c, "k"); got != "gold" || len(source.errs) > 0 || source.reads != 21 {
			t.Errorf("got the plan %q after %d reads, errors %v", got, source.reads, source.errs)
		}
	})
}

// If a source fails, the newest knowledge counts: that of the indexes, or a result.
func TestCache_Get_OldKnowledge(t *testing.T) {
	hash := hashOfMember("api", noSecret.Tag("k"))
	for name, c := range map[string]struct {
		result             string        // the plan of a result, or "-" if there is none
		read               time.Duration // the time from the result to the indexes; negative if these are older
		overrides, blocked int64         // the ends in the indexes
		want               string
		fails              bool // with FailClosed
	}{
		"no result, not in the indexes":   {"-", 0, 0, 0, "", false},
		"no result, an override":          {"-", 0, forever, 0, "", true},
		"no result, blocked":              {"-", 0, 0, forever, "blocked", false},
		"no result, override and block":   {"-", 0, forever, forever, "blocked", false},
		"older result":                    {"gold", time.Second, forever, 0, "gold", false},
		"older result, removed since":     {"gold", time.Second, 0, 0, "", false},
		"older result, blocked since":     {"gold", time.Second, forever, forever, "blocked", false},
		"newer result":                    {"gold", -time.Second, 0, 0, "gold", false},
		"newer result, block was removed": {"gold", -time.Second, forever, forever, "gold", false},
		"newer result without override":   {"", -time.Second, forever, 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, cache := newFake(Options{FailClosed: true})
				confirm := func() {
					x := &indexes{overrides: newIndex(0), blocks: newIndex(0), confirmed: cache.now()}
					x.overrides.set(hash, c.overrides)
					x.blocks.set(hash, c.blocked)
					cache.indexes.Store(x)
				}
				if c.read <= 0 {
					confirm()
					time.Sleep(cache.options.MaxAge)
				}
				if c.result != "-" {
					source.set("k", c.result)
					plan(t, cache, "k")
				}
				if c.read > 0 {
					time.Sleep(c.read)
					confirm()
				}
				time.Sleep(cache.options.MaxAge)
				source.err = errors.New("down")
				o, err := cache.Get(t.Context(), "api", "k")
				got := planOf(o)
				if got != c.want || (err != nil) != c.fails {
					t.Errorf("got %q, %v, want %q", got, err, c.want)
				}
			})
		})
	}
}

// A hot key whose read hangs does not use up the reads that find the end of an outage.
func TestCache_Get_HotKeyInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, c := newFake(Options{})
		hanging := 10 // the next reads: those of the connections that are dead
		read := c.read
		c.read = func(ctx context.Context, all []*fetch) error {
			source.mu.Lock()
			hangs := hanging > 0
			hanging--
			source.mu.Unlock()
			if hangs {
				time.Sleep(3 * time.Second)
				return errors.New("dead")
			}
			return read(ctx, all)
		}
		source.set("hot", "gold")
		begin := time.Now()
		for i := 0; plan(t, c, "hot") != "gold"; i++ {
			if plan(t, c, fmt.Sprint(i)); time.Since(begin) > time.Minute {
				t.Fatal("the outage does not end")
			}
			for range 50 {
				plan(t, c, "hot")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("the outage ended after %v", took)
		}
		time.Sleep(time.Minute)
	})
}

var cachedKeys = map[string]string{"without an override": "none", "with a plan": "gold", "long": strings.Repeat("k", 200)}

// A lookup of a cached key allocates nothing.
func TestCache_Get_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	source, c := newFake(Options{})
	source.set("gold", "gold")
	for name, key := range cachedKeys {
		if n := testing.AllocsPerRun(1000, func() { _, _ = c.Get(context.Background(), "api", key) }); n > 0 {
			t.Errorf("%s: got %v allocations, want none", name, n)
		}
	}
}

func BenchmarkCache_Get(b *testing.B) {
	source, c := newFake(Options{MaxKeys: 100_000})
	source.set("gold", "gold")
	ctx := context.Background()
	for name, key := range cachedKeys {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.Get(ctx, "api", key)
			}
		})
	}
	keys := make([]string, 50_000)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
		_, _ = c.Get(ctx, "api", keys[i])
	}
	b.Run("50000 keys in turn", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			_, _ = c.Get(ctx, "api", keys[i%len(keys)])
		}
	})
	b.Run("50000 keys, parallel", func(b *testing.B) {
		b.RunParallel(func(p *testing.PB) {
			for i := 0; p.Next(); i++ {
				_, _ = c.Get(ctx, "api", keys[i%len(keys)])
			}
		})
	})
}
