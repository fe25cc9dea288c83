package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The documentation has the sentences of the invariants.
func TestInvariants_Documented(t *testing.T) {
	t.Parallel()
	for _, i := range invariants {
		t.Run(i.name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(i.source)))
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(strings.ReplaceAll(string(text), "//", " "))
			if !strings.Contains(strings.Join(words, " "), i.sentence) {
				t.Errorf("%s does not say %q", i.source, i.sentence)
			}
		})
	}
}
