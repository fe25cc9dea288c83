package rules_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/core/rules/internal/file"
	"github.com/weir-go/weir/internal/testkit"
)

// A content is a file at one time.
type content struct {
	text string
	err  error
}

// A watched file changes at the given times. The test lists the limit in force and the errors.
func TestSet_Watch(t *testing.T) {
	const ms = time.Millisecond
	missing := content{err: &fs.PathError{Op: "open", Path: "f.yaml", Err: fs.ErrNotExist}}
	broken := content{text: "policies:\n  api: {rule: []}\n"}
	ok := func(limit string) content { return content{text: limited(limit)} }
	lost := func(port int) content {
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
		return content{err: &net.OpError{Op: "read", Net: "tcp", Source: local, Addr: new(net.TCPAddr), Err: os.ErrDeadlineExceeded}}
	}
	type write struct {
		at   time.Duration
		file content
	}
	type expectation struct {
		at    time.Duration
		limit string
	}
	for _, c := range []struct {
		name   string
		events []write
		want   []expectation
		errors []string // parts of the errors, in order
	}{
		{"unchanged", nil, []expectation{{10 * time.Second, "1/s"}}, nil},
		{"changed at once", []write{{0, ok("2/s")}}, []expectation{{50 * ms, "1/s"}, {150 * ms, "2/s"}}, nil},
		{"changed, within 1.1 s", []write{{1010 * ms, ok("2/s")}}, []expectation{{2050 * ms, "1/s"}, {2120 * ms, "2/s"}}, nil},
		{"changed twice", []write{{1500 * ms, ok("2/s")}, {3500 * ms, ok("1/s")}}, []expectation{{3 * time.Second, "2/s"}, {5 * time.Second, "1/s"}}, nil},
		{
			"broken, then good", []write{{1500 * ms, broken}, {9500 * ms, ok("3/s")}}, []expectation{{9 * time.Second, "1/s"}, {11 * time.Second, "3/s"}},
			[]string{`f.yaml:2:9: policies.api.rule: is an unknown field`},
		},
		{
			"broken twice, with another text between", []write{{1500 * ms, broken}, {3500 * ms, ok("1/s")}, {5500 * ms, broken}},
			[]expectation{{9 * time.Second, "1/s"}}, []string{"f.yaml:2:9", "f.yaml:2:9"},
		},
		{"empty", []write{{1500 * ms, content{}}}, []expectation{{9 * time.Second, "1/s"}}, []string{"f.yaml:1:1"}},
		{"only comments", []write{{1500 * ms, content{text: "# none\n"}}}, []expectation{{9 * time.Second, "1/s"}}, []string{"f.yaml:1:1"}},
		{"without policies", []write{{1500 * ms, content{text: "policies: {}\n"}}}, []expectation{{9 * time.Second, "1/s"}}, []string{"f.yaml:1:1: the file has no policies"}},
		{
			"missing, then again there", []write{{1500 * ms, missing}, {5500 * ms, ok("1/s")}, {7500 * ms, missing}, {9500 * ms, ok("2/s")}},
			[]expectation{{9 * time.Second, "1/s"}, {11 * time.Second, "2/s"}},
			[]string{"weir: configuration of f.yaml: open f.yaml: file does not exist", "file does not exist"},
		},
		{
			"missing, then another error", []write{{1500 * ms, missing}, {5500 * ms, content{err: fs.ErrPermission}}}, []expectation{{9 * time.Second, "1/s"}},
			[]string{"not exist", "permission denied"},
		},
		{
			"a connection is lost, and others", []write{{1500 * ms, lost(1)}, {2500 * ms, lost(2)}, {3500 * ms, lost(3)}}, []expectation{{9 * time.Second, "1/s"}},
			[]string{"127.0.0.1:1->:0: i/o timeout"},
		},
		{
			"replaced by an editor: missing and in steps", []write{
				{1950 * ms, missing}, {2050 * ms, content{}}, {2150 * ms, content{text: limited("2/s")[:20]}}, {2250 * ms, ok("2/s")},
			},
			[]expectation{{2250 * ms, "1/s"}, {3 * time.Second, "2/s"}}, nil,
		},
		{ // the beginning of the text is a valid configuration with fewer rules
			"written in two steps", []write{{1950 * ms, ok("1/s")}, {1990 * ms, ok("2/s")}, {2050 * ms, ok("20/s")}},
			[]expectation{{2150 * ms, "1/s"}, {2350 * ms, "20/s"}}, nil,
		},
		{
			"in conflict", []write{{1500 * ms, content{text: strings.Replace(limited("1/s"), "name: r", "name: taken", 1)}}}, []expectation{{9 * time.Second, "1/s"}},
			[]string{`rule "api.taken"`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex // of now and times
				now, times := ok("1/s"), make(map[time.Duration]string)
				locked := func(f func()) func() {
					return func() {
						mu.Lock()
						defer mu.Unlock()
						f()
					}
				}
				source := file.New("f.yaml", func() ([]byte, error) {
					mu.Lock()
					defer mu.Unlock()
					return []byte(now.text), now.err
				})
				config, err := rules.Load(t.Context(), source)
				testkit.Must(t, err)
				store := memstore.New()
				testkit.Limiter(t, store, testkit.Algorithms[0].Rule("api.taken", config.Policies["api"].Rules[0].Limit))
				var errs []error
				s, err := rules.New(store, config, rules.OnError(func(err error) { errs = append(errs, err) }))
				testkit.Must(t, err)
				l := limiter(t, s, "api")
				begin := time.Now()
				for _, e := range c.events {
					time.AfterFunc(e.at-ms, locked(func() { now = e.file }))
				}
				if len(c.events) > 0 && c.events[0].at == 0 {
					locked(func() { now = c.events[0].file })()
				}
				for _, w := range c.want {
					time.AfterFunc(w.at, locked(func() { times[w.at] = l.Rules()[0].Limit().String() }))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second+ms/2)
				defer cancel()
				if err := s.Watch(ctx, source); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 12*time.Second+ms/2 {
					t.Errorf("got %v after %v, want the end of the context", err, time.Since(begin))
				}
				mu.Lock()
				defer mu.Unlock()
				for _, w := range c.want {
					if times[w.at] != w.limit {
						t.Errorf("after %v: got the limit %s, want %s", w.at, times[w.at], w.limit)
					}
				}
				for i, err := range errs {
					if i >= len(c.errors) || !strings.Contains(err.Error(), c.errors[i]) {
						t.Errorf("got error %d: %v, want %q", i, err, c.errors)
					}
				}
				if len(errs) != len(c.errors) {
					t.Errorf("got %d errors, want %d", len(errs), len(c.errors))
				}
			})
		})
	}
}

