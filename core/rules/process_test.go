package rules_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

var fixed = []byte("policies: {api: {rules: [{name: minute, algorithm: token_bucket, limit: 100/m}]}}")

// A text is a source that does not change.
type text []byte

func (t text) Load(context.Context) ([]byte, error) { return t, nil }

func (text) String() string { return "limits.yaml" }

// watched starts a Set with overrides in source on a store.
func watched(t *testing.T, store core.Store, source *rules.RedisSource) *rules.Set {
	t.Helper()
	config, err := rules.Parse("limits.yaml", fixed)
	testkit.Must(t, err)
	set, err := rules.New(store, config, rules.Overrides(source))
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		_ = set.Watch(ctx, text(fixed))
		close(done)
	}()
	t.Cleanup(func() { stop(); <-done })
	return set
}

// awaitProcesses waits until check accepts the processes that source sees.
func awaitProcesses(t *testing.T, source *rules.RedisSource, check func(all []rules.Process) error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		all, err := source.Fleet().Processes(t.Context())
		if err = errors.Join(err, check(all)); err == nil {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("after a minute: %v; the processes are %+v", err, all)
		}
	}
}

// A process tells which rules it has and which changes are in force, over a resilient store and over any other one.
func TestFleet_Processes(t *testing.T) {
	rdb := redistest.NewServer(t).Client()
	operator := rules.Redis(rdb, "shop")
	if all, err := operator.Fleet().Processes(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("before the first one: got %v, %v", all, err)
	}
	store := resilient.New(rdb, "shop")
	t.Cleanup(func() { store.Close() })
	set := watched(t, store, rules.RedisOf(store))
	watched(t, redisstore.New(rdb, "shop"), rules.Redis(rdb, "shop"))                                                  // without a heartbeat of its store
	watched(t, redisstore.New(rdb, "shop", redisstore.Prefix("other:")), rules.Redis(rdb, "shop"))                     // the overrides of another application
	watched(t, redisstore.New(rdb, "shop"), rules.Redis(rdb, "shop", rules.KeySecret([]byte("a secret of 16 bytes")))) // another secret
	code := resilient.New(rdb, "shop")
	testkit.Limiter(t, code, core.SlidingLog("login", core.PerHour(5)).BlockFor(time.Minute))
	t.Cleanup(func() { code.Close() })

	testkit.Must(t, set.Block(t.Context(), "api", "ann", time.Time{}))
	change, err := operator.LastChange(t.Context())
	testkit.Must(t, err)
	awaitProcesses(t, operator, func(all []rules.Process) error {
		var got []string
		for _, p := range all {
			text := fmt.Sprint(p.Rules)
			for _, s := range p.Sets {
				text += fmt.Sprintf("|%s|%v|%v|%v|%v|%v", s.Source, s.Config == set.Version(), s.Policies, s.Follows, s.OtherSecret, s.InForce(change))
			}
			got = append(got, text)
			if p.PID == 0 || p.Host == "" || time.Since(p.Started) > time.Hour || time.Since(p.Seen) > time.Minute {
				t.Errorf("got %+v", p)
			}
		}
		slices.Sort(got)
		if want := "[[]|limits.yaml|true|[api]|true|false|true []|limits.yaml|true|[api]|true|false|true []|limits.yaml|true|[api]|true|true|false [api.minute]|limits.yaml|true|[api]|true|false|true [login]]"; fmt.Sprint(got) != want {
			return fmt.Errorf("got %s", got)
		}
		return nil
	})

	testkit.Must(t, code.Close())
	awaitProcesses(t, operator, func(all []rules.Process) error {
		if len(all) != 4 {
			return errors.New("a process has ended")
		}
		return nil
	})
}

