package pgstore

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"
)

// A server replies to the statements of Check.
type server struct {
	*fake
	replies map[string][]sqldriver.Value // by a part of the statement
	failure map[string]error
	version int64 // of the row of the check
}

func newServer() *server {
	s := &server{replies: map[string][]sqldriver.Value{
		"current_user":            {"limiter", "limits"},
		"version()":               {"PostgreSQL 17.6 on x86_64", int64(170006), false, "off"},
		"relkind":                 {"r", "u", "fillfactor=50", "expires bigint, id uuid, state bytea, version bigint", "", true},
		"EXPLAIN":                 {"Index Scan using weir_states_pkey on weir_states s"},
		"'enable_seqscan'":        {"off"},
		"'default_transaction":    {"read committed"},
		"'statement_timeout'":     {"1000"},
		"'lock_timeout'":          {"100"},
		"'idle_in_transaction":    {"1000"},
		"'synchronous_commit'":    {"on"},
		"pg_prepared_xacts":       {2.4, true},
		"pg_total_relation_size":  {int64(1000), int64(2_000_000)},
		"SELECT pg_backend_pid()": {int64(1)},
	}, failure: make(map[string]error)}
	s.fake = &fake{reply: s.answer}
	return s
}

func (s *server) answer(query string, args []string) ([][]sqldriver.Value, error) {
	for part, err := range s.failure {
		if strings.Contains(query, part) {
			return nil, err
		}
	}
	for part, row := range s.replies {
		if strings.Contains(query, part) {
			return [][]sqldriver.Value{row}, nil
		}
	}
	if strings.Contains(query, "ORDINALITY") {
		return [][]sqldriver.Value{{int64(1), s.version, nil, int64(1)}}, nil
	}
	statement, next := strings.Contains(query, "DO UPDATE"), int64(args[1][1]-'0')
	if statement && s.version > 0 && s.version != next-1 || !statement && args[5] != "{4}" {
		return nil, nil
	}
	s.version = next
	return [][]sqldriver.Value{{int64(0)}}, nil
}

