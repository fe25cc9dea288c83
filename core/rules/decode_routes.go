package rules

import (
	"maps"
	"net/http"
	"slices"
)

// These limits bound the time in which conflicts between patterns are found. It is 5 s at worst.
const (
	maxRoutes  = 4000
	maxPattern = 256 // in bytes
)

// routes decodes the routes of a file.
func (d *decoder) routes(v value, policies map[string]Policy) map[string]string {
	all := d.entries(v)
	if len(all) > maxRoutes {
		d.fail(v, "has more than %d patterns", maxRoutes)
		return nil
	}
	var routes map[string]string
	names := slices.Sorted(maps.Keys(policies))
	mux := http.NewServeMux()
	for i, e := range all {
		if d.full() {
			break
		}
		if d.is(e.value, "!!str") {
			policy := e.value.node.Value
			if _, ok := policies[policy]; !ok {
				d.fail(e.value, "there is no policy %q%s", policy, nearest(policy, names, ""))
			}
			if routes == nil {
				routes = make(map[string]string)
			}
			routes[e.name] = policy
		}
		if len(e.name) > maxPattern {
			d.fail(e.key, "is longer than %d bytes", maxPattern)
		} else if register(mux, e.name) != "" {
			d.pattern(e, all[:i])
		}
	}
	return routes
}

// pattern reports why the pattern of e is invalid or in conflict with an earlier one.
func (d *decoder) pattern(e entry, earlier []entry) {
	patterns := make([]string, len(earlier))
	for i := range earlier {
		patterns[i] = earlier[i].name
	}
	if other, reason := rejected(e.name, patterns); other < 0 {
		d.fail(e.key, "is an invalid pattern: %s", reason)
	} else {
		d.fail(e.key, "conflicts with %q on line %d: %s", patterns[other], earlier[other].key.node.Line, reason)
	}
}
