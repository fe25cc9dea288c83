package casstore_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/casstore"
)

// A mapDatabase stands for a database: a map of rows.
type mapDatabase struct {
	clock func() int64 // in microseconds since the Unix epoch

	mu   sync.Mutex
	rows map[casstore.Key]casstore.Row
}

func (d *mapDatabase) Read(_ context.Context, keys []casstore.Key) (rows []casstore.Row, now int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys {
		rows = append(rows, d.rows[k])
	}
	return rows, d.clock(), nil
}

func (d *mapDatabase) Swap(_ context.Context, groups []casstore.Group) (done []bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range groups {
		done = append(done, d.swap(g))
	}
	return done, nil
}

func (d *mapDatabase) swap(g casstore.Group) bool {
	for _, c := range g {
		if d.rows[c.Key].Version != c.Version {
			return false
		}
	}
	for _, c := range g {
		d.rows[c.Key] = casstore.Row{Version: c.Next, State: c.State}
	}
	return true
}

// A store of any database that can read rows and swap them if they are unchanged. A database in SQL has about a hundred
// lines: see _examples/sqlite.
func ExampleRows() {
	database := &mapDatabase{rows: make(map[casstore.Key]casstore.Row), clock: func() int64 { return time.Now().UnixMicro() }}
	store := casstore.New(database, casstore.Application("shop"))
	limiter := core.Must(core.New(store, core.TokenBucket("api", core.PerHour(2))))
	for range 3 {
		decision, err := limiter.Allow(context.Background(), "alice")
		fmt.Println(decision.Allowed, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}
