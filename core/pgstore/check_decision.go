package pgstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/internal/call"
)

const (
	checkRounds    = 20
	defaultMaxIdle = 2 // of database/sql
)

// pooler executes statements in the sessions that s needs at the same time, which a pooler gives to each other's connections.
func (c *check) pooler(ctx context.Context) error {
	before, need := c.db.Stats(), c.config.connections+1
	most, sessions := before.MaxOpenConnections, need
	if most > 0 {
		sessions = min(need, max(1, most-before.InUse-1)) // one is left for decisions
	}
	var mu sync.Mutex
	servers, pairs := make(map[int]bool), make(map[[2]int]bool)
	err := c.sessions(ctx, sessions, func(session int, conn *sql.Conn) error {
		for range checkRounds {
			var pid int
			if _, _, err := c.query(ctx, conn, c.read, []casstore.Key{newKey()}); err != nil {
				return err
			}
			if err := conn.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			mu.Lock()
			servers[pid], pairs[[2]int{session, pid}] = true, true
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return err
	}
	detail := "none, or one in session mode"
	if len(pairs) > sessions || len(servers) < sessions {
		detail = "one in transaction mode"
	}
	c.warn("pooler", detail, "")
	switch {
	case most > 0 && most < need:
		c.warn("connections", fmt.Sprintf("at most %d", most), fmt.Sprintf("call SetMaxOpenConns(%d) of a sql.DB of its own, or with more", need))
	case c.db.Stats().MaxIdleClosed > before.MaxIdleClosed:
		c.warn("connections", "idle connections are closed, and opened again for the next decisions", fmt.Sprintf("call SetMaxIdleConns(%d)", need))
	case sessions < min(need, defaultMaxIdle+1):
		c.add(Finding{"connections", ResultUnknown, "too many are in use to see whether idle ones are kept", "repeat the check"})
	default:
		c.warn("connections", "enough, and kept while they are idle", "")
	}
	return nil
}

// sessions opens n connections, and calls use for all of them at the same time. They are closed after all calls, so that
// a pool that keeps fewer of them shows it.
func (c *check) sessions(ctx context.Context, n int, use func(int, *sql.Conn) error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		conn, err := c.db.Conn(ctx)
		if err != nil {
			errs[i] = err
			break
		}
		defer func() { _ = conn.Close() }()
		all.Go(func() { errs[i] = call.Recover(errDriver, func() error { return use(i, conn) }) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// newKey returns a key that no state has.
func newKey() (k casstore.Key) {
	_, _ = rand.Read(k[:])
	return k
}

// decision inserts, changes and empties a row, and measures the time of statements.
func (c *check) decision(ctx context.Context) error {
	key := newKey()
	var took []time.Duration
	for i, step := range []struct {
		version, next int64
		want          bool
	}{{0, 2, true}, {0, 4, false}, {2, 3, true}, {2, 3, false}, {3, 4, true}, {3, 9, false}, {4, 9, true}} {
		begun := time.Now()
		found, now, err := c.query(ctx, c.db, c.read, []casstore.Key{key})
		if err != nil {
			return err
		}
		took = append(took, time.Since(begun))
		begun = time.Now()
		done, err := c.change(ctx, c.db, []casstore.Group{{{Key: key, Version: step.version, Next: step.next, State: []byte{byte(i)}, Expires: now}}})
		if err != nil {
			return err
		}
		took = append(took, time.Since(begun))
		if done[0] != step.want || step.want && found[0].Version != step.version {
			c.add(Finding{"decision", ResultFailed, "a statement has another result than it should have", "use Postgres, without a proxy that divides the table"})
			return nil
		}
	}
	c.warn("decision", "a row is inserted and changed, and a late change is not made", "")
	slices.Sort(took)
	median := took[len(took)/2]
	f := Finding{Check: "round trip", Result: ResultOK, Detail: fmt.Sprintf("median %v, worst %v; a decision takes two or three, and its Timeout is %v",
		median.Round(10*time.Microsecond), took[len(took)-1].Round(10*time.Microsecond), c.deadline)}
	switch f.Change = "set Timeout to several times the round trip, or use a Postgres that is nearer"; {
	case 2*median > c.deadline:
		f.Result = ResultFailed
	case 8*median > c.deadline:
		f.Result = ResultWarning
	default:
		f.Change = ""
	}
	c.add(f)
	return nil
}
