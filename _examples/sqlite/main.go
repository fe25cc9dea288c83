// Sqlite limits an API with a store in a database that the program already has: SQLite, whose file several processes of a
// machine may share. rows.go is all that such a store needs of a database.
//
//	go run -C _examples ./sqlite
//
// The environment variable DATABASE names the file, by default weir-states.db in the directory for temporary files.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// sweep deletes the rows that have expired an hour ago.
func sweep(ctx context.Context, r *rows) error {
	_, err := r.db.ExecContext(ctx, "DELETE FROM weir_states WHERE expires < ?", r.now()-time.Hour.Microseconds())
	return err
}

func main() {
	r, err := open(cmp.Or(os.Getenv("DATABASE"), filepath.Join(os.TempDir(), "weir-states.db")))
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for range time.Tick(time.Minute) {
			if err := sweep(context.Background(), r); err != nil {
				log.Print(err)
			}
		}
	}()
	store := casstore.New(r, casstore.Application("demo"))
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "hello") })
	limit := nethttplimit.Limit(store, core.TokenBucket("api", core.PerMinute(5)), keyfunc.RemoteIP())
	if err := demo.Serve(limit(hello), try); err != nil {
		log.Fatal(err)
	}
}

const try = `
  for i in 1 2 3 4 5 6; do curl -i http://ADDR; done

The limits are still there after a restart, and another process with another ADDR shares them.
`
