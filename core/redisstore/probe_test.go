package redisstore_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// A probe does not change the states of the rules. Its keys expire.
func TestStore_ProbeKeys(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Shared(t), redistest.SharedCluster(t)
	for _, on := range []struct {
		name  string
		rdb   redis.UniversalClient
		nodes []*redistest.Server
	}{
		{"single", single.Client(), []*redistest.Server{single}},
		{"cluster", cluster.Client(), cluster.Nodes},
	} {
		for _, mode := range modes {
			t.Run(on.name+"/"+mode.name, func(t *testing.T) {
				own := fmt.Sprintf("probe%d:", prefixes.Add(1))
				s := redisstore.New(on.rdb, "test", append([]redisstore.Option{redisstore.Prefix(own), redisstore.Timeout(waitLimit)}, mode.opts...)...)
				var rules []core.Rule
				for _, a := range testkit.Algorithms {
					rules = append(rules, a.Rule(a.Name, core.PerDay(10)))
				}
				l := testkit.Limiter(t, s, rules[:3]...)
				identities := []string{identityOn(t, on.nodes[0], s, "first"), identityOn(t, on.nodes[len(on.nodes)-1], s, "last")}
				for _, identity := range identities {
					testkit.Admit(t, l, identity, 3)
				}
				coarse := core.SlidingWindow("coarse", core.PerDay(10)).SubWindows(1)
				charges := slices.Concat(peeks(l, identities...), peeks(testkit.Limiter(t, s, rules[3:]...), identities[0]), peeks(testkit.Limiter(t, s, coarse), identities[1]))
				size, err := driver.Definition{
					Name: "size", Algorithm: driver.FixedWindow, Events: 20, Per: time.Hour, Like: testkit.Compiled(core.FixedWindow("size", core.PerHour(10))),
				}.Compile()
				testkit.Must(t, err)
				charges = append(charges, driver.Charge{Key: identities[0], Rule: size, Op: driver.Peek, Cost: 1})
				for range 3 { // earlier probes do not deny later ones
					testkit.Must(t, s.Probe(t.Context(), charges))
				}
				for _, identity := range identities {
					if got := testkit.Used(t, l, identity); !slices.Equal(got, []int{3, 3, 3}) {
						t.Errorf("the rules have used %v after a probe, want 3 each", got)
					}
				}
				var nodes []*redis.Client
				for _, node := range on.nodes {
					nodes = append(nodes, node.Client())
				}
				eventually(t, func() error {
					for _, node := range nodes {
						for _, key := range keysOf(t, node, own) {
							ttl, err := node.PTTL(t.Context(), key).Result()
							testkit.Must(t, err)
							if !strings.HasSuffix(key, "?") || strings.HasSuffix(key, "}?") { // of the test of the server
								continue
							}
							if ttl > 2*time.Second || ttl == -1 {
								t.Fatalf("the TTL of %q is %v, want at most 2 s", key, ttl)
							}
							return fmt.Errorf("%q exists", key)
						}
					}
					return nil
				})
			})
		}
	}
}

func TestStore_ProbeErrors(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := redisstore.New(server.Client(), "test", append([]redisstore.Option{redisstore.Timeout(short)}, mode.opts...)...)
			l := testkit.Limiter(t, s, dailyRules()...)
			charges := peeks(l, "mallory")
			testkit.Must(t, server.Pause())
			defer func() { testkit.Must(t, server.Resume()) }()
			start := time.Now()
			err := s.Probe(t.Context(), charges)
			unavailable(t, core.Decision{}, err)
			discreet(t, err, "mallory")
			if took := time.Since(start); took > short+margin {
				t.Errorf("a probe of a paused server took %v, want %v", took, short)
			}
			if got := s.Stats(); got.Unavailable != 0 {
				t.Errorf("%d failures were counted after a probe, want 0", got.Unavailable)
			}
		})
	}
}

// A probe of an in-flight rule writes a key of another algorithm, and changes no place.
func TestInFlight_probe(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	f := newFlight(t, rdb, inFlight(t, "probe", 1, time.Hour, 0))
	f.take()
	before := f.places()
	probe := []driver.Charge{{Key: "k", Rule: f.rule, Op: driver.Peek, Cost: 1}}
	for range 3 {
		testkit.Must(t, f.Store.(driver.Prober).Probe(t.Context(), probe))
	}
	tag, _, _ := strings.Cut(f.key, "}")
	keys := keysOf(t, rdb, tag)
	if slices.Sort(keys); len(keys) != 2 || !slices.Contains(keys, f.key) || !maps.Equal(before, f.places()) {
		t.Errorf("the keys are %q, want that of the rule and one of a probe", keys)
	}
}
