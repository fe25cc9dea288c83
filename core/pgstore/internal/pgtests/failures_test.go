package pgtests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
	"github.com/weir-go/weir/internal/testkit"
)

// A server that ends during decisions and starts again charges no event twice, and forgets none, unless the
// table is unlogged and the server was killed: each key then has its whole limit once more.
func TestServer_ends(t *testing.T) {
	const limit = 1000
	s := pgtest.New(t)
	for _, c := range []struct {
		name       string
		end        func(*pgtest.Server) error
		statements []string
		forgotten  int
	}{
		{"stopped", (*pgtest.Server).Stop, nil, 0},
		{"killed, logged", (*pgtest.Server).Kill, []string{logged}, 0},
		{"killed, unlogged", (*pgtest.Server).Kill, nil, limit},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDatabase(t, s, c.statements...)
			o := begin(t, 8, 8, d.limiters(2, time.Second, []core.Rule{bucket(limit)})...)
			o.until(func() bool { return o.sum() > limit })
			testkit.Must(t, c.end(s))
			o.mu.Lock()
			sum, failures := o.sum(), o.failures
			o.mu.Unlock()
			if sum >= 8*limit {
				t.Error("no events are left")
			}
			o.until(func() bool { return o.failures > failures })
			testkit.Must(t, s.Start())
			o.decided(o.keys...)
			o.exhausted(limit, c.forgotten)
		})
	}
}

// The rows that a statement returns before Postgres takes it back are no decisions, and decisions that are stored are not
// repeated. Half of the decisions have two rules, so that a round
// has rows that change alone and together.
func TestStatements_takenBack(t *testing.T) {
	const limit = 300
	const fail = `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF random() < 0.2 THEN RAISE EXCEPTION 'taken back' USING ERRCODE = '%s'; END IF; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER fail AFTER INSERT OR UPDATE ON weir_states DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION fail()`
	for _, c := range []struct {
		name, statement, parameters string
		repeats                     bool
	}{
		{"at the end", fmt.Sprintf(fail, "P0001"), "", false},
		{"at the end, for a repetition", fmt.Sprintf(fail, "40001"), "", true},
		{"statement_timeout", "SELECT", "statement_timeout=1", false},
		{"lock_timeout", "SELECT", "lock_timeout=1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.parameters != "" {
				long(t)
			}
			d := newDatabase(t, pgtest.Shared(t), c.statement)
			var limiters []*core.Limiter
			for range 2 {
				s := d.store(unhurried, c.parameters)
				limiters = append(limiters, testkit.Limiter(t, s, bucket(limit)), testkit.Limiter(t, s, core.FixedWindow("window", core.Per(5000, period)), bucket(limit)))
			}
			o := begin(t, 16, 6, limiters...)
			o.until(func() bool { return o.sum() > 3*limit })
			o.exhausted(limit, 0)
			if o.unknown > 0 {
				t.Errorf("got the failures %v", o.failed)
			}
			if n := o.failed["40001"]; c.repeats && n > o.sum()/5 {
				t.Errorf("%d decisions failed, want repetitions", n)
			}
		})
	}
}

// A foreign transaction that holds a row delays the decisions about this row until their deadline, and other
// decisions for a moment.
func TestForeignLock(t *testing.T) {
	d := newDatabase(t, pgtest.Shared(t))
	timeout := 300 * time.Millisecond
	hot := d.limiters(1, timeout, []core.Rule{bucket(1000)}, "lock_timeout=100")
	testkit.Admit(t, hot[0], "key 0", 1) // the only row
	tx, err := d.admin.Begin()
	testkit.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	var n int
	testkit.Must(t, tx.QueryRow("WITH locked AS (SELECT FROM weir_states FOR UPDATE) SELECT count(*) FROM locked").Scan(&n))
	if n != 1 {
		t.Fatalf("got %d rows, want 1", n)
	}
	o := begin(t, 20, 20, hot...)
	o.decided(o.keys[1:]...)
	o.until(func() bool { return o.failures > 5 })
	o.decided(o.keys[1:]...)
	o.mu.Lock()
	if o.admitted["key 0"] > 0 || len(o.failed) == 0 {
		t.Errorf("admitted %d with the locked row, failed %v", o.admitted["key 0"], o.failed)
	}
	if most := timeout + 2*time.Second; o.slowest > most {
		t.Errorf("a decision took %v, want at most %v", o.slowest, most)
	}
	t.Logf("failed %v, the slowest decision took %v", o.failed, o.slowest)
	o.mu.Unlock()
	testkit.Must(t, tx.Rollback())
	o.decided("key 0")
	o.end()
	admitted := o.admitted["key 0"] + 1
	used := testkit.Used(t, testkit.Limiter(t, d.store(unhurried), bucket(1000)), "key 0")[0]
	if used < admitted || used > admitted+o.unknown {
		t.Errorf("%d events were charged, want %d, and at most %d more", used, admitted, o.unknown)
	}
}

