package core_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// algorithmConstants has the name of the constant of each algorithm, such as "FixedWindow", in packages driver and core.
var algorithmConstants = func() (names []string) {
	for a := driver.Algorithm(1); a.String() != "none"; a++ {
		var name strings.Builder
		for word := range strings.SplitSeq(a.String(), "_") {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
		names = append(names, name.String(), "Algorithm"+name.String())
	}
	return names
}()

// Outside of package driver, no code asks a rule for its algorithm: it asks for a fact of driver.Kind. An algorithm is named
// where a rule is made, in the constants of package core, and as the key of a row.
func TestKind_NoComparisons(t *testing.T) {
	testkit.WithoutRace(t)
	named := 0
	eachFile(t, func(path string, file *ast.File) {
		if strings.HasPrefix(path, "core/driver/") || strings.HasPrefix(path, "core/redisstore/internal/sim/") { // a second set of scripts
			return
		}
		allowed := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				key, _ := n.Key.(*ast.Ident)
				allowed[n.Key] = true
				allowed[n.Value] = key != nil && key.Name == "Algorithm"
			case *ast.GenDecl:
				if n.Tok == token.CONST {
					return false
				}
			case *ast.SelectorExpr:
				x, _ := n.X.(*ast.Ident)
				if x == nil || x.Name != "driver" && x.Name != "core" || !slices.Contains(algorithmConstants, n.Sel.Name) || x.Name == "core" && !strings.HasPrefix(n.Sel.Name, "Algorithm") {
					return true
				}
				if named++; !allowed[n] {
					t.Errorf("%s names %s.%s: ask the rule for a fact of its driver.Kind", path, x.Name, n.Sel.Name)
				}
			}
			return true
		})
	})
	if named < len(algorithmConstants) {
		t.Errorf("%d uses of algorithms were found, want those of all constructors", named)
	}
}

// Package core has a constant for every algorithm of package driver.
func TestAlgorithm_Constants(t *testing.T) {
	var declared []string
	eachFile(t, func(path string, file *ast.File) {
		if path != "core/algorithm.go" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				declared = append(declared, spec.Names[0].Name)
			}
			return true
		})
	})
	for _, name := range algorithmConstants {
		if strings.HasPrefix(name, "Algorithm") && !slices.Contains(declared, name) {
			t.Errorf("core/algorithm.go has no constant %s", name)
		}
	}
}
