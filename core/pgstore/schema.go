package pgstore

import (
	"embed"
	"io/fs"
	"strings"
)

var (
	//go:embed migrations/*.sql
	migrations embed.FS
	//go:embed migrations/00001_create_weir_states.sql
	createTable string
)

// Migrations contains an .sql file for each change of the table [DefaultTable], to copy into the migrations of an application
// or to pass to goose (goose.NewProvider) or Atlas, which reads the folder of the files with format=goose. The table of the
// first file is unlogged: see [Logged]. Another name than DefaultTable needs a copy of the files, or [Schema].
//
// Later releases of weir may add files, and only add columns. They do not change the files that exist.
var Migrations = mustSub(migrations, "migrations")

func mustSub(f fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(f, dir)
	if err != nil {
		panic(err)
	}
	return sub
}

// Schema returns the statement that creates the table of a Store with these options, unless it exists. It is CREATE UNLOGGED
// TABLE, or CREATE TABLE with the option [Logged]. The schema in the name of the option [Table] must exist.
// Execute it once, before the deployment: if several sessions create the table at the same time, Postgres may return an
// error to some of them. Schema panics if an option is nil.
//
// A Store needs the privileges SELECT, INSERT, UPDATE and DELETE on the table. The settings of the table suit rows that change
// all the time: half of each page is free for new versions of its rows, which then need no change of the index, and autovacuum
// removes old versions soon.
func Schema(opts ...Option) string {
	c := newConfig("pgstore: Schema", opts)
	_, create, _ := strings.Cut(createTable, "-- +goose Up\n")
	create, _, _ = strings.Cut(create, ";")
	create = strings.Replace(create, DefaultTable, c.table, 1)
	if c.logged {
		create = strings.Replace(create, "UNLOGGED ", "", 1)
	}
	return create
}
