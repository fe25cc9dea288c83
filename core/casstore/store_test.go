package casstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// Stores of several processes on one database admit exactly the limits, and all or none of a decision about several.
func TestStore_Processes(t *testing.T) {
	for name, c := range map[string]struct {
		asks func(l func(rule string, n int) *core.Limiter, process int) []core.Ask
		want int
	}{
		"one rule": {func(l func(string, int) *core.Limiter, _ int) []core.Ask {
			return []core.Ask{{Limiter: l("a", 500), Key: "hot"}}
		}, 500},
		"two rules": {func(l func(string, int) *core.Limiter, _ int) []core.Ask {
			return []core.Ask{{Limiter: l("a", 900), Key: "hot"}, {Limiter: l("b", 700), Key: "hot"}}
		}, 700},
		"two keys": {func(l func(string, int) *core.Limiter, process int) []core.Ask {
			return []core.Ask{{Limiter: l("a", 300), Key: fmt.Sprint("own", process)}, {Limiter: l("b", 250), Key: "shared"}}
		}, 250},
	} {
		for _, kind := range []string{"swaps", "locks"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				var clock storetest.Clock
				d := &database{mapDatabase: newDatabase(&clock)}
				var rows casstore.Rows = d
				if kind == "locks" {
					rows = &locking{database: d}
				}
				var admitted atomic.Int64
				var all sync.WaitGroup
				var limiters [4]map[string]*core.Limiter
				for process := range limiters {
					limiters[process] = make(map[string]*core.Limiter)
					s := casstore.New(rows, casstore.Timeout(time.Minute))
					asks := c.asks(func(rule string, n int) *core.Limiter {
						return testkit.Limiter(t, s, core.FixedWindow(rule, core.PerDay(n)))
					}, process)
					for range 8 {
						all.Go(func() {
							for range 40 {
								decision, err := core.AllowTogether(context.Background(), asks...)
								if err != nil {
									t.Error(err)
								} else if decision.Allowed {
									admitted.Add(1)
								}
							}
						})
					}
				}
				all.Wait()
				if got := int(admitted.Load()); got != c.want {
					t.Errorf("%d events were admitted, want %d", got, c.want)
				}
			})
		}
	}
}

// A process that loses each swap decides under locks, and fails at its deadline if the database has none.
func TestStore_Locks(t *testing.T) {
	for _, locks := range []bool{true, false} {
		t.Run(fmt.Sprint(locks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &database{mapDatabase: newDatabase(new(storetest.Clock))}
				var rows casstore.Rows = d
				if locks {
					rows = &locking{database: d}
				}
				near := testkit.Limiter(t, casstore.New(d.mapDatabase), core.FixedWindow("r", core.PerDay(1000)))
				d.hook = func(verb string, call func() error) error {
					if verb == "swap" {
						time.Sleep(time.Millisecond)
						testkit.Admit(t, near, "k", 1) // another process is faster
					}
					return call()
				}
				s := casstore.New(rows)
				decision, err := testkit.Limiter(t, s, core.FixedWindow("r", core.PerDay(1000))).Allow(t.Context(), "k")
				n := s.Stats()
				switch {
				case locks && (err != nil || !decision.Allowed || decision.State(0).Remaining != 1000-4 || n.Locked != 1 || n.Conflicts != 3):
					t.Errorf("got %v, %v and %+v, want an admission by the fourth attempt", decision, err, n)
				case !locks && (!errors.Is(err, core.ErrUnavailable) || n.Conflicts < 50 || n.Failed != 1):
					t.Errorf("got %v and %+v, want ErrUnavailable", err, n)
				}
				time.Sleep(time.Second) // the round ends
			})
		})
	}
}

// A request that shares a round under locks with one that has lost swaps, and that no attempt has decided, fails with it.
func TestStore_Locks_fail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &locking{database: &database{mapDatabase: newDatabase(new(storetest.Clock))}}
		s := casstore.New(d)
		l := testkit.Limiter(t, s, core.FixedWindow("r", core.PerDay(1000)))
		near := testkit.Limiter(t, casstore.New(d.mapDatabase), core.FixedWindow("r", core.PerDay(1000)))
		failed := make(chan error, 2)
		ask := func() {
			_, err := l.Allow(t.Context(), "k")
			failed <- err
		}
		d.hook = func(verb string, call func() error) error {
			switch {
			case verb == "update":
				return errBroken
			case verb == "swap" && d.swaps.Load() == 3:
				go ask()
				synctest.Wait() // until it waits for the next round
				fallthrough
			case verb == "swap":
				testkit.Admit(t, near, "k", 1) // another process is faster
			}
			return call()
		}
		go ask()
		for range 2 {
			if err := <-failed; !errors.Is(err, errBroken) {
				t.Errorf("got %v", err)
			}
		}
		if n := s.Stats(); n.Locked != 1 || n.Failed != 2 {
			t.Errorf("got %+v, want one round under locks for both", n)
		}
	})
}

