package gatetest

import (
	"bytes"
	"encoding/json"
	"log"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// A buffer collects log lines of several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// logged is what the default logger gets while f runs.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var b buffer
	was, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&b, nil)))
	defer func() {
		slog.SetDefault(was)
		log.SetOutput(out) // SetDefault has redirected the log package as well
		log.SetFlags(flags)
	}()
	f()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (s *suite) testLog(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		key   keyfunc.Func
		opts  []gate.Option
		lines int // of 5 requests in each of 3 seconds
		want  string
	}{
		{name: "store", err: errSecret, lines: 3, want: "weir: the store could not decide"},
		{name: "store, closed", err: errSecret, opts: []gate.Option{gate.FailClosed()}, lines: 3, want: "weir: the store could not decide"},
		{name: "key function", key: noKey(errSecret), lines: 3, want: "weir: no key or cost for a request"},
		{name: "no key", key: noKey(keyfunc.ErrNoKey)},
		{name: "no token", key: noKey(keyfunc.ErrNoToken)},
		{name: "OnError", err: errSecret, opts: []gate.Option{quiet}},
		{name: "denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &script{err: c.err, states: states{"burst": denied(time.Second)}}
				if c.key == nil {
					c.key = constant("key-of-a-person")
				}
				h := s.build(core.Must(core.New(store, burst)), c.key, c.opts, new(probe).ServeHTTP)
				lines := logged(t, func() {
					for range 3 {
						for range 5 {
							record(t, h, request("GET", "/v1/orders?token=secret"))
						}
						time.Sleep(time.Second)
					}
				})
				checkLines(t, lines, c.lines, c.want)
			})
		})
	}
}

func checkLines(t *testing.T, lines string, n int, msg string) {
	t.Helper()
	if got := strings.Count(lines, "\n"); got != n {
		t.Fatalf("%d lines are logged, want %d: at most one a second\n%s", got, n, lines)
	}
	if strings.Contains(lines, "key-of-a-person") || strings.Contains(lines, "token") || strings.Contains(lines, "192.0.2.1") {
		t.Errorf("the log knows the client: %s", lines)
	}
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n")[:n] {
		var got struct {
			Level, Msg, Error string
			Suppressed        int
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if got.Level != "WARN" || got.Msg != msg || got.Error != errSecret.Error() || got.Suppressed != 4*min(i, 1) {
			t.Errorf("line %d is %s\n\twant level WARN, %q, %q, %d suppressed", i, line, msg, errSecret, 4*min(i, 1))
		}
	}
}
