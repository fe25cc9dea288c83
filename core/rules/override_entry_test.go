package rules_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// textOf returns an entry without its time and its tag.
func textOf(e rules.Entry) string {
	o, err := e.Override.Format()
	if err != nil {
		o = []byte(err.Error())
	}
	return fmt.Sprintf("%s %s %s %q", e.Policy, o, e.Key, e.Note)
}

// Entries are listed newest first, until they end or are removed.
func TestRedisSource_List(t *testing.T) {
	t.Parallel()
	for name, rdb := range map[string]redis.UniversalClient{"single": redistest.Shared(t).Client(), "cluster": redistest.SharedCluster(t).Client()} {
		t.Run(name, func(t *testing.T) {
			ctx, prefix := t.Context(), newPrefix()
			n := newNode(t, rdb, rules.Prefix(prefix))
			begun := time.Now().Truncate(time.Millisecond)
			write := func(err error) {
				t.Helper()
				testkit.Must(t, err)
				for at := time.Now().UnixMilli(); at == time.Now().UnixMilli(); { // the next entry is newer
				}
			}
			write(n.Override(ctx, "api", "a", rules.Override{Plan: "gold"}, rules.Note("ticket 7: é")))
			write(n.Block(ctx, "api", "a b", time.Time{}, rules.KeyText(), rules.Note("abuse")))
			write(n.Override(ctx, "other", "a", rules.Override{Limits: map[string]core.Limit{"o": core.PerHour(7)}}, rules.KeyText()))
			write(n.Override(ctx, "api", "b", rules.Override{Blocked: true}))
			write(rdb.ZAdd(ctx, prefix+"test:{rules:test}blocks", redis.Z{Score: float64(begun.UnixMilli()), Member: keyhash.New(nil).Tag("ended") + ":api"}).Err())
			write(n.Block(ctx, "api", "gone", time.Time{}, rules.Note("x")))
			write(n.Block(ctx, "api", "a", time.Time{}, rules.Note("again")))
			testkit.Must(t, n.Unblock(ctx, "api", "gone"))
			of := func(all []rules.Entry, err error) (texts []string) {
				t.Helper()
				testkit.Must(t, err)
				for _, e := range all {
					if e.At.Before(begun) || e.At.After(time.Now()) || len(e.Tag) != keyhash.TagLen {
						t.Errorf("got %+v", e)
					}
					texts = append(texts, textOf(e))
				}
				return texts
			}
			want := []string{
				`api {blocked: true}  "again"`, `api {blocked: true}  ""`, `other {limits: {o: 7/h}} a ""`, `api {blocked: true} a b "abuse"`, `api {plan: gold}  "ticket 7: é"`,
			}
			becomes(t, "list", fmt.Sprint(want), func() string { return fmt.Sprint(of(n.source.List(ctx, 100))) })
			for i := range 4 {
				if got := of(n.source.List(ctx, i)); !slices.Equal(got, want[:i]) {
					t.Errorf("%d: got %q, want %q", i, got, want[:i])
				}
			}
			if got := of(n.EntriesOf(ctx, "api", "a")); !slices.Equal(got, []string{want[0], want[4]}) {
				t.Errorf("got the entries %q of a key", got)
			}
			if got := of(n.EntriesOf(ctx, "api", "gone")); len(got) > 0 {
				t.Errorf("got the entries %q of a key without one", got)
			}
			if keys := rdb.Exists(ctx, prefix+"test:{rules:test}block:"+keyhash.New(nil).Tag("gone")+":api").Val(); keys != 0 {
				t.Error("the note of a removed block stays")
			}
		})
	}
}

// Entries of other programs need no record, or have one that is invalid.
func TestRedisSource_List_OtherPrograms(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix := t.Context(), newPrefix()
	n := newNode(t, rdb, rules.Prefix(prefix))
	testkit.Must(t, n.Override(ctx, "api", "new", rules.Override{Plan: "gold"}))
	for i, record := range []string{"", "?", `{"at":1}`, `{"at":2,"key":"another"}`, `{"at":3,"key":"4"}`} {
		member := keyhash.New(nil).Tag(fmt.Sprint(i)) + ":api"
		testkit.Must(t, rdb.ZAdd(ctx, prefix+"test:{rules:test}overrides", redis.Z{Score: 1e300, Member: member}).Err())
		testkit.Must(t, rdb.Set(ctx, prefix+"test:{"+keyhash.New(nil).Tag(fmt.Sprint(i))+"}override:api", []string{"{plan: free}", "?"}[i%2], 0).Err())
		if record != "" {
			testkit.Must(t, rdb.Set(ctx, prefix+"test:{rules:test}override:"+member, record, 0).Err())
		}
	}
	// No decision depends on a member without a text.
	testkit.Must(t, rdb.ZAdd(ctx, prefix+"test:{rules:test}overrides", redis.Z{Score: 1e300, Member: keyhash.New(nil).Tag("absent") + ":api"}).Err())
	if of, err := n.EntriesOf(ctx, "api", "absent"); err != nil || len(of) > 0 {
		t.Errorf("got the entries %v, %v of a key without a text", of, err)
	}
	all, err := n.source.List(ctx, 100)
	testkit.Must(t, err)
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprint(e.Key, e.Override.Plan, e.At.IsZero()))
	}
	if want := []string{"goldfalse", "4freefalse", "false", "freefalse", "freetrue", "true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// More entries than a page are all considered.
func TestRedisSource_List_Many(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix := t.Context(), newPrefix()
	const many = 2500
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range many {
			member := keyhash.New(nil).Tag(fmt.Sprint(i)) + ":api"
			pipe.ZAdd(ctx, prefix+"test:{rules:test}blocks", redis.Z{Score: 1e300, Member: member})
			pipe.Set(ctx, prefix+"test:{rules:test}block:"+member, fmt.Sprintf(`{"at":%d,"key":"%d"}`, 1+i*7919%many, i), 0)
		}
		return nil
	})
	testkit.Must(t, err)
	source := rules.Redis(rdb, "test", rules.Prefix(prefix))
	for _, n := range []int{0, 1, 1200, many, 2 * many} {
		all, err := source.List(ctx, n)
		testkit.Must(t, err)
		if len(all) != min(n, many) {
			t.Fatalf("%d: got %d entries", n, len(all))
		}
		for i, e := range all {
			if e.At.UnixMilli() != int64(many-i) || !e.Override.Blocked || e.Key == "" {
				t.Fatalf("%d: got %+v as entry %d", n, e, i)
			}
		}
	}
}

