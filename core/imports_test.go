package core_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/weir-go/weir/"

// allowed lists the imports of each package, except for its tests and the standard library. They
// point down only, and packages of one level do not import each other. core/redisstore/resilient is
// above the stores that it combines.
var allowed = map[string][]string{
	"core":                      {"core/driver", "internal/argument", "core/internal/calendar", "core/internal/call", "core/internal/hold", "core/internal/period", "core/internal/seqlock", "core/internal/unexported", "core/internal/waiters"},
	"core/driver":               {"core/internal/waiters"},
	"core/rules":                {"core", "core/driver", "internal/argument", "core/internal/keyhash", "core/internal/memo", "core/internal/period", "core/internal/routes", "internal/sampler", "core/internal/unexported", "core/rules/internal/document", "core/rules/internal/file", "core/rules/internal/overrides", "github.com/redis/go-redis/v9", "go.yaml.in/yaml/v4"},
	"internal/argument":         {},
	"internal/requestbody":      {},
	"core/internal/atmost":      {"core/driver"},
	"core/internal/call":        {},
	"core/internal/hold":        {"core/driver", "core/internal/call"},
	"core/internal/calendar":    {"core/driver"},
	"core/internal/period":      {"core/driver"},
	"core/internal/seqlock":     {},
	"core/internal/waiters":     {},
	"core/internal/keyhash":     {},
	"core/internal/memo":        {},
	"core/internal/routes":      {"core/internal/memo"},
	"internal/sampler":          {},
	"internal/address":          {},
	"internal/similar":          {"internal/address"},
	"internal/testkit":          {"core", "core/driver"},
	"core/internal/unexported":  {},
	"core/memstore":             {"core/driver", "internal/argument"},
	"core/redisstore":           {"core/driver", "internal/argument", "core/internal/keyhash", "core/internal/waiters", "core/redisstore/internal/pipe", "core/redisstore/internal/wire", "internal/sampler", "github.com/redis/go-redis/v9"},
	"core/redisstore/diagnose":  {"core/driver", "core/internal/call", "core/internal/waiters", "core/redisstore", "core/redisstore/internal/pipe", "core/redisstore/internal/wire", "github.com/redis/go-redis/v9"},
	"core/storetest":            {"core", "core/driver", "core/internal/waiters", "core/storetest/internal/oracle", "internal/testkit"},
	"core/load":                 {},
	"core/failover":             {"core/driver", "internal/argument", "core/internal/atmost", "core/internal/call"},
	"core/redisstore/resilient": {"core/denycache", "core/driver", "core/failover", "internal/argument", "core/internal/keyhash", "core/memstore", "core/observe", "core/redisstore", "core/redisstore/diagnose", "github.com/redis/go-redis/v9"},
	"core/lease":                {"core/driver", "internal/argument"},
	"core/observe":              {"core/driver", "internal/argument", "core/internal/keyhash", "internal/sampler"},
	"core/inspect":              {"core", "core/driver", "internal/argument", "internal/similar", "core/observe", "core/rules"},
	"core/observe/otel":         {"core/driver", "core/observe", "go.opentelemetry.io/otel"},
	"core/observe/prometheus":   {"core/driver", "core/observe", "github.com/prometheus/client_golang"},
	"core/denycache":            {"core/driver", "core/internal/atmost", "internal/argument", "github.com/maypok86/otter/v2"},
	"core/gate":                 {"core", "core/driver", "core/memstore", "internal/argument", "internal/requestbody", "core/internal/memo", "internal/sampler", "core/internal/unexported", "core/gate/internal/requestkey", "core/gate/internal/unexported", "keyfunc"},
	"core/gate/adapter":         {"core", "core/gate", "core/gate/internal/requestkey", "core/gate/internal/unexported", "keyfunc"},
	"core/gate/gatetest":        {"core", "core/driver", "internal/testkit", "core/memstore", "core/storetest", "core/gate", "core/gate/adapter", "core/gate/internal/apptest", "core/internal/routes", "keyfunc"},
	"keyfunc":                   {"internal/address", "internal/argument", "internal/requestbody", "keyfunc/internal/token", "github.com/golang-jwt/jwt/v5"},
	"keyfunc/internal/token":    {"internal/sampler", "github.com/golang-jwt/jwt/v5"},
	"nethttplimit":              {"core", "core/gate", "core/gate/adapter", "keyfunc"},
	"nethttplimit/client":       {"core"},
	"ginlimit":                  {"core", "core/gate", "core/gate/adapter", "keyfunc", "github.com/gin-gonic/gin"},
	"echolimit":                 {"core", "core/gate", "core/gate/adapter", "keyfunc", "github.com/labstack/echo/v4"},
	"echolimit/v5":              {"core", "core/gate", "core/gate/adapter", "keyfunc", "github.com/labstack/echo/v5"},

	"cmd/weir":                            {"cmd/weir/internal/playground/page", "cmd/weir/internal/simulate", "cmd/weir/internal/trace", "core", "core/driver", "core/memstore", "core/redisstore", "core/redisstore/diagnose", "core/rules", "github.com/redis/go-redis/v9", "internal/similar"},
	"cmd/weir/internal/playground":        {"cmd/weir/internal/simulate", "core", "core/driver"},
	"cmd/weir/internal/simulate":          {"core", "core/memstore", "core/driver"},
	"cmd/weir/internal/playground/page":   {"cmd/weir/internal/playground"},
	"cmd/weir/internal/playground/static": {"cmd/weir/internal/playground/page"},
	"cmd/weir/internal/trace":             {"cmd/weir/internal/simulate", "keyfunc"},

	"core/redisstore/redistest":           {"github.com/redis/go-redis/v9"},
	"core/redisstore/internal/pipe":       {"core/driver", "core/internal/keyhash", "core/redisstore/internal/wire", "internal/sampler", "github.com/redis/go-redis/v9"},
	"core/redisstore/internal/servertest": {"core/redisstore/redistest", "github.com/redis/go-redis/v9"},
	"core/redisstore/internal/sim":        {"core", "core/denycache", "core/driver", "core/failover", "core/internal/keyhash", "core/internal/waiters", "core/lease", "core/redisstore", "core/redisstore/resilient", "core/rules", "internal/testkit", "github.com/redis/go-redis/v9"},
	"core/redisstore/internal/stacks":     {},
	"core/redisstore/internal/wire":       {"core/driver", "core/internal/keyhash", "core/internal/memo", "core/internal/waiters"},
	"core/internal/frameworks":            {},

	"core/rules/internal/document":  {"go.yaml.in/yaml/v4"},
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
	"core/redisstore":               {"core/internal/keyhash", "core/internal/waiters", "internal/argument", "internal/sampler"},
	"core/redisstore/diagnose":      {"core/internal/call", "core/internal/waiters"},
	"core/redisstore/internal/pipe": {"core/internal/keyhash", "internal/sampler"},
	"core/redisstore/internal/wire": {"core/internal/keyhash", "core/internal/memo", "core/internal/waiters"},
	"core/redisstore/resilient":     {"core/internal/keyhash", "internal/argument"},
	"core/rules":                    {"core/internal/keyhash", "core/internal/memo", "core/internal/period", "core/internal/routes", "core/internal/unexported", "internal/argument", "internal/sampler"},
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
