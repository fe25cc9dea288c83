package rules_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// A callHook calls before for each round trip of a client, which fails with the error of before.
type callHook struct{ before func() error }

func (callHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h callHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.before(); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (h callHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := h.before(); err != nil {
			for _, c := range cmds {
				c.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// hooked returns a client of the server that calls before for each round trip. It has connections, so
// before is not called for a handshake.
func hooked(t *testing.T, server *redistest.Server, before func() error) *redis.Client {
	t.Helper()
	rdb := server.Client()
	testkit.Must(t, rdb.Ping(t.Context()).Err())
	_, err := rdb.TxPipelined(t.Context(), func(tx redis.Pipeliner) error { return tx.Ping(t.Context()).Err() })
	testkit.Must(t, err)
	rdb.AddHook(callHook{before})
	return rdb
}

// isConfirmed waits until n has read the indexes.
func (n *node) isConfirmed(t *testing.T) {
	t.Helper()
	becomes(t, "the indexes", "read", func() string {
		if n.source.Stats().Age >= 0 {
			return "read"
		}
		return "not read"
	})
}

// writer returns a Set that writes and does not watch.
func writer(t *testing.T, rdb redis.UniversalClient, prefix string) *rules.Set {
	t.Helper()
	config, err := rules.Parse("f", []byte(apiPolicies))
	testkit.Must(t, err)
	s, err := rules.New(nothing{}, config, rules.Overrides(rules.Redis(rdb, "test", rules.Prefix(prefix))))
	testkit.Must(t, err)
	return s
}

// nothing is a store that decides nothing.
type nothing struct{ core.Store }

// New keys are not read, blocked keys are denied by their first event, and neither changes when
// Redis is down.
func TestSet_Overrides_NewKeys(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	other := writer(t, server.Client(), rules.DefaultPrefix)
	for i := range 20 {
		testkit.Must(t, other.Block(t.Context(), "api", fmt.Sprint("blocked", i), time.Time{}))
		testkit.Must(t, other.Override(t.Context(), "api", fmt.Sprint("gold", i), rules.Override{Plan: "gold"}))
	}
	n := newNode(t, server.Client(), rules.FailClosed(), rules.MaxKeys(10))
	n.isConfirmed(t)
	if s := n.source.Stats(); s.Overrides != 20 || s.Blocks != 20 {
		t.Errorf("got %+v, want 20 overrides and 20 blocks", s)
	}
	flood := func(name string) {
		t.Helper()
		before := n.source.Stats()
		for i := range 2000 {
			if got := n.limit(t, fmt.Sprint(name, i)); got != "10/h" {
				t.Fatalf("%s: a new key has the limit %s", name, got)
			}
		}
		if s := n.source.Stats(); s.Reads != before.Reads || s.Keys != before.Keys || s.Missing > 0 {
			t.Errorf("%s: got %+v, before it %+v", name, s, before)
		}
	}
	flood("up")
	if got := n.limit(t, "gold1"); got != "100/h" {
		t.Errorf("a key with a plan has the limit %s", got)
	}
	flood("up, with an entry")
	testkit.Must(t, server.Stop())
	flood("down")
	for i := range 20 {
		if got := n.limit(t, fmt.Sprint("blocked", i)); got != "blocked" {
			t.Errorf("down: a blocked key has the limit %s", got)
		}
	}
	if got := n.limit(t, "gold1"); got != "100/h" {
		t.Errorf("down: a key with a plan that was read before has the limit %s", got)
	}
}

// The indexes are used after MaxAge if Redis is down, and read again if it is not.
func TestSet_Overrides_MaxAge(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	ctx, other := t.Context(), writer(t, server.Client(), rules.DefaultPrefix)
	testkit.Must(t, other.Block(ctx, "api", "blocked", time.Now().Add(time.Hour)))
	testkit.Must(t, other.Override(ctx, "api", "gold", rules.Override{Plan: "gold"}))
	n := newNode(t, server.Client(), rules.FailClosed(), rules.MaxAge(50*time.Millisecond), rules.Timeout(rules.DefaultTimeout))
	n.isConfirmed(t)
	n.stop()
	becomes(t, "without Watch", "reads", func() string {
		if n.limit(t, "new"); n.source.Stats().Reads > 0 {
			return "reads"
		}
		return "does not read"
	})
	testkit.Must(t, other.Block(ctx, "api", "late", time.Time{}))
	becomes(t, "a block that Watch has not read", "blocked", func() string { return n.limit(t, "late") })
	testkit.Must(t, server.Stop())
	begin := time.Now()
	for time.Since(begin) < 2*time.Second {
		for key, want := range map[string]string{"blocked": "blocked", "late": "blocked", "new": "10/h", "newer": "10/h"} {
			if got := n.limit(t, key); got != want {
				t.Fatalf("down for %v: the key %s has the limit %s, want %s", time.Since(begin), key, got, want)
			}
		}
	}
	if _, err := limiter(t, n.Set, "api").Peek(ctx, "gold"); !errors.Is(err, core.ErrFailClosed) {
		t.Errorf("a key with an override that was never read: got error %v, want ErrFailClosed", err)
	}
}

// errKilled is the error of a command after the end of the process.
var errKilled = errors.New("killed")

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

// inRedis returns the text of the override of a key, and the end of its member, or 0 if there is none.
func inRedis(t *testing.T, rdb redis.UniversalClient, prefix, key string) (text string, member float64) {
	tag := keyhash.New(nil).Tag(key)
	return rdb.Get(t.Context(), prefix+"test:{"+tag+"}override:api").Val(), rdb.ZScore(t.Context(), prefix+"test:{rules:test}overrides", tag+":api").Val()
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

// An end that has passed does not replace a later one, whose text may have been written last.
func TestRedisSource_EarlierEnd(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix := t.Context(), newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	n.isConfirmed(t)
	writeText(t, rdb, prefix, "k", "{plan: gold}")
	becomes(t, "an override", "100/h", func() string { return n.limit(t, "k") })
	_, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		member, past := keyhash.New(nil).Tag("k")+":api", time.Now().Add(-time.Minute).UnixMilli()
		tx.ZAddArgs(ctx, prefix+"test:{rules:test}overrides", redis.ZAddArgs{GT: true, Members: []redis.Z{{Score: float64(past), Member: member}}})
		return tx.XAdd(ctx, &redis.XAddArgs{Stream: prefix + "test:{rules:test}changes", Values: []any{"member", member, "set", "overrides", "end", past}}).Err()
	})
	testkit.Must(t, err)
	for _, later := range []string{"a", "b"} { // after the second one, the index of overrides is used for k
		writeText(t, rdb, prefix, later, "{plan: gold}")
		becomes(t, "a later change", "100/h", func() string { return n.limit(t, later) })
	}
	if got := n.limit(t, "k"); got != "100/h" {
		t.Errorf("got %s, want 100/h", got)
	}
}

// Sets that change without a notice are read again: a member of a foreign program, and an eviction.
func TestRedisSource_WithoutNotice(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix := t.Context(), newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	n.isConfirmed(t)
	member := keyhash.New(nil).Tag("k") + ":api"
	for range 3 {
		testkit.Must(t, rdb.ZAdd(ctx, prefix+"test:{rules:test}blocks", redis.Z{Score: math.Inf(1), Member: member}).Err())
		becomes(t, "a member", "blocked", func() string { return n.limit(t, "k") })
		testkit.Must(t, rdb.Del(ctx, prefix+"test:{rules:test}blocks").Err())
		becomes(t, "an eviction", "10/h", func() string { return n.limit(t, "k") })
	}
	testkit.Must(t, rdb.Set(ctx, prefix+"test:{rules:test}blocks", "text", 0).Err())
	becomes(t, "another type", "reported", func() string {
		if slices.ContainsFunc(n.errs(), func(s string) bool { return strings.Contains(s, "WRONGTYPE") }) {
			return "reported"
		}
		return fmt.Sprint(n.errs())
	})
}

// Members are removed by later writes when they have ended long ago, and the processes agree on the
// sizes of the sets all the time.
func TestRedisSource_EndedMembers(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix := t.Context(), newPrefix()
	set := prefix + "test:{rules:test}blocks"
	for i, age := range []time.Duration{-time.Hour, 10 * time.Minute, 90 * time.Minute, 3 * time.Hour} {
		member := keyhash.New(nil).Tag(fmt.Sprint(i)) + ":api"
		testkit.Must(t, rdb.ZAdd(ctx, set, redis.Z{Score: float64(time.Now().Add(-age).UnixMilli()), Member: member}).Err())
	}
	n := newNode(t, rdb, rules.Prefix(prefix))
	n.isConfirmed(t)
	if s := n.source.Stats(); s.Blocks != 1 {
		t.Errorf("got %d blocks, want 1: one that ended some minutes ago does not count", s.Blocks)
	}
	for i, want := range []string{"blocked", "10/h", "10/h", "10/h"} {
		if got := n.limit(t, fmt.Sprint(i)); got != want {
			t.Errorf("key %d: got %s, want %s", i, got, want)
		}
	}
	testkit.Must(t, n.Block(ctx, "api", "k", time.Time{}))
	if left := rdb.ZCard(ctx, set).Val(); left != 4 {
		t.Errorf("got %d members after a write, want 4", left)
	}
	if got := n.limit(t, "k"); got != "blocked" {
		t.Errorf("got %s at once", got)
	}
	becomes(t, "blocks", "2", func() string { return fmt.Sprint(n.source.Stats().Blocks) })
	if errs := n.errs(); !onlyNoConfig(errs) {
		t.Errorf("got errors %q", errs)
	}
}

// More members than a reply has are all read, also while others are written.
func TestRedisSource_ManyMembers(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix := t.Context(), newPrefix()
	const members = 20_000
	var all []redis.Z
	for i := range members {
		all = append(all, redis.Z{Score: math.Inf(1), Member: keyhash.New(nil).Tag(fmt.Sprint(i)) + ":api"})
	}
	testkit.Must(t, rdb.ZAdd(ctx, prefix+"test:{rules:test}blocks", all...).Err())
	other := writer(t, rdb, prefix)
	n := newNode(t, rdb, rules.Prefix(prefix))
	for i := range 100 {
		testkit.Must(t, other.Block(ctx, "api", fmt.Sprint("new", i), time.Time{}))
		testkit.Must(t, other.Unblock(ctx, "api", fmt.Sprint(i)))
	}
	n.isConfirmed(t)
	becomes(t, "the last change", "10/h", func() string { return n.limit(t, "99") })
	becomes(t, "the indexes", fmt.Sprint(members), func() string { return fmt.Sprint(n.source.Stats().Blocks) })
	for i := range members {
		key, want := fmt.Sprint(i), "blocked"
		if i < 100 {
			want = "10/h"
		}
		if got := n.limit(t, key); got != want {
			t.Fatalf("key %s: got %s, want %s", key, got, want)
		}
	}
	for i := range 100 {
		if got := n.limit(t, fmt.Sprint("new", i)); got != "blocked" {
			t.Errorf("a later block: got %s", got)
		}
	}
	if reads := n.source.Stats().Reads; reads > 100 { // of keys whose change is newer than the latest poll
		t.Errorf("got %d reads", reads)
	}
}

// A hook that panics or ends the goroutine fails a read, and nothing else.
func TestSet_Overrides_Hook(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, c := range map[string]struct {
		fail func()
		want string
	}{
		"panic":  {func() { panic("of a hook") }, "the client panicked: of a hook"},
		"Goexit": {runtime.Goexit, "the client ended the goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix()
			var failing atomic.Bool
			rdb := hooked(t, server, func() error {
				if failing.Load() {
					c.fail()
				}
				return nil
			})
			testkit.Must(t, writer(t, server.Client(), prefix).Override(t.Context(), "api", "k", rules.Override{Plan: "gold"}))
			n := newNode(t, rdb, rules.Prefix(prefix), rules.Timeout(rules.DefaultTimeout))
			n.isConfirmed(t)
			failing.Store(true)
			becomes(t, "an error", c.want, func() string {
				if got := n.limit(t, "k"); got != "10/h" {
					t.Fatalf("got %s, want the limit without an override", got)
				}
				for _, e := range n.errs() {
					if strings.Contains(e, "overrides of keys: "+c.want) {
						return c.want
					}
				}
				return fmt.Sprint(n.errs())
			})
			if err := n.Block(t.Context(), "api", "k", time.Time{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v of a write", err)
			}
			failing.Store(false)
			becomes(t, "later", "100/h", func() string { return n.limit(t, "k") })
		})
	}
}

// Replies with too few elements are errors.
func TestSet_Overrides_ShortReply(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, shorten := range map[string]func(redis.Cmder){
		"texts": func(c redis.Cmder) {
			if texts, ok := c.(*redis.SliceCmd); ok {
				texts.SetVal(nil)
			}
		},
		"scores": func(c redis.Cmder) {
			if scores, ok := c.(*redis.FloatSliceCmd); ok {
				scores.SetVal(nil)
			}
		},
	} {
		rdb := server.Client()
		rdb.AddHook(replyHook{shorten})
		s := writer(t, rdb, newPrefix())
		if _, err := s.OverrideOf(t.Context(), "api", "k"); err == nil || !strings.Contains(err.Error(), "replies with 0") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// A replyHook changes the replies to pipelines.
type replyHook struct{ change func(redis.Cmder) }

func (replyHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (replyHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h replyHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, c := range cmds {
			h.change(c)
		}
		return err
	}
}

// A process that writes all the time, and one that reads, have the same blocks at last.
func TestSet_Block_Concurrent(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix := t.Context(), newPrefix()
	a, b := newNode(t, rdb, rules.Prefix(prefix)), newNode(t, rdb, rules.Prefix(prefix))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
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
	}
	wg.Wait()
	for _, n := range []*node{a, b} {
		becomes(t, "at last", "0", func() string { return fmt.Sprint(n.source.Stats().Blocks) })
	}
}

// Many invalid overrides are reported as a few errors, which count the others.
func TestSet_OnError_ManyInvalidOverrides(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	begin := time.Now()
	for i := range 200 {
		text := "{plan: "
		if i%2 == 0 {
			text = fmt.Sprintf("{limits: {none%d: 5/h}}", i)
		}
		writeText(t, rdb, prefix, fmt.Sprint(i), text)
		n.limit(t, fmt.Sprint(i))
	}
	invalid := 0
	becomes(t, "soon", "reported", func() string { // the reads of overrides may end later
		invalid = 0
		for _, e := range n.errs() {
			if strings.Contains(e, "an override in Redis") {
				invalid++
			}
		}
		if invalid == 0 {
			return "no error"
		}
		return "reported"
	})
	if most := 10 * (1 + int(time.Since(begin)/time.Second)); invalid > most {
		t.Errorf("got %d errors in %v, want at most %d", invalid, time.Since(begin), most)
	}
	becomes(t, "later", "counted", func() string {
		writeText(t, rdb, prefix, "k", "{plan: ")
		if n.limit(t, "k"); strings.Contains(fmt.Sprint(n.errs()), "errors of overrides before it)") {
			return "counted"
		}
		return fmt.Sprint(n.errs())
	})
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
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j%10)*100*time.Microsecond)
				_ = n.Block(ctx, "api", fmt.Sprint(i), time.Time{})
				cancel()
			}
		})
	}
	wg.Wait()
	for i := range 8 {
		testkit.Must(t, n.Block(t.Context(), "api", fmt.Sprint(i), time.Time{}))
		if got := n.limit(t, fmt.Sprint(i)); got != "blocked" {
			t.Errorf("got %s", got)
		}
	}
}
