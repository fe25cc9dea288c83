package pgstore

import (
	"fmt"
	"regexp"
	"time"

	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/internal/argument"
)

// An Option configures the Store that [New] returns, and the statement of [Schema].
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	table   string
	logged  bool
	maxRows int

	connections int
	options     []casstore.Option // of the casstore.Store
}

func newConfig(caller string, opts []Option) config {
	c := config{table: DefaultTable, maxRows: DefaultMaxRows, connections: DefaultConnections}
	argument.Apply(caller, &c, opts)
	return c
}

// The defaults of [Table], [MaxRows] and [Connections].
const (
	DefaultTable       = "weir_states"
	DefaultMaxRows     = 10_000_000
	DefaultConnections = casstore.DefaultConnections
)

// tableName matches names of tables, which Postgres cuts after 63 bytes.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Table sets the name of the table, by default [DefaultTable]. The name may be qualified with a schema, as in "weir.states";
// otherwise Postgres looks for the table in the search_path of the role. Each part has 1 to 63 ASCII letters, digits and
// underscores, and begins with no digit. As in SQL without quotes, upper-case letters mean lower-case ones, and words that SQL
// reserves, such as "order", are no names. Table panics if name is none.
func Table(name string) Option {
	if !tableName.MatchString(name) {
		panic(fmt.Sprintf("pgstore: Table: not the name of a table: %q", name))
	}
	return option(func(c *config) { c.table = name })
}

// Logged makes [Schema] create a table with a write-ahead log, and [Store.Check] expect one. It does not change a table that
// exists: use ALTER TABLE weir_states SET LOGGED.
//
// An unlogged table takes a half to a third of the time and is not replicated. A crash of Postgres empties it, and so does a
// failover, after which each key has its whole limit again. A logged table keeps all decisions, or with
// synchronous_commit = off those except of the last moments: choose it for long periods and quotas.
func Logged() Option { return option(func(c *config) { c.logged = true }) }

// Timeout sets the deadline of a decision, by default [casstore.DefaultTimeout]: see [casstore.Timeout]. It panics if d is not positive.
func Timeout(d time.Duration) Option {
	if d <= 0 {
		panic("pgstore: Timeout: not positive")
	}
	return with(casstore.Timeout(d))
}

// Connections sets the number of connections that make decisions, by default [DefaultConnections]: see [casstore.Connections]. One more deletes expired rows now
// and then. It panics if n is not from 1 to 1000.
func Connections(n int) Option {
	if n < 1 || n > 1000 {
		panic("pgstore: Connections: not from 1 to 1000")
	}
	o := casstore.Connections(n)
	return option(func(c *config) { c.connections, c.options = n, append(c.options, o) })
}

// KeySecret makes the Store hash keys with HMAC-SHA-256 and secret: see [casstore.KeySecret]. It panics if secret is shorter
// than 16 bytes.
func KeySecret(secret []byte) Option {
	if len(secret) < 16 {
		panic("pgstore: KeySecret: shorter than 16 bytes")
	}
	return with(casstore.KeySecret(secret))
}

func with(o casstore.Option) Option {
	return option(func(c *config) { c.options = append(c.options, o) })
}

// MaxRows sets the number of rows, by default [DefaultMaxRows], from which on keys without a row share overflow rows, one for each
// rule: they are admitted up to the limit together, until the table has fewer rows again. It bounds the size of the table in a
// flood of new keys. A row of a bucket takes about 190 bytes with its index. The number of rows is the estimate of Postgres,
// which each process reads every second, so a table may exceed n by the rows of some seconds. MaxRows panics if n is less than 1.
func MaxRows(n int) Option {
	if n < 1 {
		panic("pgstore: MaxRows: n is less than 1")
	}
	return option(func(c *config) { c.maxRows = n })
}
