package core_test

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/weir-go/weir/internal/testkit"
)

// others has names in backquotes that the repository does not declare, and whose form does not show it, with the place
// that has them.
var others = map[string]string{
	"pcall":       "Lua",
	"string.char": "Lua",
	"noeviction":  "Redis",
	"replace":     "the Go command",
	"RateLimit":   "HTTP",
	"kid":         "JWT",
	"off":         "YAML",
	"json.dumps":  "Python",
}

// Each name in backquotes in the design documents is that of a file, package, declaration, test, make target or fact of
// the repository.
func TestDesign_Names(t *testing.T) {
	r, unused := readRepository(t), maps.Clone(others)
	for _, file := range r.design {
		text, err := os.ReadFile(filepath.Join("..", file))
		testkit.Must(t, err)
		for _, quoted := range quotedNames(string(text)) {
			delete(unused, quoted)
			if !r.knows(quoted) {
				t.Errorf("%s names `%s`, which the repository does not have", file, quoted)
			}
		}
	}
	if len(unused) > 0 {
		t.Errorf("others has %v, which no design document names", unused)
	}
	if len(r.design) < 10 {
		t.Fatalf("%d design documents were found, want one of most packages", len(r.design))
	}
}

// TestDesign_Names finds names of earlier code.
func TestDesign_UnknownNames(t *testing.T) {
	r := readRepository(t)
	for _, name := range []string{
		"CompileLike", "driver.MaxSubWindows", "Algorithm.IsBucket", "Charge.Recount", "no_such.lua", "no_such_file.go",
		"core/no_such_package", "TestNoSuchTest", "make nosuchtarget", "NoSuchType.Method", "(*failover.Store).NoSuch",
		"NoSuchFunction(x)", "go test ./core/driver -run NoSuchTest",
	} {
		if r.knows(name) {
			t.Errorf("`%s` is known, want an error", name)
		}
	}
	for _, name := range []string{
		"Charge.Read", "driver.Charge", "core.New", "take.lua", "engine_bucket.go", "core/driver", "internal/wire", "make path",
		"(*failover.Store).Check", "*echo.Response", "Proxies(\"unix\")", "Reservation.Settle", "undo_last", "http.ServeMux", "ZADD NX", "TestDesign_UnknownNames", "enforce",
	} {
		if !r.knows(name) {
			t.Errorf("`%s` is not known", name)
		}
	}
}

// quotedNames returns the texts in backquotes outside of blocks of code.
func quotedNames(text string) (names []string) {
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		names = append(names, strings.Join(strings.Fields(m[1]), " "))
	}
	return names
}

// repository has the names that the files of the repository declare.
type repository struct {
	design   []string                   // the design documents
	paths    map[string]bool            // each file and directory, and each end of its path that begins at a slash
	declared map[string]bool            // "Name", also of fields, methods and functions of Lua
	members  map[string]map[string]bool // of a type, an import or a package, by its last name
	embedded map[string][]string        // the types that a type embeds
	foreign  map[string]bool            // packages of other repositories and the standard library
	targets  map[string]bool            // of make
	literals map[string]bool            // words in quotes: ops of scripts, properties of a configuration
}

func readRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{
		paths: map[string]bool{}, declared: map[string]bool{}, members: map[string]map[string]bool{}, embedded: map[string][]string{},
		foreign: map[string]bool{}, targets: map[string]bool{}, literals: map[string]bool{},
	}
	testkit.Must(t, filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil {
			return err
		}
		if d.IsDir() && (name == ".git" || strings.HasPrefix(name, "_") || name == "fuzz") {
			return filepath.SkipDir
		}
		own := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(file, ".."), string(filepath.Separator)))
		for rest := own; rest != ""; _, rest, _ = strings.Cut(rest, "/") {
			r.paths[rest] = true
		}
		if d.IsDir() {
			return nil
		}
		switch {
		case name == "DESIGN.md" || own == "core/LIMITER.md":
			r.design = append(r.design, own)
		case strings.HasSuffix(name, ".go"):
			r.readGo(t, file)
			if own == "core/storetest/cases.go" {
				r.readText(t, file, `$^`, `\{"(\w+)",`)
			}
		case strings.HasSuffix(name, ".lua"):
			r.readText(t, file, `(?m)^\s*local (?:function )?(\w+)`, `'(\w+)'`)
		case strings.HasSuffix(name, ".schema.json"):
			r.readText(t, file, `$^`, `"(\w+)":`)
		}
		return nil
	}))
	f, err := os.Open("../Makefile")
	testkit.Must(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if target, _, ok := strings.Cut(s.Text(), ":"); ok {
			r.targets[target] = true
		}
	}
	return r
}

func (r *repository) readText(t *testing.T, file, declaration, literal string) {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	for _, m := range regexp.MustCompile(declaration).FindAllStringSubmatch(string(text), -1) {
		r.declared[m[1]] = true
	}
	for _, m := range regexp.MustCompile(literal).FindAllStringSubmatch(string(text), -1) {
		r.literals[m[1]] = true
	}
}

