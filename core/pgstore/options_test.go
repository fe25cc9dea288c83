package pgstore_test

import (
	"database/sql"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/internal/testkit"
)

// The functions of the package panic if an argument is invalid, and name the argument.
func TestInvalid(t *testing.T) {
	var none *sql.DB
	db := new(sql.DB)
	const letters = `: it has letters, digits, '-', '_' and '.', at least one`
	for _, c := range []struct {
		want string
		call func()
	}{
		{"pgstore: New: the database is nil", func() { pgstore.New(nil, "test") }},
		{"pgstore: New: the database is nil", func() { pgstore.New(none, "test") }},
		{"pgstore: New: option 1 is nil", func() { pgstore.New(db, "test", pgstore.Logged(), nil) }},
		{`pgstore: New: the name of the application is ""` + letters, func() { pgstore.New(db, "") }},
		{`pgstore: New: the name of the application is "a:b"` + letters, func() { pgstore.New(db, "a:b") }},
		{"pgstore: Schema: option 0 is nil", func() { pgstore.Schema(nil) }},
		{"pgstore: Timeout: not positive", func() { pgstore.Timeout(0) }},
		{"pgstore: Connections: not from 1 to 1000", func() { pgstore.Connections(0) }},
		{"pgstore: Connections: not from 1 to 1000", func() { pgstore.Connections(1001) }},
		{"pgstore: MaxRows: n is less than 1", func() { pgstore.MaxRows(0) }},
		{"pgstore: KeySecret: shorter than 16 bytes", func() { pgstore.KeySecret(make([]byte, 15)) }},
	} {
		testkit.Panics(t, c.want, c.call)
	}
}

func TestTable(t *testing.T) {
	for _, name := range []string{"t", "_t", "limits", "Limits_2", "weir.states", "w.s", strings.Repeat("a", 63) + "." + strings.Repeat("b", 63)} {
		if got := pgstore.Schema(pgstore.Table(name)); !strings.HasPrefix(got, "CREATE UNLOGGED TABLE IF NOT EXISTS "+name+" (") {
			t.Errorf("the statement is %s", got)
		}
	}
	for _, name := range []string{"", ".", "a.", ".a", "a.b.c", "2a", "a.2b", "a b", "a;b", "a'b", `"a"`, "a-b", "ä", "a\n", strings.Repeat("a", 64)} {
		testkit.Panics(t, "pgstore: Table: not the name of a table: "+strconv.Quote(name), func() { pgstore.Table(name) })
	}
}
