// Coverage compares a coverage profile with .ci/coverage/coverage.txt, which has the covered statements of each package
// in whole percents, and the badge with that file:
//
//	go run ./.ci/coverage [-write] profile
//
// A figure may differ by one percent, because some tests depend on the order of goroutines. A larger difference in
// either direction, and a package that only one of the two has, is an error: the badge is to be true. With -write, the
// program writes the file and the badge instead.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	module  = "github.com/weir-go/weir"
	figures = ".ci/coverage/coverage.txt"
	picture = "docs/pictures/badge-coverage.svg"
	total   = "total"
)

// tolerance is the difference, in percent, at which a figure still counts as equal.
const tolerance = 1

// A count has the statements of a package, and how many of these were run.
type count struct{ statements, covered int }

func (c count) percent() int {
	if c.statements == 0 {
		return 100
	}
	return c.covered * 100 / c.statements
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("coverage: ")
	write := flag.Bool("write", false, "write the figures and the badge")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: go run ./.ci/coverage [-write] profile")
	}
	counts, err := readProfile(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	percents := map[string]int{}
	for name, c := range counts {
		percents[name] = c.percent()
	}
	if *write {
		if err := os.WriteFile(figures, format(percents), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	want, err := readFigures()
	if err != nil {
		log.Fatal(err)
	}
	faults := compare(percents, want)
	shown := badge("coverage", fmt.Sprintf("%d%%", want[total]))
	if *write {
		err = os.WriteFile(picture, []byte(shown), 0o644)
	} else if got, _ := os.ReadFile(picture); string(got) != shown {
		faults = append(faults, picture+" shows another figure")
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", format(percents))
	if len(faults) > 0 {
		log.Fatalf("\n%s\nIf this is intended, run make coverage COVERAGE=-write, and commit the result.", strings.Join(faults, "\n"))
	}
}

// compare returns the differences of figures that are larger than the tolerance.
func compare(got, want map[string]int) (faults []string) {
	for name, g := range got {
		if w, ok := want[name]; !ok {
			faults = append(faults, name+" is not in "+figures)
		} else if max(g-w, w-g) > tolerance {
			faults = append(faults, fmt.Sprintf("%s: %d%% are covered, %s has %d%%", name, g, figures, w))
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			faults = append(faults, name+" is in "+figures+", and was not measured")
		}
	}
	slices.Sort(faults)
	return faults
}

var profileLine = regexp.MustCompile(`^(\S+):(\S+) (\d+) (\d+)$`)

// readProfile adds up a profile. It has a line for each block of statements and each test program, and a statement is
// covered if one of these has run it.
func readProfile(name string) (map[string]count, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	type block struct{ file, place string }
	statements, covered := map[block]int{}, map[block]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "mode:") {
			continue
		}
		m := profileLine.FindStringSubmatch(lines.Text())
		if m == nil {
			return nil, fmt.Errorf("%s: not a line of a profile: %q", name, lines.Text())
		}
		b := block{m[1], m[2]}
		var n int
		if _, err := fmt.Sscan(m[3], &n); err != nil {
			return nil, err
		}
		statements[b] = n
		covered[b] = covered[b] || m[4] != "0"
	}
	counts := map[string]count{}
	for b, n := range statements {
		for _, name := range []string{total, strings.TrimPrefix(strings.TrimPrefix(path.Dir(b.file), module), "/")} {
			c := counts[name]
			c.statements += n
			if covered[b] {
				c.covered += n
			}
			counts[name] = c
		}
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("%s has no statements", name)
	}
	return counts, lines.Err()
}

// format returns the lines of the file of figures, with the total first.
func format(percents map[string]int) []byte {
	text := fmt.Sprintf("%3d %s\n", percents[total], total)
	for _, name := range slices.Sorted(maps.Keys(percents)) {
		if name != total {
			text += fmt.Sprintf("%3d %s\n", percents[name], name)
		}
	}
	return []byte(text)
}

func readFigures() (map[string]int, error) {
	text, err := os.ReadFile(figures)
	if err != nil {
		return nil, err
	}
	percents := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var n int
		var name string
		if _, err := fmt.Sscan(line, &n, &name); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", figures, line, err)
		}
		percents[name] = n
	}
	return percents, nil
}
