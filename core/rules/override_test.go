package rules_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// A write of one process takes effect there at once and in others when they read the changes.
func TestSet_Override(t *testing.T) {
	t.Parallel()
	for _, server := range []struct {
		name string
		rdb  redis.UniversalClient
	}{{"single", redistest.Shared(t).Client()}, {"cluster", redistest.SharedCluster(t).Client()}} {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			prefix := rules.Prefix(newPrefix())
			a, b := newNode(t, server.rdb, prefix), newNode(t, server.rdb, prefix)
			ctx, soon := t.Context(), time.Now().Add(time.Hour)
			for i, step := range []struct {
				do   func() error
				want string
			}{
				{func() error { return nil }, "10/h"},
				{func() error { return a.Override(ctx, "api", "k", rules.Override{Plan: "gold"}) }, "100/h"},
				{func() error {
					return a.Override(ctx, "api", "k", rules.Override{Limits: map[string]core.Limit{"r": core.PerHour(20)}, Until: soon})
				}, "20/h"},
				{func() error { return a.Block(ctx, "api", "k", soon) }, "blocked"},
				{func() error { return a.Override(ctx, "api", "k", rules.Override{Plan: "gold", Until: soon}) }, "blocked"},
				{func() error { return a.Unblock(ctx, "api", "k") }, "100/h"},
				{func() error { return a.Block(ctx, "api", "k", time.Time{}) }, "blocked"},
				{func() error { return a.Remove(ctx, "api", "k") }, "10/h"},
			} {
				testkit.Must(t, step.do())
				if got := a.limit(t, "k"); got != step.want {
					t.Errorf("step %d: got %s at once, want %s", i, got, step.want)
				}
				becomes(t, fmt.Sprint("step ", i, " elsewhere"), step.want, func() string { return b.limit(t, "k") })
				if got := b.limit(t, "other"); got != "10/h" {
					t.Errorf("step %d: another key got %s", i, got)
				}
			}
			if errs := slices.Concat(a.errs(), b.errs()); !onlyNoConfig(errs) {
				t.Errorf("got errors %q", errs)
			}
		})
	}
}

// A block in Redis tells its end in every process, also one that another process has written.
func TestSet_Block_RetryAfter(t *testing.T) {
	t.Parallel()
	rdb, prefix := redistest.Shared(t).Client(), rules.Prefix(newPrefix())
	a, b := newNode(t, rdb, prefix), newNode(t, rdb, prefix)
	for _, c := range []struct {
		name  string
		block func() error
		want  time.Duration // rounded to minutes
	}{
		{"an hour", func() error { return a.Block(t.Context(), "api", "k", time.Now().Add(time.Hour)) }, time.Hour},
		{"two hours", func() error { return a.Block(t.Context(), "api", "k", time.Now().Add(2*time.Hour)) }, 2 * time.Hour},
		{"no end", func() error { return a.Block(t.Context(), "api", "k", time.Time{}) }, core.Never},
		{"a blocked limit", func() error {
			testkit.Must(t, a.Unblock(t.Context(), "api", "k"))
			return a.Override(t.Context(), "api", "k", rules.Override{Limits: map[string]core.Limit{"r": core.Blocked}, Until: time.Now().Add(3 * time.Hour)})
		}, 3 * time.Hour},
	} {
		testkit.Must(t, c.block())
		for name, n := range map[string]*node{"here": a, "elsewhere": b} {
			becomes(t, c.name+", "+name, fmt.Sprint(c.want, " true"), func() string {
				d := testkit.Peek(t, limiter(t, n.Set, "api"), "k")
				if d.RetryAfter == core.Never {
					return fmt.Sprint(d.RetryAfter, " ", d.Blocked())
				}
				return fmt.Sprint(d.RetryAfter.Round(time.Minute), " ", d.Blocked())
			})
		}
	}
}

