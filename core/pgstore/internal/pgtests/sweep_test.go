package pgtests

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/casstore"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
	"github.com/weir-go/weir/internal/testkit"
)

// Beside decisions, the sweeps of many processes delete all expired rows, and no other row. No two statements wait for each
// other.
func TestSweep(t *testing.T) {
	long(t)
	const live, stale = 100, 20_000
	d := newDatabase(t, pgtest.Shared(t))
	// A shadow rule that does not fit is read, and stays as it is, in decisions that charge another one.
	rules := []core.Rule{bucket(1000), core.FixedWindow("shadow", core.Per(1, period)).Shadow()}
	l := d.limiters(1, unhurried, rules)[0]
	for range 2 {
		testkit.Concurrently(live, func(i int) { testkit.Admit(t, l, fmt.Sprint("live ", i), 1) })
	}
	if n := d.query("SELECT count(*) FROM weir_states WHERE length(state) > 0 AND expires < 1000000 * extract(epoch FROM now())"); n > 0 {
		t.Errorf("%d live rows expire at once", n)
	}
	// Half of the rows that decisions write seem to be unused for two minutes, so that a sweep wants to delete them.
	d.execute(`CREATE FUNCTION age() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF random() < 0.5 THEN NEW.expires := NEW.expires - 120000000; END IF; RETURN NEW; END $$`,
		"CREATE TRIGGER age BEFORE INSERT OR UPDATE ON weir_states FOR EACH ROW EXECUTE FUNCTION age()",
		fmt.Sprintf("INSERT INTO weir_states SELECT gen_random_uuid(), 1, 1, '' FROM generate_series(1, %d)", stale))
	short := []core.Rule{core.FixedWindow("short", core.Per(1000, time.Second)), core.SlidingWindow("other", core.Per(1000, time.Second))}
	o := begin(t, 16, 200, d.limiters(12, unhurried, short, "deadlock_timeout=20")...)
	o.until(func() bool {
		return o.sum() > 8000 && d.query("SELECT count(*) FROM weir_states WHERE version = 1") == 0
	})
	o.end()
	if len(o.failed) > 0 {
		t.Errorf("got the failures %v", o.failed)
	}
	t.Logf("%d decisions, the slowest took %v", o.sum(), o.slowest)
	for i := range live {
		if left := testkit.Left(t, l, fmt.Sprint("live ", i)); left != 998 {
			t.Errorf("key %d: %d events are left, want 998", i, left)
		}
	}
	if n := d.query("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// A table with MaxRows gets no more rows, without and with locks. New keys are admitted up to the limit together, and known
// ones as before.
func TestMaxRows(t *testing.T) {
	long(t)
	for name, over := range map[string]func(lockingRows) lockingRows{
		"free":   func(r lockingRows) lockingRows { return r },
		"locked": func(r lockingRows) lockingRows { return loser{r} },
	} {
		t.Run(name, func(t *testing.T) { testMaxRows(t, over) })
	}
}

func testMaxRows(t *testing.T, over func(lockingRows) lockingRows) {
	const limit = 40
	d := newDatabase(t, pgtest.Shared(t))
	known := testkit.Limiter(t, d.store(unhurried), bucket(limit))
	testkit.Concurrently(200, func(i int) { testkit.Admit(t, known, fmt.Sprint("key ", i), 1) })
	d.execute("ANALYZE weir_states")
	var limiters []*core.Limiter
	for range 4 {
		s := pgstore.New(d.open(), "test", pgstore.Timeout(unhurried), pgstore.MaxRows(150))
		l := testkit.Limiter(t, casstore.New(over(rowsOf(s)), casstore.Application("test"), casstore.Timeout(unhurried)), bucket(limit))
		testkit.Must(t, pgtest.Poll(func() error { // its sweeps count the rows
			testkit.Peek(t, l, "key 0")
			if rowsOf(s).Full() {
				return nil
			}
			return fmt.Errorf("the table is not full")
		}))
		limiters = append(limiters, l)
	}
	o := begin(t, 8, 600, limiters...)
	for i := range 1000 {
		_, err := o.ask(limiters[i%4], fmt.Sprint("key ", 600+i))
		testkit.Must(t, err)
	}
	o.end()
	news := 0
	for i := range 200 {
		o.admitted[fmt.Sprint("key ", i)]++ // of known
	}
	for key, n := range o.admitted {
		if n > limit {
			t.Errorf("%s: %d events were admitted, want at most %d", key, n, limit)
		}
		var i int
		if _, err := fmt.Sscanf(key, "key %d", &i); err == nil && i >= 200 {
			news += n
		}
	}
	// The 16 overflow rows of the rule.
	if n := d.query("SELECT count(*) FROM weir_states"); n > 200+17 || news == 0 || news > 16*limit || len(o.failed) > 0 {
		t.Errorf("%d rows, %d events of new keys, failed %v", n, news, o.failed)
	}
}
