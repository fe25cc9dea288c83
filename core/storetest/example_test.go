package storetest_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
)

// A MapStore is a [driver.Store] over a database of bytes, for which a map stands in here. Its clock
// returns microseconds since the Unix epoch. A real store also makes each row expire at
// [driver.Compiled.ExpiresAt], and wraps its errors in [core.ErrUnavailable].
type MapStore struct {
	driver.Namespace // rejects two rules of one name
	clock            func() int64

	mu   sync.Mutex
	rows map[string][]byte
}

// Take implements [driver.Store].
func (s *MapStore) Take(ctx context.Context, charges []driver.Charge) error {
	asked := slices.Clone(charges)
	return s.update(ctx, charges, func(states []driver.State, readings []driver.Reading, now int64) (admitted bool) {
		copy(charges, asked) // an earlier attempt may have changed them
		if charges[0].AtMost {
			driver.Reduce(charges, func(i int) driver.Reading { return charges[i].Read(states[i], now) })
		}
		admitted = true
		for i := range charges {
			c := &charges[i]
			readings[i] = c.Read(states[i], now)
			admitted = admitted && (c.Rule.Shadow || c.Fits(&readings[i]))
		}
		for i := range charges {
			states[i], _ = charges[i].Commit(states[i], &readings[i], now, admitted)
		}
		return admitted
	})
}

// Adjust implements [driver.Store].
func (s *MapStore) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.update(ctx, charges, func(states []driver.State, readings []driver.Reading, now int64) (admitted bool) {
		for i := range charges {
			readings[i] = charges[i].Read(states[i], now)
			states[i] = charges[i].Apply(states[i], &readings[i], now)
		}
		return false
	})
}

// update reads the states of charges, calls decide to change them, and writes them unless another
// call has changed one of them since; in that case it tries again. When they are written, it answers the charges. Each
// attempt decodes the states anew, because the states of the sliding algorithms share memory with those that decide
// returns.
func (s *MapStore) update(ctx context.Context, charges []driver.Charge, decide func([]driver.State, []driver.Reading, int64) bool) error {
	keys, states, readings := make([]string, len(charges)), make([]driver.State, len(charges)), make([]driver.Reading, len(charges))
	for i, c := range charges {
		keys[i] = fmt.Sprintf("%016x%s", c.Rule.ID, c.Key)
	}
	for ctx.Err() == nil {
		before, after := s.read(keys), make([][]byte, len(keys))
		for i := range states {
			if err := states[i].UnmarshalBinary(before[i]); err != nil {
				return err
			}
		}
		admitted := decide(states, readings, s.clock())
		for i := range states {
			after[i], _ = states[i].MarshalBinary()
		}
		if s.swap(keys, before, after) {
			for i := range charges {
				charges[i].Answer(&readings[i], admitted)
			}
			return nil
		}
	}
	return ctx.Err()
}

func (s *MapStore) read(keys []string) (rows [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		rows = append(rows, s.rows[key])
	}
	return rows
}

// swap writes after if the rows still equal before, and reports whether it did. In a real store, swap
// is a transaction: in etcd one that compares revisions, in SQL a SELECT FOR UPDATE and an UPDATE. A
// database without transactions has to undo the charges of the other rows if a decision is denied.
func (s *MapStore) swap(keys []string, before, after [][]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		if !bytes.Equal(s.rows[key], before[i]) {
			return false
		}
	}
	for i, key := range keys {
		s.rows[key] = after[i]
	}
	return true
}

// A test of an application during an outage.
func ExampleFake() {
	store := new(storetest.Fake)
	limiter := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))

	ctx := context.Background()
	_, err := limiter.Allow(ctx, "alice")
	fmt.Println(err)
	store.Set(storetest.Fail(core.ErrUnavailable))
	_, err = limiter.Allow(ctx, "alice")
	fmt.Println(err)
	store.Set() // the end of the outage
	_, err = limiter.Allow(ctx, "alice")
	fmt.Println(err, store.Calls(), "calls")
	// Output:
	// <nil>
	// weir: store unavailable
	// <nil> 3 calls
}

// A Hook that fails for one key only.
func ExampleHook() {
	var failing storetest.Hook = func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		if charges[0].Key == "mallory" {
			return core.ErrUnavailable
		}
		return next(ctx, charges)
	}
	store := new(storetest.Fake).Set(failing)
	limiter := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))
	for _, key := range []string{"alice", "mallory"} {
		d, err := limiter.Allow(context.Background(), key)
		fmt.Println(key, d.Allowed, err)
	}
	// Output:
	// alice true <nil>
	// mallory false weir: store unavailable
}

// The time of a Fake passes when the test says so.
func ExampleClock() {
	var clock storetest.Clock
	store := &storetest.Fake{Clock: clock.Micros}
	limiter := core.Must(core.New(store, core.SlidingLog("login", core.PerMinute(1))))

	ctx := context.Background()
	for range 2 {
		d, _ := limiter.Allow(ctx, "alice")
		fmt.Println(d.Allowed, d.RetryAfter)
	}
	clock.Advance(time.Minute)
	d, _ := limiter.Allow(ctx, "alice")
	fmt.Println(d.Allowed)
	// Output:
	// true 0s
	// false 1m0s
	// true
}

func Example() {
	store := &MapStore{rows: make(map[string][]byte), clock: func() int64 { return time.Now().UnixMicro() }}
	limiter, err := core.New(store, core.TokenBucket("api", core.PerHour(2)))
	if err != nil {
		panic(err)
	}
	for range 3 {
		decision, err := limiter.Allow(context.Background(), "alice")
		fmt.Println(decision.Allowed, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}
