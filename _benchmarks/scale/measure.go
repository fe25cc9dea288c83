package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
)

// A subject is a set of rules that is measured.
type subject struct {
	name     string
	rules    []core.Rule   // with limits so large that no decision is denied
	tight    []core.Rule   // the same with small limits, which the fill exhausts
	keys     int           // the number of keys if it differs from config.keys; otherwise zero
	fill     int           // charges of each key before the measurement; zero means one
	cost     int           // the cost of such a charge; zero means one
	asks     int           // the cost of a measured decision; zero means one
	interval time.Duration // the least time between two such charges of a key
}

// roomy is a limit that no measurement reaches.
const roomy = 100_000

func subjects(c config) []subject {
	few := max(100, c.keys/50)
	logs := one("sliding log, 500 events in it", core.SlidingLog, core.PerHour(roomy), core.PerHour(504))
	logs.keys, logs.fill, logs.cost = few, 63, 8
	windows := one("sliding window, 60 sub-windows in use", core.SlidingWindow, core.Per(roomy, 30*time.Second), core.Per(60, 30*time.Second))
	// The first decision of each sub-window reads the whole hash. With so few keys, a
	// sub-window has many decisions, as the sub-windows of an hour have.
	windows.keys, windows.fill, windows.interval = max(100, few/10), 60, 500*time.Millisecond
	bulk := windows
	bulk.name, bulk.asks = "the same, 30 at once", 30
	return []subject{
		one("token bucket", core.TokenBucket, core.PerDay(1000).WithBurst(roomy), core.PerDay(1)),
		one("leaky bucket", core.LeakyBucket, core.PerDay(1000).WithBurst(roomy), core.PerDay(1)),
		one("fixed window", core.FixedWindow, core.PerHour(roomy), core.PerHour(1)),
		windows, bulk, logs,
		buckets(2), buckets(4), buckets(8),
	}
}

func one(name string, algorithm func(string, core.Limit) core.Rule, large, small core.Limit) subject {
	return subject{name: name, rules: []core.Rule{algorithm("requests", large)}, tight: []core.Rule{algorithm("requests", small)}}
}

func buckets(n int) subject {
	s := subject{name: fmt.Sprintf("%d token buckets", n)}
	for i := range n {
		name := fmt.Sprint("requests", i)
		s.rules = append(s.rules, core.TokenBucket(name, core.PerDay(1000).WithBurst(roomy)))
		s.tight = append(s.tight, core.TokenBucket(name, core.PerDay(1)))
	}
	return s
}

// measures holds the figures of each subject by its name.
type measures map[string]figure

type figure struct {
	admitted, denied float64 // Redis CPU per decision, in microseconds
	bytes            float64 // Redis memory per user
}

// measure prints the CPU time of a decision and the memory of a user, by rule.
func measure(ctx context.Context, c config, s *server) (measures, error) {
	rows := [][]string{{"", "Redis CPU a decision", "denied", "there + back", "`MEMORY USAGE` of a user's keys", "memory a user"}}
	floor, err := s.floor(ctx, c)
	if err != nil {
		return nil, err
	}
	rows = append(rows, []string{"floor: `EVALSHA return 1`", micros(floor), "", "", "", ""})
	found := make(measures)
	for _, sub := range subjects(c) {
		f, row, err := s.figure(ctx, c, sub)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sub.name, err)
		}
		found[sub.name] = f
		rows = append(rows, row)
	}
	table("A decision, by rule", rows...)
	return found, nil
}

func micros(us float64) string { return fmt.Sprintf("%.1f us", us) }

func (s *server) figure(ctx context.Context, c config, sub subject) (f figure, row []string, err error) {
	if sub.keys == 0 {
		sub.keys = c.keys
	}
	admitted, shut := s.limiters(1, c.callers, sub.rules)
	defer shut()
	if err = s.empty(ctx); err != nil {
		return f, nil, err
	}
	if err = fill(ctx, c, sub, admitted[0]); err != nil {
		return f, nil, err
	}
	usage, err := s.usage(ctx, sub.keys)
	if err != nil {
		return f, nil, err
	}
	index, err := s.index(ctx)
	if err != nil {
		return f, nil, err
	}
	f.bytes = usage + index/float64(sub.keys)
	in, out, err := s.network(ctx)
	if err != nil {
		return f, nil, err
	}
	if f.admitted, err = s.perDecision(ctx, c, sub, admitted); err != nil {
		return f, nil, err
	}
	inAfter, outAfter, err := s.network(ctx)
	if err != nil {
		return f, nil, err
	}
	made := float64(c.runs * c.decisions)
	network := fmt.Sprintf("%.0f + %.0f B", (inAfter-in)/made, (outAfter-out)/made)
	if err = s.empty(ctx); err != nil {
		return f, nil, err
	}
	denied, shut := s.limiters(1, c.callers, sub.tight)
	defer shut()
	if err = fill(ctx, c, sub, denied[0]); err != nil {
		return f, nil, err
	}
	if f.denied, err = s.perDecision(ctx, c, sub, denied); err != nil {
		return f, nil, err
	}
	return f, []string{sub.name, micros(f.admitted), micros(f.denied), network, fmt.Sprintf("%.0f B", usage), fmt.Sprintf("%.0f B", f.bytes)}, nil
}