// An invalid note, or a long key as text, is an error, and nothing is written.
func TestSet_Override_Notes(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix, long := t.Context(), newPrefix(), strings.Repeat("k", 257)
	n := newNode(t, rdb, rules.Prefix(prefix))
	for name, c := range map[string]struct {
		key  string
		opt  rules.WriteOption
		want string
	}{
		"long":          {"k", rules.Note(strings.Repeat("x", 201)), "the note has 201 bytes, more than 200"},
		"a line":        {"k", rules.Note("a\nb"), "not printable"},
		"an escape":     {"k", rules.Note("\x1b[2J"), "not printable"},
		"right to left": {"k", rules.Note("\u202e"), "not printable"},
		"not UTF-8":     {"k", rules.Note("\xff"), "not printable"},
		"long key":      {long, rules.KeyText(), "the key has 257 bytes, more than 256"},
	} {
		for _, err := range []error{n.Block(ctx, "api", c.key, time.Time{}, c.opt), n.Override(ctx, "api", c.key, rules.Override{Plan: "gold"}, c.opt)} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got error %v, want %q", name, err, c.want)
			}
		}
	}
	if keys := rdb.Keys(ctx, prefix+"*").Val(); len(keys) > 0 {
		t.Errorf("got the keys %q", keys)
	}
	testkit.Must(t, n.Block(ctx, "api", long, time.Time{}, rules.Note(strings.Repeat("é", 100))))
}

// A process reports at its start that the latest write had another secret, until there is a write with its own.
func TestRedisSource_CheckSecret(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	secrets := map[string][]rules.RedisOption{
		"none": nil, "one": {rules.KeySecret([]byte("a secret of sixteen or more"))}, "other": {rules.KeySecret([]byte("another secret of sixteen"))},
	}
	for writer, opts := range secrets {
		prefix := newPrefix()
		if err := rules.Redis(rdb, "test", append(opts, rules.Prefix(prefix))...).CheckSecret(t.Context()); err != nil {
			t.Errorf("got %v before the first write", err)
		}
		n := newNode(t, rdb, append(opts, rules.Prefix(prefix))...)
		testkit.Must(t, n.Override(t.Context(), "api", "k", rules.Override{Plan: "gold"}))
		for reader, opts := range secrets {
			var want error
			if reader != writer {
				want = rules.ErrKeySecret
			}
			m := newNode(t, rdb, append(opts, rules.Prefix(prefix))...)
			m.isConfirmed(t)
			reported := slices.ContainsFunc(m.errs(), func(s string) bool { return strings.Contains(s, rules.ErrKeySecret.Error()) })
			if err := m.source.CheckSecret(t.Context()); !errors.Is(err, want) || reported != (want != nil) {
				t.Errorf("%s after a write with %s: got %v and reported: %v", reader, writer, err, reported)
			}
			if n.limit(t, "k") != "100/h" {
				t.Error("the override is not in force")
			}
		}
		m := newNode(t, rdb, append(secrets["other"], rules.Prefix(prefix))...)
		testkit.Must(t, m.Block(t.Context(), "api", "k", time.Time{}))
		testkit.Must(t, m.source.CheckSecret(t.Context()))
	}
}

// An override that ends earlier than the one before it is neither listed nor counted after its end.
func TestSet_Override_Shortened(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	ctx, prefix := t.Context(), newPrefix()
	n, reader := newNode(t, rdb, rules.Prefix(prefix)), newNode(t, rdb, rules.Prefix(prefix))
	for _, until := range []time.Time{{}, time.Now().Add(time.Hour), time.Now().Add(3 * time.Second)} {
		testkit.Must(t, n.Override(ctx, "api", "k", rules.Override{Plan: "gold", Until: until}))
		want := math.Inf(1)
		if !until.IsZero() {
			want = float64(until.Add(time.Millisecond - 1).UnixMilli())
		}
		if _, member := inRedis(t, rdb, prefix, "k"); member != want {
			t.Errorf("until %v: got the end %f, want %f", until, member, want)
		}
	}
	for name, r := range map[string]*node{"here": n, "elsewhere": reader} {
		becomes(t, name, "[] 0 10/h", func() string {
			all, err := r.source.List(ctx, 9)
			testkit.Must(t, err)
			return fmt.Sprintf("%v %d %s", all, r.source.Stats().Overrides, r.limit(t, "k"))
		})
		if errs := r.errs(); !onlyNoConfig(errs) {
			t.Errorf("%s: got errors %q", name, errs)
		}
	}
}
