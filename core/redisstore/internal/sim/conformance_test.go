package sim

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A learningStore is a Store whose rules the simulated server learns, with the figures of that behind it.
type learningStore struct {
	driver.Store
	behind *redisstore.Store
}

func (l learningStore) Measures() []driver.Measure { return l.behind.Measures() }

// The simulated server decides as a real Redis does: both pass the suite that each store has to pass.
func TestConformance(t *testing.T) {
	t.Parallel()
	emptyPools() // after TestSim, because no test beside runs in a bubble
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		w := newWorld(1)
		s := newServer(w, 0)
		clock := new(storetest.Clock)
		s.fixed, s.scriptTime = clock.Micros, 0
		l := &link{w: w, server: s, conns: map[*conn]struct{}{}}
		rdb := redis.NewClient(&redis.Options{
			Addr: s.addr, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
		})
		t.Cleanup(func() { _ = rdb.Close() })
		store := redisstore.New(rdb, "test", redisstore.Unbatched(), redisstore.Timeout(time.Minute)) // in a queue, real time would pass
		learning := &storetest.Fake{Store: store}
		learning.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			for i := range charges {
				w.rules.add(charges[i].Rule)
			}
			return next(ctx, charges)
		})
		testkit.Joint(t, learningStore{learning, store})
		return clock.Harness(learning)
	})
}

// TestLibraries names the tables of the server without an entry for an algorithm.
func TestLibraries(t *testing.T) {
	var all []string
	for a := driver.TokenBucket; a.String() != "none"; a++ {
		if all = append(all, libraries[a]); libraries[a] == "" {
			t.Errorf("libraries in catalog.go has no %v", a)
		}
	}
	for _, library := range all {
		if sizes[library] == 0 {
			t.Errorf("sizes in catalog.go has no %s", library)
		}
		if len(probes[library]) == 0 {
			t.Errorf("probes in catalog.go has no %s", library)
		}
	}
}

// An error of a server without the library struct names the cause and the cure.
func TestMiniredis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer rdb.Close()
	s := redisstore.New(rdb, "test")
	sources := make(map[string]string) // of the scripts by their names
	for name, script := range wire.Scripts() {
		sources[name] = script.Source
	}
	for _, a := range testkit.Algorithms {
		d, err := testkit.Limiter(t, s, a.Rule(a.Name, core.PerMinute(3))).Allow(t.Context(), "k")
		if err != nil && !(errors.Is(err, core.ErrUnavailable) && strings.Contains(err.Error(), "test with memstore or redistest")) || err == nil && !d.Allowed {
			t.Errorf("%s: got %v, %v", a.Name, d, err)
		}
		source := sources["take "+libraries[a.Rule(a.Name, core.PerMinute(3)).Algorithm()]]
		if works := !strings.Contains(source, "struct."); source == "" || works != (err == nil) {
			t.Errorf("%s: got the error %v", a.Name, err)
		}
	}
	pause := testkit.Limiter(t, s, core.Pause("pause"))
	if d, err := pause.Allow(t.Context(), "k"); err != nil || !d.Allowed {
		t.Errorf("without a pause: got %v, %v", d, err)
	}
	if err := pause.Pause(t.Context(), "k", time.Minute); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("a pause: got %v, want ErrUnavailable", err)
	}
}
