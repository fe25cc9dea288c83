package pgtests

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/pgstore/internal/pgtests/pgtest"
	"github.com/weir-go/weir/internal/testkit"
)

// Steps of the server's clock free no capacity.
func TestClock_steps(t *testing.T) {
	long(t)
	const limit = 1500
	libraries, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if libraries == nil {
		t.Skip("SKIPPED: libfaketime is not installed")
	}
	file := filepath.Join(os.TempDir(), "clock"+time.Now().Format("150405.000000")) // for the user of the server
	step := func(by string) { testkit.Must(t, os.WriteFile(file, []byte(by), 0o644)) }
	step("+0")
	defer os.Remove(file)
	s := pgtest.New(t, "LD_PRELOAD="+libraries[0], "FAKETIME_TIMESTAMP_FILE="+file, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1", "autovacuum=off")
	d := newDatabase(t, s)
	o := begin(t, 8, 4, d.limiters(2, unhurried, []core.Rule{bucket(limit), core.SlidingWindow("window", core.Per(2*limit, period))})...)
	for i, by := range []string{"-1h", "+0", "-24h", "+0"} {
		o.until(func() bool { return o.sum() > (i+1)*limit/2 })
		step(by)
		if i == 0 {
			if n := d.query("SELECT extract(epoch FROM clock_timestamp())::bigint"); n > time.Now().Unix()-3000 {
				t.Skip("SKIPPED: libfaketime does not change the clock of this server")
			}
		}
		o.decided(o.keys...)
	}
	o.exhausted(limit, 0)
	if len(o.failed) > 0 {
		t.Errorf("got the failures %v", o.failed)
	}
}