func TestSet_Override_Errors(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	ctx, past := t.Context(), time.Now().Add(-time.Second)
	gold := rules.Override{Plan: "gold"}
	limited := func(rule string, l core.Limit) rules.Override {
		return rules.Override{Limits: map[string]core.Limit{rule: l}}
	}
	without, err := rules.New(memstore.New(), parse(t, "api: {rules: ["+second+"]}"))
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no source":          {without.Override(ctx, "api", "k", gold), "the Set has no source of overrides"},
		"no policy":          {n.Override(ctx, "apis", "k", gold), `no policy "apis"`},
		"no key":             {n.Override(ctx, "api", "", gold), "empty key"},
		"empty":              {n.Override(ctx, "api", "k", rules.Override{}), "the override is empty"},
		"past":               {n.Override(ctx, "api", "k", rules.Override{Plan: "gold", Until: past}), "past"},
		"unknown plan":       {n.Override(ctx, "api", "k", rules.Override{Plan: "silver"}), `no rule of the policy has the plan "silver"`},
		"unknown rule":       {n.Override(ctx, "api", "k", limited("q", core.PerHour(1))), `no rule "q"`},
		"invalid limit":      {n.Override(ctx, "api", "k", limited("r", core.PerHour(1).WithBurst(5))), "burst"},
		"block in the past":  {n.Block(ctx, "api", "k", past), "past"},
		"block of no policy": {n.Block(ctx, "apis", "k", time.Time{}), `no policy "apis"`},
		"remove without key": {n.Remove(ctx, "api", ""), "empty key"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", name, c.err, c.want)
		}
	}
	if keys := rdb.Keys(ctx, prefix+"*").Val(); len(keys) > 0 {
		t.Errorf("got the keys %q", keys)
	}
}

// Redis contains hashes of keys, and expires overrides after their end.
func TestSet_Override_Keys(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, secret := range []string{"", "a secret of sixteen or more"} {
		prefix := newPrefix() + fmt.Sprint(len(secret), ":")
		opts := []rules.RedisOption{rules.Prefix(prefix)}
		tag := "q8Oke4rRi4VcaH2cosYJHg"
		if secret != "" {
			opts, tag = append(opts, rules.KeySecret([]byte(secret))), "ReleIqma5P2gug232rnC7Q"
		}
		n := newNode(t, rdb, opts...)
		ctx := t.Context()
		testkit.Must(t, n.Override(ctx, "api", "user:1", rules.Override{Plan: "gold", Until: time.Now().Add(time.Hour)}))
		testkit.Must(t, n.Block(ctx, "other", "user:1", time.Time{}))
		testkit.Must(t, n.source.Put(ctx, []byte(apiPolicies)))
		keys := rdb.Keys(ctx, prefix+"*").Val()
		keys = slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, "{test}processes") })
		slices.Sort(keys)
		want := []string{
			prefix + "test:rules", prefix + "test:{rules:test}blocks", prefix + "test:{rules:test}changes", prefix + "test:{rules:test}overrides", prefix + "test:{rules:test}secret", prefix + "test:{" + tag + "}override:api",
			prefix + "test:{rules:test}override:" + tag + ":api", prefix + "test:{rules:test}block:" + tag + ":other",
		}
		slices.Sort(want)
		if !slices.Equal(keys, want) {
			t.Errorf("got the keys %q, want %q", keys, want)
		}
		for _, key := range []string{prefix + "test:{" + tag + "}override:api", prefix + "test:{rules:test}override:" + tag + ":api"} {
			if ttl := rdb.TTL(ctx, key).Val(); ttl < time.Hour || ttl > 4*time.Hour {
				t.Errorf("%s: got the TTL %v of an override of an hour", key, ttl)
			}
		}
		for _, m := range rdb.XRange(ctx, prefix+"test:{rules:test}changes", "-", "+").Val() {
			if s := fmt.Sprint(m.Values); strings.Contains(s, "user:1") {
				t.Errorf("got the change %s", s)
			}
		}
	}
}

