package processes

import (
	"maps"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// A Heart makes heartbeats: a [Counter], or a Store that contains one.
type Heart interface {
	Tell(about func(*About)) (end func())
	Changed()
	Count(add func(f *Figures, tag func(key string) string))
}

// HeartOf returns the Heart of s or of a store behind it, the primary first, or nil.
func HeartOf(s driver.Store) Heart {
	if h, ok := s.(Heart); ok {
		return h
	}
	behind := driver.Describe(s).Behind
	for _, role := range slices.Backward(slices.Sorted(maps.Keys(behind))) {
		if h := HeartOf(behind[role]); h != nil {
			return h
		}
	}
	return nil
}
