package redisstore_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
)

// TestStore_Reset_damaged resets a state that cannot be read: nothing of it counted, so
// nothing was in use.
func TestStore_Reset_damaged(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // as in harness
	for _, a := range testkit.Algorithms {
		for _, p := range poisons[a.Name](now) {
			if p.corrupt != 1 {
				continue
			}
			t.Run(a.Name+"/"+p.name, func(t *testing.T) {
				v := newVictim(t, rdb, a.Rule("poisoned", core.PerHour(poisonLimit)))
				testkit.Must(t, p.write(t.Context(), rdb, v.key))
				found, err := v.Reset(t.Context(), "k")
				if err != nil || found {
					t.Errorf("Reset returned %t, %v, expected false and no error", found, err)
				}
				if n := rdb.Exists(t.Context(), v.key).Val(); n != 0 {
					t.Error("the key exists after a Reset")
				}
				testkit.Admit(t, v.Limiter, "k", poisonLimit)
				if found, err := v.Reset(t.Context(), "k"); err != nil || !found {
					t.Errorf("Reset of a spent key returned %t, %v, expected true and no error", found, err)
				}
				if n := v.s.Stats().Corrupt; n != 0 {
					t.Errorf("%d states were counted as corrupt, expected 0: a Reset needs none", n)
				}
			})
		}
	}
}

// TestStore_Undo_otherRate undoes charges with receipts whose fractions no bucket of the rule
// writes, as one of another rate does, and compares the verdicts with those of the reference
// store.
func TestStore_Undo_otherRate(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, a := range testkit.Algorithms[:2] { // buckets
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			rule := a.Rule("r", core.Per(3, 7*time.Second)).Compiled() // an event is 2333333 1/3 us
			rng := rand.New(rand.NewPCG(1, 1))
			for step := range 300 {
				h := harness(rdb)
				ref := &storetest.Fake{Clock: func() int64 { return h.Now().UnixMicro() }}
				both := func(op driver.Op, cost int, receipt driver.Receipt) driver.Receipt {
					var charges [2][]driver.Charge
					for i, s := range []driver.Store{h.Store, ref} {
						m := receipt
						charges[i] = []driver.Charge{{Key: "k", Rule: rule, Op: op, Cost: cost, Receipt: &m}}
						testkit.Must(t, storetest.Do(t.Context(), s, charges[i]))
					}
					got, want := charges[0][0], charges[1][0]
					if got.Verdict != want.Verdict || *got.Receipt != *want.Receipt {
						t.Fatalf("step %d, op %d, receipt %+v: the verdict and receipt are\n\t%+v, %+v, expected\n\t%+v, %+v",
							step, op, receipt, got.Verdict, *got.Receipt, want.Verdict, *want.Receipt)
					}
					return *want.Receipt
				}
				pause := func() { h.Advance(time.Duration(rng.IntN(2)*rng.IntN(3_000_000)) * time.Microsecond) }
				both(driver.Debit, 1+rng.IntN(6), driver.Receipt{})
				pause()
				m := both(driver.Debit, 1, driver.Receipt{})
				pause()
				m.Used.Frac = []int64{2, 3, 10, 1 << 40}[rng.IntN(4)]
				both(driver.Undo, 1, m)
			}
		})
	}
}

// TestStore_unknownAlgorithm declares and takes a rule of an algorithm that the package does
// not have.
func TestStore_unknownAlgorithm(t *testing.T) {
	t.Parallel()
	s := redisstore.New(redistest.Shared(t).Client(), prefix())
	rule := new(driver.Compiled)
	want := rule.Algorithm().Unknown()
	charges := func(op driver.Op) []driver.Charge {
		return []driver.Charge{{Key: "k", Rule: rule, Op: op, Cost: 1}}
	}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Declare", func() error { return s.Declare(rule) }},
		{"Take", func() error { return s.Take(t.Context(), charges(driver.Spend)) }},
		{"Adjust", func() error { return s.Adjust(t.Context(), charges(driver.Reset)) }},
		{"Probe", func() error { return s.Probe(t.Context(), charges(driver.Peek)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if p := recover(); p != want {
					t.Errorf("the panic is %v, expected %q", p, want)
				}
			}()
			t.Errorf("returned %v, expected a panic", c.call())
		})
	}
}

// TestReplies_Adjust answers an op that cannot be denied with replies that no script gives.
func TestReplies_Adjust(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, a := range testkit.Algorithms {
		for name, op := range map[string]driver.Op{"Debit": driver.Debit, "Credit": driver.Credit, "Reset": driver.Reset} {
			t.Run(a.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				between := &liar{real: server.Client()}
				rdb := redis.NewClient(&redis.Options{Addr: fake(t, between.reply), PoolSize: 1})
				t.Cleanup(func() { _ = rdb.Close() })
				s := redisstore.New(rdb, prefix(), redisstore.Timeout(patience))
				charges := []driver.Charge{{Key: "k", Rule: a.Rule("r", core.Per(1000, century)).Compiled(), Op: op, Cost: 3}}
				testkit.Must(t, s.Adjust(t.Context(), charges))
				for _, m := range mutations(t, *between.last.Load()) {
					between.lie.Store(m.raw)
					if err := s.Adjust(t.Context(), charges); !errors.Is(err, core.ErrUnavailable) {
						t.Errorf("%s, %q: the error is %v, expected core.ErrUnavailable", m.name, m.raw, err)
					}
				}
				between.lie.Store("")
				testkit.Must(t, s.Adjust(t.Context(), charges))
			})
		}
	}
}