// OverrideOf returns the override that a decision uses, and that of the configuration.
func TestSet_OverrideOf(t *testing.T) {
	t.Parallel()
	source := rules.Redis(redistest.Shared(t).Client(), "test", rules.Prefix(newPrefix()))
	n, err := rules.New(memstore.New(), parse(t, "api: {rules: [{name: r, algorithm: fixed_window, limit: 10/h, plans: {gold: 100/h}}], keys: {k: {plan: gold}}}"), rules.Overrides(source))
	testkit.Must(t, err)
	ctx, until := t.Context(), time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	is := func(want string) {
		t.Helper()
		o, err := n.OverrideOf(ctx, "api", "k")
		testkit.Must(t, err)
		if got, err := o.Format(); err == nil && string(got) != want || err != nil && want != "" {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	is("{plan: gold}")
	testkit.Must(t, n.Override(ctx, "api", "k", rules.Override{Limits: map[string]core.Limit{"r": core.PerHour(20)}, Until: until}))
	is("{limits: {r: 20/h}, until: '" + until.Format(time.RFC3339Nano) + "'}")
	testkit.Must(t, n.Override(ctx, "api", "k", rules.Override{Limits: map[string]core.Limit{"r": core.PerHour(20)}})) // shares its rules with the one before
	is("{limits: {r: 20/h}}")
	testkit.Must(t, n.Block(ctx, "api", "k", time.Time{}))
	is("{blocked: true}")
	testkit.Must(t, n.Remove(ctx, "api", "k"))
	is("{plan: gold}")
	if _, err := n.OverrideOf(ctx, "apis", "k"); err == nil {
		t.Error("got no error for an unknown policy")
	}
	for _, key := range []string{"a", "b"} {
		testkit.Must(t, n.Override(ctx, "api", key, rules.Override{Limits: map[string]core.Limit{"r": core.PerHour(20)}}))
	}
	changed, err := n.OverrideOf(ctx, "api", "a")
	testkit.Must(t, err)
	changed.Limits["r"] = core.PerHour(30) // as a program does that writes it again
	want(t, "another key with an equal override", limiter(t, n, "api"), "b", `fixed_window "api.r" 20/h`)
}

// A value that is no override, or not for this policy, has no effect and is reported.
func TestSet_Override_InvalidValues(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	for _, c := range []struct{ value, want, reported string }{
		{"{plan: gold}", "100/h", ""},
		{"{plan: ", "100/h", "flow node"}, // the last good one
		{"{plan: silver}", "10/h", `no rule of the policy has the plan "silver"`},
		{"{limits: {q: 5/h}}", "10/h", `no rule "q"`},
		{"{limits: {q: 5/h, r: 6/h}}", "6/h", ""},
		{"{limits: {r: 5/h burst 9}}", "10/h", "burst"},
		{strings.Repeat("#", 100_000), "10/h", "64 KiB"},
		{"", "10/h", "override"},
		{`{"blocked": true, "until": "2001-01-01T00:00:00Z"}`, "10/h", ""},
		{`{"blocked": true}`, "blocked", ""},
	} {
		before := len(n.errs())
		writeText(t, rdb, prefix, "k", c.value)
		becomes(t, fmt.Sprintf("%.40q", c.value), c.want, func() string { return n.limit(t, "k") })
		if c.reported != "" {
			becomes(t, fmt.Sprintf("%.40q", c.value), "reported", func() string {
				n.limit(t, "k")
				if slices.ContainsFunc(n.errs()[before:], func(s string) bool { return strings.Contains(s, c.reported) }) {
					return "reported"
				}
				return fmt.Sprint(n.errs())
			})
		}
	}
}

// Long values do not stay in memory.
func TestSet_Override_LongValues(t *testing.T) {
	testkit.WithoutRace(t)
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix), rules.Timeout(10*time.Second))
	before := testkit.Heap()
	for i := range 60 {
		for length, want := range map[int]string{60_000: "100/h", 100_000: "10/h"} {
			key := fmt.Sprint(length, "-", i)
			value := "{plan: gold} #" + strings.Repeat("x", length) + key
			writeText(t, rdb, prefix, key, value)
			becomes(t, key, want, func() string { return n.limit(t, key) })
		}
	}
	if grown := testkit.Heap() - before; grown > 4<<20 {
		t.Errorf("got %d MiB more memory after 9 MiB of values", grown>>20)
	}
}

