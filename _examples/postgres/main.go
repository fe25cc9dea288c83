// Postgres limits an API with a table of Postgres, which all instances share, and a backup in memory while Postgres is down.
//
//	DATABASE_URL=postgres://limiter@127.0.0.1/limits go run -C _examples ./postgres
//
// It creates the table, for which an application has a migration: see pgstore.Migrations. INSTANCES is the number of instances,
// by which the backup divides the limits.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// open returns a pool of connections for limits alone: in the pool of the application, decisions would wait behind slow queries.
func open(url string) (*sql.DB, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(pgstore.DefaultConnections + 1)
	db.SetMaxIdleConns(pgstore.DefaultConnections + 1)
	if _, err := db.ExecContext(context.Background(), pgstore.Schema()); err != nil {
		log.Print(err) // the backup decides until Postgres can
	}
	return db, nil
}

func newHandler(store core.Store) http.Handler {
	api := nethttplimit.Limit(store, core.TokenBucket("api", core.PerMinute(5)), keyfunc.RemoteIP())
	return api(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "hello") }))
}

func main() {
	instances, err := strconv.Atoi(cmp.Or(os.Getenv("INSTANCES"), "1"))
	if err != nil || instances < 1 {
		log.Fatalf("INSTANCES is %q, want a number from 1 on", os.Getenv("INSTANCES"))
	}
	db, err := open(cmp.Or(os.Getenv("DATABASE_URL"), "postgres://127.0.0.1/postgres"))
	if err != nil {
		log.Fatal(err)
	}
	store := failover.New(pgstore.New(db, "demo"), memstore.New(), failover.Instances(instances))
	if err := demo.Serve(newHandler(store), try); err != nil {
		log.Fatal(err)
	}
}

const try = `
  for i in 1 2 3 4 5 6; do curl -i http://ADDR; done

Stop Postgres: the backup in memory begins to count, and Postgres decides again soon after its start.
`
