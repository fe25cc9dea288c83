package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
)

// clockReaders are the files of the library that read the clock of the process, and the reason. No State of a Store with a
// clock of its own may depend on it (driver.Description.Clock).
var clockReaders = map[string]string{
	"keyfunc/jwt.go": "the times of a token, which its issuer has set",

	"core/limiter.go":        "for a Store without a clock of its own",
	"core/memstore/store.go": "without the option Clock",
	"core/memstore/item.go":  "without the option Clock",
	"core/gate/check.go":     "Deny has no Store",
	"core/gate/policy.go":    "a block ends by the clock of this process",

	"core/failover/backup.go": "of an Answer, which has no State and no Store",

	// Blocks and overrides end at times that all processes read by their own clocks.
	"core/rules/override.go":                    "the end of an override, and the time of a change",
	"core/rules/set.go":                         "the end of an override",
	"core/rules/version.go":                     "the end of an override",
	"core/rules/internal/overrides/index.go":    "the end of an override",
	"core/rules/internal/overrides/override.go": "the end of an override",
	"core/rules/internal/overrides/entry.go":    "the end of an override",
	"core/rules/internal/overrides/changes.go":  "the removal of overrides that have ended",
	"core/rules/internal/overrides/write.go":    "the removal of overrides that have ended",

	// Timeouts, and intervals of work in the background.
	"core/replace.go":                            "the time since a change of rules",
	"core/wait.go":                               "the deadline of a context",
	"core/failover/store.go":                     "times of an outage",
	"core/lease/store.go":                        "lifetimes of leases",
	"core/denycache/store.go":                    "ends of denials, as times since they were received",
	"core/internal/hold/hold.go":                 "times of renewals",
	"core/internal/waiters/list.go":              "the age of a caller",
	"core/internal/waiters/queue.go":             "the age of a message",
	"core/redisstore/internal/pipe/job.go":       "the timeout",
	"core/redisstore/freer.go":                   "the timeout, and the time since a reply was due",
	"core/redisstore/internal/pipe/idle.go":      "checks of connections",
	"core/redisstore/listener.go":                "the end of a subscription",
	"core/redisstore/listeners.go":               "the end of a subscription",
	"core/redisstore/probe.go":                   "the timeout",
	"core/redisstore/internal/pipe/backlog.go":   "the timeout",
	"core/redisstore/internal/pipe/runner.go":    "the time in the backlog",
	"core/redisstore/diagnose/script_check.go":   "the timeout",
	"core/redisstore/split.go":                   "the timeout",
	"core/redisstore/store.go":                   "the timeout, and the deadline of a context",
	"core/redisstore/diagnose/target.go":         "round trips",
	"core/redisstore/internal/pipe/wholeness.go": "the pause between tests",
	"nethttplimit/client/transport.go":           "MaxWait",
	"nethttplimit/client/wait.go":                "the deadline of a context",
	"nethttplimit/client/retry_after.go":         "a response without Date",
	"core/rules/internal/overrides/cache.go":     "the deadline of a context",
	"core/rules/internal/overrides/reader.go":    "the pause after an error",

	// Figures, logs and the page.
	"core/gate/admit.go":          "Event.StoreTime",
	"core/gate/exhausted.go":      "times since a denial was received",
	"core/load/smooth.go":         "the time between two samples",
	"core/load/cpu.go":            "the time between two samples",
	"core/observe/store.go":       "the time of a call",
	"core/observe/clock.go":       "times of figures",
	"core/inspect/key.go":         "the page: rounded, and ends of overrides",
	"core/inspect/report.go":      "the page",
	"core/inspect/history.go":     "the page",
	"core/inspect/handler.go":     "the page",
	"internal/sampler/sampler.go": "the rate of log lines",
}

// Each use of the clock of the process has a reason, so that a Store with the option Clock is not read at another time.
func TestClockReaders(t *testing.T) {
	found := make(map[string]bool)
	eachFile(t, func(path string, f *ast.File) {
		if strings.HasPrefix(path, "cmd/") || slices.ContainsFunc(strings.Split(path, "/"), func(dir string) bool { return slices.Contains(testPackages, dir) }) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					found[path] = true
				}
			}
			return true
		})
	})
	if len(found) == 0 {
		t.Fatal("no file reads the clock")
	}
	for name := range found {
		if clockReaders[name] == "" {
			t.Errorf("%s reads the clock of the process, without a reason in clockReaders", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(clockReaders)) {
		if !found[name] {
			t.Errorf("%s of clockReaders does not read the clock", name)
		}
	}
}

// testPackages are directories of packages for tests.
var testPackages = []string{"testkit", "apptest", "frameworks", "storetest", "redistest", "servertest", "gatetest", "sim"}

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
