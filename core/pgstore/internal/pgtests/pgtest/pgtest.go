// Package pgtest starts real Postgres servers for tests, and PgBouncer in front of them, as package redistest starts Redis.
// Each server has a cluster of its own in a temporary folder, and listens on a free loopback port.
//
// Tests share the server of [Shared], in which each has a database of its own, or start one with [New], which they can
// kill. A server ends at the latest with the process that started it, even if that process is killed.
//
// The programs are those in WEIR_POSTGRES_BIN, in the folder of the newest version below /usr/lib/postgresql, or in PATH.
// Without them, a test is skipped, or fails if WEIR_REQUIRE_POSTGRES=1 is in the environment. With -short, it is
// skipped in any case. Postgres does not run as root: if the tests do, it runs as the user postgres or the one that owns
// no files.
package pgtest

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"
)

// ErrNotInstalled is returned if the programs of Postgres are not found and WEIR_POSTGRES_BIN is not set.
var ErrNotInstalled = errors.New("pgtest: no initdb and postgres in /usr/lib/postgresql/*/bin or PATH; " +
	"install them with `apt-get install postgresql`, `dnf install postgresql-server`, `apk add postgresql` or `brew install postgresql`")

// lookPrograms returns the folder of the programs.
func lookPrograms() (string, error) {
	dir := os.Getenv("WEIR_POSTGRES_BIN")
	if dir == "" {
		all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // fails only for an invalid pattern
		if path, err := exec.LookPath("initdb"); err == nil {
			all = append(all, path)
		}
		if len(all) == 0 {
			return "", ErrNotInstalled
		}
		version := func(path string) int {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 for the program in PATH
			return n
		}
		dir = filepath.Dir(slices.MaxFunc(all, func(a, b string) int { return cmp.Compare(version(a), version(b)) }))
	}
	dir, err := filepath.Abs(dir) // servers run in folders of their own
	for _, name := range []string{"initdb", "postgres"} {
		if err == nil {
			_, err = exec.LookPath(filepath.Join(dir, name))
		}
	}
	if err != nil {
		return "", fmt.Errorf("WEIR_POSTGRES_BIN: %w", err)
	}
	return dir, nil
}

// limit bounds every wait for a process. It is far longer than an idle machine needs.
const limit = time.Minute

// Poll calls check every few milliseconds until it returns nil or a permanent error, or until a minute has passed.
func Poll(check func() error) error {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if p, ok := err.(permanent); ok {
			return p.error
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// permanent is an error that ends Poll.
type permanent struct{ error }

// execute executes a statement on a new connection.
func execute(dsn, statement string) error {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.Exec(statement)
	return err
}
