package load

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// A procCPU measures idle CPU time by the files of Linux. It is used by one
// goroutine at a time.
type procCPU struct {
	read     func(path string) string // "" if it cannot be read
	maxProcs func() int

	last    time.Time
	allowed float64 // CPU seconds that GOMAXPROCS allowed until last
	machine meter
	process meter
	groups  []group
}

func newProcCPU(read func(path string) string, maxProcs func() int) *procCPU {
	return &procCPU{read: read, maxProcs: maxProcs, last: time.Now(), groups: findGroups(read)}
}

// free is the share of CPU time that was idle since the last call.
func (c *procCPU) free() float64 {
	now := time.Now()
	elapsed := now.Sub(c.last).Seconds()
	c.last = now
	// Every meter is read, also when one has said 0 already.
	least := min(c.freeMachine(), c.freeProcess(elapsed))
	for i := range c.groups {
		least = min(least, c.groups[i].free(c.read, elapsed))
	}
	return least
}

func (c *procCPU) freeMachine() float64 {
	now, ok := parseMachine(c.read("/proc/stat"))
	if !ok {
		return 0
	}
	return c.machine.free(now)
}

func (c *procCPU) freeProcess(elapsed float64) float64 {
	c.allowed += elapsed * float64(c.maxProcs())
	used, ok := parseProcess(c.read("/proc/self/stat"))
	if !ok {
		return 0
	}
	return c.process.free(usage{used, c.allowed})
}

// parseMachine reads the usage of all CPUs, in clock ticks, from /proc/stat:
//
//	cpu  user nice system idle iowait irq softirq steal guest guest_nice
//
// Old kernels end sooner. The last two are left out, because user and nice contain
// them. What the hypervisor stole counts as used: it is not to be had.
func parseMachine(text string) (u usage, ok bool) {
	line, _, ended := strings.Cut(text, "\n") // a number at the end of a cut text may be cut itself
	fields := strings.Fields(line)
	if !ended || len(fields) < 5 || fields[0] != "cpu" {
		return usage{}, false
	}
	const idle, iowait, guest = 4, 5, 9
	for i := 1; i < min(guest, len(fields)); i++ {
		ticks, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return usage{}, false
		}
		u.whole += float64(ticks)
		if i != idle && i != iowait {
			u.used += float64(ticks)
		}
	}
	return u, true
}

// ticksPerSecond is the unit of times in /proc/self/stat as programs see them,
// USER_HZ. It is 100 on every platform that Go runs on, whatever the kernel's own
// clock.
const ticksPerSecond = 100

// parseProcess reads the CPU seconds that all threads of a process have used, from
// its /proc/.../stat:
//
//	pid (comm) state ppid pgrp session tty_nr tpgid flags minflt cminflt majflt cmajflt utime stime ...
//
// comm is whatever the process calls itself, spaces, parentheses and new lines
// included; nothing after it has a parenthesis.
func parseProcess(text string) (seconds float64, ok bool) {
	name := strings.LastIndexByte(text, ')')
	if name < 0 {
		return 0, false
	}
	fields := strings.Fields(text[name+1:])
	const utime, stime = 11, 12 // counted from state
	if len(fields) <= stime+1 { // a number at the end of a cut text may be cut itself
		return 0, false
	}
	for _, field := range fields[utime : stime+1] {
		ticks, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, false
		}
		seconds += float64(ticks) / ticksPerSecond
	}
	return seconds, true
}

// maxFile is more than is needed of any file here. /proc/stat goes on with a line
// for every CPU and interrupt.
const maxFile = 4096

// readFile is the beginning of a file, or "" if it cannot be read.
func readFile(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return ""
	}
	return string(text)
}
