package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
)

// The functions of "Trunk: the life of a request" in DESIGN.md are in the files that it names.
func TestDesign_LifeOfARequest(t *testing.T) {
	text, err := os.ReadFile("DESIGN.md")
	testkit.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Trunk: the life of a request\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| B?\\d+\\. .* \\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(section, -1)
	if len(rows) < 30 {
		t.Fatalf("the tables have %d rows, want all steps and subjects", len(rows))
	}
	for _, row := range rows {
		names := functionsOf(t, filepath.Join("..", row[1]))
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			if !names[name[1]] {
				t.Errorf("%s has no function %s", row[1], name[1])
			}
		}
	}
	for _, file := range regexp.MustCompile("`((?:core|keyfunc|ginlimit)/[a-z_/]+\\.(?:go|lua))`").FindAllStringSubmatch(section, -1) {
		if _, err := os.Stat(filepath.Join("..", file[1])); err != nil {
			t.Error(err)
		}
	}
}

// functionsOf returns the functions of a file, methods with their type, such as "Store.Take".
func functionsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	names := make(map[string]bool)
	if strings.HasSuffix(file, ".lua") {
		for _, f := range regexp.MustCompile(`(?m)^local function (\w+)`).FindAllStringSubmatch(string(text), -1) {
			names[f[1]] = true
		}
		return names
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	testkit.Must(t, err)
	for _, d := range syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			name := f.Name.Name
			if f.Recv != nil {
				name = strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "." + name
			}
			names[name] = true
		}
	}
	return names
}
