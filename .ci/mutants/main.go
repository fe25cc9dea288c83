// Mutants changes one place of the library at a time, runs the tests, and prints which changes they notice.
//
//	go run ./.ci/mutants                        # 20 changes of each package but core/redisstore, from seed 1
//	go run ./.ci/mutants -packages core/redisstore
//	go run ./.ci/mutants -faults                # puts known faults back, one after the other
//	go run ./.ci/mutants -simulated             # the changes that the simulation has to notice
//
// A change that no test notices is a missing test, dead code, or equivalent: read it. The files of the
// repository stay as they are, because the go command gets each change as an overlay.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// defaults are the packages without core/redisstore, whose tests need servers.
const defaults = "core,core/driver,core/memstore,core/failover,core/lease,core/denycache,core/gate,keyfunc,core/rules,core/rules/internal/document,core/rules/internal/overrides"

func main() {
	log.SetFlags(0)
	packages := flag.String("packages", defaults, "the `packages` to change, separated by commas")
	n := flag.Int("n", 20, "the `number` of changes of each package")
	seed := flag.Uint64("seed", 1, "the `seed` of the choice")
	limit := flag.Duration("timeout", 2*time.Minute, "the longest `time` of the tests of one package")
	onlyFaults := flag.Bool("faults", false, "put the known faults back, instead of random changes")
	onlySimulated := flag.Bool("simulated", false, "make the changes that the simulation has to notice")
	out := flag.String("out", "", "a `file` for the table, besides the terminal")
	flag.Parse()

	root, err := goCommand("", "list", "-m", "-f", "{{.Dir}}", strings.TrimSuffix(modulePath, "/"))
	fatal(err)
	fatal(os.Setenv("GOWORK", filepath.Join(strings.TrimSpace(root), "cmd", "weir", "go.work"))) // or tests of other modules could not run
	fatal(os.Setenv("WEIR_POSTGRES_ALL", "1"))
	r := &runner{root: strings.TrimSpace(root), limit: *limit}
	r.dir, err = os.MkdirTemp("", "weir-mutants-")
	fatal(err)
	defer os.RemoveAll(r.dir)

	t := newTable(*out)
	var list []fault
	switch {
	case *onlyFaults:
		list = faults
	case *onlySimulated:
		list = simulated
	}
	if list != nil {
		for _, f := range list {
			m, err := f.mutant(r.root)
			fatal(err)
			result := r.try(m, []string{f.test})
			if result.killer == invalid {
				fatal(fmt.Errorf("%q cannot be compiled", f.name))
			}
			t.add(f.name, m, result)
		}
		t.end()
		return
	}
	names := strings.Split(*packages, ",")
	fatal(r.measure(names))
	for _, name := range names {
		all, err := find(r.root, name)
		fatal(err)
		random := rand.New(rand.NewPCG(*seed, uint64(len(name))))
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		tried := 0
		for _, m := range all {
			if tried == *n {
				break
			}
			if result := r.try(m, r.testsOf(name, m)); result.killer != invalid {
				t.add(name, m, result)
				tried++
			}
		}
	}
	t.end()
}

// table prints the results.
type table struct {
	out            *os.File // besides the terminal, or nil
	begun          time.Time
	died, survived int
}

func newTable(path string) *table {
	t := &table{begun: time.Now()}
	if path != "" {
		var err error
		t.out, err = os.Create(path)
		fatal(err)
	}
	t.print("| package or fault | place | change | died by | s |\n|---|---|---|---|---|")
	return t
}

func (t *table) print(line string) {
	fmt.Println(line)
	if t.out != nil {
		fmt.Fprintln(t.out, line)
	}
}

// add prints a row.
func (t *table) add(name string, m mutant, r result) {
	if r.killer == "" {
		r.killer = "**survived**"
		t.survived++
	} else {
		t.died++
	}
	t.print(fmt.Sprintf("| %s | %s:%d | `%s` | %s | %.1f |", name, m.name, m.line, m.change(), r.killer, r.took.Seconds()))
}

func (t *table) end() {
	t.print(fmt.Sprintf("\n%d died, %d survived, in %s", t.died, t.survived, time.Since(t.begun).Round(time.Second)))
}

func fatal(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