// The description of a process is not trusted.
func TestFleet_Processes_Damage(t *testing.T) {
	rdb := redistest.NewServer(t).Client()
	operator := rules.Redis(rdb, "shop")
	store := resilient.New(rdb, "shop")
	t.Cleanup(func() { store.Close() })
	watched(t, store, rules.RedisOf(store))
	var id string
	awaitProcesses(t, operator, func(all []rules.Process) error {
		if len(all) != 1 {
			return errors.New("no process yet")
		}
		id = all[0].ID
		return nil
	})
	abouts := rdb.Keys(t.Context(), "weir:shop:{shop}processes:about:*").Val()
	if len(abouts) != 1 {
		t.Fatalf("got the keys %q", abouts)
	}
	for _, text := range []string{"", "x", "[]", `{"pid":"x"}`, "\x00", strings.Repeat("{", 1<<20)} {
		testkit.Must(t, rdb.HSet(t.Context(), abouts[0], id, text).Err())
		all, err := operator.Fleet().Processes(t.Context())
		if len(all) != 1 || len(all[0].Sets) > 0 || err == nil {
			t.Errorf("%.10q: got %+v, %v", text, all, err)
		}
	}
	testkit.Must(t, rdb.Del(t.Context(), abouts[0]).Err())
	testkit.Must(t, rdb.Set(t.Context(), abouts[0], "x", 0).Err())
	if all, err := operator.Fleet().Processes(t.Context()); err == nil || len(all) > 0 {
		t.Errorf("another type: got %v, %v", all, err)
	}
	if _, err := rules.Redis(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}), "shop").Fleet().Processes(t.Context()); err == nil {
		t.Error("without Redis: got no error")
	}
}

// The rules of limiters in code are published with all lengths of their states, and those of a file, too.
func TestFleet_Published(t *testing.T) {
	rdb := redistest.NewServer(t).Client()
	operator := rules.Redis(rdb, "shop")
	store := resilient.New(rdb, "shop")
	t.Cleanup(func() { store.Close() })
	many := core.TokenBucket("many", core.PerMinute(1))
	for i := range 30 {
		many = many.Plan(fmt.Sprint("plan", i), core.Per(1, time.Duration(1+i%25)*time.Hour))
	}
	testkit.Limiter(t, store,
		core.SlidingLog("login", core.PerHour(5)).Plan("pro", core.PerHour(50)).Plan("staff", core.Unlimited).Soft(20),
		core.InFlight("slots", 3).Hold(time.Minute), core.Quota("month", core.Monthly(100)), core.Pause("stop"), many,
		core.TokenBucket("elastic", core.PerMinute(10)).Elastic(func() float64 { return 1 }, 2))
	watched(t, store, rules.RedisOf(store))
	other := resilient.New(rdb, "shop") // another version
	t.Cleanup(func() { other.Close() })
	testkit.Limiter(t, other, core.SlidingLog("login", core.PerHour(7)), core.TokenBucket("bans", core.PerMinute(9)).BlockFor(10*time.Minute))

	var all map[string]rules.PublishedRule
	awaitProcesses(t, operator, func([]rules.Process) (err error) {
		if all, err = operator.Fleet().Published(t.Context()); err == nil && (len(all) != 8 || len(all["login"].Others) != 1) {
			err = fmt.Errorf("%d rules are published", len(all))
		}
		return err
	})
	got := map[string]string{}
	policies := map[string]rules.Policy{}
	for name, p := range all {
		policies[name] = p.Policy
		r := p.Policy.Rules[0]
		got[name] = fmt.Sprint(r.Algorithm, " ", r.Limit, " ", len(r.Plans), " ", p.MorePlans, " ", p.Elastic, " ", r.BlockFor)
	}
	delete(got, "login") // the latest one is not known
	want := map[string]string{
		"slots": "in_flight 3 0 0 0 0s", "month": "quota 100/month 0 0 0 0s", "stop": "pause 0 0 0 0 0s", "many": "token_bucket 1/m 27 3 0 0s",
		"elastic": "token_bucket 10/m 0 0 2 0s", "api.minute": "token_bucket 100/m 0 0 0 0s", "bans": "token_bucket 9/m 0 0 0 1s",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if text := all["bans"].Text; text != `token_bucket "bans" 9/m block for 10m` {
		t.Errorf("got the text %q", text)
	}
	limits := []int{all["login"].Policy.Rules[0].Limit.Events, all["login"].Others[0].Policy.Rules[0].Limit.Events}
	if slices.Sort(limits); fmt.Sprint(limits) != "[5 7]" {
		t.Errorf("got the limits %v of login", limits)
	}
	if _, err := rules.New(redisstore.New(rdb, "shop"), &rules.Config{Policies: policies}); err != nil {
		t.Errorf("the published rules are no configuration: %v", err)
	}
	testkit.Must(t, rdb.HSet(t.Context(), "weir:shop:{shop}processes:published", "login x", "y").Err())
	if damaged, err := operator.Fleet().Published(t.Context()); err == nil || len(damaged) != len(all) {
		t.Errorf("a rule that is not well formed: got %d rules, %v", len(damaged), err)
	}
}
