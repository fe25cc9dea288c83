package main

import (
	"strings"
	"testing"
)

// The flags -postgres and -table are checked, and no error has a part of a password.
func TestDoctor_postgres(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		stdout string // the beginning
		stderr string // a part
	}{
		{"-postgres postgres://limiter:secret@127.0.0.1:1/limits?sslmode=disable", 1, "CHECK       RESULT  DETAIL\nconnection  failed  ", ""},
		{"-postgres postgres://limiter:secr%et@127.0.0.1/limits", 1, "", "the URL of Postgres is invalid, expected postgres://USER@HOST:PORT/DATABASE"},
		{"-postgres postgres://127.0.0.1/limits -table a;b", 1, "", `the flag -table is "a;b", expected the name of a table`},
		{"-postgres postgres://127.0.0.1/limits -timeout 0s", 1, "", "the flag -timeout is not positive"},
	} {
		var stdout, stderr strings.Builder
		status := run(strings.Fields("doctor "+c.args), &stdout, &stderr)
		if status != c.status || !strings.HasPrefix(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) || strings.Contains(stdout.String()+stderr.String(), "secr") {
			t.Errorf("%s: got status %d, stdout %s and stderr %s", c.args, status, &stdout, &stderr)
		}
	}
}
