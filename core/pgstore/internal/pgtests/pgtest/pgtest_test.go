package pgtest

import (
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

// A server keeps its contents, except for unlogged tables when it is killed.
func TestServer(t *testing.T) {
	begun := time.Now()
	s := New(t)
	t.Logf("started in %v", time.Since(begun))
	name := Database(t, s, "CREATE TABLE kept (n int)", "CREATE UNLOGGED TABLE lost (n int)", "INSERT INTO kept VALUES (1)", "INSERT INTO lost VALUES (1)")
	for _, c := range []struct {
		end  func() error
		want int
	}{{s.Stop, 2}, {s.Kill, 1}} {
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		if err := execute(s.DSN(name), "SELECT"); err == nil {
			t.Error("the server responds")
		}
		begun := time.Now()
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		t.Logf("started again in %v", time.Since(begun))
		for _, driver := range []string{"pgx", "postgres"} {
			var n int
			err := Open(t, driver, s.DSN(name), 1).QueryRow("SELECT (SELECT count(*) FROM kept) + (SELECT count(*) FROM lost)").Scan(&n)
			if err != nil || n != c.want {
				t.Errorf("%s: got %d rows, %v, want %d", driver, n, err, c.want)
			}
		}
	}
	if err := s.Start(); err == nil {
		t.Error("a server that runs was started")
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
}
