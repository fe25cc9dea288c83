package load

import (
	"math"
	"path"
	"strconv"
	"strings"
)

const groupRoot = "/sys/fs/cgroup"

// A group is a control group of version 2, and what it has used of its quota. All
// processes in it and below share that, so it is not enough to look at this one.
type group struct {
	dir     string
	allowed float64 // CPU seconds that the quota allowed so far
	meter   meter
}

// findGroups lists the groups that bound this process: its own and those above.
// Inside a container the first one that can be seen is often the root, which
// looks like any other group then. The real root has no cpu.max, and neither have
// groups without the CPU controller.
func findGroups(read func(path string) string) (groups []group) {
	own, ok := parseGroup(read("/proc/self/cgroup"))
	if !ok {
		return nil
	}
	for p := own; ; p = path.Dir(p) {
		dir := path.Join(groupRoot, p)
		if read(dir+"/cpu.max") != "" {
			groups = append(groups, group{dir: dir})
		}
		if p == "/" {
			return groups
		}
	}
}

// free is the share of the quota that is left of the time since the last call; all
// of it if there is no quota, which can change at any time.
func (g *group) free(read func(path string) string, elapsed float64) float64 {
	cpus, ok := parseQuota(read(g.dir + "/cpu.max"))
	if !ok {
		return 0
	}
	if math.IsInf(cpus, 1) {
		*g = group{dir: g.dir}
		return 1
	}
	g.allowed += elapsed * cpus
	used, ok := parseGroupUsage(read(g.dir + "/cpu.stat"))
	if !ok {
		return 0
	}
	return g.meter.free(usage{used, g.allowed})
}

// parseGroup reads the group of version 2 from /proc/self/cgroup: the line
// "0::/path". Lines with other numbers are of version 1.
func parseGroup(text string) (p string, ok bool) {
	for line := range strings.Lines(text) {
		p, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::/")
		if !found {
			continue
		}
		// ".." is said of a process outside what its namespace shows: what can be seen
		// does not bound it.
		return path.Clean("/" + p), p != ".." && !strings.HasPrefix(p, "../")
	}
	return "", false
}

// parseQuota reads how many CPUs a group may use from its cpu.max: "$MAX $PERIOD"
// in microseconds, where "max" is no quota and infinitely many.
func parseQuota(text string) (cpus float64, ok bool) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return 0, false
	}
	period, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil || period == 0 {
		return 0, false
	}
	if fields[0] == "max" {
		return math.Inf(1), true
	}
	quota, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil || quota == 0 {
		return 0, false
	}
	return float64(quota) / float64(period), true
}

// parseGroupUsage reads the CPU seconds that a group has used from its cpu.stat:
// the line "usage_usec $MICROSECONDS".
func parseGroupUsage(text string) (seconds float64, ok bool) {
	for line := range strings.Lines(text) {
		value, found := strings.CutPrefix(line, "usage_usec ")
		if !found {
			continue
		}
		usec, err := strconv.ParseUint(strings.TrimSuffix(value, "\n"), 10, 64)
		return float64(usec) / 1e6, err == nil
	}
	return 0, false
}
