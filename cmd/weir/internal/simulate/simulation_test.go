package simulate

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// simulated runs traffic through a limiter of each rule, in a simulation of its own.
func simulated(t testing.TB, traffic Traffic, rules ...core.Rule) []*Policy {
	t.Helper()
	var all []*Policy
	for _, r := range rules {
		s := New()
		l, err := core.New(s.Store(), r)
		testkit.Must(t, err)
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

// each returns a rule of each algorithm of rates.
func each(l core.Limit) (all []core.Rule) {
	for _, a := range testkit.Algorithms {
		all = append(all, a.Rule(a.Name, l))
	}
	return all
}

// The most that an adversary gets in any window is the figure of the documentation of each algorithm.
func TestGenerator_Adversary(t *testing.T) {
	for _, l := range []core.Limit{core.PerMinute(100), core.PerSecond(7), core.Per(3, 10*time.Millisecond), core.PerHour(5), core.PerDay(2000)} {
		g, _, err := ParseGenerator("adversary:clients=2")
		testkit.Must(t, err)
		n := int64(l.Events)
		more := map[string]int64{"token_bucket": n - 1, "fixed_window": n, "fixed_window_from_first": n - 1} // than the limit
		for _, r := range each(l) {
			g.Targets = []core.Rule{r}
			p := simulated(t, g.Traffic(), r)[0]
			if got := p.Rules[0].Worst; got.Admitted != n+more[r.Name()] || got.Limit != l || got.AtLeast {
				t.Errorf("%v, %s: got at most %d of %v, want %d", l, r.Name(), got.Admitted, got.Limit, n+more[r.Name()])
			}
		}
	}
}

// The counts of policies, clients and the timeline are consistent, also with many keys.
func TestSimulation_ManyKeys(t *testing.T) {
	s := New()
	var policies []*Policy
	for i, r := range append(each(core.PerHour(2)), core.Quota("quota", core.Monthly(2))) {
		l := core.Must(core.New(s.Store(), r, core.FixedWindow(fmt.Sprint("second of ", i), core.PerSecond(1))))
		policies = append(policies, s.Add(r.Name(), l))
	}
	policies = append(policies, nil)
	g, _, err := ParseGenerator("steady:clients=65536,rate=2/s,for=1s")
	testkit.Must(t, err)
	requests, limited, allowed := uint64(0), uint64(0), uint64(0)
	for e := range g.Traffic() {
		p := policies[requests%65536%uint64(len(policies))]
		if p != nil {
			limited++
		}
		d, err := s.Decide(t.Context(), p, e)
		testkit.Must(t, err)
		if requests++; d.Allowed {
			allowed++
		}
	}
	var sum Policy
	for _, p := range s.Policies {
		if p.Requests != p.Admitted+p.Denied || p.Delayed > p.Admitted || p.RetryAfter.Count+p.Never != p.Denied || p.Denied == 0 {
			t.Errorf("got %+v", p)
		}
		sum.Requests += p.Requests
		sum.Denied += p.Denied
		sum.Delayed += p.Delayed
		for _, r := range p.Rules {
			if r.Admitted+r.Denied != p.Requests {
				t.Errorf("policy %s: rule %s has %d and %d of %d requests", p.Name, r.Rule.Name(), r.Admitted, r.Denied, p.Requests)
			}
		}
	}
	var clients Client
	for _, c := range s.Clients {
		clients.Requests += c.Requests
		clients.Denied += c.Denied
		clients.Delayed += c.Delayed
	}
	var bins Bin
	for _, b := range s.Timeline.Bins {
		bins.Admitted += b.Admitted
		bins.Denied += b.Denied
	}
	if n := len(s.Clients); n != 65536 || clients.Requests != requests || clients.Denied != sum.Denied || clients.Delayed != sum.Delayed {
		t.Errorf("%d clients have %+v of %d requests", n, clients, requests)
	}
	if denied := requests - allowed; denied != sum.Denied || bins != (Bin{allowed, denied}) || sum.Requests != limited {
		t.Errorf("got %+v, and the bins %+v, of %d requests", sum, bins, requests)
	}
}

func BenchmarkSimulation(b *testing.B) {
	for _, r := range each(core.PerMinute(100)) {
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
