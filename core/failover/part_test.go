package failover_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
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

// The places that are renewed and released in the parts that are not down stay there.
func TestStore_PartOfPrimaryDown_Places(t *testing.T) {
	for name, down := range partsDown {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPair(t, true)
				places := testkit.Limiter(t, p, core.InFlight("places", 1).Hold(6*time.Second))
				held := make(map[string]*core.Reservation)
				for i := range 200 {
					key := fmt.Sprint(i)
					held[key] = testkit.Reserve(t, places, key, 1)
					time.Sleep(tick)
				}
				p.set(down)
				time.Sleep(20 * time.Second)
				if got := p.Stats(); got.Outages > 0 {
					t.Errorf("got %+v, expected no outage", got)
				}
				for key, r := range held {
					if onDeadNode(key) {
						continue
					}
					select {
					case <-r.Lost():
						t.Errorf("the place of %s is lost", key)
					default:
					}
					testkit.Must(t, r.Release(t.Context()))
				}
			})
		})
	}
}
