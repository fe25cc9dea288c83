package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/weir/core/internal/call"
)

// Check checks whether s works on the Postgres at hand, and returns the result of each check:
//
//   - connection: the server replies to the role. If it does not, there is no other Finding
//   - server: the version, and whether it is the primary and takes writes
//   - table: its columns, primary key and settings, and the privileges of the role; whether it is logged, see [Logged]
//   - pooler: connections keep no statements that the driver has prepared and another session executes
//   - connections: db has enough of them, and keeps them
//   - decision: the statements of a decision have the right results
//   - round trip: the time of a statement, compared with [Timeout]
//   - plan: the statement that reads rows uses the index
//   - enable_seqscan and other settings of the role: see Settings in the documentation of the package
//   - transactions: no long transaction keeps old versions of rows
//   - rows: their number, compared with [MaxRows]
//
// Check makes about 250 statements, those about the pooler in up to five sessions at the same time, one
// more than [Connections] says, and adds one row to the table, which is deleted like other rows. It neither logs nor changes settings. A check may take ten seconds. The checks after
// the end of ctx are ResultUnknown. Check may be called while s makes decisions.
func (s *Store) Check(ctx context.Context) []Finding {
	c := &check{rows: s.rows, deadline: s.Describe().Deadline}
	for _, step := range []struct {
		name       string
		run        func(context.Context) error
		needsTable bool
	}{
		{"connection", c.connection, false}, {"server", c.server, false}, {"table", c.table, false}, {"pooler", c.pooler, true},
		{"decision", c.decision, true}, {"plan", c.plan, true}, {"settings", c.settings, false}, {"transactions", c.transactions, false},
		{"rows", c.size, true},
	} {
		if step.needsTable && !c.exists {
			continue
		}
		if err := c.step(ctx, step.run); err != nil {
			c.add(failed(ctx, step.name, err))
			if step.name == "connection" {
				break
			}
		}
	}
	return c.findings
}

// step runs a step of Check for some time.
func (c *check) step(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return call.Recover(errDriver, func() error { return run(ctx) })
}

const stepTimeout = 10 * time.Second

// A check is a call of Check.
type check struct {
	*rows
	deadline time.Duration
	findings []Finding
	role     string
	exists   bool // the table does
	logged   bool // the table is
}

func (c *check) add(f Finding) { c.findings = append(c.findings, f) }

// warn adds a Finding, which is a Warning with change if there is one.
func (c *check) warn(name, detail, change string) {
	f := Finding{Check: name, Result: ResultOK, Detail: detail, Change: change}
	if change != "" {
		f.Result = ResultWarning
	}
	c.add(f)
}

// failed returns the Finding of a check that failed because of err.
func failed(ctx context.Context, name string, err error) Finding {
	f := Finding{name, ResultFailed, err.Error(), faultOf(err)}
	switch {
	case ctx.Err() != nil:
		f.Result, f.Detail, f.Change = ResultUnknown, "not checked: "+ctx.Err().Error(), "give the check more time"
	case f.Change == "" && name == "connection":
		f.Change = "check the address, the network, TLS, whether the server runs, and the options of the driver"
	case f.Change == "":
		f.Result, f.Change = ResultUnknown, "repeat the check"
	}
	return f
}

// scan executes a statement that returns one row.
func (c *check) scan(ctx context.Context, statement string, values ...any) error {
	return c.db.QueryRowContext(ctx, strings.ReplaceAll(statement, "TABLE", c.config.table)).Scan(values...)
}

func (c *check) connection(ctx context.Context) error {
	var user, database string
	if err := c.scan(ctx, "SELECT quote_ident(current_user), current_database()", &user, &database); err != nil {
		return err
	}
	c.role = user
	c.warn("connection", fmt.Sprintf("role %s, database %s", user, database), "")
	return nil
}

// minVersion is the first version that can scan a range of pages.
const minVersion = 14

func (c *check) server(ctx context.Context) error {
	var product, readOnly string
	var version int
	var replica bool
	if err := c.scan(ctx, "SELECT version(), current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('transaction_read_only')",
		&product, &version, &replica, &readOnly); err != nil {
		return err
	}
	f := Finding{Check: "server", Result: ResultOK, Detail: product}
	fail := func(detail, change string) { f.Result, f.Detail, f.Change = ResultFailed, product+": "+detail, change }
	switch {
	case !strings.HasPrefix(product, "PostgreSQL") || strings.Contains(product, "-YB-"):
		fail("another product, which locks in another way", "use Postgres")
	case version < 10_000*minVersion:
		fail("too old", fmt.Sprintf("use Postgres %d or newer", minVersion))
	case replica:
		fail("a replica", "connect to the primary, for example with target_session_attrs=read-write")
	case readOnly == "on":
		fail("read-only", "set default_transaction_read_only = off for the role")
	}
	c.add(f)
	return nil
}

func (c *check) table(ctx context.Context) error {
	var kind, persistence, columns, privileges, settings string
	var unique bool
	err := c.scan(ctx, `SELECT c.relkind, c.relpersistence, coalesce(array_to_string(c.reloptions, ' '), ''),
	(SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attname) FROM pg_attribute a
		WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attname IN ('id', 'version', 'expires', 'state')),
	(SELECT coalesce(string_agg(p, ', '), '') FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p WHERE NOT has_table_privilege(c.oid, p)),
	EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL
		AND i.indkey[0] = (SELECT attnum FROM pg_attribute WHERE attrelid = c.oid AND attname = 'id'))
	FROM pg_class c WHERE c.oid = 'TABLE'::regclass`, &kind, &persistence, &settings, &columns, &privileges, &unique)
	if err != nil {
		return err
	}
	c.exists, c.logged = true, persistence == "p"
	f := Finding{"table", ResultOK, c.config.table + ": unlogged", ""}
	if c.logged {
		f.Detail = c.config.table + ": logged"
	}
	set := func(r Result, detail, change string) {
		f.Result, f.Detail, f.Change = r, c.config.table+": "+detail, change
	}
	switch {
	case kind != "r" || columns != "expires bigint, id uuid, state bytea, version bigint" || !unique:
		set(ResultFailed, "not the table of the package: "+columns, "create it with Schema or Migrations")
	case persistence == "t":
		set(ResultFailed, "temporary: other sessions do not see it", "create it with Schema or Migrations")
	case privileges != "":
		set(ResultFailed, "the role lacks "+privileges, "GRANT "+privileges+" ON "+c.config.table+" TO "+c.role)
	case c.logged && !c.config.logged:
		set(ResultWarning, "logged, without the option Logged", "use the option, or ALTER TABLE "+c.config.table+" SET UNLOGGED, which takes a half to a third of the time")
	case !c.logged && c.config.logged:
		set(ResultWarning, "unlogged, with the option Logged: a crash empties it", "ALTER TABLE "+c.config.table+" SET LOGGED")
	case !strings.Contains(settings, "fillfactor="):
		set(ResultWarning, "without the settings of Schema", "ALTER TABLE "+c.config.table+" SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000)")
	}
	c.add(f)
	return nil
}
