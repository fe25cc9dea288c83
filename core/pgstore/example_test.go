package pgstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/pgstore"
)

func Example() {
	db, err := sql.Open("pgx", "postgres://limiter@db.example.com/limits") // with the import _ "github.com/jackc/pgx/v5/stdlib"
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxIdleConns(pgstore.DefaultConnections + 1)
	store := failover.New(pgstore.New(db, "shop"), memstore.New())
	api := core.Must(core.New(store, core.SlidingWindow("api", core.PerMinute(100))))
	fmt.Println(api.Allow(context.Background(), "client"))
}

func ExampleStore_Check() {
	var db *sql.DB
	for _, f := range pgstore.New(db, "shop").Check(context.Background()) {
		if f.Result != pgstore.ResultOK {
			log.Printf("%s: %s: %s. To mend it: %s", f.Check, f.Result, f.Detail, f.Change)
		}
	}
}

func ExampleSchema() {
	fmt.Println(pgstore.Schema(pgstore.Table("weir.states"), pgstore.Logged()))
	// Output:
	// CREATE TABLE IF NOT EXISTS weir.states (
	// 	id      uuid   PRIMARY KEY,
	// 	version bigint NOT NULL,
	// 	expires bigint NOT NULL,
	// 	state   bytea  NOT NULL
	// ) WITH (
	// 	fillfactor = 50,
	// 	autovacuum_vacuum_scale_factor = 0,
	// 	autovacuum_vacuum_threshold = 10000,
	// 	autovacuum_vacuum_cost_delay = 0,
	// 	autovacuum_analyze_scale_factor = 0.5
	// )
}