// A plan that the policy does not have hides neither the plan of the event nor other limits.
func TestSet_Override_RemovedPlan(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	writeText(t, rdb, prefix, "k", "{plan: silver}")
	d, err := limiter(t, n.Set, "api").Plan("gold").Peek(t.Context(), "k")
	testkit.Must(t, err)
	if got := d.State(0).Limit(); got != core.PerHour(100) {
		t.Errorf("got %v, want the limit of the plan gold", got)
	}
}

// A write is in force at once, also when reads are paused after an outage.
func TestSet_Override_AfterOutage(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	n := newNode(t, server.Client(), rules.Timeout(rules.DefaultTimeout))
	testkit.Must(t, server.Stop())
	begin := time.Now()
	for i := 0; n.source.Stats().Reads == uint64(i); i++ { // until a lookup reads nothing
		if n.limit(t, fmt.Sprint(i)); time.Since(begin) > 10*time.Second {
			t.Fatal("reads are not paused")
		}
	}
	testkit.Must(t, server.Start())
	for n.Override(t.Context(), "api", "k", rules.Override{Plan: "gold"}) != nil {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the server does not start")
		}
	}
	if got := n.limit(t, "k"); got != "100/h" {
		t.Errorf("got %s at once, want 100/h", got)
	}
}

// Overrides keep the time zone and the headroom of a rule, and give a plan with a headroom.
func TestSet_Override_Quota(t *testing.T) {
	s := newSet(t, `api: {rules: [{name: r, algorithm: quota, limit: 10/day, timezone: Asia/Tokyo, headroom: {batch: 20}}],
		keys: {more: {limits: {r: 20/week}}, batch: {plan: batch}, blocked: {blocked: true}, all: {limits: {r: unlimited}}}}`)
	l := limiter(t, s, "api")
	for key, text := range map[string]string{
		"k": `quota "api.r" 10/day in Asia/Tokyo`, "more": `quota "api.r" 20/week in Asia/Tokyo`,
		"batch":   `quota "api.r" 10/day in Asia/Tokyo headroom 20% plan "batch"`,
		"blocked": `quota "api.r" blocked in Asia/Tokyo`, "all": `quota "api.r" unlimited in Asia/Tokyo`,
	} {
		want(t, key, l, key, text)
	}
	want(t, "a plan and another limit", l.Plan("batch"), "more", `quota "api.r" 20/week in Asia/Tokyo headroom 20% plan "batch"`)
	want(t, "a plan and a block", l.Plan("batch"), "blocked", `quota "api.r" blocked in Asia/Tokyo headroom 20% plan "batch"`)
	for _, c := range []struct {
		key string
		n   int
	}{{"batch", 8}, {"k", 10}, {"more", 20}} {
		n := 0
		for n < 99 && testkit.Allow(t, l, c.key).Allowed {
			n++
		}
		if n != c.n {
			t.Errorf("%s: admitted %d, want %d", c.key, n, c.n)
		}
	}
}

