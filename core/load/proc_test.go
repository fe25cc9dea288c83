package load

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const bigStat = `cpu  10132153 290696 3084719 46828483 16683 0 25195 1397 175628 120
cpu0 1393280 32966 572056 13343292 6130 0 17875 0 23933 0
cpu1 1335281 31241 566122 13485191 4120 0 1295 0 21933 0
intr 1462898 0 9 0 0 0 0 0 0
ctxt 115315
btime 1769041601
processes 86031
`

func TestParseMachine(t *testing.T) {
	for _, c := range []struct {
		say, text string
		want      usage
		ok        bool
	}{
		{"guest time is in user and nice already", bigStat, usage{
			used:  10132153 + 290696 + 3084719 + 0 + 25195 + 1397,
			whole: 10132153 + 290696 + 3084719 + 0 + 25195 + 1397 + 46828483 + 16683,
		}, true},
		{"Linux 2.4 knew four", "cpu  1 2 3 4\n", usage{6, 10}, true},
		{"later kernels may know more", "cpu  1 2 3 4 5 6 7 8 9 10 x\n", usage{1 + 2 + 3 + 6 + 7 + 8, 36}, true},
		{"a sandbox knows none", "cpu  0 0 0 0 0 0 0 0 0 0\n", usage{0, 0}, true},
		{"counters of 64 bits", "cpu  18446744073709551615 0 0 18446744073709551615\n", usage{1 << 64, 1 << 65}, true},

		{"nothing", "", usage{}, false},
		{"an empty line", "\n" + bigStat, usage{}, false},
		{"cut off within a number", "cpu  1 2 3 4", usage{}, false},
		{"too short", "cpu  1 2 3\n", usage{}, false},
		{"one CPU is not all of them", "cpu0 1 2 3 4 5 6 7 8\n", usage{}, false},
		{"negative", "cpu  1 2 3 -4 5 6 7 8\n", usage{}, false},
		{"beyond 64 bits", "cpu  1 2 3 18446744073709551616 5 6 7 8\n", usage{}, false},
		{"not a number", "cpu  NaN 2 3 4 5 6 7 8\n", usage{}, false},
		{"a fraction", "cpu  1.5 2 3 4 5 6 7 8\n", usage{}, false},
		{"in another base", "cpu  0x1 2 3 4 5 6 7 8\n", usage{}, false},
	} {
		if got, ok := parseMachine(c.text); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %t, want %+v, %t", c.say, got, ok, c.want, c.ok)
		}
	}
}

// processStat is a /proc/self/stat with a name and two times.
func processStat(comm string, utime, stime uint64) string {
	return fmt.Sprintf("30518 (%s) S 30502 30502 29853 0 -1 4194304 101 7 8 9 %d %d 55 66 20 0 1 0 1142088 3133440 356 18446744073709551615 "+
		"94612983111680 94612983131561 140722422264640 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n", comm, utime, stime)
}

