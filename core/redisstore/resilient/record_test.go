package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

// A book is a record on a server of its own.
type book struct {
	processes.Record
	t   testing.TB
	rdb *redis.Client
}

func newBook(t testing.TB) *book {
	rdb := redistest.NewServer(t).Client()
	return &book{recordOf(rdb, "shop"), t, rdb}
}

func recordOf(rdb *redis.Client, app string) processes.Record {
	return processes.NewRecord(resilient.Do(rdb), "weir:"+app+":", app)
}

// beats writes a heartbeat and returns the numbers of processes, by the names of groups.
func (b *book) beats(process string, g processes.Group, left ...processes.Group) processes.Reading {
	b.t.Helper()
	var names []string
	for _, l := range left {
		names = append(names, l.Name)
	}
	read, err := b.Beat(b.t.Context(), processes.Heartbeat{Process: process, Group: g, About: "{}", Left: names})
	testkit.Must(b.t, err)
	return read
}

// shift makes processes.All times of the record earlier by d.
func (b *book) shift(d time.Duration) {
	b.t.Helper()
	for name, text := range b.rdb.HGetAll(b.t.Context(), b.Keys).Val() {
		var n, at int64
		fmt.Sscan(text, &n, &at)
		testkit.Must(b.t, b.rdb.HSet(b.t.Context(), b.Keys, name, fmt.Sprint(n, at-d.Milliseconds())).Err())
		for _, z := range b.rdb.ZRangeWithScores(b.t.Context(), b.Keys+":"+name, 0, -1).Val() {
			testkit.Must(b.t, b.rdb.ZIncrBy(b.t.Context(), b.Keys+":"+name, -float64(d.Milliseconds()), z.Member.(string)).Err())
		}
	}
}

func (b *book) wants(what string, read processes.Reading, want map[string]int) {
	b.t.Helper()
	if !maps.Equal(read.Counts, want) {
		b.t.Errorf("%s: got %v, want %v", what, read.Counts, want)
	}
}

var (
	web    = processes.GroupOf([]string{"api", "login"})
	worker = processes.GroupOf([]string{"api"})
)

func ended(g processes.Group) processes.Group { return processes.Group{Name: g.Name} }

func TestRecord_Counts(t *testing.T) {
	b := newBook(t)
	b.wants("the first", b.beats("1", web), map[string]int{web.Name: 1})
	b.wants("again", b.beats("1", web), map[string]int{web.Name: 1})
	b.wants("another", b.beats("2", web), map[string]int{web.Name: 2})
	b.wants("other rules", b.beats("3", worker), map[string]int{web.Name: 2, worker.Name: 1})
	b.wants("more rules", b.beats("3", web, worker), map[string]int{web.Name: 3})
	b.wants("that again, because the reply was lost", b.beats("3", web, worker), map[string]int{web.Name: 3})
	b.wants("fewer rules", b.beats("3", worker, web), map[string]int{web.Name: 2, worker.Name: 1})
	b.wants("an end", b.beats("1", ended(web)), map[string]int{web.Name: 1, worker.Name: 1})
	b.wants("that again", b.beats("1", ended(web)), map[string]int{web.Name: 1, worker.Name: 1})

	lists, err := b.RulesOf(t.Context(), []string{web.Name, worker.Name, "gone"})
	if err != nil || len(lists) != 2 || fmt.Sprint(lists[web.Name], lists[worker.Name]) != "[api login] [api]" {
		t.Errorf("got %v, %v", lists, err)
	}
	read, err := recordOf(b.rdb, "blog").Beat(t.Context(), processes.Heartbeat{Process: "9", Group: web})
	testkit.Must(t, err)
	b.wants("another application", read, map[string]int{web.Name: 1})

	b.beats("2", ended(web))
	b.wants("the last one", b.beats("3", ended(worker)), map[string]int{})
	if keys := b.rdb.Keys(t.Context(), "weir:shop:*").Val(); len(keys) > 0 {
		t.Errorf("the keys %q are left", keys)
	}
	for _, key := range b.rdb.Keys(t.Context(), "*").Val() {
		if ttl := b.rdb.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > processes.Lifetime {
			t.Errorf("%s expires in %v", key, ttl)
		}
	}
}