// A writer that ends after any of its commands leaves no override without a member, and no block
// that processes do not hold.
func TestSet_Write_Killed(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	prefix := newPrefix()
	reader := newNode(t, server.Client(), rules.Prefix(prefix))
	reader.isConfirmed(t)
	ctx, gold := t.Context(), rules.Override{Plan: "gold"}
	for name, c := range map[string]struct {
		write  func(s *rules.Set, key string) error
		limits []string // after each number of commands
	}{
		"block":    {func(s *rules.Set, key string) error { return s.Block(ctx, "api", key, time.Time{}) }, []string{"50/h", "50/h", "blocked"}},
		"override": {func(s *rules.Set, key string) error { return s.Override(ctx, "api", key, gold) }, []string{"50/h", "50/h", "50/h", "100/h", "100/h"}},
		"remove":   {func(s *rules.Set, key string) error { return s.Remove(ctx, "api", key) }, []string{"50/h", "50/h", "10/h", "10/h", "10/h"}},
	} {
		for n, want := range c.limits {
			key := fmt.Sprint(name, n)
			testkit.Must(t, reader.Override(ctx, "api", key, rules.Override{Plan: "free"}))
			var calls atomic.Int64
			rdb := hooked(t, server, func() error {
				if calls.Add(1) > int64(n) {
					return errKilled
				}
				return nil
			})
			err := c.write(writer(t, rdb, prefix), key)
			if done := n == len(c.limits)-1; done != (err == nil) || err != nil && !errors.Is(err, errKilled) {
				t.Errorf("%s after %d commands: got error %v", name, n, err)
			}
			if n == 3 && name == "override" {
				continue // the text is read after MaxAge, or when its writer tries again
			}
			becomes(t, fmt.Sprint(name, " after ", n, " commands"), want, func() string { return reader.limit(t, key) })
			if text, member := inRedis(t, server.Client(), prefix, key); text != "" && member == 0 && name != "remove" {
				t.Errorf("%s after %d commands: the text %s has no member", name, n, text)
			}
		}
	}
}

// Two writers of one key leave no text without a member, in whatever order their commands run.
func TestSet_Write_Interleaved(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	ctx, soon, later := t.Context(), time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	put := func(until time.Time) func(s *rules.Set) error {
		return func(s *rules.Set) error {
			return s.Override(ctx, "api", "k", rules.Override{Plan: "gold", Until: until})
		}
	}
	for name, writes := range map[string][2]func(s *rules.Set) error{
		"override and remove": {put(time.Time{}), func(s *rules.Set) error { return s.Remove(ctx, "api", "k") }},
		"two ends":            {put(soon), put(later)},
		"an end and none":     {put(later), put(time.Time{})},
	} {
		t.Run(name, func(t *testing.T) {
			for order := range 1 << 8 {
				if bits.OnesCount(uint(order)) == 4 {
					interleave(t, server, order, writes)
				}
			}
		})
	}
}

// interleave runs two writes of three to five commands each. Bit i of order says which one runs the i-th
// command, unless it has ended.
func interleave(t *testing.T, server *redistest.Server, order int, writes [2]func(s *rules.Set) error) {
	t.Helper()
	prefix := newPrefix()
	var begun, turns [2]chan struct{}
	var ended [2]chan error
	for i, write := range writes {
		begun[i], turns[i], ended[i] = make(chan struct{}), make(chan struct{}), make(chan error, 1)
		s := writer(t, hooked(t, server, func() error { begun[i] <- struct{}{}; <-turns[i]; return nil }), prefix)
		go func() { ended[i] <- write(s); close(begun[i]) }()
		<-begun[i]
	}
	var run [2]int // commands, or -1 at the end
	for bit := range 16 {
		i := order >> min(bit, 7) & 1
		if bit >= 8 && run[i] < 0 {
			i = 1 - i
		}
		if run[i] < 0 {
			continue
		}
		turns[i] <- struct{}{}
		if _, more := <-begun[i]; more {
			run[i]++
		} else {
			run[i] = -1
			testkit.Must(t, <-ended[i])
		}
	}
	text, member := inRedis(t, server.Client(), prefix, "k")
	if run != [2]int{-1, -1} {
		t.Fatalf("order %08b: the writes have not ended: %v", order, run)
	}
	if text == "" {
		return
	}
	o, err := rules.ParseOverride("Redis", []byte(text))
	testkit.Must(t, err)
	want := math.Inf(1)
	if !o.Until.IsZero() {
		want = float64(o.Until.UnixMilli())
	}
	if member < want {
		t.Errorf("order %08b: the text %s has a member that ends at %v", order, text, member)
	}
}

