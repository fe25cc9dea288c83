package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const modulePath = "github.com/weir-go/weir/"

// invalid is the killer of a mutant that cannot be compiled.
const invalid = "invalid"

// A result says which package has noticed a mutant, and after how long.
type result struct {
	killer string // empty if no test has
	took   time.Duration
}

// A runner runs tests.
type runner struct {
	root    string // of the repository
	dir     string // for files
	limit   time.Duration
	covered map[string][]string // the test packages that run a line, by "file:line"
}

// measure finds out which test packages run which lines of packages.
func (r *runner) measure(packages []string) error {
	r.covered = map[string][]string{}
	list, err := goCommand(r.root, "list", "-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}|{{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}`, modulePath+"...")
	if err != nil {
		return err
	}
	paths := make([]string, len(packages))
	for i, p := range packages {
		paths[i] = modulePath + p
	}
	profile := filepath.Join(r.dir, "cover")
	for line := range strings.Lines(list) {
		tests, uses, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok || !slices.ContainsFunc(append(strings.Fields(uses), tests), func(p string) bool { return slices.Contains(paths, p) }) {
			continue
		}
		if tests == modulePath+"core/redisstore" && !slices.Contains(packages, "core/redisstore") {
			continue // it takes a minute, and needs servers
		}
		// A package that fails is not asked about mutants.
		if _, err := goCommand(r.root, "test", "-short", "-vet=off", "-count=1", "-coverprofile="+profile, "-coverpkg="+strings.Join(paths, ","), tests); err != nil {
			fmt.Fprintln(os.Stderr, "left out:", tests, err)
			continue
		}
		if err := r.read(profile, strings.TrimPrefix(tests, modulePath)); err != nil {
			return err
		}
	}
	return nil
}

// read reads a profile of the tests of a package.
func (r *runner) read(profile, tests string) error {
	f, err := os.Open(profile)
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// PATH:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT
		path, rest, ok := strings.Cut(strings.TrimPrefix(lines.Text(), modulePath), ":")
		if fields := strings.Fields(rest); ok && len(fields) == 3 && fields[2] != "0" {
			begin, end, _ := strings.Cut(fields[0], ",")
			for line := number(begin); line <= number(end); line++ {
				at := path + ":" + strconv.Itoa(line)
				if !slices.Contains(r.covered[at], tests) {
					r.covered[at] = append(r.covered[at], tests)
				}
			}
		}
	}
	return nil
}

// number returns the line of LINE.COLUMN.
func number(s string) int {
	line, _, _ := strings.Cut(s, ".")
	n, _ := strconv.Atoi(line)
	return n
}

// testsOf returns the packages whose tests run m: first that of m, then its dependents.
func (r *runner) testsOf(name string, m mutant) []string {
	all := []string{name}
	for _, tests := range r.covered[strings.TrimPrefix(m.file, r.root+"/")+":"+strconv.Itoa(m.line)] {
		if tests != name {
			all = append(all, tests)
		}
	}
	return all
}

// try runs the tests of packages, one package after the other, until one fails.
func (r *runner) try(m mutant, packages []string) result {
	begun := time.Now()
	changed, overlay := filepath.Join(r.dir, "changed"+filepath.Ext(m.file)), filepath.Join(r.dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file: changed}})
	fatal(err)
	fatal(os.WriteFile(changed, []byte(m.mutated()), 0o600))
	fatal(os.WriteFile(overlay, list, 0o600))
	if filepath.Ext(m.file) == ".go" {
		if _, err := goCommand(filepath.Dir(m.file), "build", "-overlay", overlay, "."); err != nil {
			return result{killer: invalid}
		}
	}
	for _, p := range packages {
		path, run, _ := strings.Cut(p, " ") // a fault names a test, and flags for it
		run, flags, _ := strings.Cut(run, " ")
		args := []string{"test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast", "-timeout", r.limit.String()}
		if run != "" {
			args = append(args, "-run", run)
		} else if path != "core/redisstore" {
			args = append(args, "-short")
		}
		args = append(append(args, "./"+path), strings.Fields(flags)...)
		if _, err := goCommand(r.root, args...); err != nil {
			return result{path, time.Since(begun)}
		}
	}
	return result{"", time.Since(begun)}
}

// goCommand returns the output of a go command in dir, or the end of it as an error.
func goCommand(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.WaitDelay = dir, time.Second
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		text := strings.TrimSpace(out.String() + errs.String())
		return "", errors.New(text[max(0, len(text)-400):])
	}
	return out.String(), nil
}
