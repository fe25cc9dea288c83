package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// Requests that cannot be identified or decided, without OnError.
func TestFailClosed(t *testing.T) {
	noToken := fmt.Errorf("%w: expired", keyfunc.ErrNoToken)
	table(t, []row{{
		name: "no token: 401 with a challenge", key: noKey(noToken), status: 401, noStore: true, header: fields("WWW-Authenticate", "Bearer"),
		body: problem(401, "Unauthorized", "Sign-in is required."),
	}, {
		name: "no token, other challenge: a challenge of the application stays",
		key:  noKey(noToken), before: func(h http.Header) { h.Set("WWW-Authenticate", `Bearer realm="api"`) }, status: 401, noStore: true,
		header: map[string]string{"WWW-Authenticate": `Bearer realm="api"`},
	}, {
		name: "no key: 400, not a shared bucket",
		key:  noKey(fmt.Errorf("%w: no address", keyfunc.ErrNoKey)), status: 400, noStore: true, header: fields("WWW-Authenticate", ""),
		body: problem(400, "Bad Request", unidentified),
	}, {
		name: "empty key: 400, not a shared bucket", key: constant(""), status: 400, noStore: true, body: problem(400, "Bad Request", unidentified),
	}, {
		name: "fault in a key function: 500, without the text of the error",
		key:  noKey(errSecret), status: 500, noStore: true, header: noFields, body: problem(500, "Internal Server Error", ""),
	}, {
		name: "no key, FailClosed: 400, because FailClosed is for failures of the Store",
		key:  noKey(keyfunc.ErrNoKey), opts: []gate.Option{gate.FailClosed()}, status: 400, noStore: true,
	}, {
		name: "store fails: the request is let through, without fields", err: errSecret, header: noFields,
	}, {
		name: "store fails closed: 503 with Retry-After, without the text of the error",
		err:  errSecret, opts: []gate.Option{gate.FailClosed()}, status: 503, header: fields("Retry-After", "1"), body: undecided,
	}, {
		name: "fail-closed rule: 503 in every gate",
		err:  fmt.Errorf("%w: %w: away", core.ErrUnavailable, core.ErrFailClosed), status: 503, header: fields("Retry-After", "1"), body: undecided,
	}, {
		name: "store fails closed, as text",
		err:  errSecret, opts: []gate.Option{gate.FailClosed()}, req: accept("text/html"), status: 503, text: true, header: fields("Retry-After", "1"),
		body: "Retry in 1 s.\n",
	}, {
		name: "store out of time: the store's own deadline is a failure of the store", err: context.DeadlineExceeded,
	}, {
		name: "store canceled itself: ErrUnavailable is a failure of the store, whatever its cause",
		err:  fmt.Errorf("%w: %w", core.ErrUnavailable, context.Canceled),
	}, {
		name: "canceled: a cancelled request is no failure of the store: 503, and the handler does not run",
		err:  context.Canceled, status: 503, body: undecided,
	}})
}

