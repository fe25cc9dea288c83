package pgtests

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
	"github.com/weir-go/weir/internal/testkit"
)

// With failover, the end of Postgres fails no decision, and Postgres decides again when it is back.
func TestStack_failover(t *testing.T) {
	long(t)
	s := pgtest.New(t)
	d := newDatabase(t, s)
	over := failover.New(pgstore.New(d.open(), "test"), memstore.New())
	defer over.Close()
	o := begin(t, 4, 4, testkit.Limiter(t, over, bucket(1_000_000)))
	is := func(state failover.State) func() bool { return func() bool { return over.State() == state } }
	o.decided(o.keys...)
	for _, end := range []func(*pgtest.Server) error{(*pgtest.Server).Stop, (*pgtest.Server).Kill} {
		o.until(is(failover.Primary))
		testkit.Must(t, end(s))
		o.until(is(failover.Backup))
		o.decided(o.keys...)
		testkit.Must(t, s.Start())
		o.until(is(failover.Primary))
		o.decided(o.keys...)
	}
	o.end()
	if len(o.failed) > 0 || o.slowest > 5*time.Second {
		t.Errorf("failed %v, the slowest decision took %v", o.failed, o.slowest)
	}
	t.Logf("%d decisions, the slowest took %v, %+v", o.sum(), o.slowest, over.Stats())
}

// With lease and denycache, the events of a hot key take few statements, and two processes admit its limit.
func TestStack_hotKey(t *testing.T) {
	long(t)
	const limit, events = 20_000, 30_000
	d := newDatabase(t, pgtest.Shared(t))
	var calls func() uint64
	var limiters []*core.Limiter
	var leases []*lease.Store
	for range 2 {
		below := d.store(unhurried)
		before := calls
		calls = func() uint64 {
			n := below.Stats().Rounds
			if before != nil {
				n += before()
			}
			return n
		}
		s := lease.New(denycache.New(below))
		defer s.Close()
		leases, limiters = append(leases, s), append(limiters, testkit.Limiter(t, s, core.FixedWindow("window", core.Per(limit, period))))
	}
	var admitted atomic.Int64
	testkit.Concurrently(32, func(i int) {
		for range events / 32 {
			d, err := limiters[i%2].Allow(context.Background(), "k")
			if err != nil {
				t.Error(err)
			}
			if d.Allowed {
				admitted.Add(1)
			}
		}
	})
	held := leases[0].Stats().Held + leases[1].Stats().Held
	t.Logf("%d events: %d admitted, %d tokens held, %d rounds", events, admitted.Load(), held, calls())
	if n := admitted.Load(); n > limit || n+int64(held) < limit-limit/10 {
		t.Errorf("admitted %d, and %d tokens are held, want %d", n, held, limit)
	}
	if n := calls(); n > events/20 {
		t.Errorf("%d events took %d rounds", events, n)
	}
}
