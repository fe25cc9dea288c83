package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// algorithmNames has the name of the constant of each algorithm, such as "FixedWindow".
var algorithmNames = func() (names []string) {
	for a := driver.TokenBucket; a.String() != "none"; a++ {
		var name strings.Builder
		for word := range strings.SplitSeq(a.String(), "_") {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
		names = append(names, name.String())
	}
	return names
}()

// lists are the places that need an entry for each algorithm, except for some, and whose absence no other test
// notices. entry is that of a fixed window.
var lists = []struct{ file, entry, except string }{
	{"spec.go", "AlgorithmFixedWindow", ""},
	{"spec.go", `"fixed_window"`, ""},
	{"../internal/testkit/testkit.go", "core.FixedWindow", "InFlight Quota Pause"}, // drives tests of all packages
	{"driver/driver_test.go", "driver.FixedWindow", "Quota Pause"},
	{"driver/alloc_test.go", "driver.FixedWindow", ""},
	{"contract_test.go", "core.FixedWindow", "InFlight Quota Pause"},
	{"divide_test.go", "core.FixedWindow", "InFlight Quota Pause"},
	{"headroom_test.go", "core.FixedWindow", "Pause"},
	{"wait_test.go", "core.FixedWindow", "InFlight Quota Pause"}, // see soonest in wait.go
	{"memstore/helper_test.go", "core.FixedWindow", "InFlight Quota Pause"},
	{"storetest/walk_test.go", "fixed_window", ""},
	{"redisstore/corrupt_state_test.go", `"fixed_window"`, "InFlight Quota Pause"},
	{"redisstore/memory_test.go", "core.FixedWindow", "LeakyBucket InFlight Quota Pause"},
	{"redisstore/state_table_test.go", "driver.FixedWindow", "InFlight"},
	{"redisstore/store_test.go", "core.FixedWindow", "InFlight Quota Pause"},
	{"redisstore/internal/sim/catalog_test.go", "driver.FixedWindow", ""},
	{"redisstore/internal/sim/scripts_test.go", "driver.FixedWindow", ""},
	{"rules/history_test.go", "driver.FixedWindow", ""},
	{"../cmd/weir/internal/playground/kind.go", "core.FixedWindow", "InFlight Pause Quota"}, // needs more than requests
	{"../docs/algorithms.md", "FixedWindow", ""},
	{"../README.md", "FixedWindow", ""},
}

// TestAlgorithms_Lists names the places in which an algorithm is missing.
func TestAlgorithms_Lists(t *testing.T) {
	testkit.WithoutRace(t)
	for _, l := range lists {
		text, err := os.ReadFile(l.file)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range algorithmNames {
			a := driver.Algorithm(i + 1)
			entry := strings.NewReplacer("FixedWindow", name, "fixed_window", a.String()).Replace(l.entry)
			found := regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(entry) + `(\W|$)`).Match(text)
			switch excepted := slices.Contains(strings.Fields(l.except), name); {
			case !found && !excepted:
				t.Errorf("%s has no %s", filepath.Join("core", l.file), entry)
			case found && excepted:
				t.Errorf("%s has %s, which is an exception", filepath.Join("core", l.file), entry)
			}
		}
	}
}