// A process without a heartbeat is not counted after the lifetime, and the clock of the server may step.
func TestRecord_Lifetime(t *testing.T) {
	for name, c := range map[string]struct {
		step time.Duration
		want int // with one new heartbeat
	}{
		"29 s": {29 * time.Second, 3}, "31 s": {31 * time.Second, 1}, "a step on": {time.Hour, 1},
		"a step back": {-time.Hour, 1}, "a small step back": {-29 * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			for _, p := range []string{"1", "2", "3"} {
				b.beats(p, web)
			}
			b.beats("4", worker)
			b.shift(c.step)
			want := map[string]int{web.Name: c.want}
			if c.want > 1 {
				want[worker.Name] = 1
			}
			b.wants("one heartbeat", b.beats("1", web), want)
			if n := b.rdb.HLen(t.Context(), b.Keys+":rules").Val(); int(n) != len(want) {
				t.Errorf("%d lists of rules are left, want %d", n, len(want))
			}
			b.beats("2", web)
			want[web.Name] = 3
			b.wants("all have come back", b.beats("3", web), want)
		})
	}
}

// Beyond the largest number of groups, processes are in the group of all.
func TestRecord_ManyGroups(t *testing.T) {
	b := newBook(t)
	groups := make([]processes.Group, processes.MaxGroups+2)
	for i := range groups {
		groups[i] = processes.GroupOf([]string{fmt.Sprint("rule ", i)})
		b.beats(fmt.Sprint(i), groups[i])
	}
	read := b.beats("0", groups[0])
	if len(read.Counts) != processes.MaxGroups+1 || read.Counts[processes.All] != 2 || read.Group != groups[0].Name {
		t.Errorf("got %v", read)
	}
	if read := b.beats("65", groups[65]); read.Group != processes.All || read.Counts[processes.All] != 2 {
		t.Errorf("got %v", read)
	}
	b.beats("0", ended(groups[0]))
	if read := b.beats("65", groups[65]); read.Group != groups[65].Name || read.Counts[processes.All] != 1 || read.Counts[groups[65].Name] != 1 {
		t.Errorf("after a group has gone: got %v", read)
	}
	if read := b.beats("64", ended(groups[64])); read.Counts[processes.All] != 0 {
		t.Errorf("after the end: got %v", read)
	}
}

// Parts of the record that are not well formed are removed, once.
func TestRecord_Damage(t *testing.T) {
	for name, damage := range map[string]func(ctx context.Context, b *book) error{
		"text":     func(ctx context.Context, b *book) error { return b.rdb.HSet(ctx, b.Keys, "x", "many").Err() },
		"no time":  func(ctx context.Context, b *book) error { return b.rdb.HSet(ctx, b.Keys, "x", "3").Err() },
		"negative": func(ctx context.Context, b *book) error { return b.rdb.HSet(ctx, b.Keys, "x", "-3 5").Err() },
		"number": func(ctx context.Context, b *book) error {
			return b.rdb.HSet(ctx, b.Keys, "x", "1234567890123456 5").Err()
		},
		"far time": func(ctx context.Context, b *book) error {
			return b.rdb.HSet(ctx, b.Keys, "x", "3 1234567890123456").Err()
		},
		"bytes": func(ctx context.Context, b *book) error {
			return b.rdb.HSet(ctx, b.Keys, "\x00\xff", "\x00 \xff").Err()
		},
		"long name": func(ctx context.Context, b *book) error {
			return b.rdb.HSet(ctx, b.Keys, strings.Repeat("x", 17), "3 5").Err()
		},
		"its own number": func(ctx context.Context, b *book) error { return b.rdb.HSet(ctx, b.Keys, web.Name, "nan inf").Err() },
		"many": func(ctx context.Context, b *book) error {
			var fields []any
			for i := range 3 * processes.MaxGroups {
				fields = append(fields, fmt.Sprint(i), "3 5")
			}
			return b.rdb.HSet(ctx, b.Keys, fields...).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.beats("1", web)
			testkit.Must(t, damage(t.Context(), b))
			read, err := b.Beat(t.Context(), processes.Heartbeat{Process: "2", Group: web})
			if !errors.Is(err, processes.ErrRecord) {
				t.Errorf("got the error %v", err)
			}
			b.wants("the numbers", read, map[string]int{web.Name: 2})
			b.wants("afterwards", b.beats("1", web), map[string]int{web.Name: 2})
		})
	}
	b := newBook(t)
	for _, text := range []string{"", "api", "{}", `["a"`, `[1]`, `[]`, `["b","a"]`, `["a","a"]`, strings.Repeat("[", 1<<20)} {
		testkit.Must(t, b.rdb.HSet(t.Context(), b.Keys+":rules", "x", text).Err())
		if lists, err := b.RulesOf(t.Context(), []string{"x"}); !errors.Is(err, processes.ErrRecord) || len(lists) != 0 {
			t.Errorf("%.20q: got %v, %v", text, lists, err)
		}
	}
}

