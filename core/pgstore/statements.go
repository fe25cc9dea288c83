package pgstore

import "strings"

// statements are those for a table. They are text for all drivers: each parameter is the literal of an array, as a text. Each
// statement locks and inserts rows in the order of their ids, so no two of them wait for each other.
type statements struct{ read, lock, place, swap, sweep string }

func newStatements(table string) statements {
	r := strings.NewReplacer("TABLE", table, "NOW", "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
	return statements{
		read: r.Replace(readStatement), lock: r.Replace(lockStatement), place: r.Replace(placeStatement),
		swap: r.Replace(swapStatement), sweep: r.Replace(sweepStatement),
	}
}

const (
	// readStatement returns the numbers of ids with their rows, and a time after they were read.
	readStatement = `SELECT w.n, coalesce(s.version, 0), s.state, (SELECT NOW)
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, n) LEFT JOIN TABLE s ON s.id = w.id`

	// lockStatement is readStatement for rows that exist, which it locks. Each time is one after the row was locked.
	lockStatement = `SELECT q.n, q.version, q.state, NOW FROM (
	SELECT w.n, s.version, s.state FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, n)
	JOIN TABLE s ON s.id = w.id ORDER BY s.id FOR UPDATE OF s) q`

	// placeStatement inserts rows without a state, for a minute, unless they exist.
	placeStatement = `INSERT INTO TABLE (id, version, expires, state)
SELECT id, version, NOW + 60000000, '' FROM unnest($1::uuid[], $2::bigint[]) AS w (id, version)
ORDER BY id ON CONFLICT DO NOTHING`

	// swapStatement changes the rows of each group if all of them have their versions, and returns the number of the group
	// for each row. A row that a group of one inserts has no version, which is 0. A changed row has its version in the
	// snapshot of the statement, too, because Read has returned it and no version is used twice: so UPDATE finds the row that
	// was locked. A row expires when it was changed at the earliest, so it is not swept within a minute: as long, a late
	// statement that would insert it again finds it.
	swapStatement = `WITH w AS MATERIALIZED (
	SELECT id, version, next, greatest(expires, now) AS expires, state, grp
	FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::int[])
	AS w (id, version, next, expires, state, grp), (SELECT NOW AS now) AS t),
locked AS MATERIALIZED (
	SELECT s.id, s.version FROM TABLE s WHERE s.id = ANY ($1::uuid[]) ORDER BY s.id FOR UPDATE),
good AS MATERIALIZED (
	SELECT w.grp FROM w LEFT JOIN locked l ON l.id = w.id
	GROUP BY w.grp HAVING bool_and(coalesce(l.version, 0) = w.version)),
changed AS (
	UPDATE TABLE s SET version = w.next, expires = w.expires, state = w.state
	FROM w WHERE s.id = w.id AND w.version <> 0 AND w.grp IN (SELECT grp FROM good) RETURNING w.grp),
inserted AS (
	INSERT INTO TABLE (id, version, expires, state)
	SELECT id, next, expires, state FROM w WHERE version = 0 AND grp IN (SELECT grp FROM good)
	ORDER BY id ON CONFLICT DO NOTHING RETURNING id)
SELECT grp FROM changed UNION ALL SELECT w.grp FROM inserted i JOIN w ON w.id = i.id`

	// sweepStatement deletes the rows of 64 pages that expired a minute ago, and returns their number, the number of pages,
	// and about the number of rows, of which Postgres has an estimate. It waits for no lock, because its order is another one,
	// and scans no other page.
	sweepStatement = `WITH deleted AS (
	DELETE FROM TABLE WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM TABLE
		WHERE ctid >= ('(' || $1::bigint || ',0)')::tid AND ctid < ('(' || $1::bigint + 64 || ',0)')::tid
		AND expires < NOW - 60000000 FOR UPDATE SKIP LOCKED))
	RETURNING 1)
SELECT (SELECT count(*) FROM deleted), pg_relation_size('TABLE') / current_setting('block_size')::int,
	greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint) FROM pg_class c WHERE c.oid = 'TABLE'::regclass`
)
