package redisstore_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// One master dies: its keys cannot be decided, the keys of others can, and what
// a decision over both took from a living one comes back.
func TestClusterNodeDies(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	var outages []*outage
	for _, mode := range modes {
		rdb, own := cluster.Client(), prefix()
		hasty := redisstore.New(rdb, append([]redisstore.Option{own, redisstore.Timeout(6 * short)}, mode.opts...)...)
		patient := redisstore.New(rdb, append([]redisstore.Option{own, redisstore.Timeout(patience)}, mode.opts...)...)
		o := &outage{name: mode.name, hasty: testkit.Limiter(t, hasty, dailyRules()...), patient: testkit.Limiter(t, patient, dailyRules()...)}
		o.lost = identityOn(t, cluster.Nodes[0], hasty, "lost")
		o.living = []string{identityOn(t, cluster.Nodes[1], hasty, "living"), identityOn(t, cluster.Nodes[2], hasty, "other")}
		for _, identity := range append(o.living, o.lost) {
			testkit.Admit(t, o.patient, identity, 100)
		}
		outages = append(outages, o)
	}
	testkit.Must(t, cluster.Nodes[0].Stop())
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			o.givesBack(t)
			o.goesOn(t)
		})
	}
	testkit.Must(t, cluster.Nodes[0].Start())
	for _, o := range outages {
		eventually(t, func() error {
			_, err := o.hasty.Allow(t.Context(), o.lost)
			return err
		})
	}
}

// An outage is seen by limiters on one client: of an identity whose node is dead,
// and of two on two others.
type outage struct {
	name           string
	hasty, patient *core.Limiter
	lost           string
	living         []string
}

// givesBack makes joint decisions. On a busy machine a living node may answer too
// late too, and what it took then stays charged, as documented; not every time.
func (o *outage) givesBack(t *testing.T) {
	t.Helper()
	const want, tries = 3, 4
	exact := 0
	for range tries {
		before := o.used(t)
		d, err := o.hasty.Allow(t.Context(), o.lost)
		unavailable(t, d, err)
		d, err = core.AllowTogether(t.Context(), core.Ask{Limiter: o.hasty, Key: o.living[0], Cost: 10},
			core.Ask{Limiter: o.hasty, Key: o.lost, Cost: 10}, core.Ask{Limiter: o.hasty, Key: o.living[1], Cost: 10})
		unavailable(t, d, err)
		for deadline := time.Now().Add(margin); time.Now().Before(deadline); { // giving back may outlast the call
			if slices.Equal(before, o.used(t)) {
				exact++
				break
			}
		}
		if exact == want {
			return
		}
	}
	t.Errorf("of %d joint decisions that failed only %d gave everything back", tries, exact)
}

func (o *outage) used(t *testing.T) []int {
	t.Helper()
	return append(testkit.Used(t, o.patient, o.living[0]), testkit.Used(t, o.patient, o.living[1])...)
}

// goesOn makes decisions on living nodes while those on the dead one fail.
func (o *outage) goesOn(t *testing.T) {
	t.Helper()
	const calls = 200
	var lost, failed atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				d, err := o.hasty.Allow(t.Context(), o.lost)
				unavailable(t, d, err)
				lost.Add(1)
			}
		})
	}
	for _, identity := range o.living {
		wg.Go(func() {
			for range calls {
				if _, err := o.hasty.Allow(t.Context(), identity); err != nil {
					failed.Add(1)
					t.Logf("%s: %v", identity, err)
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() > calls/100 {
		t.Errorf("of %d decisions on living nodes %d failed beside %d on a dead one", 2*calls, failed.Load(), lost.Load())
	}
}
