package failover_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

func TestNewPanics(t *testing.T) {
	for want, f := range map[string]func(){
		"failover: New: primary is nil":          func() { failover.New(nil, memstore.New()) },
		"failover: New: backup is nil":           func() { failover.New(memstore.New(), (*memstore.Store)(nil)) },
		"failover: Instances: n is less than 1":  func() { failover.Instances(0) },
		"failover: Deadline: it is not positive": func() { failover.Deadline(0) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("the panic is %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

func TestEndedContext(t *testing.T) {
	eachPair(t, func(p *pair) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		check := func() {
			t.Helper()
			if _, err := p.year.Allow(ctx, "k"); err != context.Canceled {
				t.Errorf("Allow: %v", err)
			}
			if err := p.year.Credit(ctx, "k", 1); err != context.Canceled {
				t.Errorf("Refund: %v", err)
			}
		}
		check()
		if n := p.primary.calls.Load() + p.backup.calls.Load(); n != 0 {
			t.Errorf("%d calls", n)
		}
		p.goAway()
		check()
	})
}

// A primary whose own deadline is longer is left in time all the same.
func TestDeadline(t *testing.T) {
	for _, own := range []time.Duration{10 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			primary := newFlaky(hang)
			s := failover.New(&punctual{primary, own}, memstore.New(), failover.Deadline(20*time.Millisecond))
			defer s.Close()
			begun := time.Now()
			allow(t, limiter(t, s, perHour), "k")
			if took := time.Since(begun); took != min(own, 20*time.Millisecond) {
				t.Errorf("a decision took %v", took)
			}
		})
	}
}

// When the backup fails too, its error is the answer.
func TestBothFail(t *testing.T) {
	eachPair(t, func(p *pair) {
		p.primary.set(refuse)
		p.backup.set(refuse)
		for range 100 {
			if d, err := p.year.Allow(context.Background(), "k"); !errors.Is(err, core.ErrUnavailable) || d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
			time.Sleep(time.Millisecond)
		}
		p.primary.set(well)
		time.Sleep(2 * time.Second)
		allow(t, p.year, "k")
	})
}

func TestOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newFlaky(well)
		var s *failover.Store
		var mu sync.Mutex
		var seen []string
		s = failover.New(primary, memstore.New(), failover.OnChange(func(from, to failover.State, cause error) {
			s.Stats() // no lock is held
			if d, err := limiter(t, s, perHour).Allow(context.Background(), "k"); err != nil || !d.Allowed {
				t.Error(d, err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf("%v, %v, %v", from, to, cause))
		}))
		for range 2 {
			primary.set(refuse)
			until(t, s, failover.Backup)
			primary.set(well)
			until(t, s, failover.Primary)
		}
		s.Close()
		want := []string{
			"primary, backup, weir: store unavailable: refused", "backup, recovering, <nil>", "recovering, primary, <nil>",
		}
		if want = append(want, want...); !slices.Equal(seen, want) {
			t.Errorf("seen:\n%s", strings.Join(seen, "\n"))
		}
	})
}

// An OnChange that hangs costs neither decisions nor memory, and what it sees
// afterwards fits together.
func TestSlowOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newFlaky(well)
		release := make(chan struct{})
		type change struct{ from, to failover.State }
		var seen []change
		s := failover.New(primary, memstore.New(), failover.OnChange(func(from, to failover.State, _ error) {
			<-release
			seen = append(seen, change{from, to})
		}))
		for range 60 {
			primary.set(refuse)
			until(t, s, failover.Backup)
			primary.set(well)
			until(t, s, failover.Primary)
		}
		close(release)
		synctest.Wait()
		if n := len(seen); n != 2 {
			t.Errorf("%d changes were told of 180, want 2", n)
		}
		at := failover.Primary
		for _, c := range seen {
			if c.from != at || c.to == at {
				t.Fatalf("from %v to %v, after %v", c.from, c.to, at)
			}
			at = c.to
		}
		if at != s.State() {
			t.Errorf("told last: %v, and now it is %v", at, s.State())
		}
		s.Close()
	})
}

func TestCloseWaitsForOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newFlaky(refuse)
		calls, running := 0, false
		s := failover.New(primary, memstore.New(), failover.OnChange(func(failover.State, failover.State, error) {
			running = true
			time.Sleep(time.Minute)
			calls, running = calls+1, false
		}))
		until(t, s, failover.Backup)
		primary.set(well)
		until(t, s, failover.Primary)
		s.Close()
		if running || calls != 1 {
			t.Errorf("after Close: running is %v, %d calls, want the one that was running", running, calls)
		}
		time.Sleep(time.Hour)
		primary.set(refuse)
		until(t, s, failover.Backup)
		time.Sleep(time.Hour)
		if calls != 1 {
			t.Errorf("%d calls after Close", calls-1)
		}
	})
}

// A closed Store decides on, and does nothing in the background.
func TestClose(t *testing.T) {
	for _, m := range []mood{well, hang, refuse, deaf} {
		synctest.Test(t, func(t *testing.T) {
			primary := newFlaky(m)
			s := failover.New(primary, memstore.New())
			l := limiter(t, s, perHour)
			for range 10 {
				allow(t, l, "k")
			}
			begun := time.Now()
			s.Close()
			s.Close()
			if took := time.Since(begun); took != 0 {
				t.Errorf("closing took %v", took)
			}
			calls := primary.calls.Load()
			time.Sleep(time.Minute)
			if n := primary.calls.Load() - calls; n != 0 {
				t.Errorf("%d calls of the primary after Close", n)
			}
			for range 20 {
				allow(t, l, "k")
			}
			primary.set(well)
			if m == well && s.State() != failover.Primary || m != well && s.State() != failover.Backup {
				t.Errorf("the state is %v", s.State())
			}
		})
	}
}

func TestStateText(t *testing.T) {
	got := fmt.Sprint(failover.Primary, failover.Backup, failover.Recovering, failover.State(7))
	if want := "primary backup recovering failover.State(7)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Neither a well primary nor one that is away costs an allocation.
func TestAllocations(t *testing.T) {
	one := core.TokenBucket("one", core.PerSecond(1_000_000))
	two := core.FixedWindow("two", core.PerSecond(1_000_000))
	well := failover.New(&prompt{memstore.New()}, memstore.New())
	gone := failover.New(absent{}, memstore.New(), failover.Instances(3), failover.FailOpenFor("two"))
	defer gone.Close()
	for gone.State() != failover.Backup {
		allow(t, limiter(t, gone, one), "k")
	}
	for name, s := range map[string]*failover.Store{"primary": well, "backup": gone} {
		charges := []driver.Charge{{Key: "k", Rule: one.Compiled(), Cost: 1}}
		ctx := context.Background()
		take := func() {
			if err := s.Take(ctx, charges); err != nil {
				t.Fatal(err)
			}
		}
		take()
		if n := testing.AllocsPerRun(1000, take); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if name == "backup" {
			continue
		}
		charges = append(charges, driver.Charge{Key: "k", Rule: two.Compiled(), Cost: 1, Receipt: new(driver.Receipt)})
		if n := testing.AllocsPerRun(1000, take); n != 0 {
			t.Errorf("%s, two rules: %v allocations", name, n)
		}
	}
}
