package load

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseGroup(t *testing.T) {
	for _, c := range []struct {
		text, want string
		ok         bool
	}{
		{"0::/\n", "/", true},
		{"0::/user.slice/user-1000.slice/session-1.scope\n", "/user.slice/user-1000.slice/session-1.scope", true},
		{"12:cpu,cpuacct:/docker/7f\n1:name=systemd:/docker/7f\n0::/docker/7f\n", "/docker/7f", true},
		{"0::/a:b c\n", "/a:b c", true},
		{"0::/gone (deleted)\n", "/gone (deleted)", true},
		{"0::/a/../b/", "/b", true},
		{"0::/..dots\n", "/..dots", true},
		{"0::/../../other\n", "/other", false},
		{"0::/..\n", "/", false},
		{"1:cpu:/\n", "", false},
		{"10::/x\n", "", false},
		{"0::relative\n", "", false},
		{"", "", false},
	} {
		if got, ok := parseGroup(c.text); ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %q, %t, want %q, %t", c.text, got, ok, c.want, c.ok)
		}
	}
}

func TestParseQuota(t *testing.T) {
	for text, want := range map[string]float64{
		"50000 100000\n": 0.5, "150000 100000\n": 1.5, "200000 50000": 4, "max 100000\n": math.Inf(1),
	} {
		if got, ok := parseQuota(text); got != want || !ok {
			t.Errorf("%q: %v, %t, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "max\n", "max 0\n", "0 100000\n", "50000 0\n", "-1 100000\n", "1 2 3\n", "max max\n", "NaN 1\n", "18446744073709551616 1\n"} {
		if got, ok := parseQuota(text); ok {
			t.Errorf("%q: %v, want nothing", text, got)
		}
	}
}

func TestParseGroupUsage(t *testing.T) {
	for _, text := range []string{
		"usage_usec 2500000\nuser_usec 1\nsystem_usec 2\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
		"user_usec 1\nusage_usec 2500000", // the order is nobody's promise
	} {
		if got, ok := parseGroupUsage(text); got != 2.5 || !ok {
			t.Errorf("%q: %v, %t, want 2.5 s", text, got, ok)
		}
	}
	for _, text := range []string{"", "user_usec 1\n", "usage_usec\n", "usage_usec \n", "usage_usec -1\n", "usage_usec 1 2\n", "xusage_usec 1\n", "usage_usec 1e9\n"} {
		if got, ok := parseGroupUsage(text); ok {
			t.Errorf("%q: %v s, want nothing", text, got)
		}
	}
}

func TestFindGroups(t *testing.T) {
	const own = "0::/system.slice/app.service/worker\n"
	for _, c := range []struct {
		say   string
		files fakeProc
		want  []string
	}{
		{"a container sees its own as the root",
			fakeProc{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n"},
			[]string{"/sys/fs/cgroup"}},
		{"a service, whose worker has no CPU controller",
			fakeProc{
				"/proc/self/cgroup": own,
				"/sys/fs/cgroup/system.slice/app.service/cpu.max": "50000 100000\n",
				"/sys/fs/cgroup/system.slice/cpu.max":             "max 100000\n",
				"/sys/fs/cgroup/other.slice/cpu.max":              "max 100000\n",
			},
			[]string{"/sys/fs/cgroup/system.slice/app.service", "/sys/fs/cgroup/system.slice"}},
		{"a path of the host in a container that mounts its own group",
			fakeProc{"/proc/self/cgroup": own, "/sys/fs/cgroup/cpu.max": "50000 100000\n"},
			[]string{"/sys/fs/cgroup"}},
		{"version 1", fakeProc{"/proc/self/cgroup": "2:cpu:/docker/7f\n0::/docker/7f\n", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n"}, nil},
		{"outside of the namespace", fakeProc{"/proc/self/cgroup": "0::/../app\n", "/sys/fs/cgroup/cpu.max": "50000 100000\n", "/sys/fs/cgroup/app/cpu.max": "1000 100000\n"}, nil},
		{"no control groups", fakeProc{}, nil},
	} {
		var dirs []string
		for _, g := range findGroups(c.files.read) {
			dirs = append(dirs, g.dir)
		}
		if !slices.Equal(dirs, c.want) {
			t.Errorf("%s: %q, want %q", c.say, dirs, c.want)
		}
	}
}

// The quotas are half a CPU for the service and four for the slice that it is in;
// GOMAXPROCS is 2, the least that Go sets for a quota.
func TestIdleCPUOfAQuota(t *testing.T) {
	const service, slice = "/sys/fs/cgroup/system.slice/app.service", "/sys/fs/cgroup/system.slice"
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMachine()
		serviceUsed, sliceUsed := 1_000_000, 700_000_000
		quota := "50000 100000\n"
		write := func() {
			m.write()
			m.fakeProc["/proc/self/cgroup"] = "0::/system.slice/app.service\n"
			m.fakeProc[service+"/cpu.max"] = quota
			m.fakeProc[slice+"/cpu.max"] = "400000 100000\n"
			m.fakeProc[service+"/cpu.stat"] = fmt.Sprintf("usage_usec %d\nuser_usec 1\n", serviceUsed)
			m.fakeProc[slice+"/cpu.stat"] = fmt.Sprintf("usage_usec %d\nuser_usec 1\n", sliceUsed)
		}
		write()
		cpu := newProcCPU(m.read, m.maxProcs)
		if got := cpu.free(); got != 0 {
			t.Fatalf("the first sample says %v, want 0", got)
		}
		for _, step := range []struct {
			say    string
			change func()
			want   float64
		}{
			{"nothing used", func() {}, 1},
			{"half of the quota, an eighth of GOMAXPROCS", func() { m.utime += 25; serviceUsed += 250_000; sliceUsed += 250_000 }, 0.5},
			{"all of the quota", func() { m.utime += 50; serviceUsed += 500_000; sliceUsed += 500_000 }, 0},
			{"others in the group", func() { serviceUsed += 400_000; sliceUsed += 400_000 }, 0.2},
			{"others in the group above", func() { sliceUsed += 3_600_000 }, 0.1},
			{"a larger quota", func() { quota = "100000 100000\n"; serviceUsed += 250_000 }, 0.75},
			{"no quota any more", func() { quota = "max 100000\n"; serviceUsed += 100_000 }, 1},
			{"a new quota: nothing is known about it yet", func() { quota = "50000 100000\n" }, 0},
			{"a new quota: now it is", func() { serviceUsed += 250_000 }, 0.5},
			{"a quota that cannot be read", func() { quota = "" }, 0},
			{"it is back", func() { quota = "50000 100000\n" }, 1},
		} {
			time.Sleep(time.Second)
			m.idle += 6400
			step.change()
			write()
			if got := cpu.free(); math.Abs(got-step.want) > 1e-9 {
				t.Errorf("%s: %v is free, want %v", step.say, got, step.want)
			}
		}
		time.Sleep(time.Second)
		m.idle += 6400
		write()
		delete(m.fakeProc, service+"/cpu.stat")
		if got := cpu.free(); got != 0 {
			t.Errorf("a usage that cannot be read: %v is free, want 0", got)
		}
	})
}
