package gate_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// Requests are held until their departures, at the rate of the rule. Requests beyond the burst are
// denied at once.
func TestAdmit_Departures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var mu sync.Mutex
		times := map[int][]time.Duration{} // of the responses, by status
		a := start(setup{Rules: []core.Rule{core.LeakyBucket("q", core.PerSecond(10).WithBurst(4))}})
		atOnce(6, func() {
			got := a.Get(t)
			mu.Lock()
			defer mu.Unlock()
			times[got.Status] = append(times[got.Status], time.Since(begin))
		})
		if !slices.Equal(times[200], []time.Duration{0, 100e6, 200e6, 300e6}) || !slices.Equal(times[429], []time.Duration{0, 0}) {
			t.Errorf("the answers come after %v, want 200 every 100 ms from the first, and 429 twice at once", times)
		}
	})
}

// Without MaxDelay, a request is held for 10 s at most, so clients with a longer timeout are served at the rate.
func TestMaxDelay_default(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(setup{Rules: []core.Rule{core.LeakyBucket("q", core.PerSecond(1).WithBurst(60))}})
		var served atomic.Int64
		var clients sync.WaitGroup
		for range 120 {
			for range 3 {
				clients.Go(func() {
					ctx, hangUp := context.WithTimeout(t.Context(), 11*time.Second)
					defer hangUp()
					if record(t, a, request("GET", "/").WithContext(ctx)).Status == http.StatusOK {
						served.Add(1)
					}
				})
			}
			time.Sleep(time.Second)
		}
		clients.Wait()
		if n := served.Load(); n < 120 {
			t.Errorf("%d requests were served in 120 s, want one a second", n)
		}
	})
}

// Requests that the queue would hold for too long are denied at once.
func TestMaxDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(setup{
			Rules: []core.Rule{
				core.SlidingLog("log", core.PerHour(100)),
				core.LeakyBucket("q", core.PerMinute(6).WithBurst(100)), // a departure every 10 s
			},
			Opts: []gate.Option{gate.MaxDelay(25 * time.Second)},
		})
		begin := time.Now()
		var mu sync.Mutex
		var served []time.Duration
		atOnce(50, func() {
			got := a.Get(t)
			mu.Lock()
			defer mu.Unlock()
			at := time.Since(begin)
			if got.Status == http.StatusOK {
				served = append(served, at)
			} else if retry, _ := got.RetryAfter(t); got.Status != http.StatusTooManyRequests || at != 0 || retry != 5 {
				t.Errorf("%d after %v, to retry in %d s; want 429 at once, and 5 s, after which the delay is 25 s", got.Status, at, retry)
			}
		})
		if !slices.Equal(served, []time.Duration{0, 10e9, 20e9}) {
			t.Errorf("served after %v, want at once, after 10 s and after 20 s", served)
		}
		a.CheckTaken(t, "k", 3) // a denied request takes nothing
	})
}

// Clients hang up while their requests are held.
func TestAdmit_LeavesQueue(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  []gate.Option
		taken int // of 5 requests, 2 of which left
	}{
		{"plain", nil, 5},
		{"refunded", []gate.Option{refundAll}, 3}, // the served requests are refunded, the others are not
		{"bounded", []gate.Option{gate.MaxDelay(time.Minute)}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkLeaving(t, c.opts, c.taken) })
		})
	}
	t.Run("store fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rule := core.LeakyBucket("q", core.PerMinute(10).WithBurst(9))
			a := start(setup{Store: onUndo(func(context.Context) error { return errSecret }), Rules: []core.Rule{rule}, Key: constant("key-of-a-person")})
			a.Gets(t, 200)
			lines := logged(t, func() {
				ctx, hangUp := context.WithTimeout(t.Context(), time.Second)
				defer hangUp()
				if got := record(t, a, request("GET", "/").WithContext(ctx)); got.Status != http.StatusServiceUnavailable {
					t.Errorf("status %d, want 503", got.Status)
				}
			})
			checkLines(t, lines, 1, "weir: the leaky bucket of a client that hung up could not be refunded")
		})
	})
}

