package simulate

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// simulated runs traffic through a limiter of each rule, in a simulation of its own.
func simulated(t testing.TB, traffic Traffic, rules ...core.Rule) []*Policy {
	t.Helper()
	var all []*Policy
	for _, r := range rules {
		s := New()
		l, err := core.New(s.Store(), r)
		if err != nil {
			t.Fatal(err)
		}
		p := s.Add(r.Name(), l)
		all = append(all, p)
		for e := range traffic {
			if _, err := s.Decide(t.Context(), p, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

func five(l core.Limit) []core.Rule {
	return []core.Rule{core.TokenBucket("token_bucket", l), core.LeakyBucket("leaky_bucket", l), core.FixedWindow("fixed_window", l), core.SlidingLog("sliding_log", l), core.SlidingWindow("sliding_window", l)}
}

// The most that an adversary gets in any window is the figure of the documentation of each algorithm.
func TestGenerator_Adversary(t *testing.T) {
	for _, l := range []core.Limit{core.PerMinute(100), core.PerSecond(7), core.Per(3, 10*time.Millisecond), core.PerHour(5), core.PerDay(2000)} {
		g, _, err := ParseGenerator("adversary:clients=2")
		if err != nil {
			t.Fatal(err)
		}
		n := int64(l.Events)
		want := map[string]int64{"token_bucket": 2*n - 1, "leaky_bucket": n, "fixed_window": 2 * n, "sliding_log": n, "sliding_window": n}
		for _, r := range five(l) {
			g.Targets = []core.Rule{r}
			p := simulated(t, g.Traffic(), r)[0]
			if got := p.Rules[0].Worst; got.Admitted != want[r.Name()] || got.Limit != l || got.AtLeast {
				t.Errorf("%v, %s: got at most %d of %v, want %d", l, r.Name(), got.Admitted, got.Limit, want[r.Name()])
			}
		}
	}
}

func BenchmarkSimulation(b *testing.B) {
	for _, r := range five(core.PerMinute(100)) {
		b.Run(r.Name(), func(b *testing.B) {
			g, _, _ := ParseGenerator("poisson:rate=150/m,clients=10000,for=8000h")
			s := New()
			p := s.Add("p", core.Must(core.New(s.Store(), r)))
			b.ReportAllocs()
			b.ResetTimer()
			n := 0
			for e := range g.Traffic() {
				if n == b.N {
					break
				}
				n++
				if _, err := s.Decide(b.Context(), p, e); err != nil {
					b.Fatal(err)
				}
			}
			if n != b.N {
				b.Fatal(fmt.Sprint(n))
			}
		})
	}
}
