package sim

import (
	"testing"

	"github.com/weir-go/weir/core/driver"
)

// TestLibraries names the tables of the server without an entry for an algorithm.
func TestLibraries(t *testing.T) {
	var all []string
	for a := driver.TokenBucket; a.String() != "none"; a++ {
		if all = append(all, libraries[a]); libraries[a] == "" {
			t.Errorf("libraries in catalog.go has no %v", a)
		}
	}
	for _, library := range all {
		if sizes[library] == 0 {
			t.Errorf("sizes in scripts_test.go has no %s", library)
		}
		if len(probes[library]) == 0 {
			t.Errorf("probes in scripts_test.go has no %s", library)
		}
	}
}
