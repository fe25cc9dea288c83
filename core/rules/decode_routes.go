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
	all := d.entries(v)
	if len(all) > maxRoutes {
		d.fail(v, "has more than %d patterns", maxRoutes)
		return nil
	}
	var chosen map[string]string
	names := slices.Sorted(maps.Keys(policies))
	mux, segments := http.NewServeMux(), 0
	for i, e := range all {
		if segments += strings.Count(e.name, "/"); segments > maxSegments {
			d.fail(e.key, "is too long: the patterns have more than %d segments", maxSegments)
			break
		}
		if d.full() {
			break
		}
		if d.is(e.value, "!!str") {
			policy := e.value.node.Value
			if _, ok := policies[policy]; !ok {
				d.fail(e.value, "there is no policy %q%s", policy, nearest(policy, names, ""))
			}
			put(&chosen, e.name, policy)
		}
		if len(e.name) > maxPattern {
			d.fail(e.key, "is longer than %d bytes", maxPattern)
		} else if reason := routes.Register(mux, e.name); reason != "" {
			d.pattern(e, all[:i], reason)
		}
	}
	return chosen
}

// pattern reports why the pattern of e is invalid or in conflict with an earlier one.
func (d *decoder) pattern(e entry, earlier []entry, reason string) {
	other, why := routes.Conflict(reason)
	at := slices.IndexFunc(earlier, func(o entry) bool { return o.name == other })
	if other == "" || at < 0 {
		d.fail(e.key, "is an invalid pattern: %s", why)
		return
	}
	d.fail(e.key, "conflicts with %q on line %d: %s", other, earlier[at].key.node.Line, why)
}
