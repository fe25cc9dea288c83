// Exact runs the simulation with a changed Go runtime, so that a seed makes the same run each time, bit for
// bit. It is for debugging: the first build takes minutes.
//
//	go run ./.ci/exact -scenario plain -seed 7 -lines
//
// The arguments are those of the test. With the ordinary runtime, the order of goroutines, of cases of a
// select, of maps and of timers of one moment differs between runs, as do random numbers. Here each bubble of
// testing/synctest has a state for each of these, one processor runs it, and no goroutine is preempted. The
// changes are an overlay of the go command: 30 lines in five files of package runtime. On a version of Go that
// they do not fit, Exact ends with an error.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// An edit replaces old, which is in the file once.
type edit struct{ file, old, with string }

var edits = []edit{
	{"rand.go", "func rand() uint64 {\n", `func rand() uint64 {
	if b := getg().bubble; b != nil {
		return simrand(&b.simRand)
	}
`},
	{"rand.go", "func maps_rand() uint64 {\n", `func maps_rand() uint64 {
	if b := getg().bubble; b != nil {
		return simrand(&b.simMaps)
	}
`},
	{"rand.go", "//go:linkname maps_rand internal", `// simrand returns the next random number of a bubble.
//
//go:nosplit
func simrand(state *uint64) uint64 {
	*state += 0xa0761d6478bd642f
	hi, lo := math.Mul64(*state, *state^0xe7037ed1a0b428db)
	return hi ^ lo
}

// simcheaprand is cheaprand for the order of selects and timers.
//
//go:nosplit
func simcheaprand() uint32 {
	if b := getg().bubble; b != nil {
		return uint32(simrand(&b.simOrder) >> 32)
	}
	return cheaprand()
}

//go:linkname maps_rand internal`},
	{"select.go", "j := cheaprandn(uint32(norder + 1))", "j := uint32((uint64(simcheaprand()) * uint64(norder+1)) >> 32)"},
	{"time.go", "t.rand = cheaprand()", "t.rand = simcheaprand()"},
	{"synctest.go", "\tnow     int64  // current fake time\n", "\tnow     int64  // current fake time\n\tsimRand, simMaps, simOrder uint64\n"},
	{"synctest.go", "\tbubble.now = synctestBaseTime\n", "\tbubble.now = synctestBaseTime\n\tgp.m.p.ptr().schedtick = 0\n"},
	{"proc.go", "const forcePreemptNS = 10 * 1000 * 1000 // 10ms", "const forcePreemptNS = 1000 * 1000 * 1000 * 1000"},
}

func main() {
	log.SetFlags(0)
	dir, err := os.MkdirTemp("", "weir-exact-")
	check(err)
	err = run(dir)
	_ = os.RemoveAll(dir)
	check(err)
}

// run writes the overlay into dir and runs the test with it.
func run(dir string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "runtime")
	texts := map[string]string{}
	for _, e := range edits {
		if texts[e.file] == "" {
			text, err := os.ReadFile(filepath.Join(source, e.file))
			if err != nil {
				return err
			}
			texts[e.file] = string(text)
		}
		if n := strings.Count(texts[e.file], e.old); n != 1 {
			return fmt.Errorf("exact does not fit %s: %q is in runtime/%s %d times", runtime.Version(), e.old, e.file, n)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.old, e.with, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		replace[filepath.Join(source, file)] = filepath.Join(dir, file)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return err
	}
	args := []string{"test", "-overlay", path, "-vet=off", "-count=1", "-v", "-run", "^TestSim$", "github.com/weir-go/weir/core/redisstore/internal/sim", "-hash", "-noshrink"}
	c := exec.Command("go", append(args, os.Args[1:]...)...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
