package core_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
)

// mostUpward bounds the uses of a name of a later file. A change that needs more should find another
// file for the name, or another order.
const mostUpward = 23

// The files of this package have an order, which stands in DESIGN.md, and few of them use a name of a later
// one: a reader who follows it finds nearly every name explained before.
func TestFiles_Order(t *testing.T) {
	testkit.WithoutRace(t)
	text, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "The order of the files of core:")
	list, _, ended := strings.Cut(list, "\n\n")
	if !found || !ended {
		t.Fatal("DESIGN.md has no order of the files")
	}
	order := strings.FieldsFunc(list, func(c rune) bool { return strings.ContainsRune(" \n`,.", c) })
	fset := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if files = append(files, f); !slices.Contains(order, strings.TrimSuffix(name, ".go")) {
			t.Errorf("%s is not in the order of DESIGN.md", name)
		}
	}
	if len(order) != len(files) {
		t.Errorf("the order has %d files, and the package %d", len(order), len(files))
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	pkg, err := (&types.Config{Importer: importer.ForCompiler(fset, "source", nil)}).Check("core", fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	place := func(p token.Pos) int {
		return slices.Index(order, strings.TrimSuffix(fset.Position(p).Filename, ".go"))
	}
	type use struct {
		file int
		of   types.Object
	}
	upward := make(map[use]bool)
	for id, of := range info.Uses {
		f, isFunc := of.(*types.Func)
		isMethod := isFunc && f.Signature().Recv() != nil
		if of.Pkg() == pkg && (isMethod || of.Parent() == pkg.Scope()) && place(of.Pos()) > place(id.Pos()) {
			upward[use{place(id.Pos()), of}] = true
		}
	}
	if len(upward) > mostUpward {
		t.Errorf("there are %d uses of a name of a later file, want at most %d", len(upward), mostUpward)
		for u := range upward {
			t.Logf("%s uses %s of %s", order[u.file], u.of.Name(), order[place(u.of.Pos())])
		}
	}
}