// Each failure of the database is an error, after which an event counts at most once.
func TestStore_Failures(t *testing.T) {
	fails := func(of string) func(string, func() error) error {
		return func(verb string, call func() error) error {
			if verb == of {
				return errBroken
			}
			return call()
		}
	}
	for name, c := range map[string]struct {
		hook    func(verb string, call func() error) error
		cause   error
		text    string
		charged int
	}{
		"read": {fails("read"), errBroken, "weir: store unavailable: broken", 0},
		"swap": {fails("swap"), errBroken, "weir: store unavailable: broken", 0},
		"after swap": {func(verb string, call func() error) error {
			_ = call()
			return map[string]error{"swap": errBroken}[verb]
		}, errBroken, "broken", 1},
		"panic": {func(verb string, call func() error) error {
			if verb == "swap" {
				panic("boom")
			}
			return call()
		}, nil, "weir: store unavailable: casstore: the database panicked: boom", 0},
		"no rows": {func(verb string, call func() error) error {
			if verb == "read" {
				return nil
			}
			return call()
		}, nil, "another number of rows", 0},
		"no outcome": {func(verb string, call func() error) error {
			if verb == "swap" {
				return nil
			}
			return call()
		}, nil, "another number of rows", 0},
		"hangs": {func(verb string, call func() error) error { time.Sleep(time.Hour); return call() }, context.DeadlineExceeded, "no answer within 100ms", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &database{mapDatabase: newDatabase(new(storetest.Clock)), hook: c.hook}
				s := casstore.New(d)
				l := testkit.Limiter(t, s, core.FixedWindow("r", core.PerDay(5)))
				_, err := l.Allow(t.Context(), "k")
				var failed *casstore.Error
				if !errors.As(err, &failed) || !errors.Is(err, core.ErrUnavailable) || c.cause != nil && !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("got %v, want %q", err, c.text)
				}
				other := testkit.Limiter(t, casstore.New(d.mapDatabase), core.FixedWindow("r", core.PerDay(5)))
				if left := testkit.Left(t, other, "k"); left != 5-c.charged {
					t.Errorf("%d are left, want %d", left, 5-c.charged)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// A round whose failure has changed nothing is repeated, and tells the charges of one attempt.
func TestStore_Conflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{mapDatabase: newDatabase(new(storetest.Clock))}
		broken := 2
		d.hook = func(verb string, call func() error) error {
			if broken--; verb == "swap" && broken >= 0 {
				return fmt.Errorf("deadlock: %w", casstore.ErrConflict)
			}
			return call()
		}
		s := casstore.New(d)
		l := testkit.Limiter(t, s, core.FixedWindow("r", core.PerDay(5)))
		testkit.Admit(t, l, "k", 2)
		if left := testkit.Left(t, l, "k"); left != 3 || s.Stats().Conflicts != 1 {
			t.Errorf("%d are left, and %+v", left, s.Stats())
		}
	})
}

// While a round is under way, requests wait for the next one, which decides all of them.
func TestStore_Batches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{mapDatabase: newDatabase(new(storetest.Clock))}
		d.hook = func(_ string, call func() error) error { time.Sleep(15 * time.Millisecond); return call() }
		s := casstore.New(d, casstore.Connections(1))
		l := testkit.Limiter(t, s, core.FixedWindow("r", core.PerDay(1000)), core.TokenBucket("b", core.PerDay(50)))
		var admitted atomic.Int64
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if decision := testkit.Allow(t, l, "k"); decision.Allowed {
					admitted.Add(1)
				}
			})
			synctest.Wait() // the first one is alone in its round
		}
		all.Wait()
		if n := s.Stats(); admitted.Load() != 50 || n.Rounds != 3 || n.Requests != 200 {
			t.Errorf("%d were admitted in %+v, want 50 in 3 rounds", admitted.Load(), n)
		}
		if left := testkit.Peek(t, l, "k").State(0).Remaining; left != 1000-50 {
			t.Errorf("%d are left, want 950", left)
		}
	})
}

// A request that was not sent in time, or finds too many others, is overloaded: nothing is charged. Renewals come first.
func TestStore_Overloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{mapDatabase: newDatabase(new(storetest.Clock))}
		s := casstore.New(d, casstore.Connections(1))
		l := testkit.Limiter(t, s, core.FixedWindow("r", core.PerDay(1_000_000)))
		d.hook = func(_ string, call func() error) error { time.Sleep(150 * time.Millisecond); return call() }
		var overloaded, unknown, other atomic.Int64
		for range 5000 {
			go func() {
				switch _, err := l.Allow(t.Context(), "k"); {
				case errors.Is(err, driver.ErrOverloaded) && errors.Is(err, core.ErrUnavailable):
					overloaded.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					unknown.Add(1)
				default:
					other.Add(1)
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		d.hook = nil
		used := 1_000_000 - testkit.Left(t, l, "k")
		if unknown.Load() > 128 || overloaded.Load() != 5000-unknown.Load() || other.Load() != 0 || used > int(unknown.Load()) {
			t.Errorf("%d were overloaded, %d unknown and %d others; %d are used", overloaded.Load(), unknown.Load(), other.Load(), used) // a round has at most 128 requests
		}
	})
}

