package rules

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-go/weir/core/internal/routes"
	"github.com/weir-go/weir/core/rules/internal/document"
	"github.com/weir-go/weir/internal/similar"
)

// These limits bound the time in which a ServeMux compares patterns. It is 1.5 s at worst.
const (
	maxRoutes   = 4000
	maxPattern  = 256    // in bytes
	maxSegments = 40_000 // of all patterns
)

// routes decodes the routes of a file.
func (d decoder) routes(v document.Value, policies map[string]Policy) map[string]string {
	all := d.Pairs(v)
	if len(all) > maxRoutes {
		d.Fail(v, "has more than %d patterns", maxRoutes)
		return nil
	}
	var chosen map[string]string
	names := slices.Sorted(maps.Keys(policies))
	mux, segments := http.NewServeMux(), 0
	for i, kv := range all {
		if segments += strings.Count(kv.Name, "/"); segments > maxSegments {
			d.Fail(kv.Key, "is too long: the patterns have more than %d segments", maxSegments)
			break
		}
		if d.Full() {
			break
		}
		if d.Is(kv.Value, "!!str") {
			d.policyName(kv.Value, names)
			document.Put(&chosen, kv.Name, kv.Value.Node.Value)
		}
		if len(kv.Name) > maxPattern {
			d.Fail(kv.Key, "is longer than %d bytes", maxPattern)
		} else if reason := routes.Register(mux, kv.Name); reason != "" {
			d.pattern(kv, all[:i], reason)
		} else {
			d.warn(kv)
		}
	}
	return chosen
}

// policyName reports an error if v, a text, is not one of names. It returns false then.
func (d decoder) policyName(v document.Value, names []string) bool {
	name := v.Node.Value
	if _, ok := slices.BinarySearch(names, name); !ok {
		d.Fail(v, "there is no policy %q%s", name, similar.Nearest(name, names, ""))
		return false
	}
	return true
}

// allRoutes decodes the policy of all routes of c, which has its policies and routes.
func (d decoder) allRoutes(v document.Value, c *Config) {
	if !d.Is(v, "!!str") || !d.policyName(v, slices.Sorted(maps.Keys(c.Policies))) {
		return
	}
	c.AllRoutes = v.Node.Value
	if reason := c.tooManyRules(); reason != "" {
		d.Fail(v, "%s", reason)
	}
}

// pattern reports why the pattern of kv is invalid or in conflict with an earlier one.
func (d decoder) pattern(kv document.Pair, earlier []document.Pair, reason string) {
	other, why := routes.Conflict(reason)
	at := slices.IndexFunc(earlier, func(o document.Pair) bool { return o.Name == other })
	if other == "" || at < 0 {
		d.Fail(kv.Key, "is an invalid pattern: %s", why)
		return
	}
	d.Fail(kv.Key, "conflicts with %q on line %d: %s", other, earlier[at].Key.Node.Line, why)
}

// methods are the methods of HTTP that a misspelled one is compared with.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}

// mistakes are the parts of a valid pattern that no request has, or only that of a router with such patterns.
var mistakes = []struct {
	of     *regexp.Regexp // the first group is the part
	reason string         // with the part, and the name in it
}{
	{regexp.MustCompile(`^[^/]*?([^/\s]*\*[^/\s]*)/`), "no request has the host %[1]q: a pattern without a host matches each host"},
	{regexp.MustCompile(`^[^/]*?([^/\s]+:[0-9]+)/`), "no request has the host %[1]q, because hosts are compared without the port"},
	{regexp.MustCompile(`/(\*[^/]*)`), "no request has the segment %[1]q: write {%[2]s...} for the rest of a path"},
	{regexp.MustCompile(`/(:[^/]+)`), "%[1]q is a parameter in routers such as Gin and Echo only: write {%[2]s}, which all routers, weir explain and weir simulate match"},
	{regexp.MustCompile(`/[^{}]*(\?[^{}]*)`), "no path has %[1]q: a query does not choose the route"},
}

// warn reports why requests for the valid pattern of kv may have another route.
func (d decoder) warn(kv document.Pair) {
	if method, _, ok := strings.Cut(kv.Name, " "); ok {
		if upper := strings.ToUpper(method); upper != method {
			d.Warn(kv.Key, fmt.Sprintf("no request has the method %q: write %s", method, upper))
		} else if hint := similar.Nearest(method, methods, ""); hint != "" && !slices.Contains(methods, method) {
			d.Warn(kv.Key, fmt.Sprintf("the method %q is unusual%s", method, hint))
		}
	}
	for _, m := range mistakes {
		if part := m.of.FindStringSubmatch(kv.Name); part != nil {
			d.Warn(kv.Key, fmt.Sprintf(m.reason, part[1], cmp.Or(strings.TrimLeft(part[1], "*:"), "rest")))
		}
	}
}
