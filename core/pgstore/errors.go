package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/internal/sampler"
)

// faults are the faults of the configuration, which do not end by themselves, by the beginnings of their SQLSTATEs:
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
var faults = []struct{ state, text string }{
	{"42P01", "the table does not exist: create it with Schema or Migrations, and see Table"},
	{"3F000", "the schema of the table does not exist: create it"},
	{"42703", "the table has other columns: create it with Schema or Migrations"},
	{"42501", "the role needs SELECT, INSERT, UPDATE and DELETE on the table, and USAGE on its schema"},
	{"3D000", "the database does not exist"},
	{"28", "the server rejects the role or its password"},
	{"25006", "the server or the role is read-only: connect to the primary"},
	{"0A000", "the server is a replica or lacks a function: connect to the primary of Postgres 14 or newer"},
	{"42P05", preparedText},
	{"26000", preparedText},
	{"08P01", preparedText},
	{"22P02", preparedText}, // a parameter of another statement
}

const preparedText = "the driver prepares statements, and a pooler gives it another session: see Poolers in the documentation of package pgstore"

// stateOf returns the SQLSTATE of an error of the server, or "". The errors of pgx and lib/pq have the method.
func stateOf(err error) string {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	return ""
}

// faultOf names the fault of the configuration that caused err. It returns "" if the cause may be an outage.
func faultOf(err error) string {
	if state := stateOf(err); state != "" {
		for _, f := range faults {
			if strings.HasPrefix(state, f.state) {
				return f.text
			}
		}
	}
	return ""
}

// A faultLog logs faults of the configuration, at most once a minute.
type faultLog struct{ *sampler.Sampler }

func newFaultLog() faultLog { return faultLog{sampler.New(1, time.Minute)} }

// explain returns err with the name of its fault, if it has one, and logs that. After a serialization failure or a deadlock,
// which say that nothing was changed, the result wraps [casstore.ErrConflict].
func (l faultLog) explain(ctx context.Context, err error) error {
	if state := stateOf(err); state == "40001" || state == "40P01" {
		return fmt.Errorf("%w: %w", casstore.ErrConflict, err)
	}
	fault := faultOf(err)
	if fault == "" {
		return err
	}
	if _, ok := l.Pass(); ok {
		slog.Default().LogAttrs(ctx, slog.LevelError, "weir: Postgres rejects a statement: "+fault, slog.String("error", err.Error()))
	}
	return fmt.Errorf("%s: %w", fault, err)
}
