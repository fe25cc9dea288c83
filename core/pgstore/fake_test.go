package pgstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
)

// A fake is a driver whose statements return the rows and errors of a test. It keeps the statements.
type fake struct {
	reply func(query string, args []string) (rows [][]sqldriver.Value, err error) // err comes after the rows

	mu      sync.Mutex
	queries []string
}

// open returns a database with the driver.
func (f *fake) open(t *testing.T) *sql.DB {
	db := sql.OpenDB(f)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// count returns the number of statements with a part.
func (f *fake) count(part string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.queries {
		if strings.Contains(q, part) {
			n++
		}
	}
	return n
}

func (f *fake) Connect(context.Context) (sqldriver.Conn, error) { return fakeConn{f}, nil }
func (f *fake) Driver() sqldriver.Driver                        { return nil }

type fakeConn struct{ *fake }

func (fakeConn) Prepare(string) (sqldriver.Stmt, error) { panic("a statement is prepared") }
func (fakeConn) Close() error                           { return nil }
func (fakeConn) Begin() (sqldriver.Tx, error)           { panic("a transaction begins without its isolation") }

func (c fakeConn) BeginTx(_ context.Context, o sqldriver.TxOptions) (sqldriver.Tx, error) {
	return fakeTx{c}, c.run("begin " + sql.IsolationLevel(o.Isolation).String())
}

func (c fakeConn) run(query string) error {
	_, err := c.QueryContext(context.Background(), query, nil)
	return err
}

func (c fakeConn) QueryContext(_ context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	c.mu.Lock()
	c.queries = append(c.queries, query)
	c.mu.Unlock()
	var texts []string
	for _, a := range args {
		texts = append(texts, fmt.Sprint(a.Value))
	}
	rows, err := c.reply(query, texts)
	if rows == nil && err != nil {
		return nil, err
	}
	return &fakeRows{rows, err}, nil
}

func (c fakeConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	_, err := c.QueryContext(ctx, query, args)
	return sqldriver.ResultNoRows, err
}

type fakeTx struct{ fakeConn }

func (t fakeTx) Commit() error   { return t.run("commit") }
func (t fakeTx) Rollback() error { return t.run("rollback") }

type fakeRows struct {
	rows [][]sqldriver.Value
	err  error
}

func (r *fakeRows) Columns() []string { return make([]string, max(1, len(first(r.rows)))) }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(dest []sqldriver.Value) error {
	if len(r.rows) == 0 {
		if r.err != nil {
			return r.err
		}
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

func first(rows [][]sqldriver.Value) []sqldriver.Value {
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}

// A stateError is an error of the server.
type stateError string

func (e stateError) Error() string    { return "ERROR: boom (SQLSTATE " + string(e) + ")" }
func (e stateError) SQLState() string { return string(e) }
