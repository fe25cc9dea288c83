package resilient_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

// now returns the time of the server of b.
func (b *book) now() time.Time {
	b.t.Helper()
	now, err := b.rdb.Time(b.t.Context()).Result()
	testkit.Must(b.t, err)
	return now
}

// The decisions of processes are added, by the minute, and the keys with the most denials by the hour.
func TestRecord_Figures(t *testing.T) {
	b := newBook(t)
	now := b.now()
	counts := func(allowed, denied uint64) (c processes.Counts) {
		c[driver.Allowed], c[driver.Denied] = allowed, denied
		return c
	}
	add := func(at time.Time, rules map[string]processes.Counts, denied map[processes.DeniedKey]uint64) {
		t.Helper()
		testkit.Must(t, b.Add(t.Context(), at, rules, denied))
	}
	ann, bob := processes.DeniedKey{Tag: "ann", Rule: "api.day"}, processes.DeniedKey{Tag: "bob", Rule: "login"}
	add(now, map[string]processes.Counts{"": counts(7, 2), "api.day": counts(7, 2)}, map[processes.DeniedKey]uint64{ann: 2})
	add(now, map[string]processes.Counts{"": counts(1, 3), "login": counts(1, 3)}, map[processes.DeniedKey]uint64{ann: 1, bob: 3})
	add(now.Add(-2*time.Minute), map[string]processes.Counts{"api.day": {driver.Failed: 5}}, nil)
	add(now.Add(-time.Hour), map[string]processes.Counts{"api.day": counts(1000, 0)}, map[processes.DeniedKey]uint64{bob: 10})
	add(now, nil, nil) // nothing
	for minutes, want := range map[int]string{
		2: "map[:[0 8 0 5 0 0 0 0 0 0] api.day:[0 7 0 2 0 0 0 0 0 0] login:[0 1 0 3 0 0 0 0 0 0]] map[{ann api.day}:3 {bob login}:13]",
		5: "map[:[0 8 0 5 0 0 0 0 0 0] api.day:[0 7 0 2 0 0 0 0 0 5] login:[0 1 0 3 0 0 0 0 0 0]] map[{ann api.day}:3 {bob login}:13]",
		// 62, because a minute may have passed
		62: "map[:[0 8 0 5 0 0 0 0 0 0] api.day:[0 1007 0 2 0 0 0 0 0 5] login:[0 1 0 3 0 0 0 0 0 0]] map[{ann api.day}:3 {bob login}:13]",
	} {
		f, err := b.Figures(t.Context(), minutes)
		if got := fmt.Sprint(f.Rules, f.Denied); err != nil || got != want {
			t.Errorf("%d minutes: got %s, %v\nwant %s", minutes, got, err, want)
		}
	}
	for _, key := range b.rdb.Keys(t.Context(), "weir:shop:*").Val() {
		if ttl := b.rdb.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > processes.FiguresLifetime {
			t.Errorf("%s ends in %v", key, ttl)
		}
	}
}

// Figures are bounded, whatever processes send, and texts that are not well formed are left out.
func TestRecord_Figures_Bounds(t *testing.T) {
	b := newBook(t)
	now := b.now()
	for i := range 30 {
		rules, denied := map[string]processes.Counts{}, map[processes.DeniedKey]uint64{}
		for j := range 600 {
			rules[fmt.Sprint("rule", i, " ", j)] = processes.Counts{driver.Allowed: 1 << 52}
			denied[processes.DeniedKey{Tag: fmt.Sprint(i, "-", j), Rule: "api"}] = uint64(1 + i)
		}
		testkit.Must(t, b.Add(t.Context(), now, rules, denied))
		testkit.Must(t, b.Add(t.Context(), now, rules, nil))
	}
	f, err := b.Figures(t.Context(), 2)
	if len(f.Rules) != 1000 || len(f.Denied) != 1000 || err != nil {
		t.Errorf("got %d rules and %d keys, %v", len(f.Rules), len(f.Denied), err)
	}
	if least := slices.Min(slices.Collect(maps.Values(f.Denied))); least < 28 {
		t.Errorf("a key with %d denials is left", least)
	}
	keys := b.rdb.Keys(t.Context(), "weir:shop:*:figures:*").Val()
	if len(keys) != 1 {
		t.Fatalf("got the keys %q", keys)
	}
	testkit.Must(t, b.rdb.Del(t.Context(), keys[0]).Err())
	for _, text := range []string{"", "x", "-1", "1 2 3 4 5 6 7 8 9 10 11", "99999999999999999999", strings.Repeat("1 ", 1<<20)} {
		testkit.Must(t, b.rdb.HSet(t.Context(), keys[0], "bad", text, "good", "0 3").Err())
		f, err := b.Figures(t.Context(), 2)
		if fmt.Sprint(f.Rules) != "map[good:[0 3 0 0 0 0 0 0 0 0]]" || len(text) < 100 && !errors.Is(err, processes.ErrRecord) {
			t.Errorf("%.20q: got %v, %v", text, f.Rules, err)
		}
		testkit.Must(t, b.Add(t.Context(), now, map[string]processes.Counts{"bad": {1, 2}}, nil)) // it is mended, or stays
	}
	testkit.Must(t, b.rdb.Set(t.Context(), keys[0], "another type", 0).Err())
	if f, err := b.Figures(t.Context(), 2); err == nil || len(f.Rules) > 0 {
		t.Errorf("another type: got %v, %v", f.Rules, err)
	}
}

