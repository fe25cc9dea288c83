package pgtests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// long marks a test that make test leaves out.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("WEIR_POSTGRES_ALL") != "1" {
		t.Skip("runs with WEIR_POSTGRES_ALL=1, as in make postgres")
	}
}

// logged makes the table survive a crash.
const logged = "ALTER TABLE weir_states SET LOGGED"

// period is that of limits, of which nothing refills during a test.
const period = 100 * 365 * 24 * time.Hour

// bucket is a rule that admits n events.
func bucket(n int) core.Rule { return core.TokenBucket(fmt.Sprint("bucket", n), core.Per(n, period)) }

// unhurried is a deadline that a busy machine keeps.
const unhurried = 20 * time.Second

// A database has a table of states.
type database struct {
	*testing.T
	*pgtest.Server
	name  string
	admin *sql.DB
}

func newDatabase(t *testing.T, s *pgtest.Server, statements ...string) database {
	t.Helper()
	name := pgtest.Database(t, s, append([]string{pgstore.Schema()}, statements...)...)
	return database{t, s, name, pgtest.Open(t, "pgx", s.DSN(name), 2)}
}

// open returns a pool of connections, as a process has.
func (d database) open(parameters ...string) *sql.DB {
	return pgtest.Open(d, "pgx", d.DSN(d.name, parameters...), casstore.DefaultConnections+1)
}

// execute executes statements.
func (d database) execute(statements ...string) {
	d.Helper()
	for _, statement := range statements {
		_, err := d.admin.Exec(statement)
		testkit.Must(d, err)
	}
}

// store returns a Store with a pool of its own.
func (d database) store(timeout time.Duration, parameters ...string) *pgstore.Store {
	return pgstore.New(d.open(parameters...), "test", pgstore.Timeout(timeout))
}

// lockingRows are the rows of package pgstore.
type lockingRows interface {
	casstore.Rows
	casstore.Locker
	casstore.Bounder
}

// rowsOf returns the rows of s, which applications do not need.
func rowsOf(s *pgstore.Store) lockingRows {
	f := reflect.ValueOf(s).Elem().FieldByName("rows")
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Interface().(lockingRows)
}

// limiters returns n limiters of rules, each on a Store of its own.
func (d database) limiters(n int, timeout time.Duration, rules []core.Rule, parameters ...string) (all []*core.Limiter) {
	for range n {
		all = append(all, testkit.Limiter(d, d.store(timeout, parameters...), rules...))
	}
	return all
}

// query returns a number of the database.
func (d database) query(statement string) (n int64) {
	d.Helper()
	testkit.Must(d, d.admin.QueryRow(statement).Scan(&n))
	return n
}

// A storm makes decisions by many callers about keys with a limit, and counts their outcomes.
type storm struct {
	t        *testing.T
	limiters []*core.Limiter
	keys     []string
	stop     chan struct{}
	callers  sync.WaitGroup

	mu       sync.Mutex
	admitted map[string]int
	failed   map[string]int // by their causes
	failures int
	unknown  int // failures that may have charged a key
	last     map[string]time.Time
	slowest  time.Duration // decision
}

// begin begins a storm of callers of each limiter, about random keys of n.
func begin(t *testing.T, callers, n int, limiters ...*core.Limiter) *storm {
	o := &storm{t: t, limiters: limiters, stop: make(chan struct{}), admitted: map[string]int{}, failed: map[string]int{}, last: map[string]time.Time{}}
	for i := range n {
		o.keys = append(o.keys, fmt.Sprint("key ", i))
	}
	for i := range callers * len(limiters) {
		o.callers.Go(func() {
			for {
				o.ask(limiters[i%len(limiters)], o.keys[rand.IntN(n)])
				select {
				case <-o.stop:
					return
				default:
				}
			}
		})
	}
	t.Cleanup(o.end)
	return o
}

// end waits until no caller is in the storm.
func (o *storm) end() {
	o.mu.Lock()
	select {
	case <-o.stop:
	default:
		close(o.stop)
	}
	o.mu.Unlock()
	o.callers.Wait()
}

// ask makes a decision. After a failure or a denial, it waits for some milliseconds.
func (o *storm) ask(l *core.Limiter, key string) (admitted bool, err error) {
	begun := time.Now()
	d, err := l.Allow(context.Background(), key)
	o.mu.Lock()
	o.slowest = max(o.slowest, time.Since(begun))
	switch cause, unknown := causeOf(err); {
	case err != nil:
		o.failures++
		if o.failed[cause]++; unknown {
			o.unknown++
		}
	case d.Allowed:
		o.admitted[key]++
		fallthrough
	default:
		o.last[key] = time.Now()
	}
	o.mu.Unlock()
	if err != nil || !d.Allowed {
		<-time.After(rand.N(5 * time.Millisecond))
	}
	return err == nil && d.Allowed, err
}

// causeOf returns the cause of err, and false if it proves that the decision has charged nothing.
func causeOf(err error) (cause string, unknown bool) {
	var state interface{ SQLState() string }
	var op *net.OpError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &state):
		known := []string{"57014", "57P03", "55P03", "53300", "40001", "40P01", "P0001"}
		return state.SQLState(), !slices.Contains(known, state.SQLState())
	case errors.Is(err, driver.ErrOverloaded):
		return "not sent", false
	case errors.As(err, &connect), errors.As(err, &op) && op.Op == "dial":
		return "connect", false
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline", true
	}
	return fmt.Sprint(err), err != nil
}

// until waits until check, which is called with the counts, is true.
func (o *storm) until(check func() bool) {
	o.t.Helper()
	testkit.Must(o.t, pgtest.Poll(func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if check() {
			return nil
		}
		return fmt.Errorf("admitted %v, failed %v", o.admitted, o.failed)
	}))
}

// sum returns the number of admitted events.
func (o *storm) sum() (n int) {
	for _, k := range o.admitted {
		n += k
	}
	return n
}

// decided waits until one more event of each of keys has been admitted or denied.
func (o *storm) decided(keys ...string) {
	o.t.Helper()
	now := time.Now()
	o.until(func() bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return !o.last[key].After(now) })
	})
}

// exhausted ends the storm, makes decisions until all keys are denied, and fails unless each has admitted limit events, or
// less by the failures of which it is unknown whether they have charged the key, or more by those that were forgotten.
func (o *storm) exhausted(limit, forgotten int) {
	o.t.Helper()
	o.end()
	testkit.Concurrently(len(o.keys), func(i int) {
		if err := pgtest.Poll(func() error {
			for {
				if admitted, err := o.ask(o.limiters[0], o.keys[i]); err != nil || !admitted {
					return err
				}
			}
		}); err != nil {
			o.t.Error(err)
		}
	})
	missing := 0
	for _, key := range o.keys {
		n := o.admitted[key]
		if n > limit+forgotten {
			o.t.Errorf("%s: %d events were admitted, want at most %d", key, n, limit+forgotten)
		}
		missing += max(0, limit-n)
	}
	o.t.Logf("admitted %d, failed %v, of which %d are unknown; the slowest decision took %v", o.sum(), o.failed, o.unknown, o.slowest)
	if missing > o.unknown {
		o.t.Errorf("%d events were charged without being admitted, want at most %d", missing, o.unknown)
	}
}

// backends returns the connections of an application, by their process IDs.
func (d database) backends(application string) (pids []int) {
	d.Helper()
	rows, err := d.admin.Query("SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY pid", application)
	testkit.Must(d, err)
	defer rows.Close()
	for rows.Next() {
		var pid int
		testkit.Must(d, rows.Scan(&pid))
		pids = append(pids, pid)
	}
	return pids
}