// Denials and peeks take one call of the database.
func TestStore_Calls(t *testing.T) {
	d := &database{mapDatabase: newDatabase(new(storetest.Clock))}
	l := testkit.Limiter(t, casstore.New(d), core.FixedWindow("r", core.PerDay(1)))
	testkit.Admit(t, l, "k", 1)
	for range 3 {
		testkit.Peek(t, l, "k")
		testkit.Allow(t, l, "k")
	}
	if d.reads.Load() != 7 || d.swaps.Load() != 1 {
		t.Errorf("got %d reads and %d swaps, want 7 and 1", d.reads.Load(), d.swaps.Load())
	}
}

// A caller that leaves gets the error of its context, and the database is not interrupted.
func TestStore_Canceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{mapDatabase: newDatabase(new(storetest.Clock))}
		d.hook = func(_ string, call func() error) error { time.Sleep(20 * time.Millisecond); return call() }
		l := testkit.Limiter(t, casstore.New(d), core.FixedWindow("r", core.PerDay(5)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := l.Allow(ctx, "k"); err != context.DeadlineExceeded {
			t.Errorf("got %v, want the error of the context", err)
		}
		time.Sleep(time.Second)
		if left := testkit.Left(t, l, "k"); left != 4 {
			t.Errorf("%d are left, want 4", left)
		}
	})
}

// The places of a decision whose caller does not learn them are freed, also if the database executes a statement late.
func TestStore_FreesPlaces(t *testing.T) {
	for name, hook := range map[string]func(database *database, swaps int64, call func() error) error{
		"late":           func(_ *database, _ int64, call func() error) error { time.Sleep(150 * time.Millisecond); return call() },
		"lost reply":     func(_ *database, _ int64, call func() error) error { _ = call(); return errBroken },
		"never executed": func(*database, int64, func() error) error { return errBroken },
		"executed later": func(_ *database, _ int64, call func() error) error {
			go func() { time.Sleep(time.Second); _ = call() }()
			return errBroken
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &database{mapDatabase: newDatabase(new(storetest.Clock))}
				d.hook = func(verb string, call func() error) error {
					if verb == "swap" && d.swaps.Load() == 1 {
						return hook(d, 1, call)
					}
					return call()
				}
				s := casstore.New(d)
				l := testkit.Limiter(t, s, core.InFlight("r", 1))
				if _, err := l.Reserve(t.Context(), "k", 1); !errors.Is(err, core.ErrUnavailable) {
					t.Errorf("got %v, want ErrUnavailable", err)
				}
				time.Sleep(5 * time.Second) // less than a hold
				if !testkit.Peek(t, l, "k").Allowed {
					t.Error("the place is not free")
				}
			})
		})
	}
}

// A probe writes, so it fails on a database that can only be read.
func TestStore_Probe(t *testing.T) {
	d := &database{mapDatabase: newDatabase(new(storetest.Clock))}
	s := casstore.New(d)
	for range 2 {
		testkit.Must(t, s.Probe(t.Context(), nil))
	}
	if d.swaps.Load() != 2 || d.count() != 1 {
		t.Errorf("got %d swaps and %d rows, want 2 and 1", d.swaps.Load(), d.count())
	}
	d.hook = func(verb string, call func() error) error {
		if verb == "swap" {
			return errBroken
		}
		return call()
	}
	if err := s.Probe(t.Context(), nil); !errors.Is(err, core.ErrUnavailable) || !errors.Is(err, errBroken) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

// Applications, and keys with and without a secret, share no row.
func TestStore_Keys(t *testing.T) {
	d := newDatabase(new(storetest.Clock))
	secret := []byte("sixteen bytes...")
	for _, opts := range [][]casstore.Option{
		nil, {casstore.Application("a")}, {casstore.Application("b")}, {casstore.KeySecret(secret)}, {casstore.KeySecret(secret), casstore.Application("a")},
	} {
		for _, r := range []core.Rule{core.FixedWindow("r", core.PerDay(1)), core.FixedWindow("q", core.PerDay(1)), core.TokenBucket("r", core.PerDay(1)), core.FixedWindow("r", core.PerHour(1))} {
			l := core.Must(core.New(casstore.New(d, opts...), r))
			for _, key := range []string{"k", "k\x00", "K", "\x00", "k\x00fixed_window"} {
				testkit.Admit(t, l, key, 1)
			}
		}
	}
	if d.count() != 5*4*5 {
		t.Errorf("got %d rows, want 100", d.count())
	}
}
