package document

import (
	"strings"
	"testing"
)

// A panic of package yaml is an error.
func TestLoad_Panic(t *testing.T) {
	if err := load(nil, nil); err == nil || !strings.Contains(err.Error(), "package yaml panics: runtime error") {
		t.Errorf("got %v", err)
	}
}
