package failover_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// A fleet is a Store in an outage, and the number of its processes.
type fleet struct {
	*failover.Store
	processes atomic.Int64
	asked     atomic.Int64
}

func newFleet(t *testing.T, n int) *fleet {
	f := new(fleet)
	f.processes.Store(int64(n))
	f.Store = failover.New(absent(), memstore.New(), failover.Processes(func() int {
		f.asked.Add(1)
		return int(f.processes.Load())
	}))
	t.Cleanup(func() { f.Close() })
	return f
}

// A refund and a settlement free as much as the event took, whatever the number of processes is then.
func TestProcesses_Undo(t *testing.T) {
	for _, a := range testkit.Algorithms {
		for _, now := range []int{5, 2, 1, 0, -1, 100_000} {
			t.Run(a.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, 3)
					l := testkit.Limiter(t, f, a.Rule("r", core.PerHour(300)), a.Rule("shadow", core.PerHour(300)).Shadow())
					used := func(processes, want int) {
						t.Helper()
						f.processes.Store(int64(processes))
						for i, used := range testkit.Used(t, l, "k") {
							if used != want {
								t.Errorf("under %d processes: %d events of rule %d are in use, want %d", processes, used, i, want)
							}
						}
						f.processes.Store(int64(now))
					}
					first := testkit.Reserve(t, l, "k", 20)
					f.processes.Store(2)
					second := testkit.Reserve(t, l, "k", 10) // leaves a leaky bucket first
					f.processes.Store(int64(now))
					testkit.Must(t, second.Settle(t.Context(), 4))
					testkit.Must(t, second.Refund(t.Context()))
					used(3, 20)
					testkit.Must(t, first.Settle(t.Context(), 7))
					used(3, 7)
					testkit.Must(t, first.Refund(t.Context()))
					used(1, 0)
				})
			})
		}
	}
}

// A counting primary tells the number of processes of some rules.
type counting struct {
	driver.Store
	numbers map[string]int
}

func (c counting) Describe() driver.Description {
	return driver.Description{Processes: func(rule string) int { return c.numbers[rule] }}
}

// Each rule is divided by its own number of the primary, unless Processes is given.
func TestProcesses_OfPrimary(t *testing.T) {
	numbers := map[string]int{"web": 2, "all": 5, "one": 1}
	for name, c := range map[string]struct {
		opts []failover.Option
		want string // the events left of 100, after one
	}{
		"counted":   {nil, "[49 19 99 99]"},
		"Processes": {[]failover.Option{failover.Processes(func() int { return 10 })}, "[9 9 9 9]"},
		"Instances": {[]failover.Option{failover.Instances(1)}, "[99 99 99 99]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := failover.New(counting{absent(), numbers}, memstore.New(), c.opts...)
			t.Cleanup(func() { s.Close() })
			var rules []core.Rule
			for _, rule := range []string{"web", "all", "one", "unknown"} {
				rules = append(rules, core.SlidingLog(rule, core.PerHour(100)))
			}
			l := testkit.Limiter(t, s, rules...)
			var left []int
			r := testkit.Reserve(t, l, "k", 1)
			for _, state := range r.Decision().States() {
				left = append(left, state.Remaining)
			}
			if got := fmt.Sprint(left); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			testkit.Must(t, r.Refund(t.Context()))
			if used := testkit.Used(t, l, "k"); fmt.Sprint(used) != "[0 0 0 0]" {
				t.Errorf("after the refund: got %v events in use", used)
			}
		})
	}
}

// A place is renewed and freed under another number of processes.
func TestProcesses_Places(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		l := testkit.Limiter(t, f, core.InFlight("places", 8).Hold(10*time.Second))
		var taken []*core.Reservation
		for range 2 {
			taken = append(taken, testkit.Reserve(t, l, "k", 1))
		}
		f.processes.Store(2)
		time.Sleep(time.Minute) // six holds
		if left := testkit.Left(t, l, "k"); left != 2 {
			t.Errorf("%d places are left of 4, want 2", left)
		}
		for _, r := range taken {
			testkit.Must(t, r.Release(t.Context()))
		}
		f.processes.Store(8)
		if left := testkit.Left(t, l, "k"); left != 1 {
			t.Errorf("%d places are left of 1, want 1", left)
		}
	})
}

