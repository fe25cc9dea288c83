// Package similar finds keys that a person can mean.
package similar

import (
	"slices"
	"strings"

	"github.com/weir-go/weir/keyfunc"
)

// Keys returns the keys of package keyfunc that a person who writes text can mean, without text itself: the
// [keyfunc.CanonicalIP] of an address, and for a name the keys "user:ann" and "basic:ann", or the name without such a word.
// They are shown if text has no events.
func Keys(text string) (keys []string) {
	words := []string{"user:", "basic:"}
	name := strings.TrimSpace(text)
	for _, w := range words {
		name = strings.TrimPrefix(name, w)
	}
	if address, err := keyfunc.CanonicalIP(name); err == nil {
		keys = append(keys, address)
	}
	if !strings.Contains(name, ":") {
		for _, w := range words {
			keys = append(keys, w+name)
		}
	}
	keys = append(keys, name)
	slices.Sort(keys)
	return slices.DeleteFunc(slices.Compact(keys), func(k string) bool { return k == text || name == "" })
}
