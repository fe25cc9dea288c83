package rules_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// BenchmarkSet_ForRequest_LongPath looks up paths of 900 KB, which are the longest that net/http accepts, and a
// short one.
func BenchmarkSet_ForRequest_LongPath(b *testing.B) {
	s, err := rules.New(memstore.New(), routed(b, "POST /login", "/v1/", "/v1/users/{id}", "/files/{path...}", "/files/private/"))
	testkit.Must(b, err)
	for name, target := range map[string]string{
		"short": "/files/private/a", "short, encoded": "/files/private%2Fa", "segments": strings.Repeat("/a", 450_000), "encoded": "/" + strings.Repeat("%61/", 225_000),
		"slashes": strings.Repeat("/", 900_000), "encoded slashes": "/" + strings.Repeat("%2F", 300_000), "dots": strings.Repeat("/a/..", 180_000), "backslashes": "/" + strings.Repeat("%5C", 300_000), "encoded twice": "/" + strings.Repeat("%252F", 180_000),
		"one segment": "/" + strings.Repeat("a", 900_000),
	} {
		u, err := url.ParseRequestURI(target)
		testkit.Must(b, err)
		for _, pattern := range []string{"", "/*"} {
			b.Run(name+" "+pattern, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.ForRequest(&http.Request{Method: "GET", URL: u, Pattern: pattern})
				}
			})
		}
	}
}
