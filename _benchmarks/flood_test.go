package benchmarks

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

const (
	floodRate   = 8000 // requests a second with keys that were never seen
	floodTable  = "A flood of new keys"
	floodPolicy = "policies: {api: {rules: [{name: minute, algorithm: token_bucket, limit: 100/m}]}}"
)

// BenchmarkFlood sends an application requests with keys that were never seen, over a network with a
// delay. Meanwhile 500 blocked clients, of which half were seen before, and 500 others send a
// request each. The benchmark fails if a blocked client is admitted.
func BenchmarkFlood(b *testing.B) {
	server := redistest.NewServer(b)
	proxy := redistest.NewProxy(b, server.Addr)
	for _, delay := range []time.Duration{time.Millisecond, 4 * time.Millisecond} {
		for _, c := range []struct {
			name string
			opts []rules.RedisOption // nil without overrides
		}{{"no overrides", nil}, {"overrides", []rules.RedisOption{}}, {"overrides, FailClosed", []rules.RedisOption{rules.FailClosed()}}} {
			b.Run(fmt.Sprintf("%v/%s", delay, c.name), func(b *testing.B) {
				app := newFloodApp(b, server, proxy, c.opts)
				proxy.Delay(delay)
				defer proxy.Pass()
				f := app.flood(scaled(500))
				row := fmt.Sprintf("%v, %s", delay, c.name)
				record(floodTable, row, "blocked clients admitted", float64(f.admitted.Load()), "%d of %d", f.admitted.Load(), f.clients)
				record(floodTable, row, "others refused", float64(f.refused.Load()), "%d of %d", f.refused.Load(), f.clients)
				slices.Sort(f.times)
				p99 := f.times[len(f.times)*99/100]
				record(floodTable, row, "p99 of the first request of others", p99.Seconds(), "%.1f ms", p99.Seconds()*1000)
				record(floodTable, row, "new keys a second", f.rate, "%.0f", f.rate)
				if c.opts != nil && f.admitted.Load() > 0 {
					b.Errorf("%d blocked clients were admitted", f.admitted.Load())
				}
			})
		}
	}
}

// A floodApp is an application with overrides in Redis.
type floodApp struct{ handler http.Handler }

func newFloodApp(b *testing.B, server *redistest.Server, proxy *redistest.Proxy, opts []rules.RedisOption) *floodApp {
	ctx, rdb := b.Context(), server.Client(func(o *redis.Options) { o.Addr = proxy.Addr })
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(rdb.FlushAll(ctx).Err())
	path := filepath.Join(b.TempDir(), "limits.yaml")
	must(os.WriteFile(path, []byte(floodPolicy), 0o600))
	config, err := rules.Load(ctx, rules.File(path))
	must(err)
	source, all := rules.Redis(rdb, "test", opts...), []rules.Option{}
	if opts != nil {
		all = append(all, rules.Overrides(source))
	}
	set, err := rules.New(redisstore.New(rdb, "test"), config, all...)
	must(err)
	l, err := set.Limiter("api")
	must(err)
	app := &floodApp{nethttplimit.New(l, keyfunc.Func(func(_ context.Context, r *http.Request) (string, error) {
		return r.Header.Get("X-User"), nil
	}), gate.FailClosed())(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
	if opts == nil {
		return app
	}
	for i := range scaled(500) {
		must(set.Block(ctx, "api", fmt.Sprint("blocked", i), time.Time{}))
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { _ = set.Watch(watching, rules.File(path)) })
	b.Cleanup(func() { stop(); watch.Wait() })
	for begin := time.Now(); source.Stats().Age < 0; time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			b.Fatal("the blocks are not read")
		}
	}
	return app
}

// ask sends a request with a key.
func (a *floodApp) ask(key string) (status int, took time.Duration) {
	r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
	r.Header.Set("X-User", key)
	begin := time.Now()
	a.handler.ServeHTTP(w, r)
	return w.Code, time.Since(begin)
}

// A flooding is the result of a flood.
type flooding struct {
	clients           int
	rate              float64
	admitted, refused atomic.Int64

	mu    sync.Mutex
	times []time.Duration // of the first requests of clients that are not blocked
}

// flood sends 20 ms of new keys for each client, and the request of a blocked client and of another
// client.
func (a *floodApp) flood(clients int) *flooding {
	f := &flooding{clients: clients}
	for i := 0; i < clients; i += 2 {
		a.ask(fmt.Sprint("blocked", i))
	}
	var wg sync.WaitGroup
	begin, sent := time.Now(), 0
	for i := range clients {
		for j := range 20 {
			time.Sleep(time.Until(begin.Add(time.Duration(20*i+j) * time.Millisecond)))
			for range floodRate / 1000 {
				key := fmt.Sprint("new", sent)
				wg.Go(func() { a.ask(key) })
				sent++
			}
		}
		wg.Go(func() {
			if status, _ := a.ask(fmt.Sprint("blocked", i)); status != http.StatusTooManyRequests {
				f.admitted.Add(1)
			}
		})
		wg.Go(func() {
			status, took := a.ask(fmt.Sprint("honest", i))
			if status != http.StatusOK {
				f.refused.Add(1)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.times = append(f.times, took)
		})
	}
	wg.Wait()
	f.rate = float64(sent) / time.Since(begin).Seconds()
	return f
}
