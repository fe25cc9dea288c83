package pgtests

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
	"github.com/weir-go/weir/internal/testkit"
)

// shares returns how callers of four Stores share limits, and fails the test unless the counts are exact.
func shares(t *testing.T, d database, parameters ...string) {
	const stores, callers, attempts = 4, 32, 40
	ask := func(f func(i, n int) (core.Decision, error)) (admitted [3]int) {
		counts := make([][3]int, callers)
		testkit.Concurrently(callers, func(i int) {
			for n := range attempts {
				decision, err := f(i, n)
				if err != nil {
					t.Error(err)
				} else if decision.Allowed {
					counts[i][n%3]++
				}
			}
		})
		for _, c := range counts {
			for n := range c {
				admitted[n] += c[n]
			}
		}
		return admitted
	}
	for name, c := range map[string]struct {
		rules []core.Rule
		want  int
	}{
		"one rule":      {[]core.Rule{bucket(500)}, 500},
		"two rules":     {[]core.Rule{core.SlidingLog("log", core.Per(700, period)), bucket(900)}, 700},
		"a shadow rule": {[]core.Rule{core.FixedWindow("shadow", core.Per(100, period)).Shadow(), bucket(600)}, 600},
		"three rules": {[]core.Rule{
			core.FixedWindow("a", core.Per(300, period)), core.SlidingWindow("b", core.Per(400, period)), core.SlidingLog("c", core.Per(500, period)),
		}, 300},
	} {
		t.Run(name, func(t *testing.T) {
			limiters := d.limiters(stores, unhurried, c.rules, parameters...)
			admitted := ask(func(i, _ int) (core.Decision, error) { return limiters[i%stores].Allow(t.Context(), name) })
			sum := admitted[0] + admitted[1] + admitted[2]
			if sum != c.want {
				t.Errorf("%d events were admitted, want %d", sum, c.want)
			}
			for i, s := range testkit.Peek(t, limiters[0], name).States() {
				if used := s.Used(); used != min(sum, used+s.Remaining) {
					t.Errorf("rule %d: got %d used, want %d", i, used, sum)
				}
			}
		})
	}
	t.Run("two keys", func(t *testing.T) {
		var own, all []*core.Limiter
		for range stores {
			s := d.store(unhurried, parameters...)
			own, all = append(own, testkit.Limiter(t, s, bucket(300))), append(all, testkit.Limiter(t, s, bucket(250)))
		}
		key := func(n int) string { return fmt.Sprint("own", n%3) }
		admitted := ask(func(i, n int) (core.Decision, error) {
			return core.AllowTogether(t.Context(), core.Ask{Limiter: own[i%stores], Key: key(n)}, core.Ask{Limiter: all[i%stores], Key: "shared"})
		})
		sum := 0
		for n := range 3 {
			if left := testkit.Left(t, own[0], key(n)); left != 300-admitted[n] {
				t.Errorf("key %d: got %d left and %d admitted, want 300 together", n, left, admitted[n])
			}
			sum += admitted[n]
		}
		if left := testkit.Left(t, all[0], "shared"); sum != 250 || left != 0 {
			t.Errorf("%d events were admitted and %d are left, want 250 and 0", sum, left)
		}
	})
}

// Four processes that share a table admit each limit exactly, with both drivers.
func TestProcesses(t *testing.T) {
	shares(t, newDatabase(t, pgtest.Shared(t)))
}

// The same is true in the other modes of pgx.
func TestProcesses_modes(t *testing.T) {
	long(t)
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) { shares(t, newDatabase(t, pgtest.Shared(t)), "default_query_exec_mode="+mode) })
	}
}
