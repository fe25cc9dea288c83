package rules

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/core/internal/routes"
)

// These limits bound the time in which a ServeMux compares patterns. It is 1.5 s at worst.
const (
	maxRoutes   = 4000
	maxPattern  = 256    // in bytes
	maxSegments = 40_000 // of all patterns
)

// routes decodes the routes of a file.
func (d *decoder) routes(v value, policies map[string]Policy) map[string]string {
	all := d.pairs(v)
	if len(all) > maxRoutes {
		d.fail(v, "has more than %d patterns", maxRoutes)
		return nil
	}
	var chosen map[string]string
	names := slices.Sorted(maps.Keys(policies))
	mux, segments := http.NewServeMux(), 0
	for i, kv := range all {
		if segments += strings.Count(kv.name, "/"); segments > maxSegments {
			d.fail(kv.key, "is too long: the patterns have more than %d segments", maxSegments)
			break
		}
		if d.full() {
			break
		}
		if d.is(kv.value, "!!str") {
			d.policyName(kv.value, names)
			put(&chosen, kv.name, kv.value.node.Value)
		}
		if len(kv.name) > maxPattern {
			d.fail(kv.key, "is longer than %d bytes", maxPattern)
		} else if reason := routes.Register(mux, kv.name); reason != "" {
			d.pattern(kv, all[:i], reason)
		} else {
			d.warn(kv)
		}
	}
	return chosen
}

// policyName reports an error if v, a text, is not one of names. It returns false then.
func (d *decoder) policyName(v value, names []string) bool {
	name := v.node.Value
	if _, ok := slices.BinarySearch(names, name); !ok {
		d.fail(v, "there is no policy %q%s", name, nearest(name, names, ""))
		return false
	}
	return true
}

// allRoutes decodes the policy of all routes of c, which has its policies and routes.
func (d *decoder) allRoutes(v value, c *Config) {
	if !d.is(v, "!!str") || !d.policyName(v, slices.Sorted(maps.Keys(c.Policies))) {
		return
	}
	c.AllRoutes = v.node.Value
	if reason := c.tooManyRules(); reason != "" {
		d.fail(v, "%s", reason)
	}
}

// pattern reports why the pattern of kv is invalid or in conflict with an earlier one.
func (d *decoder) pattern(kv pair, earlier []pair, reason string) {
	other, why := routes.Conflict(reason)
	at := slices.IndexFunc(earlier, func(o pair) bool { return o.name == other })
	if other == "" || at < 0 {
		d.fail(kv.key, "is an invalid pattern: %s", why)
		return
	}
	d.fail(kv.key, "conflicts with %q on line %d: %s", other, earlier[at].key.node.Line, why)
}
