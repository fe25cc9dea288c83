package failover_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// onDeadNode reports whether a key is on the node of three that is down.
func onDeadNode(key string) bool { return crc32.ChecksumIEEE([]byte(key))%3 == 0 }

// The ways in which one node of three is down.
var partsDown = map[string]storetest.Hook{
	"refused": storetest.FailFor(errDown, onDeadNode),
	"silent": func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		begun := time.Now()
		err := storetest.FailFor(errDown, onDeadNode)(ctx, charges, next)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(deadline - time.Since(begun)):
			}
		}
		return err
	},
}

// A third of the keys is on a node that is down. The others are decided by the primary, at any rate.
func TestStore_PartOfPrimaryDown(t *testing.T) {
	for name, down := range partsDown {
		for _, keys := range []int{1, 2} {
			for _, rate := range []int{1, 3, 10, 30, 100, 300, 1000} {
				t.Run(fmt.Sprintf("%s, %d keys, %d a second", name, keys, rate), func(t *testing.T) {
					if rate >= 100 { // lower rates make the same calls
						testkit.WithoutRace(t)
					}
					bubble(t, func(t *testing.T) {
						p, random := newPair(t, true), rand.New(rand.NewPCG(1, uint64(rate)))
						var calls sync.WaitGroup
						decide := func(seconds int) {
							for range seconds * rate {
								time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Second) / float64(rate)))
								var asks []core.Ask
								for range keys {
									asks = append(asks, core.Ask{Limiter: p.wide, Key: fmt.Sprint(random.IntN(1_000_000))})
								}
								calls.Go(func() {
									_, err := core.AllowTogether(t.Context(), asks...)
									testkit.Must(t, err)
								})
							}
							calls.Wait()
						}
						decide(10)
						p.set(down)
						decide(min(60, max(6, 6000/rate)))
						if got := p.Stats(); got.Outages > 0 {
							t.Errorf("got %+v, expected no outage", got)
						}
						p.set(refuse)
						decide(max(1, min(6, 600/rate)))
						p.is(failover.Backup)
					})
				})
			}
		}
	}
}

// A primary that returns is in full use within 1.5 s, after every kind of failure.
func TestRecovery_Duration(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		for i := range 30 {
			p.set([]storetest.Hook{refuse, hang, lose}[i%3])
			p.until(failover.Backup)
			time.Sleep(rand.N(3 * time.Second))
			begun := time.Now()
			p.comeBack()
			if took := time.Since(begun); took > 1500*time.Millisecond+tick {
				t.Errorf("return %d: got %v, expected at most 1.5 s", i, took)
			}
			if i%10 == 0 {
				time.Sleep(time.Minute)
			}
		}
	})
}

// While the breaker is half-open, the part of the calls that go to the primary grows.
func TestRecovery_RampUp(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.leave()
		p.set()
		p.until(failover.Recovering)
		for i := range 5 {
			before := p.primary.Calls()
			for range 1000 {
				p.allow("k")
				time.Sleep(100 * time.Microsecond)
			}
			if got, want := p.primary.Calls()-before, 100+200*i; got < want-80 || got > want+80 {
				t.Errorf("tenth of a second %d: got %d of 1000 calls on the primary, expected about %d", i, got, want)
			}
		}
	})
}

// Processes that lost the primary together do not return together.
func TestRecovery_ManyProcesses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const processes, all = 25, 20 * 25
		primary := new(storetest.Fake)
		primary.Set(refuse)
		var limiters []*core.Limiter
		for range processes {
			s := failover.New(primary, memstore.New())
			defer s.Close()
			l := testkit.Limiter(t, s, wide)
			for s.State() != failover.Backup {
				testkit.Admit(t, l, "k", 1)
				time.Sleep(time.Millisecond)
			}
			limiters = append(limiters, l)
		}
		time.Sleep(10 * time.Second)
		primary.Set()
		var calls []int // of the primary in 100 ms
		for range 20 {
			before := primary.Calls()
			for range 20 {
				for _, l := range limiters {
					testkit.Admit(t, l, "k", 1)
				}
				time.Sleep(5 * time.Millisecond)
			}
			calls = append(calls, primary.Calls()-before)
		}
		if calls[0] > all/10 || calls[1] > all/2 || calls[19] != all {
			t.Errorf("calls of the primary in each 100 ms: got %d, expected at most %d, at most %d, and %d at last", calls, all/10, all/2, all)
		}
	})
}

// The breaker opens far less often than a primary that comes and goes.
func TestRecovery_Flapping(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		var waited atomic.Int64
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					begun := time.Now()
					d, err := p.wide.Allow(context.Background(), "k")
					if took := time.Since(begun); err != nil || !d.Allowed || took > deadline {
						t.Errorf("got %+v and %v after %v, expected an admission within %v", d, err, took, deadline)
					} else if took > 0 {
						waited.Add(1)
					}
				}
			})
		}
		for range 25 {
			p.set()
			time.Sleep(200 * time.Millisecond)
			p.set(hang)
			time.Sleep(200 * time.Millisecond)
		}
		p.set()
		callers.Wait()
		synctest.Wait()
		if n := p.Stats().Outages; n == 0 || n > 6 {
			t.Errorf("outages of a primary that failed 25 times: got %d, expected 1 to 6", n)
		}
		t.Logf("%d outages, %d decisions waited", p.Stats().Outages, waited.Load())
	})
}
