package gate

import (
	"net/http"
	"slices"
)

const fieldSoft = "X-Ratelimit-Soft"

// writeSoft names the rules beyond whose limit the request was let through. If it is
// none of this gate's, what the gates around it have written stays.
func (r *record) writeSoft(h http.Header) {
	if !r.decision.Soft() {
		return
	}
	var list []byte
	for i, name := range r.softNames(nil) {
		if i > 0 {
			list = append(list, ", "...)
		}
		list = appendString(list, name)
	}
	h[fieldSoft] = []string{string(list)}
}

// softNames collects from all gates up to r that send fields, the outermost first and
// every name once.
func (r *record) softNames(names []string) []string {
	if r.outer != nil {
		names = r.outer.softNames(names)
	}
	if r.versions == 0 || !r.decision.Allowed {
		return names
	}
	for _, s := range r.decision.States() {
		if name := s.Rule.Name(); s.Soft && !s.Rule.IsShadow() && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