func TestStore_Check(t *testing.T) {
	s := newServer()
	db := s.open(t)
	db.SetMaxIdleConns(DefaultConnections + 1)
	for _, f := range New(db, "test").Check(t.Context()) {
		if f.Result != ResultOK || f.Detail == "" || f.Change != "" {
			t.Errorf("got %+v", f)
		}
	}
	refused := errors.New("connection refused")
	for _, c := range []struct {
		part    string
		row     []sqldriver.Value // in place of the usual one
		failure error
		opts    []Option
		check   string
		result  Result
		text    string // a part of Detail and Change
	}{
		{"current_user", nil, refused, nil, "connection", ResultFailed, "connection refused: check the address"},
		{"current_user", nil, stateError("28P01"), nil, "connection", ResultFailed, ": the server rejects the role"},
		{"version()", []sqldriver.Value{"PostgreSQL 13.1", int64(130001), false, "off"}, nil, nil, "server", ResultFailed, "too old: use Postgres 14 or newer"},
		{"version()", []sqldriver.Value{"CockroachDB CCL v24", int64(130000), false, "off"}, nil, nil, "server", ResultFailed, "another product"},
		{"version()", []sqldriver.Value{"PostgreSQL 17.6", int64(170006), true, "on"}, nil, nil, "server", ResultFailed, "a replica: connect to the primary"},
		{"version()", []sqldriver.Value{"PostgreSQL 17.6", int64(170006), false, "on"}, nil, nil, "server", ResultFailed, "default_transaction_read_only = off"},
		{"relkind", nil, stateError("42P01"), nil, "table", ResultFailed, ": the table does not exist"},
		{"relkind", []sqldriver.Value{"v", "p", "", "id uuid", "", false}, nil, nil, "table", ResultFailed, "not the table of the package: id uuid"},
		{"relkind", []sqldriver.Value{"r", "u", "fillfactor=50", "expires bigint, id uuid, state bytea, version bigint", "INSERT, DELETE", true}, nil, nil, "table", ResultFailed,
			"GRANT INSERT, DELETE ON weir_states TO limiter"},
		{"relkind", []sqldriver.Value{"r", "u", "", "expires bigint, id uuid, state bytea, version bigint", "", true}, nil, nil, "table", ResultWarning, "SET (fillfactor = 50"},
		{"relkind", []sqldriver.Value{"r", "p", "fillfactor=50", "expires bigint, id uuid, state bytea, version bigint", "", true}, nil, nil, "table", ResultWarning, "without the option Logged"},
		{"relkind", []sqldriver.Value{"r", "p", "fillfactor=50", "expires bigint, id uuid, state bytea, version bigint", "", true}, nil, []Option{Logged()}, "synchronous_commit", ResultWarning,
			"ALTER ROLE limiter SET synchronous_commit = off"},
		{"relkind", nil, nil, []Option{Logged()}, "table", ResultWarning, "a crash empties it: ALTER TABLE weir_states SET LOGGED"},
		{"SELECT w.n", nil, stateError("42P05"), nil, "pooler", ResultFailed, ": the driver prepares statements"},
		{"SELECT pg_backend_pid()", []sqldriver.Value{int64(1)}, nil, nil, "connections", ResultWarning, "call SetMaxIdleConns(5)"},
		{"SELECT pg_backend_pid()", []sqldriver.Value{int64(1)}, nil, []Option{Connections(2)}, "connections", ResultWarning, "call SetMaxIdleConns(3)"},
		{"SELECT pg_backend_pid()", []sqldriver.Value{int64(1)}, nil, []Option{Connections(1)}, "connections", ResultOK, "kept while they are idle"},
		{"DO UPDATE", nil, stateError("25006"), nil, "decision", ResultFailed, ": the server or the role is read-only"},
		{"EXPLAIN", []sqldriver.Value{"  ->  Seq Scan on weir_states s"}, nil, nil, "plan", ResultWarning, "ALTER ROLE limiter SET enable_seqscan = off"},
		{"'enable_seqscan'", []sqldriver.Value{"on"}, nil, nil, "enable_seqscan", ResultWarning, "ALTER ROLE limiter SET enable_seqscan = off"},
		{"'statement_timeout'", []sqldriver.Value{"0"}, nil, nil, "statement_timeout", ResultWarning, "none: a statement that hangs keeps its connection: ALTER ROLE"},
		{"pg_prepared_xacts", []sqldriver.Value{61.0, true}, nil, nil, "transactions", ResultWarning, "1m1s ago"},
		{"pg_prepared_xacts", []sqldriver.Value{1.0, false}, nil, nil, "transactions", ResultUnknown, "GRANT pg_read_all_stats TO limiter"},
		{"pg_total_relation_size", []sqldriver.Value{int64(50), int64(1)}, nil, []Option{MaxRows(50)}, "rows", ResultWarning, "new keys share their limits: raise MaxRows"},
		{"relkind", nil, nil, []Option{Timeout(time.Nanosecond)}, "round trip", ResultFailed, "set Timeout"},
	} {
		s := newServer()
		if s.failure[c.part] = c.failure; c.failure == nil {
			delete(s.failure, c.part)
		}
		if c.row != nil {
			s.replies[c.part] = c.row
		}
		found := false
		for _, f := range New(s.open(t), "test", c.opts...).Check(t.Context()) {
			if f.Check == c.check {
				found = f.Result == c.result && strings.Contains(f.Detail+": "+f.Change, c.text)
			}
			if f.Check == c.check && !found {
				t.Errorf("got %+v, want %s and %q", f, c.result, c.text)
			}
		}
		if !found {
			t.Errorf("no Finding %s has %s and %q", c.check, c.result, c.text)
		}
	}
}

// A Check whose time has ended says so, and a driver that panics ends no program.
func TestStore_CheckEnds(t *testing.T) {
	s := newServer()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f := New(s.open(t), "test").Check(ctx); len(f) != 1 || f[0].Result != ResultUnknown {
		t.Errorf("got %+v", f)
	}
	s.fake.reply = func(string, []string) ([][]sqldriver.Value, error) { panic("boom") }
	if f := New(s.open(t), "test").Check(t.Context()); len(f) != 1 || f[0].Result != ResultFailed || !strings.Contains(f[0].Detail, "boom") {
		t.Errorf("got %+v", f)
	}
}
