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

// SenderOf returns the Sender of s or of a store behind it, the primary first, or nil.
func SenderOf(s driver.Store) Sender {
	if h, ok := s.(Sender); ok {
		return h
	}
	behind := driver.Describe(s).Behind
	for _, role := range slices.Backward(slices.Sorted(maps.Keys(behind))) {
		if h := SenderOf(behind[role]); h != nil {
			return h
		}
	}
	return nil
}
