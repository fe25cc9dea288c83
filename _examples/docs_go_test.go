package examples_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	_ "github.com/hibiken/asynq" // of the recipe of jobs
	_ "github.com/riverqueue/river"
)

// environment declares the variables that a block uses and does not declare.
var environment = map[string]string{
	"ctx":       "context.Context = context.Background()",
	"exports":   "*core.Limiter",
	"handler":   "http.Handler = http.NotFoundHandler()",
	"ip":        "keyfunc.Func = keyfunc.RemoteIP()",
	"issued":    "func(cookie, name string) bool",
	"loginIP":   "*core.Limiter",
	"loginUser": "*core.Limiter",
	"limit":     "func(http.Handler) http.Handler",
	"limiter":   "*core.Limiter",
	"mux":       "*http.ServeMux",
	"perIP":     "*core.Limiter",
	"perItem":   "*core.Limiter",
	"perShop":   "*core.Limiter",
	"perUser":   "*core.Limiter",
	"planOf":    "func(ctx context.Context, id string) (plan string, err error)",
	"publicKey": "jwt.Keyfunc",
	"r":         "*http.Request",
	"rdb":       "*redis.Client",
	"service":   "*url.URL",
	"set":       "*rules.Set",
	"store":     "core.Store = memstore.New()",
	"t":         "*testing.T",
	"tokens":    "*keyfunc.JWT",
	"user":      "keyfunc.Func = keyfunc.ContextSubject(`user`)",
	"valid":     "func(user, password string) bool",
	"w":         "http.ResponseWriter",
}

// imports has the packages of other modules, and the one that is meant if several have one name.
// Other names are those of the packages of weir and of the standard library.
var imports = map[string]string{
	"asynq":      "github.com/hibiken/asynq",
	"connect":    "connectrpc.com/connect",
	"echo":       "github.com/labstack/echo/v5",
	"echolimit":  "github.com/weir-go/weir/echolimit/v5",
	"gin":        "github.com/gin-gonic/gin",
	"grpc":       "google.golang.org/grpc",
	"httprate":   "github.com/go-chi/httprate",
	"jwt":        "github.com/golang-jwt/jwt/v5",
	"jwks":       "github.com/MicahParks/keyfunc/v3",
	"middleware": "github.com/labstack/echo/v5/middleware",
	"prometheus": "github.com/prometheus/client_golang/prometheus",
	"promhttp":   "github.com/prometheus/client_golang/prometheus/promhttp",
	"rate":       "golang.org/x/time/rate",
	"redis":      "github.com/redis/go-redis/v9",
	"river":      "github.com/riverqueue/river",

	"weirprometheus": "github.com/weir-go/weir/core/observe/prometheus",
}

var version = regexp.MustCompile(`^v[0-9]+$`)

// modules are the directories in which a block can be compiled. The first one that requires
// everything that the block imports is used.
var modules = []string{"_examples", "_benchmarks", "core/observe/otel", "core/observe/prometheus"}

// clause begins the file of a block without a package clause.
const clause = "package docs\n"

// needed has packages that need another module than their own, of which there is no trace in a go.mod
// of a program without them.
var needed = map[string]string{
	"github.com/labstack/echo/v4/middleware": "golang.org/x/time",
	"github.com/labstack/echo/v5/middleware": "golang.org/x/time",
}

// A goFile is a Go block as a file.
type goFile struct {
	block
	src      string
	declares []string // on the level of the package, except for main
	imports  []string
	program  bool // its own package
	test     bool
	output   string // the expected output, if it is to be run
}

// Every Go block of a page is formatted and compiles. A block with a comment "// Output:" is run, and
// so are tests: functions such as TestX, and statements that use a variable t of the environment.
func TestDocs_Go(t *testing.T) {
	known := packages(t)
	files := map[string][]*goFile{}
	for i, b := range blocksOf(allPages(t), "go") {
		f, err := newGoFile(i, b, known)
		if err != nil {
			t.Errorf("%s:%d: %v", b.page, b.line, err)
			continue
		}
		module := slices.IndexFunc(modules, func(dir string) bool { return provides(t, dir, f.imports) })
		if module < 0 {
			t.Errorf("%s:%d: no module requires all of %q", b.page, b.line, f.imports)
			continue
		}
		files[modules[module]] = append(files[modules[module]], f)
	}
	for dir, files := range files {
		compile(t, filepath.Join(root, dir), files)
	}
}

