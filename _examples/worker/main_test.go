package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// A done is a job that a process has done.
type done struct {
	process string
	job     int
	at      time.Time
}

var record = regexp.MustCompile(`(?m)^(\d+) did job (\d+) at (\S+)$`)

// jobs returns the jobs that the processes have done, in order.
func jobs(t *testing.T, processes []*demotest.Process) (all []done) {
	t.Helper()
	for _, p := range processes {
		for _, m := range record.FindAllStringSubmatch(p.Output(), -1) {
			job, err := strconv.Atoi(m[2])
			demotest.Must(t, err)
			at, err := time.Parse("15:04:05.000000", m[3])
			demotest.Must(t, err)
			all = append(all, done{m[1], job, at})
		}
	}
	slices.SortFunc(all, func(a, b done) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.job, b.job)) })
	return all
}

// Three processes do 5 jobs a second together, each its part. While Redis is away they do none, and
// try again less and less often. No job is lost or done twice.
func TestThreeProcesses(t *testing.T) {
	redis := redistest.NewServer(t)
	var processes []*demotest.Process
	for range 3 {
		processes = append(processes, demotest.Run(t, "REDIS_URL=redis://"+redis.Addr+"/0"))
	}
	atLeast := func(n int) []done {
		demotest.Until(t, fmt.Sprint(n, " jobs are done"), func() bool { return len(jobs(t, processes)) >= n })
		return jobs(t, processes)
	}
	before := atLeast(20)
	share := make(map[string]int)
	for _, d := range before {
		share[d.process]++
	}
	if len(share) != 3 {
		t.Errorf("got the shares %v, want three", share)
	}
	wantSpaced(t, before)

	demotest.Must(t, redis.Stop())
	stopped := time.Now()
	attempts := func() (n int) {
		for _, p := range processes {
			n += strings.Count(p.Output(), "Redis cannot decide")
		}
		return n
	}
	const all = 3 * workers
	demotest.Until(t, "each worker has paused four times", func() bool { return attempts() >= 4*all })
	outage := time.Since(stopped)
	pauses := 1 // of a worker: at least 50, 100, 200 ms, ...
	for shortest := firstPause / 2; shortest < outage; shortest += min(2*shortest, longestPause/2) {
		pauses++
	}
	if got := attempts(); got > all*(pauses+1) {
		t.Errorf("got %d attempts in %v, want at most %d for each of %d workers", got, outage, pauses+1, all)
	}
	away := len(jobs(t, processes))
	if away > len(before)+5+3 { // that were admitted already
		t.Errorf("got %d jobs after %d without Redis", away, len(before))
	}

	demotest.Must(t, redis.Start())
	after := atLeast(away + 15)
	wantSpaced(t, after[away+3:]) // the new Redis knows nothing of the jobs before
	last := make(map[string][]int)
	for _, d := range after {
		last[d.process] = append(last[d.process], d.job)
	}
	for process, done := range last {
		slices.Sort(done)
		n := len(done)
		// The workers may still have the jobs that are missing.
		if len(slices.Compact(slices.Clone(done))) != n || slices.Max(done)-n >= workers {
			t.Errorf("process %s did the jobs %v, want each once", process, done)
		}
	}
}

// wantSpaced fails the test unless at most 5 jobs were done in any second, and one more because the
// processes print them a moment later.
func wantSpaced(t *testing.T, all []done) {
	t.Helper()
	const atMost = 6
	for i := range all[:max(0, len(all)-atMost)] {
		if span := all[i+atMost].at.Sub(all[i].at); span < 900*time.Millisecond {
			t.Errorf("got %d jobs in %v, want %d in a second at most", atMost+1, span, atMost)
		}
	}
}
