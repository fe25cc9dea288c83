package failover_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/storetest"
)

// A primary that is away gets one probe at a time, 25 to 300 ms after the last, and no charge.
func TestProber_Intervals(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.set(hang)
		p.until(failover.Backup)
		calls, spends := p.primary.Calls(), p.primary.Charges(driver.Spend)
		for range 1000 {
			p.allow("k")
			time.Sleep(10 * time.Millisecond)
			if n := p.primary.Active(); n > 1 {
				t.Fatalf("probes at a time: got %d, expected 1", n)
			}
		}
		if n := p.primary.Calls() - calls; n < 20 || n > 50 {
			t.Errorf("probes in 10 s: got %d, expected 20 to 50", n)
		}
		if n := p.primary.Charges(driver.Spend) - spends; n != 0 {
			t.Errorf("charges of the primary while it is away: got %d, expected 0", n)
		}
	})
}

func TestProber_NoTraffic(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.leave()
		p.set()
		time.Sleep(2 * time.Second)
		p.is(failover.Primary)
	})
}

// The probes of a suspect primary are some time apart, so a primary that fails for a moment is not left.
func TestProber_FailsForAMoment(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.set(refuse)
		p.allow("k")
		p.is(failover.Primary)
		p.set()
		time.Sleep(time.Second)
		p.is(failover.Primary)
		if n := p.Stats().Probes; n == 0 || n > 3 {
			t.Errorf("after one failure: got %d probes, expected 1 to 3", n)
		}
	})
}

// A primary that fails while the breaker is half-open is probed as soon as any other.
func TestProber_LostWhileHalfOpen(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		for range 10 {
			p.leave()
			p.set()
			p.until(failover.Recovering)
			p.leave()
			probes := p.Stats().Probes
			time.Sleep(51 * time.Millisecond)
			if synctest.Wait(); p.Stats().Probes == probes {
				t.Fatal("51 ms after the primary was lost: got no probe, expected one")
			}
		}
	})
}

// A key that the primary cannot decide does not keep the breaker open.
func TestProber_OtherCharges(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		poison := func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			if charges[0].Key == "poison" {
				return errDown
			}
			return next(ctx, charges)
		}
		p.set(refuse)
		for p.State() != failover.Backup {
			p.allow("poison")
			time.Sleep(time.Millisecond)
		}
		p.set(poison)
		time.Sleep(10 * time.Second)
		p.is(failover.Backup) // it is probed about poison
		for i := range 2000 {
			p.allow(fmt.Sprint("key ", i))
			time.Sleep(time.Millisecond)
		}
		p.is(failover.Primary)
	})
}

// A primary that answers reads and refuses writes is left once if it is a driver.Prober.
// Any other primary is probed by Peeks.
func TestProber_WritesRefused(t *testing.T) {
	for _, prober := range []bool{true, false} {
		t.Run(fmt.Sprint("prober ", prober), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var refuses atomic.Bool
				p := newPair(t, true)
				if prober {
					p.primary.OnProbe = func(context.Context, []driver.Charge) error {
						if refuses.Load() {
							return errDown
						}
						return nil
					}
				}
				p.set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
					if refuses.Load() && charges[0].Op != driver.Peek {
						return errDown
					}
					return next(ctx, charges)
				})
				refuses.Store(true)
				for range 500 {
					p.allow("k")
					time.Sleep(20 * time.Millisecond)
				}
				got, peeks := p.Stats(), uint64(p.primary.Charges(driver.Peek))
				switch {
				case prober && (got.Outages != 1 || peeks != 0):
					t.Errorf("in 10 s: got %d outages and %d Peeks, expected 1 and 0", got.Outages, peeks)
				case !prober && (got.Probes == 0 || peeks != got.Probes):
					t.Errorf("in 10 s: got %d probes and %d Peeks, expected as many", got.Probes, peeks)
				}
				refuses.Store(false)
				time.Sleep(2 * time.Second)
				p.is(failover.Primary)
			})
		})
	}
}

// After a relapse, several probes have to succeed in a row. A sample whose key the primary cannot decide does not keep
// the breaker open.
func TestProber_OneSampleFails(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.leave()
		p.comeBack()
		for _, key := range []string{"a", "b", "c", "poison"} {
			p.allow(key)
			time.Sleep(20 * time.Millisecond)
		}
		p.leave()
		p.set(storetest.FailFor(errDown, func(key string) bool { return key == "poison" }))
		for i := range 2000 {
			p.allow(fmt.Sprint("key ", i))
			time.Sleep(time.Millisecond)
		}
		p.is(failover.Primary)
	})
}

// A primary whose probes succeed, and which decides nothing, is left after half a minute.
func TestProber_OnlyProbesSucceed(t *testing.T) {
	eachPair(t, func(t *testing.T, p *pair) {
		p.primary.OnProbe = func(context.Context, []driver.Charge) error { return nil }
		p.allow("k")
		p.set(hang)
		for begun := time.Now(); p.Stats().Outages == 0; {
			if p.allow("k"); time.Since(begun) > 35*time.Second {
				t.Fatalf("got %+v after 35 s, expected an outage", p.Stats())
			}
		}
	})
}