func TestLoad_Errors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if _, err := rules.Load(t.Context(), rules.File(path)); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got error %v of a missing file", err)
	}
	for _, text := range []string{"", "policies: {", "policies: {api: {}}"} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := rules.Load(t.Context(), rules.File(path)); err == nil || !strings.HasPrefix(err.Error(), path+":") {
			t.Errorf("%q: got error %v, want its position", text, err)
		}
	}
	testkit.Must(t, os.WriteFile(path, bytes.Repeat([]byte("#"), rules.MaxSize+9), 0o600))
	if text, err := rules.File(path).Load(t.Context()); len(text) != rules.MaxSize+1 || err != nil {
		t.Errorf("a large file: got %d bytes, %v", len(text), err)
	}
	if _, err := rules.Load(t.Context(), failing{}); !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "rules_test.failing") {
		t.Errorf("got error %v, want that of the source", err)
	}
}

// failing is a Source without a name.
type failing struct{}

func (failing) Load(context.Context) ([]byte, error) { return nil, fs.ErrInvalid }

// Without OnError, an error is logged with the version in force.
func TestSet_Watch_Log(t *testing.T) {
	var logged bytes.Buffer
	old := slog.Default()
	defer slog.SetDefault(old)
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, "api: {rules: ["+second+"]}")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_ = s.Watch(ctx, failing{})
		if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "version="+s.Version()) || !strings.Contains(got, "invalid argument") {
			t.Errorf("logged %q, want one error", got)
		}
	})
}

// A ConfigMap in Kubernetes is a symbolic link to a symbolic link, the second of which is replaced.
func TestSet_Watch_ConfigMap(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a program needs privileges for symbolic links")
	}
	dir := t.TempDir()
	write := func(version, limit string) {
		t.Helper()
		testkit.Must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, version, "limits.yaml"), []byte(limited(limit)), 0o600))
		testkit.Must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		testkit.Must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	write("..2000", "1/s")
	path := filepath.Join(dir, "limits.yaml")
	testkit.Must(t, os.Symlink("..data/limits.yaml", path))
	source := rules.File(path)
	config, err := rules.Load(t.Context(), source)
	testkit.Must(t, err)
	changes := make(chan rules.Change, 9)
	s, err := rules.New(memstore.New(), config,
		rules.OnChange(func(c rules.Change) { changes <- c }), rules.OnError(func(err error) { t.Errorf("got error %v", err) }))
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Watch(ctx, source) }()
	write("..2001", "2/s")
	testkit.Must(t, os.RemoveAll(filepath.Join(dir, "..2000")))
	select {
	case c := <-changes:
		if c.Version != s.Version() {
			t.Errorf("got the change %+v, want the version %s", c, s.Version())
		}
	case <-time.After(10 * time.Second):
		t.Error("got no change within 10 s")
	}
	want(t, "replaced", limiter(t, s, "api"), "k", `fixed_window "api.r" 2/s`)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want Canceled", err)
	}
}