// A process that is paused while it has locked a row delays the decisions of others about it until Postgres ends
// the transaction, and charges nothing when it goes on.
func TestPausedProcess(t *testing.T) {
	long(t)
	d := newDatabase(t, pgtest.Shared(t))
	l := testkit.Limiter(t, d.store(unhurried), bucket(1000))
	testkit.Admit(t, l, "k", 1)
	paused, goOn, result := make(chan bool), make(chan bool), make(chan error)
	rows := rowsOf(d.store(unhurried, "idle_in_transaction_session_timeout=500"))
	var key casstore.Key
	var id []byte
	testkit.Must(t, d.admin.QueryRow("SELECT decode(replace(id::text, '-', ''), 'hex') FROM weir_states").Scan(&id))
	copy(key[:], id)
	go func() {
		result <- rows.Update(context.Background(), []casstore.Key{key}, func(rows []casstore.Row, _ int64) casstore.Group {
			close(paused)
			<-goOn
			return casstore.Group{{Key: key, Version: rows[0].Version, Next: rows[0].Version + 1}} // a reset
		})
	}()
	<-paused
	begun := time.Now()
	testkit.Admit(t, l, "k", 1)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the decision took %v, want the 500 ms until the transaction ends", took)
	}
	close(goOn)
	if err := <-result; err == nil {
		t.Error("the transaction of the paused process was committed")
	}
	if left := testkit.Left(t, l, "k"); left != 998 {
		t.Errorf("%d events are left, want 998", left)
	}
}

// If Postgres has no connection for a process, its decisions fail at once, and charge nothing.
func TestConnections_exhausted(t *testing.T) {
	long(t)
	d := newDatabase(t, pgtest.Shared(t))
	d.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 6", "GRANT ALL ON weir_states TO few")
	defer d.execute("DROP OWNED BY few", "DROP ROLE few")
	hold := pgtest.Open(t, "pgx", d.DSN(d.name, "user=few"), 6)
	var held []*sql.Conn
	for range 6 {
		c, err := hold.Conn(t.Context())
		testkit.Must(t, err)
		held = append(held, c)
	}
	release := func() {
		for _, c := range held[:3] {
			testkit.Must(t, c.Close())
		}
		held = held[3:]
	}
	hold.SetMaxIdleConns(0)
	limiters := d.limiters(2, unhurried, []core.Rule{bucket(500)}, "user=few")
	begun := time.Now()
	if _, err := limiters[0].Allow(t.Context(), "k"); !errors.Is(err, core.ErrUnavailable) || time.Since(begun) > 5*time.Second {
		t.Errorf("got %v after %v", err, time.Since(begun))
	}
	release() // for both
	o := begin(t, 16, 8, limiters...)
	o.until(func() bool { return o.sum() > 500 })
	o.end()
	release() // or one has none
	o.exhausted(500, 0)
	if len(o.failed) == 0 || o.unknown > 0 {
		t.Errorf("got the failures %v", o.failed)
	}
}

// Callers that leave close no connection.
func TestContext_connectionsStay(t *testing.T) {
	long(t)
	d := newDatabase(t, pgtest.Shared(t))
	l := d.limiters(1, unhurried, []core.Rule{bucket(100_000)}, "application_name=leaving")[0]
	connected := func() []int {
		testkit.Concurrently(32, func(i int) { testkit.Allow(t, l, fmt.Sprint(i)) })
		return d.backends("leaving")
	}
	before := connected()
	left := make([]int, 16)
	testkit.Concurrently(16, func(i int) {
		for n := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*20*time.Microsecond)
			if _, err := l.Allow(ctx, fmt.Sprint(i)); errors.Is(err, context.DeadlineExceeded) {
				left[i]++
			}
			cancel()
		}
	})
	if slices.Max(left) == 0 {
		t.Error("no caller has left")
	}
	after := connected()
	for _, pid := range before {
		if !slices.Contains(after, pid) {
			t.Errorf("the connection %d was closed: before %v, after %v", pid, before, after)
		}
	}
}
