package pgstore_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/internal/testkit"
)

// The files have numbers, without gaps, and the annotations of goose.
func TestMigrations(t *testing.T) {
	files, err := fs.Glob(pgstore.Migrations, "*")
	testkit.Must(t, err)
	if len(files) != 1 {
		t.Errorf("got the files %q", files)
	}
	for _, name := range files {
		if !regexp.MustCompile(`^0000\d_[a-z_]+\.sql$`).MatchString(name) {
			t.Errorf("got the file %q", name)
		}
		text, err := fs.ReadFile(pgstore.Migrations, name)
		testkit.Must(t, err)
		up, down, found := strings.Cut(string(text), "-- +goose Down\n")
		if !found || strings.Count(up, "-- +goose Up\n") != 1 || strings.Count(up, ";\n") != 1 || strings.Count(down, ";\n") != 1 {
			t.Errorf("%s has not one statement for each direction:\n%s", name, text)
		}
		if !strings.Contains(up, pgstore.Schema()+";") {
			t.Errorf("%s has not the statement of Schema", name)
		}
	}
}

func TestSchema(t *testing.T) {
	unlogged := pgstore.Schema()
	if !strings.HasPrefix(unlogged, "CREATE UNLOGGED TABLE IF NOT EXISTS weir_states (\n") || !strings.HasSuffix(unlogged, "\n)") {
		t.Errorf("the statement is %s", unlogged)
	}
	want := strings.Replace(strings.Replace(unlogged, "UNLOGGED ", "", 1), "weir_states", "weir.states", 1)
	if got := pgstore.Schema(pgstore.Logged(), pgstore.Table("weir.states")); got != want {
		t.Errorf("the statement is %s, want %s", got, want)
	}
}