// The descriptions of processes end with them, also if no process of their group is left.
func TestRecord_About(t *testing.T) {
	b := newBook(t)
	for i := range 20 {
		b.beats(fmt.Sprint(i), worker)
	}
	b.beats("web", web)
	if n := b.rdb.HLen(t.Context(), b.Keys+":about:"+worker.Name).Val(); n != 20 {
		t.Errorf("got %d descriptions, want 20", n)
	}
	ttl := b.rdb.PTTL(t.Context(), b.Keys+":about:"+worker.Name).Val()
	if ttl <= 0 || ttl > processes.Lifetime {
		t.Errorf("they expire in %v", ttl)
	}
	b.shift(31 * time.Second)
	b.beats("20", worker)
	if n := b.rdb.HLen(t.Context(), b.Keys+":about:"+worker.Name).Val(); n != 1 {
		t.Errorf("got %d descriptions, want that of the new process", n)
	}
	b.beats("20", web, worker)
	if n := b.rdb.Exists(t.Context(), b.Keys+":about:"+worker.Name).Val(); n != 0 {
		t.Error("a group without processes has a description")
	}
}

// Published rules go when they are removed, and the oldest ones when there are too many.
func TestRecord_Published(t *testing.T) {
	b := newBook(t)
	publish := func(version, n int, removed ...string) {
		h := processes.Heartbeat{Process: "1", Group: web, Removed: removed}
		for i := range n {
			name := fmt.Sprintf("rule %d", i)
			h.Rules = append(h.Rules, [2]string{fmt.Sprint(name, " ", version), fmt.Sprintf(`{"base":{"name":%q,"algorithm":%d,"events":%d,"per":1000000000}}`, name, core.AlgorithmSlidingLog, version)})
		}
		_, err := b.Beat(t.Context(), h)
		testkit.Must(t, err)
		time.Sleep(2 * time.Millisecond) // times are milliseconds
	}
	latest := func(want int) {
		t.Helper()
		all, err := b.Published(t.Context())
		testkit.Must(t, err)
		seen := map[string]bool{}
		for _, r := range all {
			if !seen[r.Base.Name] && r.Base.Events != want {
				t.Errorf("the latest description of %s is that of version %d, want %d", r.Base.Name, r.Base.Events, want)
			}
			seen[r.Base.Name] = true
		}
	}
	publish(1, 600)
	publish(2, 600)
	latest(2)
	if n := b.rdb.HLen(t.Context(), b.Keys+":published").Val(); n != 1000 {
		t.Errorf("got %d rules, want 1000", n)
	}
	publish(3, 1, "rule 0 2", "rule 0 1")
	if b.rdb.HExists(t.Context(), b.Keys+":published", "rule 0 2").Val() || !b.rdb.HExists(t.Context(), b.Keys+":published", "rule 0 3").Val() {
		t.Error("a removed rule is published")
	}
}