// newGoFile returns the file for the i-th block. A block is a program or test with a package clause,
// a list of declarations, or a list of statements.
func newGoFile(i int, b block, known map[string]string) (*goFile, error) {
	if formatted, err := format.Source([]byte(b.code)); err != nil {
		return nil, err
	} else if got := strings.TrimSpace(b.code); got != strings.TrimSpace(string(formatted)) {
		return nil, fmt.Errorf("not formatted: got\n%s\nwant\n%s", got, formatted)
	}
	line, err := filepath.Abs(filepath.Join(root, b.page))
	if err != nil {
		return nil, err
	}
	f := &goFile{block: b}
	_, f.output, _ = strings.Cut(b.code, "// Output:")
	f.output = strings.TrimSpace(regexp.MustCompile(`(?m)^\s*//? ?|^\s*}$`).ReplaceAllString(f.output, ""))
	marked := fmt.Sprintf("//line %s:%d\n%s", line, b.line, b.code)

	parse := func(src string) (*ast.File, error) {
		return parser.ParseFile(token.NewFileSet(), "", src, parser.ParseComments)
	}
	if strings.HasPrefix(b.code, "package ") {
		file, err := parse(b.code)
		if err != nil {
			return nil, err
		}
		f.program, f.src = true, marked
		f.read(file)
		return f, nil
	}
	wrap := func(env []string) string { return clause + marked + "\n" + declarations(env) }
	if _, err := parse(clause + b.code); err != nil {
		used := usesOf(b.code)
		if used == nil {
			return nil, err // not even a list of statements
		}
		wrap = func(env []string) string {
			name := fmt.Sprintf("func block%d()", i)
			switch {
			case slices.Contains(env, "t"):
				name = fmt.Sprintf("func TestBlock%d(t *testing.T)", i)
				env = slices.DeleteFunc(slices.Clone(env), func(name string) bool { return name == "t" })
			case f.output != "":
				name = "func main()"
			}
			return fmt.Sprintf("%s%s {\n%s%s{\n%s\n%s}\n}\n",
				clause, name, declarations(env), usesIn(env), marked, usesIn(used))
		}
	}
	var env []string
	free, err := unresolved(wrap(nil))
	if err != nil {
		return nil, err
	}
	for _, name := range free {
		if environment[name] != "" {
			env = append(env, name)
		}
	}
	f.src = wrap(env)
	if free, err = unresolved(f.src); err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range free {
		if path := known[name]; path != "" {
			paths = append(paths, fmt.Sprintf("import %s %q\n", name, path))
		}
	}
	f.src = strings.Replace(f.src, clause, clause+strings.Join(paths, ""), 1)
	file, err := parse(f.src)
	if err != nil {
		return nil, err
	}
	f.read(file)
	if f.program {
		f.src = strings.Replace(f.src, clause, "package main\n", 1)
	}
	return f, nil
}

// read sets the fields that come from the syntax.
func (f *goFile) read(file *ast.File) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		f.imports = append(f.imports, path)
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			f.program = f.program || name == "main"
			if d.Recv == nil {
				f.test = f.test || strings.HasPrefix(name, "Test")
				f.declares = append(f.declares, name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					f.declares = append(f.declares, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						f.declares = append(f.declares, name.Name)
					}
				}
			}
		}
	}
}

func declarations(env []string) string {
	var s strings.Builder
	for _, name := range env {
		fmt.Fprintf(&s, "var %s %s\n", name, environment[name])
	}
	return s.String()
}

// usesIn returns statements that use variables.
func usesIn(names []string) string {
	var s strings.Builder
	for _, name := range names {
		fmt.Fprintf(&s, "_ = &%s\n", name)
	}
	return s.String()
}

