package pgtests

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A clocked is rows that tell the time of a test. The sweep deletes no row, because the clock of the server is not that of the test.
type clocked struct {
	lockingRows
	clock *storetest.Clock
}

// never is later than any time of a test.
const never = 1 << 61

func (c clocked) Read(ctx context.Context, keys []casstore.Key) ([]casstore.Row, int64, error) {
	rows, _, err := c.lockingRows.Read(ctx, keys)
	return rows, c.clock.Micros(), err
}

func (c clocked) Swap(ctx context.Context, groups []casstore.Group) ([]bool, error) {
	later := make([]casstore.Group, len(groups))
	for i, g := range groups {
		later[i] = lasting(g)
	}
	return c.lockingRows.Swap(ctx, later)
}

func (c clocked) Update(ctx context.Context, keys []casstore.Key, decide func([]casstore.Row, int64) casstore.Group) error {
	return c.lockingRows.Update(ctx, keys, func(rows []casstore.Row, _ int64) casstore.Group {
		return lasting(decide(rows, c.clock.Micros()))
	})
}

// lasting returns g with rows that do not expire.
func lasting(g casstore.Group) casstore.Group {
	g = slices.Clone(g)
	for i := range g {
		if g[i].Expires != 0 {
			g[i].Expires = never
		}
	}
	return g
}

// A loser is rows of which a Swap always finds a changed row, so that all decisions are made by Update.
type loser struct{ lockingRows }

func (loser) Swap(_ context.Context, groups []casstore.Group) ([]bool, error) {
	return make([]bool, len(groups)), nil
}

// The suite passes with both drivers, without and with locks.
func TestConformance(t *testing.T) {
	long(t)
	for _, c := range []struct {
		name, driver, parameters string
		rows                     func(lockingRows) lockingRows
	}{
		{"pgx", "pgx", "", func(r lockingRows) lockingRows { return r }},
		{"pq", "postgres", "", func(r lockingRows) lockingRows { return r }},
		{"locked", "pgx", "default_query_exec_mode=simple_protocol", func(r lockingRows) lockingRows { return loser{r} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Shared(t)
			name := pgtest.Database(t, s)
			db := pgtest.Open(t, c.driver, s.DSN(name, c.parameters), 8)
			var tables atomic.Int64
			storetest.Run(t, func(t *testing.T) *storetest.Harness {
				testkit.WithoutRace(t, testkit.SlowCases...)
				table := fmt.Sprint("states", tables.Add(1))
				_, err := db.Exec(pgstore.Schema(pgstore.Table(table)))
				testkit.Must(t, err)
				clock := new(storetest.Clock)
				rows := c.rows(rowsOf(pgstore.New(db, "test", pgstore.Table(table))))
				return clock.Harness(casstore.New(clocked{rows, clock}, casstore.Timeout(unhurried)))
			})
		})
	}
}
