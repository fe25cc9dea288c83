package sim

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed")
	seeds     = flag.Int("seeds", 1, "how many seeds to run of each scenario, unless -time is given")
	length    = flag.Duration("time", 0, "how long to run more seeds")
	only      = flag.String("scenario", "", "the scenarios to run, separated by commas; all of them if it is empty")
	dropped   = flag.String("drop", "", "the numbers of the faults to leave out, separated by commas")
	printAll  = flag.Bool("lines", false, "print all that happens")
	printHash = flag.Bool("hash", false, "print a hash of each run")
	noShrink  = flag.Bool("noshrink", false, "do not look for the faults that matter")
	watchdog  = flag.Duration("watchdog", 2*time.Minute, "the real time after which a run is stuck")
)

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	flag.Parse()
	runtime.MemProfileRate = 0 // which draws random numbers
	slog.SetDefault(slog.New(slog.DiscardHandler))
	redis.SetLogger(quiet{})
	os.Exit(m.Run())
}

// guard ends the process if a run is stuck, and says which one. A bubble whose goroutines wait for one another
// ends by itself.
func guard(p scenario, seed uint64) (stop func()) {
	timer := time.AfterFunc(*watchdog, func() {
		buf := make([]byte, 1<<20)
		panic(fmt.Sprintf("the run is stuck: %s\n%s", command(p, seed, nil), buf[:runtime.Stack(buf, true)]))
	})
	return func() { timer.Stop() }
}

// command returns the command that repeats a run until it fails: goroutines run in another order each time.
func command(p scenario, seed uint64, drop []int) string {
	text := fmt.Sprintf("go test ./core/redisstore/internal/sim -run '^TestSim$' -count 50 -failfast -scenario %s -seed %d -noshrink", p.name, seed)
	if len(drop) > 0 {
		text += " -drop " + strings.Trim(strings.ReplaceAll(fmt.Sprint(drop), " ", ","), "[]")
	}
	return text
}

// totals are the sums of runs.
type totals struct {
	runs, commands, calls, lost, violations int
	simulated                               time.Duration
}

// add adds a run, and reports whether it has a violation.
func (n *totals) add(s *simulation) bool {
	n.runs++
	n.commands += s.commands
	n.calls += s.calls
	n.lost += s.places.lost
	n.simulated += s.scenario.length
	if s.failed == nil {
		return false
	}
	n.violations++
	return true
}

// A turn is a scenario that runs with one seed after the other.
type turn struct {
	scenario scenario
	seed     uint64
	took     time.Duration
}

// turns returns the scenarios to run.
func turns() (all []*turn) {
	for _, p := range scenarios {
		if (*only == "" || slices.Contains(strings.Split(*only, ","), p.name)) && !(testing.Short() && p.slow()) {
			all = append(all, &turn{scenario: p, seed: *firstSeed})
		}
	}
	return all
}

// TestSim runs scenarios with some seeds. The last line of its log has the sums. With -time, the scenarios take the
// same time, and not the same number of seeds.
func TestSim(t *testing.T) {
	begun, n, all := time.Now(), new(totals), turns()
	if len(all) == 0 {
		t.Fatalf("no scenario is called %q", *only)
	}
	for {
		next := slices.MinFunc(all, func(a, b *turn) int {
			if *length > 0 {
				return cmp.Compare(a.took, b.took)
			}
			return cmp.Compare(a.seed, b.seed)
		})
		if *length > 0 && time.Since(begun) >= *length || *length == 0 && next.seed >= *firstSeed+uint64(*seeds) {
			break
		}
		start := time.Now()
		next.run(t, n)
		next.took += time.Since(start)
		next.seed++
		if n.violations >= 5 || n.violations > 0 && flag.Lookup("test.failfast").Value.String() == "true" {
			break
		}
	}
	d := time.Since(begun)
	t.Logf("%d runs from seed %d on, %d commands, %d calls, %.1f simulated hours, %d places lost, %d violations in %v (%.0f commands a second)",
		n.runs, *firstSeed, n.commands, n.calls, n.simulated.Hours(), n.lost, n.violations, d.Round(time.Millisecond), float64(n.commands)/d.Seconds())
}

func (u *turn) run(t *testing.T, n *totals) {
	stop := guard(u.scenario, u.seed)
	s := run(t, u.scenario, u.seed, numbers(*dropped), *printAll)
	stop()
	if *printHash {
		fmt.Printf("%s %d %016x: %d commands, %d calls, slowest call %v\n", u.scenario.name, u.seed, s.hash, s.commands, s.calls, s.slowest)
	}
	if n.add(s) {
		t.Error(report(t, s, u.seed))
	}
}

// slow reports whether a run of p takes about a second.
func (p *scenario) slow() bool {
	return slices.Contains([]string{"busy", "cluster", "forgotten", "hot", "lease", "loss", "moved", "overload", "part", "pause", "plain", "replies"}, p.name)
}

func numbers(text string) (all []int) {
	for _, t := range strings.Split(text, ",") {
		if n, err := strconv.Atoi(t); err == nil {
			all = append(all, n)
		}
	}
	return all
}
