package resilient_test

import (
	"fmt"
	"strings"
	"testing"

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
			cpu := func() (user, system float64) {
				for line := range strings.Lines(book.rdb.Info(b.Context(), "cpu").Val()) {
					_, _ = fmt.Sscanf(line, "used_cpu_user:%f", &user)
					_, _ = fmt.Sscanf(line, "used_cpu_sys:%f", &system)
				}
				return user, system
			}
			user, system := cpu()
			n := 0
			for b.Loop() {
				beat(n)
				n++
			}
			u, s := cpu()
			b.ReportMetric((u+s-user-system)*1e6/float64(n), "redis-us/op")
		})
	}
}
