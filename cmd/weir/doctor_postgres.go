package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/redisstore/diagnose"
)

// checkPostgres checks whether programs can use the Postgres of the flags.
func (d *doctor) checkPostgres(ctx context.Context) ([]diagnose.Finding, error) {
	if !tableName.MatchString(d.table) {
		return nil, fmt.Errorf("the flag -table is %q, expected the name of a table, such as limits or weir.limits", d.table)
	}
	opts := []pgstore.Option{pgstore.Table(d.table), pgstore.Timeout(d.timeout)}
	if d.logged {
		opts = append(opts, pgstore.Logged())
	}
	config, err := pgx.ParseConfig(d.postgres)
	if err != nil {
		// The text of err can contain a part of a password that is not escaped.
		return nil, errors.New("the URL of Postgres is invalid, expected postgres://USER@HOST:PORT/DATABASE")
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	db.SetMaxIdleConns(pgstore.DefaultConnections + 1) // as programs do: see the documentation of pgstore
	var findings []diagnose.Finding
	for _, f := range pgstore.New(db, "doctor", opts...).Check(ctx) {
		findings = append(findings, diagnose.Finding{Check: f.Check, Result: diagnose.Result(f.Result), Detail: f.Detail, Change: f.Change})
	}
	return findings, nil
}

// tableName matches the names that pgstore.Table accepts.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)
