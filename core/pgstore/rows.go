package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weir-go/weir/core/casstore"
)

// rows are the rows of the table. They implement the interfaces of package casstore.
type rows struct {
	db     *sql.DB
	config config
	statements
	sweeper sweeper
	faults  faultLog
}

var _ interface {
	casstore.Rows
	casstore.Locker
	casstore.Bounder
} = (*rows)(nil)

// A querier is a *sql.DB, *sql.Conn or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Read implements [casstore.Rows] with one statement, without a transaction.
func (r *rows) Read(ctx context.Context, keys []casstore.Key) ([]casstore.Row, int64, error) {
	r.sweeper.start(r)
	found, now, err := r.query(ctx, r.db, r.read, keys)
	return found, now, r.faults.explain(ctx, err)
}

// query executes read or lock.
func (r *rows) query(ctx context.Context, q querier, statement string, keys []casstore.Key) ([]casstore.Row, int64, error) {
	result, err := q.QueryContext(ctx, statement, ids(keys))
	if err != nil {
		return nil, 0, err
	}
	defer result.Close()
	found, now := make([]casstore.Row, len(keys)), int64(0)
	for result.Next() {
		var n, at int64
		var row casstore.Row
		if err := result.Scan(&n, &row.Version, &row.State, &at); err != nil {
			return nil, 0, err
		}
		if now = max(now, at); n > 0 {
			found[n-1] = row
		}
	}
	return found, now, result.Err()
}

// Swap implements [casstore.Rows] with one statement, without a transaction, and another one before it if a group of several
// rows lacks one. Postgres makes a statement as a whole or not at all. It is executed on one connection, because package
// database/sql would repeat a statement of a DB whose connection broke: an event would be charged twice.
func (r *rows) Swap(ctx context.Context, groups []casstore.Group) ([]bool, error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return nil, r.faults.explain(ctx, err)
	}
	defer func() { _ = conn.Close() }()
	done, err := r.change(ctx, conn, groups)
	return done, r.faults.explain(ctx, err)
}

// change executes upsert if each group is one row, and otherwise replace, for which missing rows are placed, so that it can lock
// them.
func (r *rows) change(ctx context.Context, q querier, groups []casstore.Group) ([]bool, error) {
	var keys, versions, expires, states, numbers, old, placed, placedVersions literal
	alone := !slices.ContainsFunc(groups, func(g casstore.Group) bool {
		return len(g) > 1 || g[0].Version != 0 && g[0].Version != g[0].Next-1
	})
	for n, group := range groups {
		for _, c := range group {
			if c.Version == 0 && !alone {
				c.Version = newVersion()
				placed, placedVersions = placed.id(c.Key), placedVersions.int(c.Version)
			}
			keys, versions, expires = keys.id(c.Key), versions.int(c.Next), expires.int(c.Expires)
			states, numbers, old = states.bytes(c.State), numbers.int(int64(n)), old.int(c.Version)
		}
	}
	if len(placed) > 0 {
		if _, err := q.ExecContext(ctx, r.place, placed.text(), placedVersions.text()); err != nil {
			return nil, err
		}
	}
	statement, args := r.upsert, []any{keys.text(), versions.text(), expires.text(), states.text(), numbers.text()}
	if !alone {
		statement, args = r.replace, append(args, old.text())
	}
	result, err := q.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	done := make([]bool, len(groups))
	for result.Next() {
		var n int
		if err := result.Scan(&n); err != nil {
			return nil, err
		}
		done[n] = true
	}
	// The rows arrive before the statement has ended. It may still fail, and then nothing is done.
	if err := errors.Join(result.Err(), result.Close()); err != nil {
		return nil, err
	}
	return done, nil
}

// newVersion returns a version that no row has had.
func newVersion() int64 { return 1 + rand.Int64N(math.MaxInt64) }

// Update implements [casstore.Locker] with a transaction. It inserts no row in the transaction: a Swap could wait for the new row,
// and the transaction for those that the Swap has locked. Rows that are missing are placed before, in a statement of its own.
func (r *rows) Update(ctx context.Context, keys []casstore.Key, decide func([]casstore.Row, int64) casstore.Group) error {
	return r.faults.explain(ctx, r.update(ctx, keys, decide))
}

func (r *rows) update(ctx context.Context, keys []casstore.Key, decide func([]casstore.Row, int64) casstore.Group) error {
	if !r.Full() {
		if err := r.placeAll(ctx, keys); err != nil {
			return err
		}
	}
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing if the transaction has ended
	locked, now, err := r.query(ctx, tx, r.lock, keys)
	if err != nil {
		return err
	}
	group := decide(locked, now)
	if len(group) == 0 {
		return nil
	}
	var absent []casstore.Key // the table is full, or they were swept
	for _, c := range group {
		if c.Version == 0 {
			absent = append(absent, c.Key)
		}
	}
	if absent != nil {
		if err := errors.Join(tx.Rollback(), r.placeAll(ctx, absent)); err != nil {
			return err
		}
		return casstore.ErrConflict
	}
	done, err := r.change(ctx, tx, []casstore.Group{group})
	if err != nil {
		return err
	}
	if !done[0] {
		return errors.New("a locked row was changed")
	}
	return tx.Commit()
}

// placeAll places the rows of keys that are missing.
func (r *rows) placeAll(ctx context.Context, keys []casstore.Key) error {
	var versions literal
	for range keys {
		versions = versions.int(newVersion())
	}
	_, err := r.db.ExecContext(ctx, r.place, ids(keys), versions.text())
	return err
}

// Full implements [casstore.Bounder] by the last estimate of Postgres.
func (r *rows) Full() bool { return r.sweeper.rows.Load() >= int64(r.config.maxRows) }
