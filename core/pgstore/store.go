package pgstore

import (
	"database/sql"
	"time"

	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/internal/argument"
)

// A Store keeps the states of rules in a table of Postgres. Use [New] to make a Store. It is safe for concurrent use and need not
// be closed: it has no goroutine while it is not used.
type Store struct {
	*casstore.Store
	rows *rows
}

// New returns a Store that uses db for an application, such as "shop": applications with different names share no state in one
// table. See [casstore.Application] for names. The Store neither closes nor configures db, and creates no table: see [Schema] and
// [Migrations]. It sends nothing before the first decision, so Postgres may be unreachable when New is called. New panics if db or
// an option is nil, or app invalid.
func New(db *sql.DB, app string, opts ...Option) *Store {
	argument.NotNil("pgstore: New", "the database", db)
	keyhash.Prefix("pgstore: New", "", app)
	c := newConfig("pgstore: New", opts)
	r := &rows{db: db, config: c, statements: newStatements(c.table), sweeper: sweeper{begun: time.Now()}, faults: newFaultLog()}
	return &Store{Store: casstore.New(r, append(c.options, casstore.Application(app))...), rows: r}
}

// Measures returns the figures of the [casstore.Store], and those of the table, for package observe.
func (s *Store) Measures() []driver.Measure {
	w := &s.rows.sweeper
	return append(s.Store.Measures(),
		driver.Measure{Name: "weir.postgres.rows", Help: "Rows of the table, as Postgres estimates.", Unit: "{row}", Value: float64(w.rows.Load())},
		driver.Measure{Name: "weir.postgres.swept", Help: "Expired rows that this process deleted.", Unit: "{row}", Total: true, Value: float64(w.swept.Load())})
}
