package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/internal/testkit"
)

func TestFaultLog(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	for _, c := range []struct {
		err      error
		fault    string // the beginning of the text
		conflict bool
	}{
		{nil, "", false},
		{context.DeadlineExceeded, "", false},
		{errors.New("connection refused"), "", false},
		{stateError("57P01"), "", false},
		{stateError("53300"), "", false},
		{stateError("40001"), "casstore: nothing was changed", true},
		{fmt.Errorf("pgx: %w", stateError("40P01")), "casstore: nothing was changed", true},
		{stateError("42P01"), "the table does not exist", false},
		{stateError("42703"), "the table has other columns", false},
		{stateError("3F000"), "the schema", false},
		{fmt.Errorf("pgx: %w", stateError("42501")), "the role needs SELECT, INSERT, UPDATE and DELETE", false},
		{stateError("3D000"), "the database does not exist", false},
		{stateError("28000"), "the server rejects the role", false},
		{stateError("28P01"), "the server rejects the role", false},
		{stateError("25006"), "the server or the role is read-only", false},
		{stateError("0A000"), "the server is a replica", false},
		{stateError("42P05"), "the driver prepares statements", false},
		{stateError("26000"), "the driver prepares statements", false},
		{stateError("22P02"), "the driver prepares statements", false},
	} {
		var log testkit.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		l := newFaultLog()
		for range 2 {
			err := l.explain(t.Context(), c.err)
			text := fmt.Sprint(err)
			if !errors.Is(err, c.err) || errors.Is(err, casstore.ErrConflict) != c.conflict || !strings.HasPrefix(text, c.fault) || !strings.HasSuffix(text, fmt.Sprint(c.err)) {
				t.Errorf("%v became %v", c.err, err)
			}
			if c.fault == "" && err != c.err {
				t.Errorf("%v became %v", c.err, err)
			}
		}
		lines := 1
		if c.fault == "" || c.conflict {
			lines = 0
		}
		if n := strings.Count(log.String(), "weir: Postgres rejects a statement: "+c.fault); n != lines {
			t.Errorf("%v: %d lines in the log, want %d: %s", c.err, n, lines, log.String())
		}
	}
}
