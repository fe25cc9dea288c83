// Path prints the functions and files of this repository that a warm request runs: one token bucket, a key for each
// address, with net/http and Gin in memory, and with Gin in Redis:
//
//	make path
//
// It counts by the coverage counters of its build, which it clears before a request. A function counts if each of ten
// requests ran it, so those that only a timer runs are left out. With -v, it prints the names, too.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/coverage"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

const (
	warm    = 20 // requests before the first one that counts
	counted = 10
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("path: ")
	verbose := flag.Bool("v", false, "print the names of functions")
	flag.Parse()
	if err := run(*verbose); err != nil {
		log.Fatal(err)
	}
}

func run(verbose bool) error {
	server, err := redistest.StartServer()
	if err != nil {
		return err
	}
	defer server.Close()
	rdb := server.Client()
	defer rdb.Close()
	inRedis := redisstore.New(rdb, "path")

	for _, way := range []struct {
		name    string
		handler http.Handler
	}{
		{"memory, net/http", byNetHTTP(memstore.New())},
		{"memory, Gin", byGin(memstore.New())},
		{"Redis, Gin", byGin(inRedis)},
	} {
		functions, err := functionsOf(way.handler)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		files, packages := map[string]bool{}, map[string]bool{}
		for _, f := range functions {
			files[f.file], packages[filepath.Dir(f.file)] = true, true
		}
		fmt.Printf("%-17s %3d functions in %2d files of %2d packages\n", way.name, len(functions), len(files), len(packages))
		if verbose {
			for _, f := range functions {
				fmt.Printf("\t%s\t%s\n", f.file, f.name)
			}
		}
	}
	return nil
}

func newLimiter(store core.Store) *core.Limiter {
	return core.Must(core.New(store, core.TokenBucket("page", core.PerSecond(1000))))
}

func byNetHTTP(store core.Store) http.Handler {
	limit := nethttplimit.New(newLimiter(store), keyfunc.RemoteIP())
	return limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
}

func byGin(store core.Store) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(ginlimit.New(newLimiter(store), keyfunc.RemoteIP()))
	router.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	return router
}

// A function is a function of the library, with its file.
type function struct{ file, name string }

// functionsOf returns the functions that each of the counted requests ran, by file and name.
func functionsOf(handler http.Handler) ([]function, error) {
	for range warm {
		if err := serve(handler); err != nil {
			return nil, err
		}
	}
	times := map[function]int{}
	for range counted {
		ran, err := functionsOfOne(handler)
		if err != nil {
			return nil, err
		}
		for _, f := range ran {
			times[f]++
		}
	}
	maps.DeleteFunc(times, func(_ function, n int) bool { return n < counted })
	return slices.SortedFunc(maps.Keys(times), func(a, b function) int {
		return strings.Compare(a.file+" "+a.name, b.file+" "+b.name)
	}), nil
}

// serve makes one request, and returns an error for a response other than that of the handler.
func serve(handler http.Handler) error {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusNoContent || w.Header().Get("RateLimit") == "" {
		return fmt.Errorf("response %d with headers %v", w.Code, w.Header())
	}
	return nil
}

func functionsOfOne(handler http.Handler) ([]function, error) {
	dir, err := os.MkdirTemp("", "path")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := coverage.WriteMetaDir(dir); err != nil {
		return nil, err
	}
	if err := coverage.ClearCounters(); err != nil {
		return nil, err
	}
	if err := serve(handler); err != nil {
		return nil, err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool covdata: %w", err)
	}
	var ran []function
	for line := range bytes.Lines(out) {
		m := ofLibrary.FindSubmatch(line)
		if m != nil && !strings.HasPrefix(string(m[1]), ".ci/") && !strings.Contains(string(m[1]), "/redistest/") {
			ran = append(ran, function{string(m[1]), string(m[2])})
		}
	}
	return ran, nil
}

// A line is the file of a function, its line, its name, and how many percent of its statements ran.
var ofLibrary = regexp.MustCompile(`^github\.com/weir-go/weir/(\S+\.go):\d+:\s+(\S+)\s+(?:[1-9]\d*\.\d|0\.[1-9])%`)