// A window admits the rest of the new part, a bucket refills at the new rate, and all rules of a decision have
// one number.
func TestProcesses_Changes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3)
		window, bucket := core.SlidingLog("window", core.PerMinute(30)), core.TokenBucket("bucket", core.PerMinute(60))
		l := testkit.Limiter(t, f, window)
		testkit.Admit(t, l, "k", 10)
		for _, step := range []struct{ processes, left int }{{3, 0}, {10, 0}, {2, 5}, {1, 20}, {0, 20}, {-5, 20}, {math.MaxInt, 0}} {
			f.processes.Store(int64(step.processes))
			if left := max(0, testkit.Left(t, l, "k")); left != step.left {
				t.Errorf("under %d processes, %d events are left, want %d", step.processes, left, step.left)
			}
		}
		f.processes.Store(2)
		other := testkit.Limiter(t, f, window) // no conflict with the rule under 3 processes
		testkit.Admit(t, other, "k", 5)

		b := testkit.Limiter(t, f, bucket)
		testkit.Admit(t, b, "k", 30)
		f.processes.Store(6) // 10 a minute
		if d := testkit.Allow(t, b, "k"); d.Allowed || d.RetryAfter != 6*time.Second {
			t.Errorf("got %v, want a wait of 6 s", d)
		}

		f.processes.Store(5)
		before := f.asked.Load()
		d := testkit.Allow(t, testkit.Limiter(t, f, core.SlidingLog("a", core.PerMinute(50)), core.SlidingLog("b", core.PerMinute(500))), "k")
		if d.State(0).Limit().Events != 10 || d.State(1).Limit().Events != 100 || f.asked.Load() != before+1 {
			t.Errorf("got %v, and %d calls of the function", d, f.asked.Load()-before)
		}
	})
}

// Many goroutines reserve and refund while the number changes: the events that are kept stay, and nothing else.
func TestProcesses_Concurrent(t *testing.T) {
	f := newFleet(t, 3)
	l := testkit.Limiter(t, f, core.SlidingLog("log", core.PerDay(1_000_000)), core.TokenBucket("bucket", core.PerDay(1_000_000)))
	const goroutines, rounds = 32, 50
	var kept atomic.Int64
	testkit.Concurrently(goroutines, func(i int) {
		for round := range rounds {
			f.processes.Store(int64(1 + (i+round)%7))
			r := testkit.Reserve(t, l, "k", 3)
			switch round % 3 {
			case 0:
				testkit.Must(t, r.Refund(context.Background()))
			case 1:
				testkit.Must(t, r.Settle(context.Background(), 1))
				kept.Add(1)
			default:
				kept.Add(3)
			}
		}
	})
	f.processes.Store(1)
	if used := testkit.Used(t, l, "k"); used[0] != int(kept.Load()) {
		t.Errorf("%v events are in use, want %d of the log", used, kept.Load())
	}
}

// A Store over others keeps its own Origin in the receipts of the backup.
func TestProcesses_Origin(t *testing.T) {
	inner := failover.New(absent(), memstore.New(), failover.Instances(4))
	outer := failover.New(absent(), inner, failover.Instances(3))
	t.Cleanup(func() { inner.Close(); outer.Close() })
	charge := []driver.Charge{{Key: "k", Rule: testkit.Compiled(core.SlidingLog("r", core.PerHour(120))), Cost: 5}}
	testkit.Must(t, outer.Take(t.Context(), charge))
	charge[0].Op, charge[0].Verdict = driver.Undo, driver.Verdict{}
	testkit.Must(t, outer.Adjust(t.Context(), charge))
	charge[0] = driver.Charge{Key: "k", Rule: charge[0].Rule, Cost: 1, Op: driver.Peek}
	testkit.Must(t, outer.Take(t.Context(), charge))
	if v := charge[0].Verdict; v.Remaining != 10 { // 120 / 3 / 4
		t.Errorf("got %+v, want 10 remaining", v)
	}
}

// Each change of the number during an outage admits at most one limit more, and a number that is known late no more than
// that.
func TestProcesses_Bound(t *testing.T) {
	const limit = 100
	for name, phases := range map[string][]int{
		"grows": {3, 30}, "shrinks": {30, 3}, "grows and shrinks": {3, 10, 2, 30, 1}, "stays": {7, 7, 7}, "more processes than events": {90, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var number atomic.Int64
				var running []*core.Limiter
				admitted, changes := 0, 0
				for i, n := range phases {
					if i > 0 && n != phases[i-1] {
						changes++
					}
					number.Store(int64(n))
					running = running[:min(n, len(running))] // others have ended
					for len(running) < n {
						s := failover.New(absent(), memstore.New(), failover.Processes(func() int { return int(number.Load()) }))
						t.Cleanup(func() { s.Close() })
						running = append(running, testkit.Limiter(t, s, core.SlidingLog("r", core.PerHour(limit))))
					}
					for _, l := range running {
						for testkit.Allow(t, l, "k").Allowed {
							admitted++
						}
					}
				}
				if most := limit * (1 + changes); admitted > most {
					t.Errorf("%d events are admitted of %d, and %d changes", admitted, limit, changes)
				}
				if admitted < limit-phases[0] {
					t.Errorf("%d events are admitted, fewer than the parts of %d processes", admitted, phases[0])
				}
			})
		})
	}
}