// One client leaves the middle of the queue, and one its end.
func checkLeaving(t *testing.T, opts []gate.Option, want int) {
	a := start(setup{Opts: opts, Rules: []core.Rule{
		core.LeakyBucket("q", core.PerSecond(10).WithBurst(9)),
		core.SlidingLog("log", core.PerHour(100)),
		core.TokenBucket("bucket", core.PerHour(100)),
	}})
	if d, err := a.Limiter.Allow(t.Context(), "k"); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for _, c := range []struct {
		name   string
		leaves time.Duration // if there is no response earlier
		status int
		at     time.Duration // of the response
		wait   time.Duration // before the next client
	}{
		{"leaves the middle", 20e6, 503, 20e6, 0},          // its departure would be at 100 ms
		{"is next in the queue", time.Hour, 200, 200e6, 0}, // keeps its departure
		{"leaves the end", 30e6, 503, 30e6, 50e6},          // its departure would be at 300 ms
		{"comes after that", time.Hour, 200, 300e6, 0},     // takes that departure
	} {
		wg.Go(func() {
			ctx, hangUp := context.WithTimeout(t.Context(), c.leaves)
			defer hangUp()
			got := record(t, a, request("GET", "/").WithContext(ctx))
			if at := time.Since(begin); got.Status != c.status || at != c.at {
				t.Errorf("the client that %s: %d at %v, want %d at %v", c.name, got.Status, at, c.status, c.at)
			}
		})
		synctest.Wait()
		time.Sleep(c.wait)
	}
	wg.Wait()
	a.CheckRan(t, 2)
	for i, got := range testkit.Used(t, a.Limiter, "k")[1:] {
		if got != want {
			t.Errorf("%d are taken of rule %d, want %d: hanging up does not refund other rules", got, i+1, want)
		}
	}
}

// The bound applies to every limiter of the gate.
func TestMaxDelay_EveryAsk(t *testing.T) {
	for _, opts := range [][]gate.Option{nil, {costs(2)}} {
		var asked []driver.Charge
		store := memory().Set(recording(&asked))
		opts = append(opts, gate.MaxDelay(time.Second))
		start(setup{Store: store, Opts: opts}).Get(t)
		start(setup{Store: store, Opts: opts, And: constant("b")}).Get(t)
		if len(asked) != 3 {
			t.Fatalf("%d charges, want 3", len(asked))
		}
		for i, c := range asked {
			if c.MaxDelay != time.Second {
				t.Errorf("charge %d has the bound %v, want 1s", i, c.MaxDelay)
			}
		}
	}
}

// Requests that end before they are decided are no failure of the Store, and their handlers do not
// run: otherwise a client could pass the limit by hanging up.
func TestAdmit_Ended(t *testing.T) {
	for _, c := range []struct {
		name string
		setup
		storeErr error // of the Store, when the request ends in the Store
		end      string
	}{
		{name: "before the gate", end: "before"},
		{name: "in the key function", end: "key function"},
		{name: "in the Store", end: "store"},
		{name: "in the Store, FailClosed", setup: setup{Opts: []gate.Option{gate.FailClosed()}}, end: "store"},
		{name: "in the Store, all errors let through", setup: setup{Opts: []gate.Option{letThrough}}, end: "store"},
		{name: "in the Store, which fails", end: "store", storeErr: core.ErrUnavailable},
		{name: "out of time", end: "deadline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				entered := make(chan struct{})
				switch c.end {
				case "before":
					cancel()
				case "key function":
					c.Key = func(context.Context, *http.Request) (string, error) { cancel(); return "", errSecret }
				case "store":
					go func() { <-entered; cancel() }()
					fallthrough
				case "deadline":
					c.Store = apptest.Stuck(entered, c.storeErr)
				}
				a := start(c.setup)
				lines := logged(t, func() {
					if got := record(t, a, request("GET", "/").WithContext(ctx)); got.Status != http.StatusServiceUnavailable {
						t.Errorf("status is %d, want 503", got.Status)
					}
				})
				a.CheckRan(t, 0)
				if lines != "" {
					t.Errorf("the log is %q, want none", lines)
				}
			})
		})
	}
}

// Requests that end before their handlers are not refunded.
func TestRefundIf_Ended(t *testing.T) {
	for name, end := range map[string]func(cancel func()){
		"returns":     func(cancel func()) { cancel() },
		"panics":      func(cancel func()) { cancel(); panic("late") },
		"out of time": func(func()) { time.Sleep(2 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				a := start(setup{Refund: true, Handler: func(w http.ResponseWriter, r *http.Request) { answers(204)(w, r); end(cancel) }})
				caught(func() { record(t, a, request("GET", "/").WithContext(ctx)) })
				a.CheckRefund(t, "[]", 1)
			})
		})
	}
}