// cases lists the files with code for some algorithms only. A new algorithm needs a case in the files of the
// algorithms that it is like: LeakyBucket, if it delays events; InFlight, if its events take something until they
// end; Quota, if its limit has no period, or one of the calendar; Pause, if it has no limit, and its events take
// nothing.
var cases = map[string][]string{
	"TokenBucket": {
		"core/lease/take.go", "core/rules/decode_policy.go", "core/storetest/bridge.go", "core/wait.go",
	},
	"SlidingLog": {
		"core/redisstore/probe.go",
	},
	"LeakyBucket": {
		"cmd/weir/internal/simulate/policy.go", "core/denycache/entry.go", "core/gate/early.go",
		"core/reservation.go", "core/wait.go",
	},
	"FixedWindow": {
		"core/denycache/entry.go", "core/driver/definition.go", "core/lease/take.go", "core/lease/units.go",
		"core/redisstore/probe.go", "core/rules/field.go", "core/wait.go",
	},
	"SlidingWindow": {
		"core/driver/definition.go", "core/driver/length.go", "core/rules/field.go",
	},
	"InFlight": {
		"cmd/weir/scenario.go", "cmd/weir/simulated.go", "core/denycache/entry.go", "core/driver/definition.go",
		"core/driver/state.go", "core/elastic.go", "core/event.go", "core/gate/policy.go",
		"core/in_flight.go", "core/inspect/key.go", "core/inspect/report.go", "core/memstore/entry.go",
		"core/memstore/shard.go", "core/redisstore/arguments.go", "core/redisstore/probe.go",
		"core/redisstore/reply.go", "core/redisstore/request.go", "core/reservation.go", "core/rules/build.go",
		"core/rules/decode_policy.go", "core/rules/field.go", "core/settle.go", "core/storetest/bridge.go", "core/storetest/places_subject.go",
		"core/storetest/reference.go", "core/storetest/walk_limits.go",
	},
	"Quota": {
		"core/denycache/entry.go", "core/driver/compiled.go", "core/driver/definition.go", "core/event.go",
		"core/gate/policy.go", "core/inspect/report.go", "core/memstore/entry.go", "core/memstore/store.go",
		"core/quota.go", "core/redisstore/arguments.go", "core/redisstore/probe.go", "core/rules/build.go",
		"core/rules/field.go", "core/rules/timezone.go", "core/settle.go", "core/storetest/bridge.go",
		"core/storetest/quota.go", "core/wait.go",
	},
	"Pause": {
		"cmd/weir/scenario.go", "cmd/weir/simulated.go", "core/denycache/entry.go", "core/denycache/store.go",
		"core/driver/charge.go", "core/driver/definition.go", "core/driver/state.go", "core/failover/adjust.go",
		"core/inspect/key.go", "core/inspect/report.go", "core/memstore/entry.go", "core/pause.go",
		"core/redisstore/arguments.go", "core/redisstore/probe.go", "core/reservation.go", "core/rules/build.go",
		"core/rules/field.go", "core/storetest/bridge.go", "core/storetest/pause.go", "core/storetest/reference.go",
		"core/storetest/walk_limits.go",
	},
}

// TestAlgorithms_Cases compares cases with the code.
func TestAlgorithms_Cases(t *testing.T) {
	testkit.WithoutRace(t)
	got := map[string][]string{}
	eachFile(t, func(path string, f *ast.File) {
		names := namedIn(f)
		if slices.Contains(names, "SlidingLog") && slices.Contains(names, "SlidingWindow") {
			return // a list of all
		}
		for _, name := range names {
			got[name] = append(got[name], path)
		}
	})
	for _, name := range algorithmNames {
		slices.Sort(got[name])
		if !slices.Equal(got[name], cases[name]) {
			t.Errorf("%s: got\n%q\nwant\n%q", name, got[name], cases[name])
		}
	}
}

// eachFile calls f with each Go file of the library that is no test, and with its path in the repository.
func eachFile(t *testing.T, f func(path string, file *ast.File)) {
	t.Helper()
	testkit.Must(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(name) > 2 && strings.ContainsAny(name[:1], "._"):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f(filepath.ToSlash(strings.TrimPrefix(path, "../")), file)
		return nil
	}))
}

// namedIn returns the algorithms of package driver that f names.
func namedIn(f *ast.File) []string {
	used := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "driver" {
				used[n.Sel.Name] = true
			}
		case *ast.Ident:
			if f.Name.Name == "driver" {
				used[n.Name] = true
			}
		}
		return true
	})
	return slices.DeleteFunc(slices.Clone(algorithmNames), func(name string) bool { return !used[name] })
}
