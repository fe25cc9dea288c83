package rules_test

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

const million = 1_000_000

// rates are events a microsecond of the policies of readings. The policy "base" has no route.
var rates = map[string]int{"private": 1, "exact": 2, "files": 5, "base": 6, "thumbs": 9, "other": 3}

// readings returns a configuration whose route below another one is stricter, or less strict.
func readings(t testing.TB) *rules.Config {
	var policies []string
	for name, rate := range rates {
		policies = append(policies, fmt.Sprintf("%s: {rules: [{name: r, algorithm: token_bucket, limit: %d/s}]}", name, rate*million))
	}
	c := parse(t, strings.Join(policies, ", "))
	c.Routes = map[string]string{"/files/": "files", "/files/private/": "private", "/files/thumbs/": "thumbs", "/files/exact": "exact", "/other/": "other"}
	return c
}

// The handler of a prefix may read a path in several ways: the strictest route applies.
func TestConfig_Route_Readings(t *testing.T) {
	c := readings(t)
	methods := []string{"GET", "HEAD", "POST", "OPTIONS", "PURGE", "get", "connect", "CONNECT"}
	for _, c2 := range []struct{ target, prefix, want string }{
		{"/files/x", "/files/*", "/files/"},
		{"/files/private/x", "/files/*", "/files/private/"},
		{"/files/thumbs/x", "/files/*", "/files/thumbs/"},
		{"http://h/files//private/x", "/files/*", "/files/private/"},
		{"/files//private/x", "/files/*", "/files/private/"},
		{"/files//private//x", "/files/*", "/files/private/"},
		{"//files/private/x", "/*", "/files/private/"},
		{"/files/./private/x", "/files/*", "/files/private/"},
		{"/files/a/../private/x", "/files/*", "/files/private/"},
		{"/other/../files/private/x", "/*", "/files/private/"},
		{"/files/private/.", "/files/*", "/files/private/"},
		{"/files/private", "/files/*", "/files/private/"},
		{"/files/thumbs/../x", "/files/*", "/files/"},
		{"/files/thumbs/../private/x", "/files/*", "/files/private/"},
		{"/files/thumbs/../exact", "/files/*", "/files/exact"},
		{"/files/private%2Fx", "/files/*", "/files/private/"},
		{"/files/%2Fprivate/x", "/files/*", "/files/private/"},
		{"/files%2F%2Fprivate%2Fx", "/*", "/files/private/"},
		{"/files/private%5Cx", "/files/*", "/files/private/"},
		{`/files/private\x`, "/files/*", "/files/private/"},
		{"/files%5cprivate/x", "/*", "/files/private/"},
		{"/files/thumbs/..%5Cprivate/x", "/files/*", "/files/private/"},
		{"/files/thumbs%5C..%5Cx", "/files/*", "/files/"},
		{"/files/thumbs%2F..%5Cx", "/files/*", "/files/"},
		{"/files/thumbs%5Cx", "/files/*", "/files/"}, // a name with a backslash, elsewhere
		{"/files/pr%69vate/x", "/files/*", "/files/private/"},
		{"/files/pr%2569vate/x", "/files/*", "/files/private/"},
		{"/files%252Fprivate/x", "/*", "/files/private/"},
		{"/files/thumbs/%252e%252e/private/x", "/files/*", "/files/private/"},
		{"/files/thumbs/%252e%252e/x", "/files/*", "/files/"},
		{"/files/thumbs%255C..%255Cx", "/files/*", "/files/"},
		{"/files/thumbs%252Fx", "/files/*", "/files/"},
		{"/files/private/%25zz", "/files/*", "/files/private/"},
		{"/files/exact", "/files/*", "/files/exact"},
		{"/files/exact/", "/files/*", "/files/exact"},
		{"/files/exact//", "/files/*", "/files/exact"},
		{"/files/exact/.", "/files/*", "/files/exact"},
		{"/files/exact%2F", "/files/*", "/files/exact"},
		{"/files/exact%5C", "/files/*", "/files/exact"},
		{"/files/exac%2574/", "/files/*", "/files/exact"},
		{"/files/exact/x", "/files/*", "/files/"},
		{"/files/private;x/y", "/files/*", "/files/"}, // no parameter
		{"/files/;/private/x", "/files/*", "/files/"},
		{"/files/PRIVATE/x", "/files/*", "/files/"},
		{"/files", "/*", "/files/"},
		{"/", "/*", ""},
		{"//", "/*", ""},
		{"/x%5C..%5Cother/y", "/*", "/other/"},
		// An exact pattern has no other reading.
		{"/files/private%5Cx", "/files/{name}", "/files/"},
		{"/files/exact/", "/files/thumbs/:name", "/files/thumbs/"},
	} {
		for _, method := range methods {
			target := c2.target
			if at, ok := strings.CutPrefix(target, "http://h"); ok && strings.ToUpper(method) == "CONNECT" {
				target = at
			}
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
			testkit.Must(t, err)
			r.Pattern = c2.prefix
			if got := c.Route(r); got != c2.want {
				t.Errorf("%s %s, pattern %s: got %q, want %q", method, c2.target, c2.prefix, got, c2.want)
			}
		}
	}
	for line, want := range map[string]string{
		"CONNECT h:443": "", "OPTIONS *": "", "CONNECT h:443/files//private/x": "/files/private/", "CONNECT http://h/files/private/x": "",
		"CONNECT /files/../other/x": "/other/", // leaves the prefix
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: h\r\n\r\n")))
		testkit.Must(t, err)
		for _, r.Pattern = range []string{"", "/*", "/files/"} {
			if r.Pattern == "/files/" && !strings.Contains(line, "files/") {
				want = "/files/"
			}
			if got := c.Route(r); got != want && (line != "CONNECT http://h/files/private/x" || r.Pattern != "/files/") {
				t.Errorf("%s, pattern %q: got %q, want %q", line, r.Pattern, got, want)
			}
		}
	}
}

