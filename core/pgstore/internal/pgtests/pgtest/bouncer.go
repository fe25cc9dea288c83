package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A Bouncer is PgBouncer in transaction mode in front of a Server.
type Bouncer struct {
	dir  string
	port int
	proc *process
}

// LookBouncer returns the path of PgBouncer: the one that WEIR_PGBOUNCER names, or the one in PATH.
func LookBouncer() (string, error) {
	if path := os.Getenv("WEIR_PGBOUNCER"); path != "" {
		return exec.LookPath(path)
	}
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/pgbouncer")
}

// StartBouncer starts a Bouncer with a pool of a size for each database. The settings are lines of its configuration, such
// as "max_prepared_statements = 0". The caller must close it.
func StartBouncer(s *Server, pool int, settings ...string) (b *Bouncer, err error) {
	path, err := LookBouncer()
	if err != nil {
		return nil, err
	}
	b = &Bouncer{port: freePort()}
	defer func() {
		if err != nil {
			b.Close()
			err = fmt.Errorf("pgtest: pgbouncer: %w", err)
		}
	}()
	if b.dir, err = newFolder(); err != nil {
		return b, err
	}
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=weir\n[pgbouncer]\npool_mode = transaction\nauth_type = any\n"+
		"listen_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nmax_client_conn = 500\ndefault_pool_size = %d\n", s.port, b.port, pool)
	for _, set := range settings {
		text += set + "\n"
	}
	file := filepath.Join(b.dir, "pgbouncer.ini")
	if err = os.WriteFile(file, []byte(text), 0o644); err != nil {
		return b, err
	}
	if b.proc, err = spawn(path, b.dir, "KILL", file); err == nil {
		err = b.proc.await(b.dir, 0, func() error { return execute(b.DSN("postgres"), "SELECT 1") })
	}
	return b, err
}

// DSN returns the data source name of a database, as that of the Server does.
func (b *Bouncer) DSN(database string, parameters ...string) string {
	return dsn("127.0.0.1", b.port, database, parameters...)
}

// Close ends the Bouncer, and removes its files.
func (b *Bouncer) Close() {
	if b.proc != nil {
		b.proc.end()
	}
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}
