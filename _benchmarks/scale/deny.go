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

// A crowd is users who come at random moments, each of them so often, and whose
// requests are spread over so many processes. Every process has a layer of its own
// over the Store that all of them share.
type crowd struct {
	over  func(core.Store) layer
	rules []core.Rule
	rate  float64 // requests a second of a user
	nodes int
	span  time.Duration
	warm  int // events that a user has used before
}

// A layer is a Store over a Store, and how often it has called that, when it is done.
type layer struct {
	store core.Store
	calls func() float64
}

func denying(behind core.Store) layer {
	s := denycache.New(behind)
	return layer{s, func() float64 { return float64(s.Stats().Misses) }}
}

// A tally is what became of the requests of a crowd.
type tally struct{ asked, denied, calls float64 }

// run lets the crowd come, in real time. To the Store it is no way: what is counted
// is calls, not how long they take.
func (w crowd) run(ctx context.Context) (tally, error) {
	behind := memstore.New()
	layers := make([]layer, w.nodes)
	limiters := make([]*core.Limiter, w.nodes)
	for i := range layers {
		layers[i] = w.over(behind)
		limiters[i] = core.Must(core.New(layers[i].store, w.rules...))
	}
	users := int(max(1, min(200, 20_000/w.rate)))
	tallies, errs := make([]tally, users), make([]error, users)
	var wg sync.WaitGroup
	for u := range users {
		if w.warm > 0 {
			if _, err := core.Must(core.New(behind, w.rules...)).AllowN(ctx, user(u), w.warm); err != nil {
				return tally{}, err
			}
		}
		wg.Go(func() { tallies[u], errs[u] = w.come(ctx, user(u), limiters) })
	}
	wg.Wait()
	var sum tally
	for u, t := range tallies {
		if errs[u] != nil {
			return sum, errs[u]
		}
		sum.asked, sum.denied = sum.asked+t.asked, sum.denied+t.denied
	}
	for _, l := range layers {
		sum.calls += l.calls()
	}
	return sum, nil
}

// come is one user: a Poisson process.
func (w crowd) come(ctx context.Context, key string, limiters []*core.Limiter) (t tally, err error) {
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
		t.asked++
		if !d.Allowed {
			t.denied++
		}
	}
}

// denials prints how many calls of Redis a decision costs behind a denycache, and
// returns those of the load that the plan is for: from one process, and from as many
// as a user's requests are spread over.
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
	table("Calls of Redis a decision behind a denycache", rows...)
	// A limit of a thousand seconds has a whole number of events.
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

// span is how long a crowd comes.
const span = 5 * time.Second

// A crowdOf is one row of a table.
type crowdOf struct {
	name  string
	rules []core.Rule
	rate  float64
	warm  int
}

// crowds lets each crowd come, from one, four and sixteen processes.
func crowds(ctx context.Context, who string, over func(core.Store) layer, loads []crowdOf) ([][]string, error) {
	rows := [][]string{{who, "denied", "1 process", "4 processes", "16 processes"}}
	for _, load := range loads {
		row := []string{load.name}
		for _, nodes := range []int{1, 4, 16} {
			t, err := crowd{over, load.rules, load.rate, nodes, span, load.warm}.run(ctx)
			if err != nil {
				return nil, err
			}
			if nodes == 1 {
				row = append(row, fmt.Sprintf("%.0f %%", 100*t.denied/t.asked))
			}
			row = append(row, fmt.Sprintf("%.2g", t.perDecision()))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (t tally) perDecision() float64 { return t.calls / t.asked }