func (r *repository) readGo(t *testing.T, file string) {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	testkit.Must(t, err)
	for _, i := range syntax.Imports {
		if imported := strings.Trim(i.Path.Value, `"`); !strings.HasPrefix(imported, module) {
			base := path.Base(imported)
			if regexp.MustCompile(`^v\d+$`).MatchString(base) {
				base = path.Base(path.Dir(imported))
			}
			r.foreign[imported] = true
			if imported != "database/sql/driver" { // has the name of a package of this repository
				r.foreign[strings.TrimPrefix(base, "go-")] = true
			}
		}
	}
	pkg := strings.TrimSuffix(syntax.Name.Name, "_test")
	add := func(owner, name string) {
		if r.members[owner] == nil {
			r.members[owner] = map[string]bool{}
		}
		r.members[owner][name] = true
		r.declared[name] = true
	}
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			owner := pkg
			if d.Recv != nil {
				owner = typeName(d.Recv.List[0].Type)
			}
			add(owner, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(pkg, name.Name)
					}
				case *ast.TypeSpec:
					add(pkg, spec.Name.Name)
					var fields *ast.FieldList
					switch s := spec.Type.(type) {
					case *ast.StructType:
						fields = s.Fields
					case *ast.InterfaceType:
						fields = s.Methods
					default:
						continue
					}
					for _, field := range fields.List {
						for _, name := range field.Names {
							add(spec.Name.Name, name.Name)
						}
						if len(field.Names) == 0 {
							embedded := typeName(field.Type)
							add(spec.Name.Name, embedded)
							r.embedded[spec.Name.Name] = append(r.embedded[spec.Name.Name], embedded)
						}
					}
				}
			}
		}
	}
}

// typeName returns the last name of a type: Store for *memstore.Store and Store[T].
func typeName(e ast.Expr) string {
	text, _, _ := strings.Cut(strings.TrimLeft(types.ExprString(e), "*~"), "[")
	return text[strings.LastIndexByte(text, '.')+1:]
}

var (
	goTest     = regexp.MustCompile(`^go test \./(\S+) -run (\w+)`)
	pathName   = regexp.MustCompile(`^\.?\w+(/\w+)+(\.\w+)?$`)
	fileName   = regexp.MustCompile(`^\w+\.(go|lua|md|txt|yaml|json)$`)
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
)

// knows reports whether the repository has a name, or the text in backquotes is no name of a repository: it is a literal,
// a command of Redis, in capital letters, or a name of an imported package.
func (r *repository) knows(text string) bool {
	if target, ok := strings.CutPrefix(text, "make "); ok {
		target, _, _ = strings.Cut(target, " ")
		return r.targets[target]
	}
	if m := goTest.FindStringSubmatch(text); m != nil {
		return r.paths[m[1]] && slices.ContainsFunc(slices.Collect(maps.Keys(r.declared)), func(name string) bool {
			return strings.HasPrefix(name, "Test") && strings.Contains(name, m[2])
		})
	}
	name := strings.TrimPrefix(strings.Replace(text, ")", "", 1), "(")
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "*"), "(") // (*pkg.Type).Method, or a call
	switch {
	case others[text] != "", r.paths[name], r.foreign[name]:
		return true
	case pathName.MatchString(name),
		fileName.MatchString(name):
		return false
	case !identifier.MatchString(name):
		return true // no name
	case !strings.ContainsFunc(name, unicode.IsLower):
		return true // a command
	case r.literals[name]:
		return true
	}
	parts := strings.Split(name, ".")
	if len(parts) == 1 {
		return r.declared[name] || r.members[name] != nil || r.foreign[name]
	}
	if r.members[parts[0]] == nil {
		return r.foreign[parts[0]]
	}
	if r.foreign[parts[0]] && len(parts) == 2 && !r.has(parts[0], parts[1]) {
		return true
	}
	for i := range parts[1:] {
		if !r.has(parts[i], parts[i+1]) {
			return false
		}
	}
	return true
}

// has reports whether a package declares a name, or a type has a member, also by a type that it embeds.
func (r *repository) has(owner, name string) bool {
	return r.members[owner][name] || slices.ContainsFunc(r.embedded[owner], func(e string) bool { return e != owner && r.has(e, name) })
}

// The functions in the tables "Trunk: the life of a request" and "Beside the road" of the design documents are in the
// files that they name.
func TestDesign_LifeOfARequest(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| (B?\\d+)\\. .* \\| `([^`]+)` \\| (.+) \\|$")
	found := make(map[string]bool)
	for _, file := range readRepository(t).design {
		text, err := os.ReadFile(filepath.Join("..", file))
		testkit.Must(t, err)
		for _, row := range rows.FindAllStringSubmatch(string(text), -1) {
			found[row[1]] = true
			names := functionsOf(t, filepath.Join("..", row[2]))
			for _, name := range quotedNames(row[3]) {
				if !names[name] {
					t.Errorf("%s: %s has no function %s", file, row[2], name)
				}
			}
		}
	}
	if len(found) < 30 {
		t.Fatalf("the tables have the rows %v, want all steps and subjects", slices.Sorted(maps.Keys(found)))
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
