// Charts draws the charts of README.md from the figures that the benchmarks have measured, and
// writes the tables of _benchmarks/README.md.
//
//	go run -C _benchmarks ./charts
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/weir-go/weir/benchmarks/figures"
)

func main() {
	files, err := render(".")
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(name, []byte(text), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "charts:", err)
		os.Exit(1)
	}
}

// render returns the texts of README.md and of the charts in folder, by path.
func render(folder string) (map[string]string, error) {
	all, err := figures.Read(filepath.Join(folder, "figures.csv"))
	if err != nil {
		return nil, err
	}
	readme := filepath.Join(folder, "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		return nil, err
	}
	for _, row := range [][2]string{
		{redisTable, redisPeer}, {redisTable, redisWeir}, {decisionTable, "weir"}, {requestTable, "weir"},
		{networkTables + "5ms", "token bucket" + networkCallers},
	} {
		if !slices.Contains(all.Rows(row[0]), row[1]) {
			return nil, fmt.Errorf("the table %q has no row %q", row[0], row[1])
		}
	}
	files := make(map[string]string)
	if files[readme], err = replaceTables(string(text), all); err != nil {
		return nil, err
	}
	for _, t := range themes {
		files[filepath.Join(folder, "charts", "redis-"+t.name+".svg")] = redisChart(all, t)
		files[filepath.Join(folder, "charts", "memory-"+t.name+".svg")] = memoryChart(all, t)
		files[filepath.Join(folder, "charts", "network-"+t.name+".svg")] = networkChart(all, t)
	}
	return files, nil
}

// A table in README.md follows a comment with its name.
var tables = regexp.MustCompile(`(?m)^<!-- table: (.+) -->\n(?:\n(?:\|.*\n)+)?`)

func replaceTables(text string, all figures.Figures) (string, error) {
	var err error
	return tables.ReplaceAllStringFunc(text, func(old string) string {
		name := tables.FindStringSubmatch(old)[1]
		if len(all.Rows(name)) == 0 {
			err = fmt.Errorf("there are no figures of the table %q", name)
		}
		return fmt.Sprintf("<!-- table: %s -->\n\n%s", name, all.Markdown(name))
	}), err
}
