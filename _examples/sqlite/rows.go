package main

import (
	"context"
	"database/sql"
	"strings"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/weir-go/weir/core/casstore"
)

// rows are a table of SQLite, for a [casstore.Store].
type rows struct {
	db  *sql.DB
	now func() int64 // in microseconds since the Unix epoch; processes on one file are on one machine
}

// open opens a file, and creates the table.
func open(path string) (*rows, error) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(1000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err == nil {
		_, err = db.Exec("CREATE TABLE IF NOT EXISTS weir_states (key BLOB PRIMARY KEY, version INTEGER, state BLOB, expires INTEGER) WITHOUT ROWID")
	}
	return &rows{db, func() int64 { return time.Now().UnixMicro() }}, err
}

// Read implements [casstore.Rows].
func (r *rows) Read(ctx context.Context, keys []casstore.Key) ([]casstore.Row, int64, error) {
	found, err := read(ctx, r.db, keys)
	return found, r.now(), err
}

// Swap implements [casstore.Rows]. The transaction has the only lock from its begin on.
func (r *rows) Swap(ctx context.Context, groups []casstore.Group) (done []bool, err error) {
	err = r.inTransaction(ctx, func(tx *sql.Tx) error {
		for _, g := range groups {
			var keys []casstore.Key
			for _, c := range g {
				keys = append(keys, c.Key)
			}
			found, err := read(ctx, tx, keys)
			same := err == nil
			for i := range found {
				same = same && found[i].Version == g[i].Version
			}
			if done = append(done, same); same {
				err = write(ctx, tx, g)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return done, err
}

// Update implements [casstore.Locker].
func (r *rows) Update(ctx context.Context, keys []casstore.Key, decide func([]casstore.Row, int64) casstore.Group) error {
	return r.inTransaction(ctx, func(tx *sql.Tx) error {
		found, err := read(ctx, tx, keys)
		if err != nil {
			return err
		}
		return write(ctx, tx, decide(found, r.now()))
	})
}

func (r *rows) inTransaction(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit, it does nothing
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func read(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, keys []casstore.Key) ([]casstore.Row, error) {
	args, places, index := make([]any, len(keys)), strings.Repeat(",?", len(keys))[1:], make(map[casstore.Key]int)
	for i, k := range keys {
		args[i], index[k] = k[:], i
	}
	found, err := db.QueryContext(ctx, "SELECT key, version, state FROM weir_states WHERE key IN ("+places+")", args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	all := make([]casstore.Row, len(keys))
	for found.Next() {
		var key []byte
		var w casstore.Row
		if err := found.Scan(&key, &w.Version, &w.State); err != nil {
			return nil, err
		}
		all[index[casstore.Key(key)]] = w
	}
	return all, found.Err()
}

func write(ctx context.Context, tx *sql.Tx, g casstore.Group) error {
	for _, c := range g {
		if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO weir_states VALUES (?, ?, ?, ?)", c.Key[:], c.Next, c.State, c.Expires); err != nil {
			return err
		}
	}
	return nil
}
