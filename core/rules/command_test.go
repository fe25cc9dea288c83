package rules_test

import (
	"crypto/tls"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

func TestSet_Command(t *testing.T) {
	server := func(o redis.Options) redis.UniversalClient { return redis.NewClient(&o) }
	for _, c := range []struct {
		name, config string
		rdb          redis.UniversalClient
		opts         []rules.RedisOption
		args         []string
		want         string
	}{
		{"a file", "limits.yaml", server(redis.Options{Addr: "127.0.0.1:1"}), nil, []string{"unblock", "api", "user:7"},
			"weir rules -config limits.yaml -redis redis://127.0.0.1:1 -app test unblock api user:7"},
		{"Redis", "Redis", server(redis.Options{Addr: "redis.internal:6379", DB: 2, TLSConfig: &tls.Config{}}), []rules.RedisOption{rules.Prefix("shop:")}, []string{"get"},
			"weir rules -redis rediss://redis.internal:6379/2 -app test -prefix shop: get"},
		{"a password", "Redis", server(redis.Options{Addr: "127.0.0.1:1", Password: "secret"}), nil, []string{"get"}, "weir rules -app test get"},
		{"a Sentinel", "", redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}}), nil, []string{"get"}, "weir rules -app test get"},
		{"a Cluster", "", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}), nil, []string{"get"}, "weir rules -cluster -app test get"},
		{"quotes", "my limits.yaml", redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}}), nil, []string{"override", "api", `it's $HOME; \';#1`, "{plan: gold}", "", "ключ", "a,b", "@a"},
			`weir rules -config 'my limits.yaml' -cluster -app test override api 'it'\''s $HOME; '"\\"''\'';#1' '{plan: gold}' '' 'ключ' 'a,b' '@a'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() { _ = c.rdb.Close() })
			config, err := rules.Parse(c.config, []byte(apiPolicies))
			testkit.Must(t, err)
			set, err := rules.New(memstore.New(), config, rules.Overrides(rules.Redis(c.rdb, "test", c.opts...)))
			testkit.Must(t, err)
			got, err := set.Command(c.args...)
			if err != nil || got != c.want {
				t.Fatalf("got  %s (%v)\nwant %s", got, err, c.want)
			}
			words, err := exec.Command("sh", "-c", `for w in `+got+`; do printf '%s\n' "$w"; done`).Output()
			testkit.Must(t, err)
			if last := strings.Join(c.args, "\n") + "\n"; !strings.HasSuffix(string(words), last) {
				t.Errorf("a shell reads %q, which does not end with %q", words, last)
			}
			for _, key := range []string{"a\nb", "\x1b[2J", "a\u202eb", "\xff", "\u200b", "a\u00a0b", "a\u2028b"} {
				if got, err := set.Command("unblock", "api", key); err == nil {
					t.Errorf("got %q for the key %q, want an error", got, key)
				}
			}
			if set.Config() != config {
				t.Error("Config is not the configuration in force")
			}
		})
	}
	set, err := rules.New(memstore.New(), &rules.Config{})
	testkit.Must(t, err)
	if got, err := set.Command("get"); err == nil {
		t.Errorf("got %q without a source of overrides, want an error", got)
	}
}
