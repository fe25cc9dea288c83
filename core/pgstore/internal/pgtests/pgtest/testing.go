package pgtest

import (
	"database/sql"
	"errors"
	"os"
	"sync"
	"testing"
)

// Require skips the test with -short, and without the programs of Postgres. With WEIR_REQUIRE_POSTGRES=1 in the
// environment, missing programs fail the test instead, as they do if WEIR_POSTGRES_BIN names their folder.
func Require(t testing.TB) {
	t.Helper()
	_, err := lookPrograms()
	switch {
	case err == nil && testing.Short():
		t.Skip("SKIPPED: -short leaves out servers")
	case err == nil:
	case !errors.Is(err, ErrNotInstalled):
		t.Fatal(err)
	case os.Getenv("WEIR_REQUIRE_POSTGRES") == "1":
		t.Fatalf("%v (WEIR_REQUIRE_POSTGRES=1 does not allow a skip)", err)
	default:
		t.Skipf("SKIPPED: %v", err)
	}
}

// New starts a server as [Start] does, and closes it when the test ends. If the test has failed, the end of the server's
// log is logged.
func New(t testing.TB, settings ...string) *Server {
	t.Helper()
	Require(t)
	s, err := Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pgtest: the log of the server ends with\n%s", lastLines(readLog(s.dir), 40))
		}
		s.Close()
	})
	return s
}

var shared struct {
	once sync.Once
	s    *Server
	err  error
}

// Shared returns the server that all tests of the process share. The first call starts it, and [Main] closes it.
func Shared(t testing.TB) *Server {
	t.Helper()
	Require(t)
	shared.once.Do(func() { shared.s, shared.err = Start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.s
}

// Main runs the tests of m, and closes the server of [Shared]. A package whose tests use that must call Main in its
// TestMain.
func Main(m *testing.M) {
	defer func() {
		if shared.s != nil {
			shared.s.Close()
		}
	}()
	m.Run()
}

// NewBouncer starts a Bouncer as [StartBouncer] does, and closes it when the test ends. Without PgBouncer, the test is
// skipped.
func NewBouncer(t testing.TB, s *Server, pool int, settings ...string) *Bouncer {
	t.Helper()
	if _, err := LookBouncer(); err != nil && os.Getenv("WEIR_PGBOUNCER") == "" {
		t.Skipf("SKIPPED: pgbouncer is not installed: %v", err)
	}
	b, err := StartBouncer(s, pool, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// Database returns the name of a new database of s, in which statements have been executed.
func Database(t testing.TB, s *Server, statements ...string) string {
	t.Helper()
	name, err := s.CreateDatabase(statements...)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// Open opens a pool of at most n connections, which stay open. It is closed when the test ends.
func Open(t testing.TB, driver, dsn string, n int) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