// A message with figures is sent once, also if its reply is lost.
func TestStore_FiguresOnce(t *testing.T) {
	server := redistest.NewServer(t)
	proxy, err := redistest.StartProxy(server.Addr)
	testkit.Must(t, err)
	t.Cleanup(proxy.Close)
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: 100 * time.Millisecond, MaxRetries: 3, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: time.Millisecond})
	t.Cleanup(func() { rdb.Close() })
	r := processes.NewRecord(resilient.Once(rdb), "weir:shop:", "shop")
	gained := map[string]processes.Counts{"api": {driver.Allowed: 1}}
	now, err := server.Client().Time(t.Context()).Result()
	testkit.Must(t, err)
	testkit.Must(t, r.Add(t.Context(), now, gained, nil))
	proxy.DropReplies(0, "evalsha", "eval")
	if err := r.Add(t.Context(), now, gained, nil); err == nil {
		t.Error("got no error")
	}
	proxy.Pass()
	f, err := recordOf(server.Client(), "shop").Figures(t.Context(), 2)
	if err != nil || f.Rules["api"][driver.Allowed] != 2 {
		t.Errorf("got %v, %v", f, err)
	}
}

// A Store over another one that counts, such as that of package lease, tells the decisions, too, and each once.
func TestStore_Figures(t *testing.T) {
	server := redistest.NewServer(t)
	s := resilient.New(server.Client(), "shop", resilient.Observe(observe.TopKeys(3)))
	t.Cleanup(func() { s.Close() })
	outer := observe.New(s, observe.TopKeys(3))
	l := testkit.Limiter(t, outer, core.SlidingLog("api", core.PerHour(2)))
	own := testkit.Limiter(t, s, core.SlidingLog("own", core.PerHour(2)))
	for range 5 {
		testkit.Allow(t, l, "ann")
		testkit.Allow(t, own, "bob")
	}
	f := s.Figures()
	var got []string
	for _, rule := range slices.Sorted(maps.Keys(f.Rules)) {
		got = append(got, fmt.Sprint(rule, f.Rules[rule]))
	}
	if fmt.Sprint(got) != "[[0 4 0 6 0 0 0 0 0 0] api[0 2 0 3 0 0 0 0 0 0] own[0 2 0 3 0 0 0 0 0 0]]" || len(f.Denied) > 0 { // those of a minute that is not complete
		t.Errorf("got %s and %v", got, f.Denied)
	}
}

// A Store follows the switches in Redis, also in one that refuses TIME.
func TestStore_Off(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{"server": nil, "without TIME": {"--rename-command", "TIME", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			off(t, redistest.NewServer(t, settings...))
		})
	}
}

func off(t *testing.T, server *redistest.Server) {
	rdb := server.Client(dialOnce)
	record := recordOf(server.Client(), "shop")
	m := newMember(t, rdb, "shop", "api", resilient.Instances(1))
	m.awaitProcesses(t, 1)
	if all, _, err := record.Processes(t.Context()); err != nil || len(all) != 1 || time.Since(all[0].Seen) > time.Minute {
		t.Errorf("got the processes %+v, %v", all, err)
	}
	change := func(off ...processes.Switch) {
		t.Helper()
		_, err := record.Change(t.Context(), func(s *processes.Switches, _ int64) { s.Off = off })
		testkit.Must(t, err)
	}
	awaitOff := func(want float64) {
		t.Helper()
		servertest.Eventually(t, func() error {
			for _, of := range m.Observer().Snapshot().Measures {
				if of.Name == "weir.off" && of.Value == want {
					return nil
				}
			}
			return fmt.Errorf("weir.off is not %v", want)
		})
	}
	allowed := func() (n int) {
		for range 400 {
			if testkit.Allow(t, m.limiters["api"], "k").Allowed {
				n++
			}
		}
		return n
	}
	if n := allowed(); n != 300 {
		t.Errorf("before: got %d events", n)
	}
	change(processes.Switch{Rule: processes.AllLimits, By: "ann"})
	awaitOff(1)
	before := m.Stats().Redisstore.Requests
	if n := allowed(); n != 400 || m.Stats().Redisstore.Requests != before {
		t.Errorf("off: got %d events and %d requests", n, m.Stats().Redisstore.Requests-before)
	}
	change()
	awaitOff(0)
	if n := allowed(); n != 0 {
		t.Errorf("on: got %d events", n)
	}
	change(processes.Switch{Rule: "api"})
	awaitOff(1)
	testkit.Must(t, server.Stop())
	if n := allowed(); n != 400 {
		t.Errorf("off, in an outage: got %d events", n)
	}
	testkit.Must(t, server.Start()) // without data
	awaitOff(0)
	if n := allowed(); n != 300 {
		t.Errorf("after Redis has lost the switches: got %d events", n)
	}
	if !strings.Contains(m.log.String(), "level=ERROR msg=\"weir: Redis has lost the switches") {
		t.Errorf("got the log %s", m.log)
	}
}
