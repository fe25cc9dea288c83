package lease_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A load returns the part of all decisions a second that one process makes at a time.
type load func(process, processes int, sinceStart time.Duration) float64

// evenLoad is the same at all processes and times.
func evenLoad(_, processes int, _ time.Duration) float64 { return 1 / float64(processes) }

// wanderingLoad sends 90 % to one process, and to the next one after each 700 ms.
func wanderingLoad(process, processes int, sinceStart time.Duration) float64 {
	if process == int(sinceStart/(700*time.Millisecond))%processes {
		return 0.9
	}
	return 0.1 / float64(processes-1)
}

// burstyLoad sends bursts of 200 ms to each process, each at times of its own, once in 2 s.
func burstyLoad(process, processes int, sinceStart time.Duration) float64 {
	const every, long = 2 * time.Second, 200 * time.Millisecond
	period := sinceStart / every
	begin := time.Duration(rand.New(rand.NewPCG(uint64(process), uint64(period))).Int64N(int64(every - long)))
	if at := sinceStart % every; at >= begin && at < begin+long {
		return float64(every/long) / float64(processes)
	}
	return 0
}

// A usage is the outcome of a load.
type usage struct{ asked, admitted, calls int }

// run sends rate decisions a second for span, spread by load, to processes with a store each.
func (l load) run(t *testing.T, rule core.Rule, processes int, rate float64, span time.Duration, newStore func() driver.Store) (u usage) {
	const workers = 8
	step := max(10*time.Millisecond, span/600)
	var asked, admitted atomic.Int64
	var wg sync.WaitGroup
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))) // windows begin
	start := time.Now()
	for p := range processes {
		limiter := core.Must(core.New(newStore(), rule))
		for g := range workers {
			rng := rand.New(rand.NewPCG(uint64(p), uint64(g)))
			wg.Go(func() {
				for at := time.Duration(0); at < span; {
					each := rate * l(p, processes, at) / workers
					if each == 0 {
						at += step
						continue
					}
					next := at + time.Duration(rng.ExpFloat64()*float64(time.Second)/each)
					if edge := at - at%step + step; next > edge { // the load may have changed
						at = edge
						continue
					}
					at = next
					if at >= span {
						return
					}
					if late := time.Since(start) - at; late > step {
						continue // the process was waiting
					}
					time.Sleep(time.Until(start.Add(at)))
					d, err := limiter.Allow(t.Context(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					asked.Add(1)
					if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return usage{asked: int(asked.Load()), admitted: int(admitted.Load())}
}

// Leasing processes admit nearly as much of a load as a Store that decides every event, with
// fewer calls. The difference is the tokens that others hold while one process is denied.
func TestStore_Take_UnusedTokens(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const processes = 8
	for _, tt := range []struct {
		limit  core.Limit
		span   time.Duration
		unused float64 // at most, in 100 admitted by the Store alone
		calls  float64 // at most, in 100 decisions of the even load at 0.8 times the limit
	}{
		{core.PerSecond(2000), time.Second, 10, 25},
		{core.PerMinute(2000), time.Minute, 3, 100},
		{core.PerHour(5000), 2 * time.Second, 6, 10},
	} {
		for _, rule := range bucketAndWindow(tt.limit) {
			t.Run(fmt.Sprint(rule.Name(), " ", tt.limit), func(t *testing.T) {
				t.Parallel()
				limit := float64(tt.limit.Events) * max(1, tt.span.Seconds()/tt.limit.Per.Seconds())
				if rule.Algorithm() == driver.TokenBucket {
					limit = float64(tt.limit.Events) * (1 + tt.span.Seconds()/tt.limit.Per.Seconds())
				}
				for _, l := range []struct {
					name  string
					load  load
					times float64 // the limit
				}{{"even", evenLoad, 0.8}, {"even", evenLoad, 1.5}, {"wandering", wanderingLoad, 1}, {"bursty", burstyLoad, 1}} {
					rate := l.times * limit / tt.span.Seconds()
					var alone, leased usage
					bubble(t, func(x *fixture) {
						alone = l.load.run(x.T, rule, processes, rate, tt.span, func() driver.Store { return x.memory })
					})
					bubble(t, func(x *fixture) {
						x.behind.Set(storetest.Delay(trip/2, trip/2))
						leased = l.load.run(x.T, rule, processes, rate, tt.span, func() driver.Store { return x.lease() })
						leased.calls = x.behind.Calls()
					})
					unused := 100 * float64(alone.admitted-leased.admitted) / float64(alone.admitted)
					calls := 100 * float64(leased.calls) / float64(leased.asked)
					t.Logf("%-9s %.1f times the limit: unused %6.2f %%, calls %6.2f in 100", l.name, l.times, unused, calls)
					if unused > tt.unused {
						t.Errorf("%s, %v times the limit: expected %v %% unused at most, got %.2f %%", l.name, l.times, tt.unused, unused)
					}
					if l.times < 1 && (leased.admitted < leased.asked || calls > tt.calls) {
						t.Errorf("expected all of %d decisions to be admitted with %v calls in 100, got %d and %.2f", leased.asked, tt.calls, leased.admitted, calls)
					}
				}
			})
		}
	}
}
