package pgstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core/casstore"
)

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