// A reader of a damaged record deletes nothing.
func TestRecord_Read(t *testing.T) {
	b := newBook(t)
	b.beats("1", web)
	for i := range 200 {
		testkit.Must(t, b.rdb.HSet(t.Context(), b.Keys, fmt.Sprint(i), "x").Err())
	}
	if _, _, err := b.Processes(t.Context()); !errors.Is(err, processes.ErrRecord) {
		t.Errorf("got the error %v", err)
	}
	if n := b.rdb.HLen(t.Context(), b.Keys).Val(); n != 201 {
		t.Errorf("got %d fields after a reader, want 201", n)
	}
	testkit.Must(t, b.rdb.HSet(t.Context(), b.Keys+":published", "huge", strings.Repeat("x", 1<<20)).Err())
	if all, err := b.Published(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("a huge rule: got %v, %v", all, err)
	}
}

// A heartbeat names rules that another process has described otherwise since the first heartbeat of the process.
func TestRecord_Differ(t *testing.T) {
	b := newBook(t)
	beat := func(process string, since int64, rules ...[2]string) processes.Reading {
		t.Helper()
		read, err := b.Beat(t.Context(), processes.Heartbeat{Process: process, Group: web, About: "{}", Rules: rules, Since: since})
		testkit.Must(t, err)
		return read
	}
	old, changed := [2]string{"the rule 1111", `{"a":1}`}, [2]string{"the rule 2222", `{"a":2}`}
	first := beat("1", 0, old, [2]string{"login 1", "{}"})
	second := beat("2", 0, changed, [2]string{"login 1", "{}"})
	if len(first.Differ)+len(second.Differ) > 0 {
		t.Errorf("a deployment: got %q and %q", first.Differ, second.Differ)
	}
	if read := beat("2", second.Now.UnixMilli()+1, changed); len(read.Differ) > 0 {
		t.Errorf("the first process has ended: got %q", read.Differ)
	}
	if read := beat("1", first.Now.UnixMilli(), old); fmt.Sprint(read.Differ) != "[the rule]" {
		t.Errorf("both run: got %q", read.Differ)
	}
	if read := beat("2", second.Now.UnixMilli(), changed); fmt.Sprint(read.Differ) != "[the rule]" {
		t.Errorf("both run: got %q", read.Differ)
	}
}

// A text of switches that is too long is read as one that is not well formed, and replaced by the next change.
func TestRecord_Switches_Long(t *testing.T) {
	b := newBook(t)
	testkit.Must(t, b.rdb.HSet(t.Context(), b.Keys+":switches", "all", strings.Repeat(" ", 1<<20)+`{"change":1}`).Err())
	if s, err := b.Switches(t.Context()); !errors.Is(err, processes.ErrRecord) || s.Change != 0 {
		t.Errorf("got %+v, %v", s, err)
	}
	off := func(s *processes.Switches, _ int64) { s.Off = []processes.Switch{{Rule: "api"}} }
	if s, err := b.Change(t.Context(), off); err != nil || len(s.Off) != 1 || s.Change < 1<<40 {
		t.Errorf("got %+v, %v", s, err)
	}
	if s, err := b.Switches(t.Context()); err != nil || len(s.Off) != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
	testkit.Must(t, b.rdb.Del(t.Context(), b.Keys+":switches").Err())
	testkit.Must(t, b.rdb.Set(t.Context(), b.Keys+":switches", "x", 0).Err())
	if _, err := b.Change(t.Context(), off); err == nil {
		t.Error("another type: got no error")
	}
}

// A group whose name is that of another key is ignored.
func TestRecord_Processes_HostileGroup(t *testing.T) {
	b := newBook(t)
	b.beats("1", web)
	now := b.now().UnixMilli()
	testkit.Must(t, b.rdb.HSet(t.Context(), b.Keys, "switches", fmt.Sprint("3 ", now), "rules", fmt.Sprint("3 ", now)).Err())
	all, _, err := b.Processes(t.Context())
	if len(all) != 1 || !errors.Is(err, processes.ErrRecord) {
		t.Errorf("got %+v, %v", all, err)
	}
}
