package gate

import (
	"net/http"
	"strings"
)

const fieldExpose = "Access-Control-Expose-Headers"

// exposedFields lists the fields that this gate can send.
func (g *Gate) exposedFields() []string {
	visible := g.policyField != "" // or there are shadows only
	var names []string
	if visible && g.versions.has(IETFDraft) {
		names = append(names, "RateLimit", "RateLimit-Policy")
	}
	names = append(names, "Retry-After")
	if visible && g.versions.has(XRateLimit) {
		names = append(names, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
	}
	if g.soft && g.versions != 0 {
		names = append(names, "X-RateLimit-Soft")
	}
	return names
}

// exposeFields adds the names that are not there yet.
func (g *Gate) exposeFields(h http.Header) {
	have := strings.Join(h[fieldExpose], ", ")
	list := have
	for _, name := range g.exposed {
		if !listed(have, name) {
			if list != "" {
				list += ", "
			}
			list += name
		}
	}
	h.Set(fieldExpose, list)
}

// listed says whether a comma-separated list of field names has name.
func listed(list, name string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(item, " \t"), name) {
			return true
		}
	}
	return false
}
