package main

import "testing"

// The text of each known fault is in its file once.
func TestFaults(t *testing.T) {
	for _, f := range append(faults, simulated...) {
		if _, err := f.mutant("../.."); err != nil {
			t.Error(err)
		}
	}
}
