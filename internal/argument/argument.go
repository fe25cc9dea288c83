// Package argument checks the arguments of constructors and applies their options. A constructor
// panics, before the first request, with a text that names the argument.
package argument

import (
	"fmt"
	"reflect"
)

// IsNil reports whether v is nil, or a nil pointer, function, map, slice or channel.
func IsNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return r.IsNil()
	}
	return false
}

// NotNil panics if v is nil, with a text such as "lease: New: next is nil".
func NotNil(function, name string, v any) {
	if IsNil(v) {
		panic(function + ": " + name + " is nil")
	}
}

// An Option changes a configuration C. The Option types of the packages embed it. Its method is not
// exported, so an application cannot implement an Option.
type Option[C any] interface{ apply(*C) }

// OptionFunc is a function that implements [Option].
type OptionFunc[C any] func(*C)

func (f OptionFunc[C]) apply(c *C) { f(c) }

// Apply applies opts to c. If an option is nil, it panics: "lease: New: option 1 is nil".
func Apply[C any, O Option[C]](function string, c *C, opts []O) {
	for i, o := range opts {
		if IsNil(o) {
			panic(fmt.Sprintf("%s: option %d is nil", function, i))
		}
		o.apply(c)
	}
}
