package frameworks_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/echolimit"
	echolimitv5 "github.com/weir-go/weir/echolimit/v5"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

const million = 1_000_000

// rates are events a microsecond of the policies of the routes. The policy "base" has no route.
var rates = map[string]int{"private": 1, "exact": 2, "files": 5, "base": 6, "thumbs": 9, "other": 3}

// No spelling of a path, and no method, reaches a file with the limit of another route that is less strict.
func TestSet_ForRequest_CatchAll(t *testing.T) {
	testkit.WithoutRace(t)
	var policies []string
	for name, rate := range rates {
		policies = append(policies, fmt.Sprintf("%s: {rules: [{name: r, algorithm: token_bucket, limit: %d/s}]}", name, rate*million))
	}
	const patterns = `"/files/": files, "/files/private/": private, "/files/thumbs/": thumbs, "/files/exact": exact, "/other/": other`
	config, err := rules.Parse("limits.yaml", []byte("{policies: {"+strings.Join(policies, ", ")+"}, routes: {"+patterns+"}}"))
	testkit.Must(t, err)
	set, err := rules.New(memstore.New(), config)
	testkit.Must(t, err)
	base, err := set.Limiter("base")
	testkit.Must(t, err)
	routes, key := gate.Routes(set), keyfunc.Constant("k")
	limit := nethttplimit.New(base, key, routes)
	dir, files := t.TempDir(), map[string]string{"files/private/x": "private", "files/thumbs/x": "thumbs", "files/top": "files", "files/exact": "exact", "other/x": "other"}
	for name, policy := range files {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(policy), 0o600))
	}
	reads := func(slash string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, files[strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(r.URL.Path, slash, "/")), "/")])
		})
	}
	gin.SetMode(gin.ReleaseMode)
	apps := make(map[string]http.Handler)
	for name, h := range map[string]http.Handler{"FileServer": http.FileServer(http.Dir(dir)), "path.Clean": reads("/"), "Windows": reads(`\`)} {
		for _, prefix := range []string{"/", "/files/"} {
			mux, around, g, e, e5 := http.NewServeMux(), http.NewServeMux(), gin.New(), echo.New(), echov5.New()
			mux.Handle(prefix, limit(h))
			g.Use(ginlimit.New(base, key, routes))
			g.Any(prefix+"*path", gin.WrapH(h))
			e.Use(echolimit.New(base, key, routes))
			e.Any(prefix+"*", echo.WrapHandler(h))
			e5.Use(echolimitv5.New(base, key, routes))
			e5.Any(prefix+"*", echov5.WrapHandler(h))
			all := map[string]http.Handler{"ServeMux": mux, "Gin": g, "Echo 4": e, "Echo 5": e5}
			if around.Handle(prefix, h); name == "FileServer" {
				all["around a ServeMux"] = limit(around)
			}
			for router, h := range all {
				apps[router+" "+prefix+" "+name] = h
			}
		}
	}
	for _, prefix := range []string{"/", "/files"} {
		g, e, e5 := gin.New(), echo.New(), echov5.New()
		g.Use(ginlimit.New(base, key, routes))
		g.Static(prefix, dir+prefix)
		e.Use(echolimit.New(base, key, routes))
		e.Static(prefix, dir+prefix)
		e5.Use(echolimitv5.New(base, key, routes))
		e5.StaticFS(prefix, os.DirFS(dir+prefix))
		apps["Gin Static "+prefix], apps["Echo 4 Static "+prefix], apps["Echo 5 Static "+prefix] = g, e, e5
	}
	var targets []string
	for _, segments := range []string{"files private x", "files pri%76ate x", "files pri%2576ate x", "files thumbs x", "files top", "files exact", "other x"} {
		spellings := []string{""}
		for i, segment := range strings.Fields(segments) {
			var next []string
			for _, s := range spellings {
				for _, between := range []string{"/", "//", "/./", "/a/../", "/thumbs/../", "/files/../", "/a/../../files/", "%2F", "%5C", "/..%5C", "/%2e%2e/", "/%252e%252e/", "%252F", "/;/"} {
					if i < 2 || len(between) < 4 {
						next = append(next, s+between+segment)
					}
				}
			}
			spellings = next
		}
		for _, s := range spellings {
			for _, end := range []string{"", "/", "/.", "%2F", "?", ";"} {
				targets = append(targets, s+end)
			}
		}
	}
	for name, app := range apps {
		served := 0
		for i, target := range targets {
			for _, method := range []string{"CONNECT", "GET", "POST", "get"} {
				if len(target) > 20 && (i+len(name))%61 > 0 || !strings.HasPrefix(target, "/") {
					continue
				}
				r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
				testkit.Must(t, err)
				w := httptest.NewRecorder()
				app.ServeHTTP(w, r)
				want, ok := rates[w.Body.String()]
				if w.Code != 200 || !ok || method != "CONNECT" && want == rates["other"] && strings.Contains(name, "/files/") {
					continue // the last case is a handler outside of its prefix: the limit of the prefix applies
				}
				served++
				fields := w.Header().Get("RateLimit-Policy")
				_, quota, _ := strings.Cut(fields, ";q=")
				quota, _, _ = strings.Cut(quota, ";")
				if n, err := strconv.Atoi(quota); err != nil || n > want*million {
					t.Errorf("%s: %s %s: got RateLimit-Policy %s for the content of %s", name, method, target, fields, w.Body)
				}
			}
		}
		if served < 5 {
			t.Errorf("%s: only %d requests were served", name, served)
		}
	}
}
