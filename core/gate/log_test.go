package gate_test

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

// logged returns the lines of the default logger while f runs.
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

func TestOnError_Log(t *testing.T) {
	for _, c := range []struct {
		name string
		setup
		lines int // of 5 requests in each of 3 seconds
		want  string
	}{
		{"store", setup{Err: errSecret}, 3, "weir: the store could not decide"},
		{"store, closed", setup{Err: errSecret, Opts: []gate.Option{gate.FailClosed()}}, 3, "weir: the store could not decide"},
		{"key function", setup{Key: noKey(errSecret)}, 3, "weir: no key or cost for a request"},
		{"no key", setup{Key: noKey(keyfunc.ErrNoKey)}, 0, ""},
		{"no token", setup{Key: noKey(keyfunc.ErrNoToken)}, 0, ""},
		{"OnError", setup{Err: errSecret, Opts: []gate.Option{quiet}}, 0, ""},
		{"denied", setup{States: states{"hundred": denied(time.Second)}}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.Key == nil {
					c.Key = constant("key-of-a-person")
				}
				a := start(c.setup)
				lines := logged(t, func() {
					everySecond(3, 5, func() { record(t, a, request("GET", "/v1/orders?token=secret")) })
				})
				checkLines(t, lines, c.lines, c.want)
			})
		})
	}
}

// everySecond calls f n times in each of the given seconds.
func everySecond(seconds, n int, f func()) {
	for range seconds {
		for range n {
			f()
		}
		time.Sleep(time.Second)
	}
}

// checkLines compares the lines that were logged, and the fields of each.
func checkLines(t *testing.T, lines string, n int, msg string) {
	t.Helper()
	if got := strings.Count(lines, "\n"); got != n {
		t.Fatalf("%d lines are logged, want %d: at most one a second\n%s", got, n, lines)
	}
	if strings.Contains(lines, "key-of-a-person") || strings.Contains(lines, "token") || strings.Contains(lines, "192.0.2.1") {
		t.Errorf("the log contains data of the client: %s", lines)
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