// fill charges every key as often as the subject says, at least once.
func fill(ctx context.Context, c config, sub subject, l *core.Limiter) error {
	for range max(1, sub.fill) {
		start := time.Now()
		if err := each(sub.keys, c.callers, func(i int) error {
			_, err := l.AllowN(ctx, user(i), max(1, sub.cost))
			return err
		}); err != nil {
			return err
		}
		if left := sub.interval - time.Since(start); left > 0 {
			time.Sleep(left)
		}
	}
	return nil
}

func user(i int) string { return "user:" + strconv.Itoa(1_000_000+i) }

// each calls f with every number below n from concurrent goroutines. A goroutine stops
// at its first error; each returns all of them.
func each(n, goroutines int, f func(i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for errs[g] == nil {
				i := int(next.Add(1) - 1)
				if i >= n {
					return
				}
				errs[g] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// limiters returns the limiters of n application processes, and a function that closes
// their clients.
func (s *server) limiters(n, callers int, rules []core.Rule) (ls []*core.Limiter, shut func()) {
	var clients []*redis.Client
	for range n {
		rdb := s.client(max(1, callers/n))
		clients = append(clients, rdb)
		store := redisstore.New(rdb, "bench", redisstore.Timeout(time.Minute))
		ls = append(ls, core.Must(core.New(store, rules...)))
	}
	return ls, func() {
		for _, rdb := range clients {
			_ = rdb.Close()
		}
	}
}

// perDecision returns the Redis CPU time of a decision, in microseconds, for random keys
// and callers that are spread over the limiters.
func (s *server) perDecision(ctx context.Context, c config, sub subject, ls []*core.Limiter) (float64, error) {
	for _, l := range ls {
		if _, err := l.Peek(ctx, user(0)); err != nil { // connections
			return 0, err
		}
		if _, err := l.AllowN(ctx, user(0), max(1, sub.asks)); err != nil { // scripts
			return 0, err
		}
	}
	return s.used(ctx, c, func(i int) error {
		_, err := ls[i%len(ls)].AllowN(ctx, user(rand.IntN(sub.keys)), max(1, sub.asks))
		return err
	})
}

// used returns the Redis CPU time of a call, in microseconds: the median of the runs.
func (s *server) used(ctx context.Context, c config, call func(i int) error) (float64, error) {
	runs := make([]float64, c.runs)
	for i := range runs {
		before, err := s.cpu(ctx)
		if err != nil {
			return 0, err
		}
		if err = each(c.decisions, c.callers, call); err != nil {
			return 0, err
		}
		after, err := s.cpu(ctx)
		if err != nil {
			return 0, err
		}
		runs[i] = (after - before) * 1e6 / float64(c.decisions)
	}
	slices.Sort(runs)
	return runs[len(runs)/2], nil
}

func (s *server) floor(ctx context.Context, c config) (float64, error) {
	rdb := s.client(c.callers)
	defer func() { _ = rdb.Close() }()
	script := redis.NewScript("return 1")
	if err := script.Load(ctx, rdb).Err(); err != nil {
		return 0, err
	}
	return s.used(ctx, c, func(int) error {
		return script.EvalSha(ctx, rdb, []string{user(rand.IntN(c.keys))}).Err()
	})
}

// usage returns the memory of the keys of a user: the mean MEMORY USAGE of random keys,
// times the number of keys per user.
func (s *server) usage(ctx context.Context, users int) (float64, error) {
	size, err := s.admin.DBSize(ctx).Result()
	if err != nil {
		return 0, err
	}
	const sample = 500
	var sum int64
	for range sample {
		key, err := s.admin.RandomKey(ctx).Result()
		if err != nil {
			return 0, err
		}
		n, err := s.admin.MemoryUsage(ctx, key, 0).Result()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return float64(sum) / sample * float64(size) / float64(users), nil
}

// network returns the bytes that the server has received and sent.
func (s *server) network(ctx context.Context) (in, out float64, err error) {
	if in, err = s.number(ctx, "stats", "total_net_input_bytes"); err != nil {
		return 0, 0, err
	}
	out, err = s.number(ctx, "stats", "total_net_output_bytes")
	return in, out, err
}

// index returns the memory of the tables of keys and of their expiry times. It does not
// include the entries of the table of keys and the headers of the values, because usage
// counts them.
func (s *server) index(ctx context.Context) (float64, error) {
	stats, err := s.admin.Do(ctx, "memory", "stats").Result()
	if err != nil {
		return 0, err
	}
	all, _ := stats.(map[any]any)
	db, _ := all["db.0"].(map[any]any)
	main, _ := db["overhead.hashtable.main"].(int64)
	expires, ok := db["overhead.hashtable.expires"].(int64)
	if !ok {
		return 0, fmt.Errorf("MEMORY STATS has no overhead of db.0: %v", all["db.0"])
	}
	size, err := s.admin.DBSize(ctx).Result()
	const counted = 24 + 16
	return float64(main - size*counted + expires), err
}
