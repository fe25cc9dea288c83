package pgtests

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
	"github.com/weir-go/weir/internal/testkit"
)

// behind returns four limiters that share a new database behind b.
func behind(t *testing.T, s *pgtest.Server, b *pgtest.Bouncer, driver, parameters string) (all []*core.Limiter) {
	d := newDatabase(t, s)
	for range 4 {
		db := pgtest.Open(t, driver, b.DSN(d.name, parameters), 8)
		all = append(all, testkit.Limiter(t, pgstore.New(db, "test", pgstore.Timeout(unhurried)), core.SlidingLog("log", core.Per(400, period)), bucket(300)))
	}
	return all
}

// Behind PgBouncer, whose transactions may get any of three connections, limits are exact in the modes of drivers that
// prepare no statement by a name or over two transactions.
func TestBouncer(t *testing.T) {
	long(t)
	s := pgtest.Shared(t)
	b := pgtest.NewBouncer(t, s, 3, "ignore_startup_parameters = extra_float_digits")
	for _, c := range []struct{ driver, parameters string }{
		{"pgx", "default_query_exec_mode=cache_describe"},
		{"pgx", "default_query_exec_mode=exec"},
		{"pgx", "default_query_exec_mode=simple_protocol"},
		{"postgres", "binary_parameters=yes"},
	} {
		t.Run(c.driver+" "+c.parameters, func(t *testing.T) {
			limiters := behind(t, s, b, c.driver, c.parameters)
			o := begin(t, 8, 4, limiters...)
			o.until(func() bool { return o.sum() == 4*300 })
			o.exhausted(300, 0)
			if len(o.failed) > 0 {
				t.Errorf("got the failures %v", o.failed)
			}
		})
	}
}

// In other modes, decisions fail, with an error that names the cause.
func TestBouncer_prepared(t *testing.T) {
	long(t)
	s := pgtest.Shared(t)
	b := pgtest.NewBouncer(t, s, 3, "ignore_startup_parameters = extra_float_digits")
	for _, c := range []struct{ driver, parameters string }{
		{"pgx", "default_query_exec_mode=cache_statement"},
		{"pgx", "default_query_exec_mode=describe_exec"},
		{"postgres", "binary_parameters=no"},
	} {
		t.Run(c.driver+" "+c.parameters, func(t *testing.T) {
			limiters := behind(t, s, b, c.driver, c.parameters)
			o := begin(t, 8, 4, limiters...)
			o.until(func() bool { return o.sum() == 4*300 || len(o.failed) > 0 && o.sum() > 100 })
			o.end()
			t.Logf("admitted %d, failed %v", o.sum(), o.failed)
			for key, n := range o.admitted {
				if n > 300 {
					t.Errorf("%s: %d events were admitted, want at most 300", key, n)
				}
			}
			_, err := limiters[0].Allow(t.Context(), "k")
			if err != nil && !strings.Contains(err.Error(), "prepare") {
				t.Errorf("got the error %v", err)
			}
		})
	}
}
