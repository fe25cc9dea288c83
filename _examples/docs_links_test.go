package examples_test

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(<?([^)>\s]+)|(?:src|srcset|href)="([^"\s]+)|(?m:^\[[^\]]+\]:\s*(\S+))`)
	scheme  = regexp.MustCompile(`^[a-z]+:`)
	goPages = regexp.MustCompile(`^https://pkg\.go\.dev/github\.com/weir-go/weir(?:/|$|#)`)
	hosted  = regexp.MustCompile(`^https://github\.com/weir-go/weir/(?:blob|tree)/main/`)
)

// Every link to a file, a heading, or a page of pkg.go.dev about this module has a target.
func TestDocs_Links(t *testing.T) {
	all := allPages(t)
	slugs := map[string]map[string]bool{}
	for _, p := range all {
		slugs[p.path] = p.slugs
	}
	symbols := map[string]map[string]bool{}
	count := 0
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(p.prose, -1) {
			target := m[1] + m[2] + m[3]
			file, anchor, _ := strings.Cut(target, "#")
			switch {
			case goPages.MatchString(target):
				dir := strings.TrimPrefix(strings.TrimPrefix(file, "https://pkg.go.dev/github.com/weir-go/weir"), "/")
				if symbols[dir] == nil {
					symbols[dir] = symbolsOf(t, filepath.Join(root, dir))
				}
				if !symbols[dir][anchor] {
					t.Errorf("%s: %s: no such symbol", p.path, target)
				}
			case hosted.MatchString(target):
				file = hosted.ReplaceAllString(file, "")
			case scheme.MatchString(target):
				continue
			case file == "":
				file = p.path
			default:
				file = path.Join(path.Dir(p.path), file)
			}
			count++
			if goPages.MatchString(target) {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: %s: no such file", p.path, target)
			} else if anchor != "" && path.Ext(file) == ".md" && !slugs[file][anchor] {
				t.Errorf("%s: %s: no such heading", p.path, target)
			}
		}
	}
	if count < 50 {
		t.Errorf("found %d links", count)
	}
}

var qualified = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*(?:\.[A-Z]\w*)?)(?:$|\()`)

// Every code span in llms.txt that begins with a package of this repository and a name, such as core.PerSecond(10), has
// a name of the package, and every import path is that of a package or module.
func TestDocs_Names(t *testing.T) {
	known := packages(t)
	all := allPages(t)
	i := slices.IndexFunc(all, func(p *page) bool { return p.path == "llms.txt" })
	if i < 0 {
		t.Fatal("there is no llms.txt")
	}
	symbols := map[string]map[string]bool{}
	count := 0
	for _, span := range all[i].spans {
		dir, isPath := strings.CutPrefix(span, "github.com/weir-go/weir/")
		name := ""
		if m := qualified.FindStringSubmatch(span); !isPath && m != nil {
			dir, isPath = strings.CutPrefix(known[m[1]], "github.com/weir-go/weir/")
			name = m[2]
			if known[m[1]] == "" {
				t.Errorf("llms.txt: %s: no such package", span)
			}
		}
		if !isPath {
			continue
		}
		count++
		if symbols[dir] == nil {
			symbols[dir] = symbolsOf(t, filepath.Join(root, dir))
		}
		if !symbols[dir][name] {
			t.Errorf("llms.txt: %s: no such package or name", span)
		}
	}
	if count < 25 {
		t.Errorf("found %d names", count)
	}
}

// symbolsOf returns the anchors of pkg.go.dev for the package in dir, and "" for the package itself.
func symbolsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return map[string]bool{}
	}
	p, err := doc.NewFromFiles(fset, files, dir)
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{"": true}
	for _, block := range p.Parser().Parse(p.Doc).Content {
		if h, ok := block.(*comment.Heading); ok {
			anchors[h.DefaultID()] = true
		}
	}
	values := func(lists ...[]*doc.Value) {
		for _, list := range lists {
			for _, v := range list {
				for _, name := range v.Names {
					anchors[name] = true
				}
			}
		}
	}
	functions := func(prefix string, list []*doc.Func) {
		for _, f := range list {
			anchors[prefix+f.Name] = true
		}
	}
	values(p.Consts, p.Vars)
	functions("", p.Funcs)
	for _, typ := range p.Types {
		anchors[typ.Name] = true
		values(typ.Consts, typ.Vars)
		functions("", typ.Funcs)
		functions(typ.Name+".", typ.Methods)
		var fields *ast.FieldList
		switch x := typ.Decl.Specs[0].(*ast.TypeSpec).Type.(type) {
		case *ast.StructType:
			fields = x.Fields
		case *ast.InterfaceType:
			fields = x.Methods
		default:
			continue
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				anchors[typ.Name+"."+name.Name] = true
			}
		}
	}
	return anchors
}
