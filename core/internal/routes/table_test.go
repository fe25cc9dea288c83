package routes

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Only the head of a long path is looked up, and its route is that of the whole path.
func TestTable_Find_LongPaths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	long := strings.Repeat("x", 300)
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	found := make(map[string]int)
	for range 24 {
		var patterns []string
		for range 1 + r.IntN(6) {
			p := pick("", "GET ", "CONNECT ", "h")
			for range r.IntN(5) {
				p += "/" + pick("a", "b", "{x}", "%61%2f", long[:200])
			}
			patterns = append(patterns, strings.ReplaceAll(p+pick("/c", "/", "/{$}", "/{y...}"), "{x}", fmt.Sprint("{x", len(p), "}")))
		}
		rates := make(map[string]float64)
		for _, p := range patterns {
			rates[p] = 1
			if _, err := New(rates); err != nil { // in conflict, or a wildcard twice
				delete(rates, p)
			}
		}
		table, err := New(rates)
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := New(rates)
		whole.depth, whole.longest = 1<<30, 1<<28 // looks up the whole path
		for range 20 {
			var path strings.Builder
			for path.Len() < 5000 {
				path.WriteString("/" + pick("a", "b", "", ".", "a%2f", "%61%2F", "c", pick("..", "a"), long, long[:200], strings.Repeat("%61", 1500), "%5C", "%25"))
				if r.IntN(9) == 0 {
					path.WriteString(strings.Repeat(pick("/a", "/..", "//", "/%2e"), r.IntN(3000)))
				}
			}
			target := path.String() + pick("", "/", "/c")
			u, err := url.ParseRequestURI(target)
			if err != nil {
				t.Fatal(err)
			}
			request := &http.Request{Method: pick("GET", "CONNECT"), Host: pick("", "h"), URL: u, Pattern: pick("", "/*", "/a/*")}
			got, want := table.Find(request), whole.Find(request)
			if got != want {
				t.Fatalf("%v, pattern %q, %s %.200s: got %q, want %q", rates, request.Pattern, request.Method, target, got, want)
			}
			found[got]++
		}
	}
	if len(found) < 12 {
		t.Errorf("only %d patterns were found", len(found))
	}
}
