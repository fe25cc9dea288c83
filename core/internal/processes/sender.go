package processes

import (
	"maps"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// A Sender sends heartbeats: a [Counter], or a Store that contains one.
type Sender interface {
	Tell(about func(*About)) (end func())
	Changed()
	Count(add func(f *Figures, tag func(key string) string))
}

// StoreOf returns s, or else the store behind it, the primary first, that is a T: an interface, which is nil if there is none.
func StoreOf[T any](s driver.Store) (none T) {
	if of, ok := s.(T); ok {
		return of
	}
	behind := driver.Describe(s).Behind
	for _, role := range slices.Backward(slices.Sorted(maps.Keys(behind))) {
		if of := StoreOf[T](behind[role]); any(of) != nil {
			return of
		}
	}
	return none
}
