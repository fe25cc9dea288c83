package keyfunc

import (
	"slices"
	"strings"
)

// Similar returns the keys of this package that a person who writes text can mean, without text itself: the
// [CanonicalIP] of an address, and for a name the keys "user:ann" and "basic:ann", or the name without such a word.
// It is for tools that look a key up which has no events.
func Similar(text string) (keys []string) {
	words := []string{"user:", "basic:"}
	name := strings.TrimSpace(text)
	for _, w := range words {
		name = strings.TrimPrefix(name, w)
	}
	if address, err := CanonicalIP(name); err == nil {
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
