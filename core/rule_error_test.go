package core_test

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
)

// The comments of RuleError.Field and Kind.Check list each field that the code returns.
func TestRuleError_Field(t *testing.T) {
	var documented []string
	for file, comment := range map[string]string{"driver/algorithm.go": `(?s)\n// Check returns .*?\nfunc`, "driver/errors.go": `\tField +string //.*`} {
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		words := strings.ReplaceAll(regexp.MustCompile(comment).FindString(string(text)), "\n// ", " ")
		for _, m := range regexp.MustCompile(`"([a-z -]+)"`).FindAllStringSubmatch(words, -1) {
			documented = append(documented, m[1])
		}
	}
	returned := make(map[string]string) // a file of each
	eachFile(t, func(path string, f *ast.File) {
		if !strings.HasPrefix(path, "core/") {
			return
		}
		add := func(e ast.Expr) {
			if l, ok := e.(*ast.BasicLit); ok {
				if text, err := strconv.Unquote(l.Value); err == nil {
					returned[text] = path
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "fault" { // returns a field and a reason
					ast.Inspect(n, func(n ast.Node) bool {
						if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 2 {
							add(r.Results[0])
						}
						return true
					})
				}
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "invalid" {
					add(n.Args[0])
				}
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						if k, ok := kv.Key.(*ast.Ident); ok && k.Name == "Field" {
							add(kv.Value)
						}
					}
				}
			}
			return true
		})
	})
	delete(returned, "")
	if len(documented) < 10 || len(returned) < 10 {
		t.Fatalf("found %q in comments, and %v in the code", documented, returned)
	}
	for field, path := range returned {
		if !slices.Contains(documented, field) {
			t.Errorf("%s returns the field %q, which no comment lists", path, field)
		}
	}
}
