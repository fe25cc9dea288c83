package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// A Server is a Postgres server, running or stopped. It is safe for concurrent use.
type Server struct {
	programs, dir string
	port          int
	settings      []string
	environment   []string
	databases     atomic.Int64

	mu     sync.Mutex // held while starting and stopping
	proc   *process
	closed bool
}

// defaults are settings of servers. Without fsync, contents survive the end of the server, but not of the machine. The
// files of the shared memory of a killed server are in its folder.
var defaults = []string{
	"fsync=off", "full_page_writes=off", "jit=off", "shared_buffers=64MB", "max_connections=400",
	"dynamic_shared_memory_type=mmap", "log_checkpoints=off",
}

var errPortTaken = errors.New("another process has the port")

// Start makes a cluster, and returns when its server responds, after about a second. The settings, such as "fsync=on", take
// precedence over those for tests; names in capitals, such as "LD_PRELOAD=x", are variables of the environment. The
// caller must close the Server. Tests should use [New].
func Start(settings ...string) (*Server, error) {
	s := new(Server)
	for _, set := range settings {
		if name, _, _ := strings.Cut(set, "="); name == strings.ToUpper(name) {
			s.environment = append(s.environment, set)
		} else {
			s.settings = append(s.settings, set)
		}
	}
	var err error
	if s.programs, err = lookPrograms(); err != nil {
		return nil, err
	}
	if s.dir, err = newFolder(); err == nil {
		err = s.initialize()
	}
	for tries := 0; err == nil || tries < 10 && errors.Is(err, errPortTaken); tries++ {
		s.port = freePort()
		if err = s.Start(); err == nil {
			return s, nil
		}
	}
	s.Close()
	return nil, fmt.Errorf("pgtest: %w", err)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// initialize makes the cluster.
func (s *Server) initialize() error {
	cmd := exec.Command(filepath.Join(s.programs, "initdb"), "--pgdata", s.data(), "--username", "weir", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd.Dir = s.dir
	if err := leaveRoot(cmd); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, lastLines(string(out), 15))
	}
	return nil
}

// Start runs a stopped server again, with the same settings on the same port, and returns when it responds.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errors.New("the server is closed")
	case s.proc != nil && !s.proc.ended():
		return errors.New("the server runs")
	}
	args := []string{"-D", s.data(), "-p", fmt.Sprint(s.port), "-k", s.dir, "-h", "127.0.0.1"}
	for _, set := range append(defaults[:len(defaults):len(defaults)], s.settings...) {
		args = append(args, "-c", set)
	}
	path := filepath.Join(s.programs, "postgres")
	if len(s.environment) > 0 {
		path, args = "env", append(append(s.environment[:len(s.environment):len(s.environment)], path), args...)
	}
	return Poll(func() error {
		logged := len(readLog(s.dir))
		proc, err := spawn(path, s.dir, "QUIT", args...)
		if err != nil {
			return permanent{err}
		}
		if err = proc.await(s.dir, logged, func() error { return execute(s.socket("postgres"), "SELECT") }); err == nil {
			s.proc = proc
			return nil
		}
		switch log := readLog(s.dir)[logged:]; {
		case strings.Contains(log, "Address already in use"):
			return permanent{fmt.Errorf("%w\n%w", errPortTaken, err)}
		case strings.Contains(log, "still in use"), strings.Contains(log, "lock file"): // by processes of a killed server, which are about to end
			return err
		}
		return permanent{err}
	})
}

// Stop shuts the server down as an operator does, and returns when it has ended. It ends all connections, and keeps the
// contents of unlogged tables.
func (s *Server) Stop() error { return s.end((*process).interrupt) }

// Kill ends the server with SIGKILL, and returns when it has ended. Unlogged tables lose their contents.
func (s *Server) Kill() error { return s.end((*process).kill) }

func (s *Server) end(how func(*process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return nil
	}
	if err := how(s.proc); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	<-s.proc.done
	return nil
}

// Close ends the server, and removes its files.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed = true; s.proc != nil {
		s.proc.end()
	}
	// A killed server has left a segment of shared memory.
	if b, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid")); err == nil {
		if lines := strings.Split(string(b), "\n"); len(lines) > 6 {
			if ids := strings.Fields(lines[6]); len(ids) == 2 {
				_ = exec.Command("ipcrm", "-m", ids[1]).Run()
			}
		}
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// DSN returns the data source name of a database for the drivers "pgx" and "postgres". The user is weir, a superuser
// without a password. Parameters, such as "application_name=x", follow.
func (s *Server) DSN(database string, parameters ...string) string {
	return dsn("127.0.0.1", s.port, database, parameters...)
}

// socket returns the data source name for the socket of the server, at which no other server can listen.
func (s *Server) socket(database string) string { return dsn(s.dir, s.port, database) }

func dsn(host string, port int, database string, parameters ...string) string {
	return strings.TrimSpace(fmt.Sprintf("host=%s port=%d user=weir dbname=%s sslmode=disable connect_timeout=10 %s", host, port, database, strings.Join(parameters, " ")))
}

// CreateDatabase returns the name of a new, empty database. Each further statement is executed in it.
func (s *Server) CreateDatabase(statements ...string) (name string, err error) {
	name = fmt.Sprint("test", s.databases.Add(1))
	err = execute(s.socket("postgres"), "CREATE DATABASE "+name)
	for _, statement := range statements {
		if err == nil {
			err = execute(s.socket(name), statement)
		}
	}
	return name, err
}

// Addr returns the host:port of the server.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }
