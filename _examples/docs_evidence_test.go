package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// evidence is a code span that names a test, a scenario of the simulation, or a row of the chaos tests.
var evidence = regexp.MustCompile(`^(?:(?:\w+\.)?Test[A-Z]\w*|sim \w+|chaos .+)$`)

// Every test, plan and row of the chaos tests that a page names exists.
func TestDocs_Evidence(t *testing.T) {
	known := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			for _, name := range submatches(t, `(?m)^func (Test[A-Z]\w*)\(`, path) {
				known[name], known[filepath.Base(filepath.Dir(path))+"."+name] = true, true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range submatches(t, `\bname: "(\w+)"`, root, "core", "redisstore", "internal", "sim", "scenario.go") {
		known["sim "+name] = true
	}
	for _, name := range submatches(t, `(?m)^\| ([^|]+) \|`, root, "_benchmarks", "CHAOS.md") {
		known["chaos "+name] = true
	}
	count := 0
	for _, p := range allPages(t) {
		for _, span := range p.spans {
			if !evidence.MatchString(span) {
				continue
			}
			if count++; !known[span] {
				t.Errorf("%s: %s: no such test, plan or row", p.path, span)
			}
		}
	}
	if count < 50 {
		t.Errorf("the pages name %d tests, plans and rows, want 50 or more", count)
	}
}

// submatches returns the first submatch of each match in a file.
func submatches(t *testing.T, pattern string, path ...string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	return found
}