// usesOf returns the variables that a list of statements declares, or nil if code is none.
func usesOf(code string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), "", clause+"func f() {\n"+code+"\n}", 0)
	if err != nil {
		return nil
	}
	names := []string{}
	for _, s := range file.Decls[0].(*ast.FuncDecl).Body.List {
		switch s := s.(type) {
		case *ast.AssignStmt:
			for _, left := range s.Lhs {
				if id, ok := left.(*ast.Ident); ok && s.Tok == token.DEFINE && id.Name != "_" {
					names = append(names, id.Name)
				}
			}
		case *ast.DeclStmt:
			for _, spec := range s.Decl.(*ast.GenDecl).Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					for _, id := range v.Names {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unresolved returns the names that a file uses and does not declare.
func unresolved(src string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, id := range file.Unresolved {
		names[id.Name] = true
	}
	for _, spec := range file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		if spec.Name != nil {
			delete(names, spec.Name.Name)
			continue
		}
		maps.DeleteFunc(names, func(name string, _ bool) bool { return imports[name] == p })
		if version.MatchString(path.Base(p)) {
			p = path.Dir(p)
		}
		delete(names, path.Base(p))
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// packages returns the import path of each name of a package.
func packages(t *testing.T) map[string]string {
	t.Helper()
	known := map[string]string{}
	list := command(t, filepath.Join(root, "cmd", "weir"), "go", "list", "-f", "{{.Name}} {{.ImportPath}}", "std", "github.com/weir-go/weir/...") // of its workspace
	for _, line := range strings.Split(strings.TrimSpace(list), "\n") {
		name, path, _ := strings.Cut(line, " ")
		if name != "main" && !strings.Contains("/"+path+"/", "/internal/") && !strings.HasPrefix(path, "vendor/") {
			known[name] = path // packages of weir are listed last
		}
	}
	maps.Copy(known, imports)
	return known
}

// provides reports whether the module in dir requires the modules of all imports.
func provides(t *testing.T, dir string, imports []string) bool {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
	if os.IsNotExist(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, m := range regexp.MustCompile(`(?m)^(?:module |require |\t)(\S+\.\S+/\S+)(?: v\S+)?`).FindAllSubmatch(mod, -1) {
		paths = append(paths, string(m[1]))
	}
	for _, path := range imports {
		if needs := needed[path]; needs != "" && !slices.Contains(paths, needs) {
			return false
		}
		if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
			continue // the standard library
		}
		// The modules below core/observe are no part of the root module.
		best := ""
		for _, module := range slices.Concat(paths, []string{
			"github.com/weir-go/weir/core/observe/otel", "github.com/weir-go/weir/core/observe/prometheus",
		}) {
			if (path == module || strings.HasPrefix(path, module+"/")) && len(module) > len(best) {
				best = module
			}
		}
		if !slices.Contains(paths, best) {
			return false
		}
	}
	return true
}

// compile writes the files into packages of the module in dir, vets them, and runs the tests and the
// programs with an output.
func compile(t *testing.T, dir string, files []*goFile) {
	t.Helper()
	temp := filepath.Join(dir, "_docs") // the same in each run, so that the go command finds its earlier results
	if err := errors.Join(os.RemoveAll(temp), os.Mkdir(temp, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })

	type pkg struct {
		dir      string
		program  bool
		test     bool
		declares []string
	}
	var pkgs []*pkg
	var tests, runs []string
	outputs := map[string]*goFile{}
	for i, f := range files {
		clash := func(name string) bool { return slices.Contains(f.declares, name) }
		j := slices.IndexFunc(pkgs, func(p *pkg) bool {
			return !p.program && !f.program && p.test == f.test && !slices.ContainsFunc(p.declares, clash)
		})
		if j < 0 {
			j = len(pkgs)
			name := fmt.Sprintf("p%d", j)
			pkgs = append(pkgs, &pkg{dir: "./" + filepath.Base(temp) + "/" + name, program: f.program, test: f.test})
			if err := os.Mkdir(filepath.Join(temp, name), 0o755); err != nil {
				t.Fatal(err)
			}
			if f.test {
				tests = append(tests, pkgs[j].dir)
			}
			if f.output != "" {
				runs = append(runs, pkgs[j].dir)
				outputs[name] = f
			}
		}
		p := pkgs[j]
		p.declares = append(p.declares, f.declares...)
		name := fmt.Sprintf("b%d.go", i)
		if f.test {
			name = fmt.Sprintf("b%d_test.go", i)
		}
		if err := os.WriteFile(filepath.Join(dir, p.dir, name), []byte(f.src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"vet"}
	for _, p := range pkgs {
		args = append(args, p.dir)
	}
	command(t, dir, "go", args...)
	if len(tests) > 0 && !t.Failed() {
		command(t, dir, "go", append([]string{"test", "-vet=off"}, tests...)...)
	}
	if len(runs) == 0 || t.Failed() {
		return
	}
	bin := filepath.Join(temp, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "go", append([]string{"build", "-o", filepath.Base(temp) + "/bin/"}, runs...)...)
	for name, f := range outputs {
		if got := strings.TrimSpace(command(t, dir, filepath.Join(filepath.Base(temp), "bin", name))); got != f.output {
			t.Errorf("%s:%d: got the output\n%s\nwant\n%s", f.page, f.line, got, f.output)
		}
	}
}

// command runs a command in dir, and returns its standard output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	if strings.ContainsRune(name, filepath.Separator) {
		name = "." + string(filepath.Separator) + name
	}
	var stdout, all bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = &stdout, &all
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, all.String(), stdout.String())
	}
	return stdout.String()
}