// A process that writes all the time, and one that reads, have the same blocks at last.
func TestSet_Block_Concurrent(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix := t.Context(), newPrefix()
	a, b := newNode(t, rdb, rules.Prefix(prefix)), newNode(t, rdb, rules.Prefix(prefix))
	testkit.Concurrently(8, func(i int) {
		s := []*node{a, b}[i%2]
		for j := range 25 {
			key := fmt.Sprint(i, "-", j%5)
			testkit.Must(t, s.Block(ctx, "api", key, time.Time{}))
			if got := s.limit(t, key); got != "blocked" {
				t.Errorf("got %s at once after Block", got)
			}
			testkit.Must(t, s.Unblock(ctx, "api", key))
			if got := s.limit(t, key); got != "10/h" {
				t.Errorf("got %s at once after Unblock", got)
			}
		}
	})
	for _, n := range []*node{a, b} {
		becomes(t, "at last", "0", func() string { return fmt.Sprint(n.source.Stats().Blocks) })
	}
}

// A block is in force in the process that has written it, also if Redis fails right afterwards.
func TestSet_Block_ThenOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, watches := range map[string]bool{"with Watch": true, "without Watch": false} {
		t.Run(name, func(t *testing.T) {
			var left atomic.Int64
			left.Store(1 << 40)
			rdb := hooked(t, server, func() error {
				if left.Add(-1) < 0 {
					return errKilled
				}
				return nil
			})
			n := newNode(t, rdb, rules.Prefix(newPrefix()), rules.FailClosed(), rules.Timeout(rules.DefaultTimeout))
			n.isConfirmed(t)
			testkit.Must(t, n.Override(t.Context(), "api", "gold", rules.Override{Plan: "gold"}))
			n.stop()
			if watches {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); _ = n.Watch(ctx, n.source) }()
				defer func() { cancel(); <-ended }()
			}
			for key, write := range map[string]func() error{
				"blocked": func() error { return n.Block(t.Context(), "api", "k", time.Now().AddDate(20_000, 0, 0)) },
				"100/h":   func() error { return n.Override(t.Context(), "api", "k", rules.Override{Plan: "gold"}) },
				"10/h":    func() error { return n.Remove(t.Context(), "api", "gold") },
			} {
				commands := int64(1 << 40)
				switch {
				case watches:
				case key == "blocked":
					commands = 2
				default:
					commands = 4
				}
				err := errKilled
				for i := 0; i < 100 && errors.Is(err, errKilled); i++ { // a late read of a slow machine may take the place of a command
					left.Store(1 << 40)
					testkit.Must(t, n.Remove(t.Context(), "api", "k"))
					left.Store(commands)
					err = write()
				}
				testkit.Must(t, err)
				left.Store(0)
				asked := "k"
				if key == "10/h" {
					asked = "gold"
				}
				if got := n.limit(t, asked); got != key {
					t.Errorf("got %s, want %s", got, key)
				}
			}
		})
	}
}

// Writes with deadlines, in a process that reads changes, are free of races.
func TestSet_Block_ShortDeadlines(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	n := newNode(t, rdb, rules.Prefix(newPrefix()))
	testkit.Concurrently(8, func(i int) {
		for j := range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j%10)*100*time.Microsecond)
			_ = n.Block(ctx, "api", fmt.Sprint(i), time.Time{})
			cancel()
		}
	})
	for i := range 8 {
		testkit.Must(t, n.Block(t.Context(), "api", fmt.Sprint(i), time.Time{}))
		if got := n.limit(t, fmt.Sprint(i)); got != "blocked" {
			t.Errorf("got %s", got)
		}
	}
}