// TestOnError combines every kind of error with every kind of result of OnError: 0 lets the request
// through, 400 to 599 is the status, and any other number changes nothing.
func TestOnError(t *testing.T) {
	faults := []struct {
		name   string
		row    row
		err    error
		status int // the status that OnError gets
	}{
		{"no token", row{key: noKey(keyfunc.ErrNoToken)}, keyfunc.ErrNoToken, 401},
		{"no key", row{key: noKey(keyfunc.ErrNoKey)}, keyfunc.ErrNoKey, 400},
		{"empty key", row{key: constant("")}, keyfunc.ErrNoKey, 400},
		{"key fault", row{key: noKey(errSecret)}, errSecret, 500},
		{"negative cost", row{opts: []gate.Option{costs(-2)}}, core.ErrNegativeCost, 500},
		{"store", row{err: errSecret}, errSecret, 0},
		{"store, closed", row{err: errSecret, opts: []gate.Option{gate.FailClosed()}}, errSecret, 503},
		{"canceled", row{err: context.Canceled}, context.Canceled, 503},
	}
	same := func(status int) int { return status }
	always := func(n int) func(int) int { return func(int) int { return n } }
	results := []struct {
		name   string
		choose func(status int) int
		want   func(status int) int
	}{
		{"same", same, same},
		{"let through", always(0), always(0)},
		{"lowest", always(400), always(400)},
		{"highest", always(599), always(599)},
		{"unavailable", always(503), always(503)},
		{"too many requests", always(429), always(429)},
		{"success", always(200), same},
		{"redirect", always(399), same},
		{"too high", always(600), same},
		{"negative", always(-1), same},
	}
	for _, f := range faults {
		for _, result := range results {
			r := f.row
			r.name = f.name + ", " + result.name
			r.status = result.want(f.status)
			if f.name == "canceled" && r.status == 0 {
				r.status = 503 // a client cannot pass the limit by hanging up
			}
			switch {
			case r.status == 400 && f.err == keyfunc.ErrNoToken, r.status == 400 && f.err == keyfunc.ErrNoKey:
				r.body = problem(400, "Bad Request", unidentified)
			case r.status == 400:
				r.body = problem(400, "Bad Request", "")
			case r.status == 429:
				r.body = problem(429, "Too Many Requests", "")
			case r.status == 503:
				r.body = undecided
			case r.status == 599:
				r.body = problem(599, "", "")
			}
			called := 0
			r.states = states{"burst": {Allowed: true}}
			r.opts = append(slices.Clone(r.opts), gate.OnError(func(req *http.Request, err error, status int) int {
				called++
				if req.URL.Path != "/v1/orders" || !errors.Is(err, f.err) || status != f.status {
					t.Errorf("%s: OnError got %s, %v, %d; want %v, %d", f.name, req.URL.Path, err, status, f.err, f.status)
				}
				return result.choose(status)
			}))
			t.Run(r.name, func(t *testing.T) {
				r.run(t)
				if called != 1 {
					t.Errorf("OnError was called %d times, want once", called)
				}
			})
		}
	}
}

// OnError finds the error of a body that is too long or comes too slowly, and chooses 413 or 408.
func TestOnError_Body(t *testing.T) {
	choose := gate.OnError(func(_ *http.Request, err error, status int) int {
		var long *http.MaxBytesError
		switch {
		case errors.As(err, &long):
			return http.StatusRequestEntityTooLarge
		case errors.Is(err, os.ErrDeadlineExceeded):
			return http.StatusRequestTimeout
		}
		return status
	})
	l := core.Must(core.New(memstore.New(), core.SlidingLog("login", core.PerHour(100))))
	h := nethttplimit.New(l, keyfunc.RemoteIP(), choose, gate.And(l, keyfunc.FormValue("user")))(http.NotFoundHandler())
	for name, c := range map[string]struct {
		body io.Reader
		want int
	}{
		"short":                 {strings.NewReader("user=ann"), 404},
		"long":                  {strings.NewReader("user=" + strings.Repeat("x", 1<<20)), 413},
		"a limit of the server": {http.MaxBytesReader(nil, io.NopCloser(strings.NewReader("user=ann")), 5), 413},
		"slow":                  {iotest.ErrReader(os.ErrDeadlineExceeded), 408},
		"cut off":               {iotest.ErrReader(io.ErrUnexpectedEOF), 400},
	} {
		r := httptest.NewRequest("POST", "/", c.body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, c.want)
		}
	}
}

// logged returns the lines of the default logger while f runs.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var b testkit.Buffer
	was, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&b, nil)))
	defer func() {
		slog.SetDefault(was)
		log.SetOutput(out) // SetDefault has redirected the log package as well
		log.SetFlags(flags)
	}()
	f()
	return b.String()
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
		testkit.Must(t, json.Unmarshal([]byte(line), &got))
		if got.Level != "WARN" || got.Msg != msg || got.Error != errSecret.Error() || got.Suppressed != 4*min(i, 1) {
			t.Errorf("line %d is %s\n\twant level WARN, %q, %q, %d suppressed", i, line, msg, errSecret, 4*min(i, 1))
		}
	}
}