// TestAdmit_NotLimited checks that a limiter whose key function returns keyfunc.ErrNotLimited is ignored.
func TestAdmit_NotLimited(t *testing.T) {
	key := constant("k")
	free := noKey(fmt.Errorf("an administrator: %w", keyfunc.ErrNotLimited))
	both := noKey(fmt.Errorf("%w: %w", keyfunc.ErrNoToken, keyfunc.ErrNotLimited))
	if got := record(t, start(setup{Key: both, Opts: []gate.Option{quiet}}), request("GET", "/")).Status; got != 401 {
		t.Errorf("an invalid token whose error is also an ErrNotLimited: got status %d, want 401", got)
	}
	for _, c := range []struct {
		name     string
		key, and keyfunc.Func
		opts     []gate.Option
		want     []string // the keys that are charged; without them, there are no header fields
	}{
		{"alone", free, nil, nil, nil},
		{"alone, with refunds", free, nil, []gate.Option{refundAll}, nil},
		{"all", free, free, nil, nil},
		{"first", free, key, nil, []string{"k"}},
		{"last", key, free, nil, []string{"k"}},
		{"last, with refunds", key, free, []gate.Option{succeeded}, []string{"k"}},
		{"first of", keyfunc.FirstOf(noKey(keyfunc.ErrNoKey), free, key), nil, nil, nil},
		{"join", keyfunc.Join(constant("a"), free), key, nil, []string{"k"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []driver.Charge
			a := start(setup{Store: memory().Set(recording(&asked)), Key: c.key, And: c.and, Opts: c.opts})
			w := record(t, a, request("GET", "/"))
			var keys []string
			for _, charge := range asked {
				if charge.Op == driver.Spend {
					keys = append(keys, charge.Key)
				}
			}
			fields := w.Header.Get("RateLimit") != ""
			if w.Status != 200 || !slices.Equal(keys, c.want) || fields != (c.want != nil) {
				t.Errorf("got status %d, charged keys %v, header %v; want 200, keys %v", w.Status, keys, w.Header, c.want)
			}
		})
	}
}

func TestHostile(t *testing.T) {
	over := states{"hundred": denied(12 * time.Second)}
	a := start(setup{States: over, Opts: []gate.Option{gate.ExposeHeaders()}})
	long := strings.Repeat("a,", 450<<10)
	for _, field := range []string{"Accept", "X-Forwarded-For", "Access-Control-Request-Headers", "Authorization"} {
		t.Run("900 KB of "+field, func(t *testing.T) {
			if got := record(t, a, with(field, long)); got.Status != 429 || len(got.Body) > 1<<10 {
				t.Errorf("status is %d, the body has %d bytes; want 429 and less than 1 KiB", got.Status, len(got.Body))
			}
		})
	}
	t.Run("900 KB of key", func(t *testing.T) {
		a := start(setup{Rules: []core.Rule{core.SlidingLog("r", core.PerDay(1))}, Key: header("X-User")})
		for i, want := range []int{200, 429} {
			if got := record(t, a, with("X-User", long)); got.Status != want {
				t.Errorf("request %d has status %d, want %d, as with any key", i, got.Status, want)
			}
		}
	})
	t.Run("quotes on the wire", func(t *testing.T) {
		const text = `GET /v1/"<b>\n%22%00?q=%0d%0aX-A:+b HTTP/1.1` + "\r\nHost: x\r\n\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		testkit.Must(t, err)
		got := record(t, a, r)
		if got.Status != 429 || strings.ContainsAny(got.Body, "<>") {
			t.Errorf("status is %d, body %s; want 429 and no markup", got.Status, got.Body)
		}
	})
	t.Run("bytes in the path", func(t *testing.T) {
		r := request("GET", "/")
		r.URL = &url.URL{Path: "/a\"b\\c\r\nX-A: b\x00\x7f\xff\u2028"}
		got := record(t, a, r)
		const want = `"instance":"/a%22b%5Cc%0D%0AX-A:%20b%00%7F%FF%E2%80%A8"`
		if got.Status != 429 || !strings.Contains(got.Body, want) {
			t.Errorf("status is %d, body %s\n\twant 429 with %s", got.Status, got.Body, want)
		}
	})
	a.CheckRan(t, 0)
}