func TestParseProcess(t *testing.T) {
	for _, comm := range []string{"server", "", "a b", "(sd-pam)", "x) S 1 2 3 4", ")))", "two\nlines", "7 (y) R"} {
		if got, ok := parseProcess(processStat(comm, 1234, 66)); got != 13 || !ok {
			t.Errorf("of %q: %v, %t, want 13 s", comm, got, ok)
		}
	}
	for say, text := range map[string]string{
		"nothing":             "",
		"no name":             "30518 cat R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
		"cut off in the name": "30518 (cat R 1 2 3 4 5 6 7",
		"cut off in stime":    "1 (cat) S 1 1 1 0 -1 4 1 7 8 9 1234 6",
		"negative":            strings.Replace(processStat("cat", 1, 99), " 99 ", " -99 ", 1),
		"beyond 64 bits":      strings.Replace(processStat("cat", 1, 99), " 99 ", " 18446744073709551616 ", 1),
		"not a number":        strings.Replace(processStat("cat", 1, 99), " 99 ", " Inf ", 1),
		"nothing but a name":  ")",
	} {
		if got, ok := parseProcess(text); ok {
			t.Errorf("%s: %v s, want nothing", say, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		bigStat, processStat("a) b", 7, 9), "0::/user.slice/a.scope\n", "1:cpu:/\n0::/../x\n",
		"max 100000\n", "50000 100000\n", "usage_usec 17\nuser_usec 16\n", "cpu  1 2 3 4", "",
	} {
		f.Add(text)
	}
	fine := func(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }
	f.Fuzz(func(t *testing.T, text string) {
		if u, ok := parseMachine(text); ok && !(fine(u.used) && fine(u.whole) && u.used <= u.whole) {
			t.Errorf("machine: %+v", u)
		}
		if s, ok := parseProcess(text); ok && !fine(s) {
			t.Errorf("process: %v s", s)
		}
		if s, ok := parseGroupUsage(text); ok && !fine(s) {
			t.Errorf("group: %v s", s)
		}
		if cpus, ok := parseQuota(text); ok && !(cpus > 0) {
			t.Errorf("quota: %v", cpus)
		}
		if p, ok := parseGroup(text); ok && (!strings.HasPrefix(p, "/") || strings.Contains(p+"/", "/../")) {
			t.Errorf("group: %q", p)
		}
	})
}

// A process may call itself what it likes.
func FuzzProcessName(f *testing.F) {
	f.Add("server", uint64(1234), uint64(66))
	f.Add(") R 1 1 1 1 1 1 1 1 1 1 1 1 1 1", uint64(0), uint64(1<<64-1))
	f.Fuzz(func(t *testing.T, comm string, utime, stime uint64) {
		want := float64(utime)/100 + float64(stime)/100
		if got, ok := parseProcess(processStat(comm, utime, stime)); got != want || !ok {
			t.Errorf("%v, %t, want %v s", got, ok, want)
		}
	})
}

// A fakeProc is the files of a machine that a test runs.
type fakeProc map[string]string

func (p fakeProc) read(path string) string { return p[path] }

// A fakeMachine has ticks and writes them down as Linux does.
type fakeMachine struct {
	fakeProc
	user, nice, system, idle, iowait, irq, softirq, steal, guest uint64
	utime, stime                                                 uint64 // of the process
	procs                                                        int
}

func newFakeMachine() *fakeMachine {
	m := &fakeMachine{fakeProc: fakeProc{}, user: 826537, system: 221841, idle: 1184879, utime: 12, stime: 3, procs: 2}
	m.write()
	return m
}

func (m *fakeMachine) maxProcs() int { return m.procs }

func (m *fakeMachine) write() {
	m.fakeProc["/proc/stat"] = fmt.Sprintf("cpu  %d %d %d %d %d %d %d %d %d 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n",
		m.user, m.nice, m.system, m.idle, m.iowait, m.irq, m.softirq, m.steal, m.guest)
	m.fakeProc["/proc/self/stat"] = processStat("my (server) x", m.utime, m.stime)
}

func TestIdleCPUOfLinux(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMachine()
		cpu := newProcCPU(m.read, m.maxProcs)
		if got := cpu.free(); got != 0 {
			t.Fatalf("the first sample says %v, want 0", got)
		}
		for _, step := range []struct {
			say    string
			after  time.Duration
			change func()
			want   float64
		}{
			{"all idle", time.Second, func() { m.idle += 200 }, 1},
			{"a quarter busy with others", time.Second, func() { m.user += 25; m.system += 25; m.idle += 150 }, 0.75},
			{"waiting for a disk is idle", time.Second, func() { m.iowait += 100; m.idle += 50; m.user += 50 }, 0.75},
			{"interrupts are not", time.Second, func() { m.irq += 20; m.softirq += 30; m.idle += 150 }, 0.75},
			{"nor is what the hypervisor took", time.Second, func() { m.steal += 50; m.idle += 150 }, 0.75},
			{"a guest counts once", time.Second, func() { m.user += 50; m.guest += 50; m.idle += 150 }, 0.75},
			{"the process counts against GOMAXPROCS", time.Second, func() { m.utime += 60; m.stime += 40; m.idle += 800 }, 0.5},
			{"for as long as it took", 4 * time.Second, func() { m.utime += 100; m.idle += 800 }, 0.875},
			{"the scarcer counts", time.Second, func() { m.utime += 50; m.user += 150; m.idle += 50 }, 0.25},
			{"a new GOMAXPROCS", time.Second, func() { m.procs = 4; m.utime += 100; m.idle += 800 }, 0.75},
			{"held back by a quota of GOMAXPROCS", time.Second, func() { m.utime += 400; m.idle += 6400 }, 0},
			{"more than there can be", time.Second, func() { m.utime += 900; m.idle += 800 }, 0},
			{"iowait may go back", time.Second, func() { m.iowait -= 50; m.idle += 250; m.user += 200 }, 0.5},
			{"a machine that stands still", time.Second, func() {}, 0},
			{"and goes on", time.Second, func() { m.idle += 200 }, 1},
			{"counters that start again", time.Second, func() { m.user, m.idle = 10, 20 }, 0},
			{"and count from there", time.Second, func() { m.user, m.idle = 60, 170 }, 0.75},
		} {
			time.Sleep(step.after)
			step.change()
			m.write()
			if got := cpu.free(); math.Abs(got-step.want) > 1e-9 {
				t.Errorf("%s: %v is free, want %v", step.say, got, step.want)
			}
		}
	})
}

func TestAFileThatCannotBeReadLeavesNothingFree(t *testing.T) {
	for _, file := range []string{"/proc/stat", "/proc/self/stat"} {
		for _, text := range []string{"", "rubbish\n", "cpu  x x x x x\n", "1 (a) S 1 2"} {
			synctest.Test(t, func(t *testing.T) {
				m := newFakeMachine()
				cpu := newProcCPU(m.read, m.maxProcs)
				cpu.free()
				second := func(file, text string) float64 {
					time.Sleep(time.Second)
					m.idle += 150
					m.user += 50
					m.utime += 10
					m.write()
					if file != "" {
						m.fakeProc[file] = text
					}
					return cpu.free()
				}
				if got := second("", ""); got != 0.75 {
					t.Fatalf("before: %v, want 0.75", got)
				}
				if got := second(file, text); got != 0 {
					t.Errorf("%s is %q: %v, want 0", file, text, got)
				}
				// What was missed is made up for.
				if got := second("", ""); got != 0.75 {
					t.Errorf("%s is back after %q: %v, want 0.75", file, text, got)
				}
			})
		}
	}
}
