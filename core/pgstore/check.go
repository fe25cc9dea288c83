package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/core/casstore"
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
//   - enable_seqscan, plan_cache_mode and other settings of the role: see Settings in the documentation of the package
//   - transactions: no long transaction keeps old versions of rows
//   - rows: their number, compared with [MaxRows]
//
// Check makes about 150 statements, those about the pooler in three sessions at the same time, and adds one row to the table, which is deleted like other rows. It
// neither logs nor changes settings. A check may take ten seconds. The checks after the end of ctx are ResultUnknown.
// Check may be called while s makes decisions.
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

const (
	checkSessions = 3
	checkRounds   = 20
)

// pooler executes statements in several sessions concurrently, which a pooler gives to each other's connections.
func (c *check) pooler(ctx context.Context) error {
	before := c.db.Stats()
	most := before.MaxOpenConnections
	sessions := checkSessions
	if most > 0 {
		sessions = min(sessions, max(1, most-before.InUse))
	}
	var mu sync.Mutex
	servers, pairs := make(map[int]bool), make(map[[2]int]bool)
	use := func(session int) error {
		conn, err := c.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		for range checkRounds {
			var pid int
			if _, _, err := c.query(ctx, conn, c.read, []casstore.Key{newKey()}); err != nil {
				return err
			}
			if err := conn.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			mu.Lock()
			servers[pid], pairs[[2]int{session, pid}] = true, true
			mu.Unlock()
		}
		return nil
	}
	var all sync.WaitGroup
	errs := make([]error, sessions)
	for i := range sessions {
		all.Go(func() { errs[i] = call.Recover(errDriver, func() error { return use(i) }) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	detail := "none, or one in session mode"
	if len(pairs) > sessions || len(servers) < sessions {
		detail = "one in transaction mode"
	}
	c.warn("pooler", detail, "")
	switch need := c.config.connections + 1; {
	case most > 0 && most < need:
		c.warn("connections", fmt.Sprintf("at most %d", most), fmt.Sprintf("call SetMaxOpenConns(%d) of a sql.DB of its own, or with more", need))
	case c.db.Stats().MaxIdleClosed > before.MaxIdleClosed:
		c.warn("connections", "idle connections are closed, and opened again for the next decisions", fmt.Sprintf("call SetMaxIdleConns(%d)", need))
	default:
		c.warn("connections", "enough, and kept while they are idle", "")
	}
	return nil
}

func newKey() (k casstore.Key) {
	for i := range k {
		k[i] = byte(rand.Uint32())
	}
	return k
}

// errDecision reports a statement with another result than the right one.
var errDecision = errors.New("a statement has another result than it should have")

// decision inserts, changes and empties a row, and measures the time of statements.
func (c *check) decision(ctx context.Context) error {
	key := newKey()
	var took []time.Duration
	for i, step := range []struct {
		version, next int64
		want          bool
	}{{0, 2, true}, {0, 4, false}, {2, 3, true}, {2, 3, false}, {3, 4, true}, {3, 9, false}, {4, 9, true}} {
		begun := time.Now()
		found, now, err := c.query(ctx, c.db, c.read, []casstore.Key{key})
		if err != nil {
			return err
		}
		took = append(took, time.Since(begun))
		begun = time.Now()
		done, err := c.change(ctx, c.db, []casstore.Group{{{Key: key, Version: step.version, Next: step.next, State: []byte{byte(i)}, Expires: now}}})
		if err != nil {
			return err
		}
		took = append(took, time.Since(begun))
		if done[0] != step.want || step.want && found[0].Version != step.version {
			c.add(Finding{"decision", ResultFailed, errDecision.Error(), "use Postgres, without a proxy that divides the table"})
			return nil
		}
	}
	c.warn("decision", "a row is inserted and changed, and a late change is not made", "")
	slices.Sort(took)
	median := took[len(took)/2]
	f := Finding{Check: "round trip", Result: ResultOK, Detail: fmt.Sprintf("median %v, worst %v; a decision takes two or three, and its Timeout is %v",
		median.Round(10*time.Microsecond), took[len(took)-1].Round(10*time.Microsecond), c.deadline)}
	switch f.Change = "set Timeout to several times the round trip, or use a Postgres that is nearer"; {
	case 2*median > c.deadline:
		f.Result = ResultFailed
	case 8*median > c.deadline:
		f.Result = ResultWarning
	default:
		f.Change = ""
	}
	c.add(f)
	return nil
}

// plan explains the statement that reads ten rows.
func (c *check) plan(ctx context.Context) error {
	var keys []casstore.Key
	for range 10 {
		keys = append(keys, newKey())
	}
	lines, err := c.db.QueryContext(ctx, "EXPLAIN "+strings.ReplaceAll(c.read, "$1", "'"+ids(keys)+"'"))
	if err != nil {
		return err
	}
	defer lines.Close()
	for lines.Next() {
		var line string
		if err := lines.Scan(&line); err != nil {
			return err
		}
		if strings.Contains(line, "Seq Scan") {
			c.warn("plan", "a decision reads the whole table", "ALTER ROLE "+c.role+" SET enable_seqscan = off")
			return lines.Close()
		}
	}
	c.warn("plan", "a decision reads its rows by the index", "")
	return lines.Err()
}

// wanted are the settings of the role that matter, and the reason.
var wanted = []struct {
	name, value string
	ok          func(c *check, value string, ms time.Duration) bool
	reason      string
}{
	{"enable_seqscan", "off", is("off"), "a plan of the small table is kept while it grows, and then reads all of it"},
	{"default_transaction_isolation", "'read committed'", is("read committed"), "concurrent decisions fail and are repeated"},
	{"statement_timeout", "'1s'", positive, "a statement that hangs keeps its connection"},
	{"lock_timeout", "'100ms'", positive, "a lock of another program delays the decisions about other keys"},
	{"idle_in_transaction_session_timeout", "'1s'", positive, "a process that is stopped in a transaction keeps its locks"},
	{"synchronous_commit", "off", func(c *check, value string, _ time.Duration) bool { return !c.logged || value == "off" },
		"each decision waits for the disk"},
}

func is(want string) func(*check, string, time.Duration) bool {
	return func(_ *check, value string, _ time.Duration) bool { return value == want }
}

func positive(_ *check, _ string, ms time.Duration) bool { return ms > 0 }

func (c *check) settings(ctx context.Context) error {
	for _, w := range wanted {
		var value string
		if err := c.scan(ctx, "SELECT setting FROM pg_settings WHERE name = '"+w.name+"'", &value); err != nil {
			return err
		}
		ms, _ := strconv.Atoi(value)
		detail, change := value, ""
		if strings.HasSuffix(w.name, "_timeout") {
			if detail = "none"; ms > 0 {
				detail = (time.Duration(ms) * time.Millisecond).String()
			}
		}
		if !w.ok(c, value, time.Duration(ms)*time.Millisecond) {
			detail, change = detail+": "+w.reason, "ALTER ROLE "+c.role+" SET "+w.name+" = "+w.value
		}
		c.warn(w.name, detail, change)
	}
	return nil
}

// longTransaction is the time from which on the old versions of rows make decisions slow.
const longTransaction = 10 * time.Second

func (c *check) transactions(ctx context.Context) error {
	var seconds float64
	var all bool
	if err := c.scan(ctx, `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - since)), 0)::float8, pg_has_role('pg_read_all_stats', 'MEMBER') FROM (
	SELECT xact_start FROM pg_stat_activity WHERE datname = current_database() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
	UNION ALL SELECT prepared FROM pg_prepared_xacts) AS t (since)`, &seconds, &all); err != nil {
		return err
	}
	age := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	f := Finding{Check: "transactions", Result: ResultOK, Detail: fmt.Sprintf("the oldest one began %v ago", age)}
	switch {
	case age > longTransaction:
		f.Result, f.Detail, f.Change = ResultWarning, f.Detail+": until it ends, old versions of rows make decisions slow", "end it, or use a database of its own for the table"
	case !all:
		f.Result, f.Detail, f.Change = ResultUnknown, f.Detail+", except for those of other roles", "GRANT pg_read_all_stats TO "+c.role
	}
	c.add(f)
	return nil
}

func (c *check) size(ctx context.Context) error {
	var n, bytes int64
	if err := c.scan(ctx, "SELECT greatest(pg_stat_get_live_tuples(oid), reltuples::bigint), pg_total_relation_size(oid) FROM pg_class WHERE oid = 'TABLE'::regclass",
		&n, &bytes); err != nil {
		return err
	}
	detail, change := fmt.Sprintf("about %d, in %d MB; MaxRows is %d", n, bytes/1e6, c.config.maxRows), ""
	if n >= int64(c.config.maxRows) {
		detail, change = detail+": new keys share their limits", "raise MaxRows, or find the source of the keys"
	}
	c.warn("rows", detail, change)
	return nil
}