// The reading with the lower rate applies.
func TestConfig_Route_Stricter(t *testing.T) {
	const limit = "{name: r, algorithm: token_bucket, limit: %s}"
	rate := func(l string) string { return "{rules: [" + fmt.Sprintf(limit, l) + "]}" }
	for name, c := range map[string]struct {
		outer, inner string
		want         string
	}{
		"lower rate":              {rate("10/s"), rate("11/m"), "/a/b/"},
		"higher rate":             {rate("10/m"), rate("10/s"), "/a/"},
		"equal rates":             {rate("60/m"), rate("1/s burst 9"), "/a/b/"},
		"lowest of two":           {rate("10/s"), "{rules: [" + fmt.Sprintf(limit, "99/s") + ", {name: d, algorithm: fixed_window, limit: 9/d}]}", "/a/b/"},
		"quota":                   {rate("10/h"), "{rules: [{name: q, algorithm: quota, limit: 240/month}]}", "/a/b/"},
		"larger quota":            {rate("10/h"), "{rules: [{name: q, algorithm: quota, limit: 300000/month}]}", "/a/"},
		"unlimited":               {rate("10/h"), rate("unlimited"), "/a/"},
		"blocked":                 {rate("10/h"), rate("blocked"), "/a/b/"},
		"events at the same time": {rate("10/h"), "{rules: [{name: i, algorithm: in_flight, limit: 9}]}", "/a/b/"},
		"pause":                   {rate("10/h"), "{rules: [{name: p, algorithm: pause}]}", "/a/"},
		"pause and a lower rate":  {rate("10/h"), "{rules: [{name: p, algorithm: pause}, " + fmt.Sprintf(limit, "1/h") + "]}", "/a/b/"},
		"shadow":                  {rate("10/h"), "{rules: [{name: r, algorithm: token_bucket, limit: 1/h, mode: shadow}]}", "/a/"},
		"off":                     {rate("10/h"), "{disabled: true, rules: [" + fmt.Sprintf(limit, "1/h") + "]}", "/a/"},
		"enforced for no key":     {rate("10/h"), "{enforce: 0, rules: [" + fmt.Sprintf(limit, "1/h") + "]}", "/a/"},
	} {
		config := parse(t, "outer: "+c.outer+", inner: "+c.inner)
		config.Routes = map[string]string{"/a/": "outer", "/a/b/": "inner"}
		for _, target := range []string{"CONNECT /a/x/../b/y", "CONNECT /a/b/../y", "/a/%2562/y", "/a/b/x%5C..%5C..%5Cy", "CONNECT /a//b/y"} {
			if got := config.Route(requestFor(t, target, "/a/*")); got != c.want {
				t.Errorf("%s: %s: got %q, want %q", name, target, got, c.want)
			}
		}
		// The limiter of New may be stricter than a policy without a limit.
		delete(config.Routes, "/a/")
		want := "/a/b/"
		if slices.Contains([]string{"unlimited", "pause", "shadow", "off", "enforced for no key"}, name) {
			want = ""
		}
		if got := config.Route(requestFor(t, "/a/%2562/y", "/a/*")); got != want {
			t.Errorf("%s, in place of New: got %q, want %q", name, got, want)
		}
	}
}
