package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// The keys that use the largest shares of limits of all kinds are listed, from a single server and a Cluster.
func TestNear(t *testing.T) {
	server, cluster := redistest.NewServer(t), redistest.SharedCluster(t)
	files(t)
	content := []byte(`{policies: {api: {rules: [{name: minute, algorithm: sliding_log, limit: 10/m, plans: {gold: 100/m}}, {name: month, algorithm: quota, limit: 20/month}]},
		work: {rules: [{name: slots, algorithm: in_flight, limit: 4}, {name: stop, algorithm: pause}]}, none: {rules: [{name: free, algorithm: sliding_log, limit: unlimited}]}}}`)
	write(t, "api.yaml", string(content))
	for name, c := range map[string]struct {
		flags string
		rdb   redis.UniversalClient
	}{
		"single":  {"-redis redis://" + server.Addr, server.Client()},
		"cluster": {"-cluster -redis redis://" + cluster.Nodes[0].Addr, cluster.Client()},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := redistest.Prefix(t)
			config, err := rules.Parse("api.yaml", content)
			testkit.Must(t, err)
			store := redisstore.New(c.rdb, "test", redisstore.Prefix(prefix), redisstore.Timeout(time.Minute))
			source := rules.Redis(c.rdb, "test", rules.Prefix(prefix))
			set, err := rules.New(store, config, rules.Overrides(source))
			testkit.Must(t, err)
			limiter := func(policy string) *core.Limiter {
				l, err := set.Limiter(policy)
				testkit.Must(t, err)
				return l
			}
			testkit.Admit(t, limiter("api"), "ann", 9)
			testkit.Admit(t, limiter("api"), "bob", 5)
			testkit.Must(t, set.Override(t.Context(), "api", "eve", rules.Override{Plan: "gold"}))
			testkit.Admit(t, limiter("api"), "eve", 18)
			for i := range 40 {
				testkit.Admit(t, limiter("api"), fmt.Sprint("other", i), 1)
			}
			for range 3 {
				r := testkit.Reserve(t, limiter("work"), "job", 1)
				defer func() { _ = r.Release(t.Context()) }()
			}
			testkit.Must(t, limiter("work").Pause(t.Context(), "paused", time.Hour))
			tag := func(key string) string { return "#" + source.Fleet().Tag(key) }
			times := regexp.MustCompile(`in [0-9m.]+s|when all end|at 20[0-9T:Z-]+`)
			for _, step := range []struct {
				args   string
				status int
				want   []string // rows, without the time
				stderr string
			}{
				{"80%", 0, []string{tag("ann") + " api.minute 10/m 9 90 %", tag("eve") + " api.month 20/month in UTC 18 90 %"}, `the limits of "api" are those without a plan`},
				{"0.7", 0, []string{tag("ann") + " api.minute 10/m 9 90 %", tag("eve") + " api.month 20/month in UTC 18 90 %", tag("job") + " work.slots 4 3 75 %"}, ""},
				{"40% api -rule minute", 0, []string{tag("ann") + " api.minute 10/m 9 90 %", tag("bob") + " api.minute 10/m 5 50 %"}, ""},
				{"40% api -n 1", 0, []string{tag("ann") + " api.minute 10/m 9 90 %"}, "see -n"},
				{"5% api -plan gold -rule minute", 0, []string{tag("eve") + " api.minute 100/m 18 18 %", tag("ann") + " api.minute 100/m 9 9 %"}, ""},
				{"80% none", 0, nil, ""},
				{"80% absent", 1, nil, "has no policy"},
				{"100%", 1, nil, "SHARE is not from"},
				{"x", 1, nil, "SHARE is not from"},
				{"80% -n 0", 1, nil, "-n is not 1 or more"},
			} {
				var stdout, stderr strings.Builder
				args := append(strings.Fields("near "+c.flags+" -prefix "+prefix+" -config api.yaml"), strings.Fields(step.args)...)
				status := run(args, &stdout, &stderr)
				want := "KEY RULE LIMIT USED SHARE UNUSED\n" + strings.Join(step.want, " …\n") + " …\n"
				if len(step.want) == 0 {
					want = "KEY RULE LIMIT USED SHARE UNUSED\n"
				}
				got := regexp.MustCompile(` +`).ReplaceAllString(times.ReplaceAllString(stdout.String(), "…"), " ")
				if status != step.status || status == 0 && got != want || !strings.Contains(stderr.String(), step.stderr) {
					t.Errorf("%s: got status %d,\n%s%s\nwant %d,\n%s%s", step.args, status, got, &stderr, step.status, want, step.stderr)
				}
			}
		})
	}
}
