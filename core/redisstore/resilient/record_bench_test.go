package resilient_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/internal/testkit"
)

const about = `{"host":"web-7d4b9c-x2x1z","pid":1,"started":1700000000000,"version":"v1.42.0","source":"Redis","config":"651580a150aa","follows":true,"changes":"1700000000000-0"}`

// BenchmarkHeartbeat reports the CPU time of Redis for a heartbeat, with 1000 processes of 50 rules.
func BenchmarkHeartbeat(b *testing.B) {
	for _, groups := range []int{1, 3, processes.MaxGroups} {
		b.Run(fmt.Sprint(groups, " groups"), func(b *testing.B) {
			book := newBook(b)
			all := make([]processes.Group, groups)
			for i := range all {
				rules := []string{fmt.Sprintf("A %d", i)}
				for n := range 49 {
					rules = append(rules, fmt.Sprintf("the rule %02d", n))
				}
				all[i] = processes.GroupOf(rules)
			}
			beat := func(i int) {
				i %= 1000
				_, err := book.Beat(b.Context(), processes.Heartbeat{Process: fmt.Sprintf("%016x", i), Group: all[i%groups], About: about})
				testkit.Must(b, err)
			}
			for i := range 1000 {
				beat(i)
			}
			before := book.cpu()
			n := 0
			for b.Loop() {
				beat(n)
				n++
			}
			b.ReportMetric((book.cpu()-before)*1e6/float64(n), "redis-us/op")
		})
	}
}

// cpu returns the CPU time of the server in seconds.
func (b *book) cpu() float64 {
	var user, system float64
	for line := range strings.Lines(b.rdb.Info(b.t.Context(), "cpu").Val()) {
		_, _ = fmt.Sscanf(line, "used_cpu_user:%f", &user)
		_, _ = fmt.Sscanf(line, "used_cpu_sys:%f", &system)
	}
	return user + system
}

// memory returns the memory of the server in bytes.
func (b *book) memory() (n float64) {
	for line := range strings.Lines(b.rdb.Info(b.t.Context(), "memory").Val()) {
		_, _ = fmt.Sscanf(line, "used_memory:%f", &n)
	}
	return n
}

// BenchmarkApplication reports the share of a core of Redis and the memory that 1000 processes of 50 rules with three results
// each take, with heartbeats, looks at switches, figures, and 20 denied keys a minute and process.
func BenchmarkApplication(b *testing.B) {
	book := newBook(b)
	empty := book.memory()
	var names []string
	figures := map[string]processes.Counts{"": {0, 123456, 0, 2345, 0, 0, 0, 0, 12}}
	for n := range 50 {
		names = append(names, fmt.Sprintf("policy%02d.the-rule", n))
		figures[names[n]] = processes.Counts{0, 123456, 0, 2345, 0, 0, 0, 0, 12}
	}
	var rules [][2]string
	for _, name := range names {
		rules = append(rules, [2]string{name + " 12345678", `{"base":{"name":"` + name + `","algorithm":5,"events":100,"per":60000000000},"plans":[{"name":"` + name + `","algorithm":5,"plan":"pro","events":1000,"per":60000000000}]}`})
	}
	group, now := processes.GroupOf(names), book.now()
	_, err := book.Change(b.Context(), func(s *processes.Switches, _ int64) { s.Off = []processes.Switch{{Rule: "policy01", By: "ann"}} })
	testkit.Must(b, err)
	denied := func(n int) map[processes.DeniedKey]uint64 {
		all := make(map[processes.DeniedKey]uint64)
		for i := range 20 {
			all[processes.DeniedKey{Tag: fmt.Sprintf("%022d", (20*n+i)%5000), Rule: names[0]}] = 17
		}
		return all
	}
	for minute := range 121 {
		testkit.Must(b, book.Add(b.Context(), now.Add(-time.Duration(minute)*time.Minute), figures, denied(minute)))
	}
	for hour := range 3 {
		for n := range 60 {
			testkit.Must(b, book.Add(b.Context(), now.Add(-time.Duration(hour)*time.Hour), nil, denied(n)))
		}
	}
	tenSeconds := func(n int) {
		h := processes.Heartbeat{Process: fmt.Sprintf("%016x", n%1000), Group: group, About: about}
		if n%12 == 0 { // every two minutes
			h.Rules = rules
		}
		_, err := book.Beat(b.Context(), h)
		testkit.Must(b, err)
		for range 8 { // one in 1.25 s
			_, err := book.Switches(b.Context())
			testkit.Must(b, err)
		}
		if n%6 == 0 {
			testkit.Must(b, book.Add(b.Context(), now, figures, denied(n)))
		}
	}
	for n := range 1000 {
		tenSeconds(n)
	}
	memory, before, n := book.memory()-empty, book.cpu(), 0
	for b.Loop() {
		tenSeconds(n)
		n++
	}
	b.ReportMetric((book.cpu()-before)*1e6/float64(n), "redis-us/op")
	b.ReportMetric((book.cpu()-before)*100*100/float64(n), "%core") // 100 operations a second
	b.ReportMetric(memory/1e3, "kB")
}
