package algo

import "testing"

// A switch without a case for an algorithm panics: none runs as another one.
func TestProgram_UnknownKind(t *testing.T) {
	unknown := Program{Kind: KindSlidingWindow + 1}
	for name, call := range map[string]func(){
		"Compile":   func() { _ = unknown.Compile(Shape{Events: 1, Period: 1, Capacity: 1}) },
		"Capacity":  func() { unknown.Capacity() },
		"Untouched": func() { unknown.Untouched(1, Never, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it does not panic")
				}
			}()
			call()
		})
	}
}
