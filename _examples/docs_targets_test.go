package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// makeCommand matches a command such as make -j 2 -O vet test, and its targets.
var makeCommand = regexp.MustCompile(`\bmake (?:-\S+ (?:\d+ )?)*([a-z]+(?:[- ][a-z]+)*)`)

// Each target that CONTRIBUTING.md names is run by .ci/run or by a workflow, so none of them fails on a fresh clone for long.
func TestDocs_Targets(t *testing.T) {
	excepted := map[string]string{
		"figures": "takes half an hour on a quiet machine; bench and charts are its parts",
		"lint":    "consists of gofmt, vet, staticcheck and prose",
	}
	workflows, err := filepath.Glob(root + "/.github/workflows/*.yml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("there are %d workflows: %v", len(workflows), err)
	}
	targetsOf := func(file string) (names []string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range makeCommand.FindAllStringSubmatch(string(text), -1) {
			names = append(names, strings.Fields(m[1])...)
		}
		return names
	}
	run := targetsOf(root + "/.ci/run")
	for _, file := range workflows {
		run = append(run, targetsOf(file)...)
	}
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range targetsOf(root + "/CONTRIBUTING.md") {
		if !regexp.MustCompile(`(?m)^`+name+`:`).Match(makefile) || excepted[name] != "" {
			continue // also a word of the text, such as "make them"
		}
		if !slices.Contains(run, name) {
			t.Errorf("neither .ci/run nor a workflow runs make %s", name)
		}
	}
}
