package pgstore

import "strings"

// statements are those for a table. They are text for all drivers: each parameter is the literal of an array, as a text. Each
// statement locks and inserts rows in the order of their ids, so no two of them wait for each other.
type statements struct{ read, lock, place, upsert, replace, sweep string }

func newStatements(table string) statements {
	r := strings.NewReplacer("TABLE", table, "NOW", "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
	return statements{
		read: r.Replace(readStatement), lock: r.Replace(lockStatement), place: r.Replace(placeStatement),
		upsert: r.Replace(upsertStatement), replace: r.Replace(replaceStatement), sweep: r.Replace(sweepStatement),
	}
}

const (
	// readStatement returns the numbers of ids with their rows, and a time after they were read.
	readStatement = `SELECT w.n, coalesce(s.version, 0), s.state, (SELECT NOW)
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, n) LEFT JOIN TABLE s ON s.id = w.id`

	// lockStatement is readStatement for rows that exist, which it locks. The number 0 has a time after all were locked.
	lockStatement = `SELECT q.n, q.version, q.state, 0 FROM (
	SELECT w.n, s.version, s.state FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, n)
	JOIN TABLE s ON s.id = w.id ORDER BY s.id FOR UPDATE OF s) q
UNION ALL SELECT 0, 0, NULL, NOW`

	// placeStatement inserts rows without a state, for a minute, unless they exist.
	placeStatement = `INSERT INTO TABLE (id, version, expires, state)
SELECT id, version, NOW + 60000000, '' FROM unnest($1::uuid[], $2::bigint[]) AS w (id, version)
ORDER BY id ON CONFLICT DO NOTHING`

	// upsertStatement changes each row that has the version before the new one, inserts those that are missing, and returns
	// the numbers of both. It takes half of the time of replaceStatement. A row expires when it was changed at the earliest, so
	// it is not swept within a minute. If it is swept between the read and a statement that arrives so late, it is inserted: that
	// charges an event that has failed, and forgets changes that had expired.
	upsertStatement = `WITH w AS (
	SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[], $5::int[]) AS w (id, version, expires, state, n)),
changed AS (
	INSERT INTO TABLE AS s (id, version, expires, state)
	SELECT id, version, greatest(expires, (SELECT NOW)), state FROM w ORDER BY id
	ON CONFLICT (id) DO UPDATE SET version = excluded.version, expires = excluded.expires, state = excluded.state
	WHERE s.version = excluded.version - 1 RETURNING id)
SELECT w.n FROM changed JOIN w ON w.id = changed.id`

	// replaceStatement changes the rows of each group if all of them have their old versions, and returns the number of the
	// group for each row. A changed row has its old version in the snapshot of the statement, too, because Read has returned it
	// and no version is used twice: so UPDATE finds the row that was locked.
	replaceStatement = `WITH w AS (
	SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[], $5::int[], $6::bigint[])
	AS w (id, version, expires, state, n, old)),
locked AS MATERIALIZED (
	SELECT s.id, s.version FROM TABLE s WHERE s.id = ANY ($1::uuid[]) ORDER BY s.id FOR UPDATE),
bad AS (
	SELECT w.n FROM w LEFT JOIN locked ON locked.id = w.id WHERE locked.version IS DISTINCT FROM w.old)
UPDATE TABLE s SET version = w.version, expires = greatest(w.expires, (SELECT NOW)), state = w.state
FROM w WHERE s.id = w.id AND w.n NOT IN (SELECT n FROM bad) RETURNING w.n`

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
