package rules

import (
	"fmt"
	"strings"
	"testing"
)

// Each pattern has the line, the column and the reason of a warning, or none.
func TestWarnings(t *testing.T) {
	const parameter = "is a parameter in routers such as Gin and Echo only: write {id}, which all routers, weir explain and weir simulate match"
	for pattern, want := range map[string]string{
		"/a/{id}": "", "/a/{rest...}": "", "POST /a/{$}": "", "GET example.com/v1/": "", "PURGE /a": "", "QUERY /a": "", "MOVE /a": "",
		"/users/{id}/*x": `no request has the segment "*x": write {x...} for the rest of a path`,
		"/a/*any":        `no request has the segment "*any": write {any...} for the rest of a path`,
		"/a/*":           `no request has the segment "*": write {rest...} for the rest of a path`,
		"/a/**":          `no request has the segment "**": write {rest...} for the rest of a path`,
		"/a/*/b":         `no request has the segment "*": write {rest...} for the rest of a path`,
		"GET /a/:id":     `":id" ` + parameter,
		"/a/:id/b":       `":id" ` + parameter,
		"/a/b:batch":     "", // of AIP-136
		"/a/b*":          "",
		"get /a":         `no request has the method "get": write GET`,
		"Post /a":        `no request has the method "Post": write POST`,
		"PSOT /a":        `the method "PSOT" is unusual; did you mean "POST"?`,
		"/a?x=1":         `no path has "?x=1": a query does not choose the route`,
		"*.shop.com/a":   `no request has the host "*.shop.com": a pattern without a host matches each host`,
		"GET *.shop/a":   `no request has the host "*.shop": a pattern without a host matches each host`,
		"GET shop:8080/": `no request has the host "shop:8080", because hosts are compared without the port`,
	} {
		t.Run(pattern, func(t *testing.T) {
			text := fmt.Appendf(nil, "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}]}}\nroutes:\n  '%s': api\n", pattern)
			if _, err := Parse("f.yaml", text); err != nil {
				t.Fatal(err)
			}
			got := Warnings("f.yaml", text)
			switch {
			case want == "" && len(got) == 0:
			case len(got) != 1 || want == "" || got[0].Error() != fmt.Sprintf("f.yaml:3:3: routes[%q]: %s", pattern, want):
				t.Errorf("got %v, want %s", got, want)
			case !strings.Contains(got[0].Excerpt, pattern):
				t.Errorf("got the excerpt %q", got[0].Excerpt)
			}
		})
	}
}

// A file that is invalid elsewhere has errors only.
func TestWarnings_InvalidFile(t *testing.T) {
	for _, text := range []string{"routes: {/a/*: api}", "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}]}}\nroutes: {/a/*: api}\n---\n{}", "?"} {
		if got := Warnings("f", []byte(text)); got != nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