// The limit of a quota applies as soon as its file has changed, and its time zone after the end of the
// period that a key is in. The clock of the test starts at midnight UTC.
func TestSet_Watch_Quota(t *testing.T) {
	calls := func(quota string) string {
		return "policies: {api: {rules: [{name: calls, algorithm: quota, " + quota + "}]}}\n"
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of text
		text := calls("limit: 2/day, plans: {pro: 4/day}")
		source := file.New("f.yaml", func() ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			return []byte(text), nil
		})
		config, err := rules.Load(t.Context(), source)
		testkit.Must(t, err)
		var changes [][]string
		s, err := rules.New(memstore.New(), config, rules.OnChange(func(c rules.Change) { changes = append(changes, c.Diff) }))
		testkit.Must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Watch(ctx, source) }()
		l, midnight := limiter(t, s, "api"), time.Now()
		// allow admits the first n of n+1 events, and denies the last one until a time.
		allow := func(name string, l *core.Limiter, n int, until time.Duration) {
			t.Helper()
			for i := range n + 1 {
				if d := testkit.Allow(t, l, "k"); d.Allowed != (i < n) || !d.Allowed && !time.Now().Add(d.RetryAfter).Equal(midnight.Add(until)) {
					t.Errorf("%s: event %d: got %v, want %d admitted, and then a denial until %v", name, i, d, n, midnight.Add(until))
				}
			}
		}
		time.Sleep(10 * time.Hour)
		allow("before the change", l, 2, 24*time.Hour)
		allow("of a plan", l.Plan("pro"), 2, 24*time.Hour)
		mu.Lock()
		text = calls("limit: 5/day, plans: {pro: 7/day}, timezone: Asia/Tokyo") // midnight is at 15:00 UTC
		mu.Unlock()
		time.Sleep(3 * time.Second)
		allow("changed", l, 1, 24*time.Hour)
		allow("of a changed plan", l.Plan("pro"), 2, 24*time.Hour)
		time.Sleep(5 * time.Hour)
		allow("after midnight in Tokyo", l, 0, 24*time.Hour)
		time.Sleep(9 * time.Hour)
		allow("after midnight UTC", l, 5, 39*time.Hour)
		time.Sleep(15 * time.Hour)
		allow("on the next day in Tokyo", l, 5, 63*time.Hour)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want Canceled", err)
		}
		const want = "api.calls plan pro: 4/day to 7/day, api.calls timezone: UTC to Asia/Tokyo, api.calls: 2/day to 5/day"
		if len(changes) != 1 || strings.Join(changes[0], ", ") != want {
			t.Errorf("got the changes %q, want %q", changes, want)
		}
	})
}

// Several calls of Watch share a source.
func TestSet_Watch_Twice(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	prefix := rules.Prefix(newPrefix())
	a, b := newNode(t, rdb, prefix), newNode(t, rdb, prefix)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wg.Go(func() { _ = b.Watch(ctx, b.source) })
	for i := range 20 {
		plan := []string{"gold", "free"}[i%2]
		testkit.Must(t, a.Override(ctx, "api", "k", rules.Override{Plan: plan}))
		becomes(t, "elsewhere", map[string]string{"gold": "100/h", "free": "50/h"}[plan], func() string { return b.limit(t, "k") })
	}
}

// Several calls of Watch read the changes, one of them while the reply to an earlier call is late.
func TestSet_Watch_Several(t *testing.T) {
	t.Parallel()
	o := *redistest.Shared(t).Client().Options()
	rdb := redis.NewClient(&o)
	rdb.AddHook(latePolls{})
	t.Cleanup(func() { _ = rdb.Close() })
	n := newNode(t, rdb, rules.Prefix(newPrefix()))
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_ = n.Watch(ctx, n.source)
		cancel()
	}
	becomes(t, "polled", "true", func() string { return fmt.Sprint(n.source.Stats().Age >= 0) })
}

// latePolls delays the replies to reads of changes, and ignores contexts.
type latePolls struct{}

func (latePolls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (latePolls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (latePolls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "xr") {
			<-time.After(100 * time.Millisecond)
		}
		return next(context.WithoutCancel(ctx), cmd)
	}
}
