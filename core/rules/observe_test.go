package rules_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// The measures of every store of the module are found, with names and descriptions for metrics.
func TestStore_MeasuresOfStores(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	leased := lease.New(redisstore.New(rdb, "test"))
	over := failover.New(leased, memstore.New())
	t.Cleanup(func() { _, _ = over.Close(), leased.Close() })
	s := observe.New(denycache.New(over))
	set, err := rules.New(s, &rules.Config{}, rules.Overrides(rules.Redis(rdb, "test")))
	testkit.Must(t, err)
	s.Add(set)
	prefixes := map[string]int{}
	seen := map[string]bool{}
	for _, m := range s.Snapshot().Measures {
		name := fmt.Sprint(m.Role, m.Name)
		if seen[name] || !strings.HasPrefix(m.Name, "weir.") || !strings.HasSuffix(m.Help, ".") || m.Unit == "" {
			t.Errorf("got %+v, want a new name, a sentence and a unit", m)
		}
		seen[name] = true
		prefixes[m.Role+" "+strings.Split(m.Name, ".")[1]]++
	}
	if got, want := fmt.Sprint(prefixes), "map[ attempts:1  denycache:3  failover:7  peeks:1  rules:9  store:1 backup memstore:4 primary lease:5 primary redis:8]"; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// New rules are logged and counted by a store of package observe.
func TestSet_Apply_Logged(t *testing.T) {
	var log bytes.Buffer
	s := observe.New(memstore.New(), observe.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	config := func(limit string) *rules.Config {
		return parse(t, "search: {rules: [{name: search, algorithm: sliding_window, limit: "+limit+"}]}")
	}
	set, err := rules.New(s, config("5/m"))
	testkit.Must(t, err)
	s.Add(set)
	testkit.Must(t, set.Apply(config("6/m")))
	if want := `level=INFO msg="weir: new configuration" previous=`; !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, &log)
	}
	testkit.Must(t, set.Apply(config("6/h")))
	if want := `changes=2 begin_unused=[search.search]`; strings.Count(log.String(), "begin_unused") != 1 || !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, &log)
	}
	for _, m := range s.Snapshot().Measures {
		if m.Name == "weir.rules.changes" && m.Value != 2 {
			t.Errorf("got %v changes, want 2", m.Value)
		}
	}
}
