// Package similar finds keys that a person can mean.
package similar

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/address"
)

// Keys returns the keys of package keyfunc that a person who writes text can mean, without text itself: the
// key of an address without options, and for a name the keys "user:ann" and "basic:ann", or the name without such a word.
// They are shown if text has no events.
func Keys(text string) (keys []string) {
	words := []string{"user:", "basic:"}
	name := strings.TrimSpace(text)
	for _, w := range words {
		name = strings.TrimPrefix(name, w)
	}
	if addr, _, ok := address.Parse(name); ok {
		keys = append(keys, address.Key(addr, address.V4, address.V6))
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

// IsHash reports whether text can be the hash of a key, with or without #, as logs and lists print it: 16 bytes as base64
// for URLs.
func IsHash(text string) bool {
	hash, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, "#"))
	return err == nil && len(hash) == 16
}
