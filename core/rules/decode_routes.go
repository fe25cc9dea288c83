package rules

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	var routes map[string]string
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
			if routes == nil {
				routes = make(map[string]string)
			}
			routes[e.name] = policy
		}
		if len(e.name) > maxPattern {
			d.fail(e.key, "is longer than %d bytes", maxPattern)
		} else if reason := register(mux, e.name); reason != "" {
			d.pattern(e, all[:i], reason)
		}
	}
	return routes
}

// pattern reports why the pattern of e is invalid or in conflict with an earlier one.
func (d *decoder) pattern(e entry, earlier []entry, reason string) {
	other, why := conflict(reason)
	at := slices.IndexFunc(earlier, func(o entry) bool { return o.name == other })
	if other == "" || at < 0 {
		d.fail(e.key, "is an invalid pattern: %s", why)
		return
	}
	d.fail(e.key, "conflicts with %q on line %d: %s", other, earlier[at].key.node.Line, why)
}

// conflict returns the other pattern and the reason of a conflict that register has returned. The
// pattern is empty if the registered one is invalid. A search for it, with a ServeMux for each
// pattern, would take up to 0.4 s.
func conflict(text string) (pattern, reason string) {
	rest, found := strings.CutPrefix(text, "pattern ")
	if !found {
		return "", text
	}
	registered, _ := strconv.QuotedPrefix(rest)
	_, rest, _ = strings.Cut(rest[len(registered):], " conflicts with pattern ")
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return "", text
	}
	pattern, _ = strconv.Unquote(quoted)
	_, reason, _ = strings.Cut(rest, ":\n")
	reason, _, _ = strings.Cut(reason, "\n")
	return pattern, reason
}
