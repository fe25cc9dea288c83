package rules_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

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

// Changes that a process has missed invalidate its whole cache.
func TestRedisSource_Gap(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for name, lose := range map[string]func(p redis.Pipeliner, prefix string){
		"trimmed": func(p redis.Pipeliner, prefix string) {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: prefix + "test:{rules:test}changes", Values: []string{"member", "glTDKakoUPbVOd03b0gW7g:api"}})
			p.XTrimMaxLen(t.Context(), prefix+"test:{rules:test}changes", 1)
		},
		"removed": func(p redis.Pipeliner, prefix string) { p.Del(t.Context(), prefix+"test:{rules:test}changes") },
		"foreign": func(p redis.Pipeliner, prefix string) {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: prefix + "test:{rules:test}changes", Values: []string{"a", "b"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, prefix := t.Context(), newPrefix()
			a, b := newNode(t, rdb, rules.Prefix(prefix)), newNode(t, rdb, rules.Prefix(prefix))
			for _, plan := range []string{"gold", "free", "gold"} { // b has then read a change
				testkit.Must(t, a.Override(ctx, "api", "0", rules.Override{Plan: plan}))
				becomes(t, "before", map[string]string{"gold": "100/h", "free": "50/h"}[plan], func() string { return b.limit(t, "0") })
			}
			pipe := rdb.TxPipeline() // removes the override, and blocks another key, without a notice
			pipe.Del(ctx, prefix+"test:{X-zrZv_IbzjZUnhsbWlseQ}override:api")
			pipe.ZAdd(ctx, prefix+"test:{rules:test}blocks", redis.Z{Score: math.Inf(1), Member: "glTDKakoUPbVOd03b0gW7g:api"})
			lose(pipe, prefix)
			_, err := pipe.Exec(ctx)
			testkit.Must(t, err)
			becomes(t, "after", "10/h", func() string { return b.limit(t, "0") })
			becomes(t, "a block", "blocked", func() string { return b.limit(t, "k") })
		})
	}
}

// The first changes of all can be lost, too.
func TestRedisSource_GapAtTheBeginning(t *testing.T) {
	t.Parallel()
	rdb, ctx, prefix := redistest.Shared(t).Client(), t.Context(), newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	becomes(t, "polled", "true", func() string { return fmt.Sprint(n.source.Stats().Age >= 0) })
	becomes(t, "before", "10/h", func() string { return n.limit(t, "k") })
	pipe := rdb.TxPipeline()
	pipe.ZAdd(ctx, prefix+"test:{rules:test}overrides", redis.Z{Score: math.Inf(1), Member: "glTDKakoUPbVOd03b0gW7g:api"})
	pipe.Set(ctx, prefix+"test:{glTDKakoUPbVOd03b0gW7g}override:api", "{plan: gold}", 0)
	for _, tag := range []string{"glTDKakoUPbVOd03b0gW7g", "X-zrZv_IbzjZUnhsbWlseQ"} {
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: prefix + "test:{rules:test}changes", Values: []string{"member", tag + ":api"}})
	}
	pipe.XTrimMaxLen(ctx, prefix+"test:{rules:test}changes", 1)
	_, err := pipe.Exec(ctx)
	testkit.Must(t, err)
	becomes(t, "after", "100/h", func() string { return n.limit(t, "k") })
}
