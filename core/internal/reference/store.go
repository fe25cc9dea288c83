// Package reference has other names of [storetest.Fake].
package reference

import "github.com/weir-go/weir/core/storetest"

// A Store is a [storetest.Fake].
type Store = storetest.Fake

// New returns a Store that reads microseconds from clock.
func New(clock func() int64) *Store { return &storetest.Fake{Clock: clock} }
