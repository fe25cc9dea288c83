package casstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core/casstore"
)

// A database is a mapDatabase whose calls a test can delay and make fail.
type database struct {
	*mapDatabase
	reads, swaps, updates atomic.Int64
	hook                  func(verb string, call func() error) error // nil for none; it may leave call to later, or not call it
}

var errBroken = errors.New("broken")

func (d *database) do(verb string, counter *atomic.Int64, call func()) error {
	counter.Add(1)
	if d.hook == nil {
		call()
		return nil
	}
	return d.hook(verb, func() error { call(); return nil })
}

func (d *database) Read(ctx context.Context, keys []casstore.Key) (rows []casstore.Row, now int64, err error) {
	err = d.do("read", &d.reads, func() { rows, now, _ = d.mapDatabase.Read(ctx, keys) })
	return rows, now, err
}

func (d *database) Swap(ctx context.Context, groups []casstore.Group) (done []bool, err error) {
	err = d.do("swap", &d.swaps, func() { done, _ = d.mapDatabase.Swap(ctx, groups) })
	return done, err
}

// A locking is a database with transactions.
type locking struct {
	*database
	transactions sync.Mutex
}

func (d *locking) Swap(ctx context.Context, groups []casstore.Group) (done []bool, err error) {
	d.transactions.Lock()
	defer d.transactions.Unlock()
	return d.database.Swap(ctx, groups)
}

func (d *locking) Update(ctx context.Context, keys []casstore.Key, decide func([]casstore.Row, int64) casstore.Group) error {
	d.transactions.Lock()
	defer d.transactions.Unlock()
	return d.do("update", &d.updates, func() {
		rows, now, _ := d.mapDatabase.Read(ctx, keys)
		if done, _ := d.mapDatabase.Swap(ctx, []casstore.Group{decide(rows, now)}); !done[0] {
			panic("rows were changed in a transaction")
		}
	})
}

// A bounded is a database without room for new rows while full is true.
type bounded struct {
	*database
	full atomic.Bool
}

func (d *bounded) Full() bool { return d.full.Load() }

// count returns the number of rows.
func (d *mapDatabase) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.rows)
}
