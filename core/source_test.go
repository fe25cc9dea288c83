package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

const module = "github.com/weir-go/weir/"

// allowed lists the imports of each package, except for its tests and the standard library. They
// point down only, and packages of one level do not import each other. core/redisstore/resilient is
// above the stores that it combines.
var allowed = map[string][]string{
	"core":                      {"core/internal/blockfor", "core/internal/bounds", "core/internal/memo", "core/driver", "internal/argument", "core/internal/calendar", "core/internal/call", "core/internal/hold", "core/internal/period", "core/internal/seqlock", "core/internal/unexported", "core/internal/waiters"},
	"core/driver":               {"core/internal/waiters"},
	"core/rules":                {"core/internal/bounds", "core", "core/driver", "internal/argument", "core/observe", "core/internal/keyhash", "core/internal/memo", "core/internal/period", "core/internal/processes", "core/internal/routes", "internal/sampler", "internal/similar", "core/internal/unexported", "core/rules/internal/document", "core/rules/internal/file", "core/rules/internal/overrides", "github.com/redis/go-redis/v9", "go.yaml.in/yaml/v4"},
	"internal/argument":         {},
	"internal/requestbody":      {},
	"core/internal/atmost":      {"core/driver"},
	"core/internal/call":        {},
	"core/internal/hold":        {"core/driver", "core/internal/call"},
	"core/internal/calendar":    {"core/driver"},
	"core/internal/period":      {"core/driver"},
	"core/internal/processes":   {"core/driver", "core/internal/blockfor", "core/internal/call"},
	"core/internal/seqlock":     {},
	"core/internal/waiters":     {},
	"core/internal/keyhash":     {},
	"core/internal/memo":        {},
	"core/internal/blockfor":    {"core/driver"},
	"core/internal/bounds":      {},
	"core/internal/routes":      {"core/internal/memo"},
	"internal/sampler":          {},
	"internal/address":          {},
	"internal/similar":          {"internal/address"},
	"internal/testkit":          {"core", "core/driver"},
	"core/internal/unexported":  {},
	"core/memstore":             {"core/driver", "internal/argument"},
	"core/pgstore":              {"core/casstore", "core/driver", "core/internal/call", "core/internal/keyhash", "internal/argument", "internal/sampler"},
	"core/redisstore":           {"core/driver", "internal/argument", "core/internal/keyhash", "core/internal/waiters", "core/redisstore/internal/pipe", "core/redisstore/internal/wire", "internal/sampler", "github.com/redis/go-redis/v9"},
	"core/casstore":             {"core/driver", "internal/argument", "core/internal/call", "core/internal/keyhash"},
	"core/redisstore/diagnose":  {"core/driver", "core/internal/call", "core/internal/processes", "core/internal/waiters", "core/redisstore", "core/redisstore/internal/pipe", "core/redisstore/internal/wire", "github.com/redis/go-redis/v9"},
	"core/storetest":            {"core/internal/bounds", "core", "core/driver", "core/internal/waiters", "core/storetest/internal/oracle", "internal/testkit"},
	"core/load":                 {},
	"core/failover":             {"core/driver", "internal/argument", "core/internal/atmost", "core/internal/call"},
	"core/redisstore/resilient": {"core/denycache", "core/driver", "core/failover", "internal/argument", "core/internal/keyhash", "core/internal/processes", "core/memstore", "core/observe", "core/redisstore", "core/redisstore/diagnose", "core/redisstore/internal/pipe", "github.com/redis/go-redis/v9"},
	"core/lease":                {"core/driver", "internal/argument"},
	"core/observe":              {"core/driver", "internal/argument", "core/internal/keyhash", "core/internal/processes", "internal/sampler"},
	"core/inspect":              {"core", "core/driver", "internal/argument", "internal/similar", "core/observe", "core/rules"},
	"core/observe/otel":         {"core", "core/driver", "core/gate", "core/observe", "go.opentelemetry.io/otel"},
	"core/observe/prometheus":   {"core/driver", "core/observe", "github.com/prometheus/client_golang"},
	"core/denycache":            {"core/driver", "core/internal/atmost", "core/internal/blockfor", "internal/argument", "github.com/maypok86/otter/v2"},
	"core/gate":                 {"internal/address", "core", "core/driver", "internal/argument", "internal/requestbody", "core/internal/memo", "internal/sampler", "core/internal/unexported", "core/gate/internal/requestkey", "core/gate/internal/unexported", "keyfunc"},
	"core/gate/adapter":         {"core", "core/gate", "core/gate/internal/requestkey", "core/gate/internal/unexported", "keyfunc"},
	"core/gate/gatetest":        {"core", "core/driver", "internal/testkit", "core/memstore", "core/storetest", "core/gate", "core/gate/adapter", "core/gate/internal/apptest", "core/internal/routes", "keyfunc"},
	"keyfunc":                   {"internal/address", "internal/argument", "internal/requestbody", "keyfunc/internal/token", "github.com/golang-jwt/jwt/v5"},
	"keyfunc/internal/token":    {"internal/sampler", "github.com/golang-jwt/jwt/v5"},
	"nethttplimit":              {"core", "core/gate", "core/gate/adapter", "core/memstore", "keyfunc"},
	"nethttplimit/client":       {"core"},
	"ginlimit":                  {"core", "core/gate", "core/gate/adapter", "core/memstore", "keyfunc", "github.com/gin-gonic/gin"},
	"echolimit":                 {"core", "core/gate", "core/gate/adapter", "core/memstore", "keyfunc", "github.com/labstack/echo/v4"},
	"echolimit/v5":              {"core", "core/gate", "core/gate/adapter", "core/memstore", "keyfunc", "github.com/labstack/echo/v5"},
	"connectlimit":              {"core", "core/gate", "core/gate/adapter", "connectrpc.com/connect", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf"},
	"grpclimit":                 {"core", "core/gate", "core/gate/adapter", "keyfunc", "google.golang.org/genproto", "google.golang.org/grpc", "google.golang.org/protobuf"},

	"cmd/weir":                            {"cmd/weir/internal/playground/page", "cmd/weir/internal/simulate", "cmd/weir/internal/trace", "core", "core/driver", "core/memstore", "core/observe", "core/pgstore", "core/redisstore", "core/redisstore/diagnose", "core/rules", "github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9", "internal/similar"},
	"cmd/weir/internal/playground":        {"cmd/weir/internal/simulate", "core", "core/driver"},
	"cmd/weir/internal/simulate":          {"core", "core/memstore", "core/driver"},
	"cmd/weir/internal/playground/page":   {"cmd/weir/internal/playground"},
	"cmd/weir/internal/playground/static": {"cmd/weir/internal/playground/page"},
	"cmd/weir/internal/trace":             {"cmd/weir/internal/simulate", "keyfunc"},

	"core/pgstore/internal/pgtests":        {},
	"core/pgstore/internal/pgtests/serve":  {"core/pgstore/internal/pgtests/pgtest"},
	"core/pgstore/internal/pgtests/pgtest": {"github.com/jackc/pgx/v5", "github.com/lib/pq"},

	"core/redisstore/redistest":           {"github.com/redis/go-redis/v9"},
	"core/redisstore/internal/pipe":       {"core/driver", "core/internal/keyhash", "core/redisstore/internal/wire", "internal/sampler", "github.com/redis/go-redis/v9"},
	"core/redisstore/internal/servertest": {"core/redisstore/redistest", "github.com/redis/go-redis/v9"},
	"core/redisstore/internal/sim":        {"core", "core/denycache", "core/driver", "core/failover", "core/internal/keyhash", "core/internal/processes", "core/internal/waiters", "core/lease", "core/redisstore", "core/redisstore/internal/servertest", "core/redisstore/internal/wire", "core/redisstore/resilient", "core/rules", "internal/testkit", "github.com/redis/go-redis/v9", "github.com/yuin/gopher-lua"},
	"core/redisstore/internal/stacks":     {},
	"core/redisstore/internal/wire":       {"core/driver", "core/internal/keyhash", "core/internal/memo", "core/internal/waiters"},
	"core/internal/frameworks":            {},

	"core/rules/internal/document":  {"internal/similar", "go.yaml.in/yaml/v4"},
	"core/rules/internal/file":      {},
	"core/rules/internal/overrides": {"core", "core/internal/call", "core/internal/keyhash", "core/internal/memo", "github.com/maypok86/otter/v2", "github.com/redis/go-redis/v9"},

	"core/storetest/internal/oracle": {},
	"core/gate/internal/requestkey":  {},
	"core/gate/internal/unexported":  {},
	"core/gate/internal/apptest":     {"core", "core/driver", "internal/testkit", "core/memstore", "core/storetest", "core/gate", "keyfunc"},
}

// internal lists the internal packages that other modules import. An application may use a module of an earlier
// release with a newer one of these packages.
var internal = map[string][]string{
	"core/pgstore":                  {"core/internal/call", "core/internal/keyhash", "internal/argument", "internal/sampler"},
	"core/redisstore":               {"core/internal/keyhash", "core/internal/waiters", "internal/argument", "internal/sampler"},
	"core/redisstore/diagnose":      {"core/internal/call", "core/internal/processes", "core/internal/waiters"},
	"core/redisstore/internal/pipe": {"core/internal/keyhash", "internal/sampler"},
	"core/redisstore/internal/wire": {"core/internal/keyhash", "core/internal/memo", "core/internal/waiters"},
	"core/redisstore/resilient":     {"core/internal/keyhash", "core/internal/processes", "internal/argument"},
	"core/rules":                    {"core/internal/bounds", "core/internal/keyhash", "core/internal/memo", "core/internal/period", "core/internal/processes", "core/internal/routes", "core/internal/unexported", "internal/argument", "internal/sampler", "internal/similar"},
	"core/rules/internal/document":  {"internal/similar"},
	"core/rules/internal/overrides": {"core/internal/call", "core/internal/keyhash", "core/internal/memo"},
	"core/inspect":                  {"internal/argument", "internal/similar"},
	"cmd/weir":                      {"internal/similar"},
}

// An adapter and an exporter import no internal package.
func TestImports_InternalOfOtherModules(t *testing.T) {
	format := `{{if .Module}}{{.Module.Path}}|{{.ImportPath}}|{{join .Imports ","}}{{end}};`
	for _, line := range strings.Split(strings.TrimSpace(strings.Join(goList(t, "-f", format, module+"..."), "")), ";") {
		parts := strings.Split(line, "|")
		if len(parts) < 3 || parts[0]+"/" == module {
			continue
		}
		name := strings.TrimPrefix(parts[1], module)
		if name == "core/redisstore/internal/sim" { // no module requires it
			continue
		}
		for _, imported := range strings.Split(parts[2], ",") {
			path, own := strings.CutPrefix(imported, module)
			if !own || !strings.Contains("/"+path+"/", "/internal/") || strings.HasPrefix(imported, parts[0]+"/") {
				continue
			}
			if !slices.Contains(internal[name], path) {
				t.Errorf("%s must not import %s of another module", name, path)
			}
		}
	}
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	c := exec.Command("go", append([]string{"list"}, args...)...)
	c.Dir = "../cmd/weir" // whose workspace has all modules of the library
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

func TestImports_Allowed(t *testing.T) {
	for _, line := range strings.Split(strings.TrimSpace(strings.Join(goList(t, "-f", `{{.ImportPath}}|{{join .Imports ","}};`, module+"..."), "")), ";") {
		path, imports, _ := strings.Cut(line, "|")
		if path == "" {
			continue
		}
		name := strings.TrimPrefix(path, module)
		may, known := allowed[name]
		if !known {
			t.Errorf("allowed has no row for %s: add one", name)
		}
		for _, imported := range strings.Split(imports, ",") {
			if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
				continue // standard library
			}
			if !permitted(may, strings.TrimPrefix(imported, module)) {
				t.Errorf("%s must not import %s", name, imported)
			}
		}
	}
}

func permitted(may []string, imported string) bool {
	for _, m := range may {
		if imported == m || strings.Contains(m, ".") && strings.HasPrefix(imported, m+"/") {
			return true
		}
	}
	return false
}

func TestImports_CoreStandardLibraryOnly(t *testing.T) {
	for _, dep := range goList(t, "-deps", module+"core") {
		first, _, _ := strings.Cut(dep, "/")
		if dep == "net/http" || strings.Contains(first, ".") && !strings.HasPrefix(dep, module) {
			t.Errorf("core depends on %s", dep)
		}
	}
}

// clockReaders are the files of the library that read the clock of the process, and the reason. No State of a Store with a
// clock of its own may depend on it (driver.Description.Clock).
var clockReaders = map[string]string{
	"keyfunc/jwt.go": "the times of a token, which its issuer has set",

	"core/limiter.go":        "for a Store without a clock of its own",
	"core/memstore/store.go": "without the option Clock",
	"core/memstore/item.go":  "without the option Clock",
	"core/gate/check.go":     "Deny has no Store",
	"core/gate/policy.go":    "a block ends by the clock of this process",

	"grpclimit/grpclimit.go": "at most one line of the log in a minute",

	"core/failover/backup.go": "of an Answer, which has no State and no Store",

	// Blocks and overrides end at times that all processes read by their own clocks.
	"core/rules/override.go":                    "the end of an override, and the time of a change",
	"core/rules/set.go":                         "the end of an override",
	"core/inspect/application.go":               "the age of figures on the page",
	"core/rules/version.go":                     "the end of an override",
	"core/rules/internal/overrides/index.go":    "the end of an override",
	"core/rules/internal/overrides/override.go": "the end of an override",
	"core/rules/internal/overrides/entry.go":    "the end of an override",
	"core/rules/internal/overrides/changes.go":  "the removal of overrides that have ended",
	"core/rules/internal/overrides/write.go":    "the removal of overrides that have ended",

	"core/pgstore/internal/pgtests/pgtest/pgtest.go": "the deadline of a wait for a server",

	// Timeouts, and intervals of work in the background.
	"core/replace.go":                            "the time since a change of rules",
	"core/wait.go":                               "the deadline of a context",
	"core/casstore/errors.go":                    "the deadline of a context",
	"core/failover/store.go":                     "times of an outage",
	"core/lease/store.go":                        "lifetimes of leases",
	"core/denycache/store.go":                    "ends of denials, as times since they were received",
	"core/internal/hold/hold.go":                 "times of renewals",
	"core/internal/waiters/list.go":              "the age of a caller",
	"core/internal/waiters/queue.go":             "the age of a message",
	"core/pgstore/check_decision.go":             "the times of statements",
	"core/pgstore/store.go":                      "the intervals of sweeps",
	"core/pgstore/sweeper.go":                    "the intervals of sweeps",
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
	"nethttplimit/client/growing.go":             "the end of a pause",
	"nethttplimit/client/wait.go":                "the deadline of a context",
	"nethttplimit/client/retry_after.go":         "a response without Date",
	"core/internal/processes/counter.go":         "the times of heartbeats and readings",
	"core/internal/processes/about.go":           "the start of the process",
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

// algorithmConstants has the name of the constant of each algorithm, such as "FixedWindow", in packages driver and core.
var algorithmConstants = func() (names []string) {
	for a := driver.Algorithm(1); a.String() != "none"; a++ {
		var name strings.Builder
		for word := range strings.SplitSeq(a.String(), "_") {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
		names = append(names, name.String(), "Algorithm"+name.String())
	}
	return names
}()

// Outside of package driver, no code asks a rule for its algorithm: it asks for a fact of driver.Kind. An algorithm is named
// where a rule is made, in the constants of package core, and as the key of a row.
func TestKind_NoComparisons(t *testing.T) {
	testkit.WithoutRace(t)
	named := 0
	eachFile(t, func(path string, file *ast.File) {
		if strings.HasPrefix(path, "core/driver/") || strings.HasPrefix(path, "core/redisstore/internal/sim/") { // a second set of scripts
			return
		}
		allowed := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				key, _ := n.Key.(*ast.Ident)
				allowed[n.Key] = true
				allowed[n.Value] = key != nil && key.Name == "Algorithm"
			case *ast.GenDecl:
				if n.Tok == token.CONST {
					return false
				}
			case *ast.SelectorExpr:
				x, _ := n.X.(*ast.Ident)
				if x == nil || x.Name != "driver" && x.Name != "core" || !slices.Contains(algorithmConstants, n.Sel.Name) || x.Name == "core" && !strings.HasPrefix(n.Sel.Name, "Algorithm") {
					return true
				}
				if named++; !allowed[n] {
					t.Errorf("%s names %s.%s: ask the rule for a fact of its driver.Kind", path, x.Name, n.Sel.Name)
				}
			}
			return true
		})
	})
	if named < len(algorithmConstants) {
		t.Errorf("%d uses of algorithms were found, want those of all constructors", named)
	}
}

// Package core has a constant for every algorithm of package driver.
func TestAlgorithm_Constants(t *testing.T) {
	var declared []string
	eachFile(t, func(path string, file *ast.File) {
		if path != "core/algorithm.go" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				declared = append(declared, spec.Names[0].Name)
			}
			return true
		})
	})
	for _, name := range algorithmConstants {
		if strings.HasPrefix(name, "Algorithm") && !slices.Contains(declared, name) {
			t.Errorf("core/algorithm.go has no constant %s", name)
		}
	}
}
