package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/memstore"
)

// A crowd is a number of users who send requests at random times to random processes.
// Every process has its own layer over the Store that all processes share.
type crowd struct {
	over  func(core.Store) layer
	rules []core.Rule
	rate  float64 // requests a second of a user
	nodes int     // processes
	span  time.Duration
	warm  int // events that each user has used before
}

// A layer is a store over a store. calls returns the number of calls that it has made
// of the lower store, after the last decision.
type layer struct {
	store core.Store
	calls func() float64
}

func denying(behind core.Store) layer {
	s := denycache.New(behind)
	return layer{s, func() float64 { return float64(s.Stats().Misses) }}
}

// A result counts the requests of a crowd, their denials, and the calls of the Store.
type result struct{ requests, denied, calls float64 }

// run sends the requests in real time. The Store is in memory, because the result
// counts calls and does not measure them.
func (w crowd) run(ctx context.Context) (result, error) {
	behind := memstore.New()
	layers := make([]layer, w.nodes)
	limiters := make([]*core.Limiter, w.nodes)
	for i := range layers {
		layers[i] = w.over(behind)
		limiters[i] = core.Must(core.New(layers[i].store, w.rules...))
	}
	users := int(max(1, min(200, 20_000/w.rate)))
	results, errs := make([]result, users), make([]error, users)
	var wg sync.WaitGroup
	for u := range users {
		if w.warm > 0 {
			if _, err := core.Must(core.New(behind, w.rules...)).AllowN(ctx, user(u), w.warm); err != nil {
				return result{}, err
			}
		}
		wg.Go(func() { results[u], errs[u] = w.send(ctx, user(u), limiters) })
	}
	wg.Wait()
	var sum result
	for u, t := range results {
		if errs[u] != nil {
			return sum, errs[u]
		}
		sum.requests, sum.denied = sum.requests+t.requests, sum.denied+t.denied
	}
	for _, l := range layers {
		sum.calls += l.calls()
	}
	return sum, nil
}

// send sends the requests of one user, which are a Poisson process.
func (w crowd) send(ctx context.Context, key string, limiters []*core.Limiter) (t result, err error) {
	next := time.Now()
	end := next.Add(w.span)
	for {
		next = next.Add(time.Duration(rand.ExpFloat64() / w.rate * float64(time.Second)))
		if next.After(end) {
			return t, nil
		}
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return t, ctx.Err()
		}
		d, err := limiters[rand.IntN(len(limiters))].Allow(ctx, key)
		if err != nil {
			return t, err
		}
		t.requests++
		if !d.Allowed {
			t.denied++
		}
	}
}

// denials prints the calls of Redis per decision behind a denycache. It returns those of
// the load in c: with each user at one process, and at c.nodes processes.
func denials(ctx context.Context, c config) (calls [2]float64, err error) {
	second := []core.Rule{core.TokenBucket("second", core.PerSecond(10))}
	hour := []core.Rule{core.TokenBucket("hour", core.PerHour(500))}
	rows, err := crowds(ctx, "a user", denying, []crowdOf{
		{"8 a second, limit 10 a second", second, 8, 10},
		{"15 a second, limit 10 a second", second, 15, 10},
		{"100 a second, limit 10 a second", second, 100, 10},
		{"1000 a second, limit 10 a second", second, 1000, 10},
		{"15 a second, limit 500 an hour", hour, 15, 500},
		{"100 a second, limit 500 an hour", hour, 100, 500},
		{"1000 a second, limit 500 an hour", hour, 1000, 500},
	})
	if err != nil {
		return calls, err
	}
	table("Calls of Redis per decision behind a denycache", rows...)
	// The period is a thousand seconds, so that a fractional limit has a whole number of events.
	burst := max(1, int(c.limit))
	rule := []core.Rule{core.TokenBucket("own", core.Per(max(1, int(c.limit*1000)), 1000*time.Second).WithBurst(burst))}
	for i, nodes := range []int{1, c.nodes} {
		t, err := crowd{denying, rule, c.rate, nodes, span, burst}.run(ctx)
		if err != nil {
			return calls, err
		}
		calls[i] = t.perDecision()
	}
	return calls, nil
}

// span is the time in which a crowd sends requests.
const span = 5 * time.Second

// A crowdOf is one row of a table.
type crowdOf struct {
	name  string
	rules []core.Rule
	rate  float64
	warm  int
}

// crowds runs each crowd with 1, 4 and 16 processes, and returns a table row for each.
func crowds(ctx context.Context, column string, over func(core.Store) layer, loads []crowdOf) ([][]string, error) {
	rows := [][]string{{column, "denied", "1 process", "4 processes", "16 processes"}}
	for _, load := range loads {
		row := []string{load.name}
		for _, nodes := range []int{1, 4, 16} {
			t, err := crowd{over, load.rules, load.rate, nodes, span, load.warm}.run(ctx)
			if err != nil {
				return nil, err
			}
			if nodes == 1 {
				row = append(row, fmt.Sprintf("%.0f %%", 100*t.denied/t.requests))
			}
			row = append(row, fmt.Sprintf("%.2g", t.perDecision()))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (t result) perDecision() float64 { return t.calls / t.requests }
